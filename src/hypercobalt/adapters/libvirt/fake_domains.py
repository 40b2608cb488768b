"""The domains of a daemon in memory, as a test changes them, with the events of each change."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from xml.sax.saxutils import escape, quoteattr

from hypercobalt.adapters.libvirt.documents import evacuated
from hypercobalt.adapters.libvirt.documents.domain import parse
from hypercobalt.adapters.libvirt.events import Connected, DomainEvent, EventKind, EventQueue
from hypercobalt.adapters.libvirt.model import Domain, DomainState, Evacuated, JobStats
from hypercobalt.adapters.libvirt.vocabulary import (
    Lifecycle,
    PausedReason,
    RunningReason,
    ShutoffReason,
    Stopped,
    Suspended,
)

# The reasons of the states that follow these events, as real hosts have them.
_PAUSED = {
    Suspended.PAUSED: PausedReason.USER,
    Suspended.MIGRATED: PausedReason.MIGRATION,
    Suspended.IO_ERROR: PausedReason.IO_ERROR,
    Suspended.WATCHDOG: PausedReason.WATCHDOG,
    Suspended.RESTORED: PausedReason.FROM_SNAPSHOT,
    Suspended.FROM_SNAPSHOT: PausedReason.FROM_SNAPSHOT,
    Suspended.API_ERROR: PausedReason.API_ERROR,
    Suspended.POSTCOPY: PausedReason.POSTCOPY,
    Suspended.POSTCOPY_FAILED: PausedReason.POSTCOPY_FAILED,
}
_SHUT_OFF = {
    Stopped.SHUTDOWN: ShutoffReason.SHUTDOWN,
    Stopped.DESTROYED: ShutoffReason.DESTROYED,
    Stopped.CRASHED: ShutoffReason.CRASHED,
    Stopped.MIGRATED: ShutoffReason.MIGRATED,
    Stopped.SAVED: ShutoffReason.SAVED,
    Stopped.FAILED: ShutoffReason.CRASHED,  # a process that died
    Stopped.FROM_SNAPSHOT: ShutoffReason.FROM_SNAPSHOT,
}
# Without an element of its own it is that which the guest reads.
_UUID = re.compile(r"""<(?:uuid|entry name=["']uuid["'])>([0-9a-f-]{36})<""")
_NAME = re.compile(r"<name>([^<]+)</name>")


def document_of(domain: Domain) -> str:
    """A domain's document with the elements that `domain_of` reads back."""
    devices = domain.devices
    disks = "".join(
        f"<disk type='{'block' if disk.block else 'file'}' device='{disk.device}'>"
        f"<driver name='qemu' type='raw'/>"
        + (f"<source {'dev' if disk.block else 'file'}={quoteattr(disk.path)}/>" * bool(disk.path))
        + "".join(
            f"<backingStore type='file'><format type='raw'/><source file={quoteattr(layer)}/>"
            for layer in disk.backing
        )
        + "</backingStore>" * len(disk.backing)
        + f"<target dev={quoteattr(disk.target)}/>{'<readonly/>' * disk.readonly}</disk>"
        for disk in devices.disks
    )
    ports = "".join(
        "<interface type='bridge'><source bridge='br-int'/><virtualport type='openvswitch'>"
        f"<parameters interfaceid={quoteattr(port)}/></virtualport></interface>"
        for port in devices.ports
    )
    serials = "".join(
        f"<serial type='pty'><log file={quoteattr(log)}/></serial>" for log in devices.logs
    ) + "".join(
        f"<serial type='unix'><source mode='bind' path={quoteattr(socket)}/></serial>"
        for socket in devices.sockets
    )
    metadata = ""
    if mark := domain.evacuated:
        earlier = "".join(f"<{evacuated.EARLIER}{_mark(one)}/>" for one in domain.earlier)
        metadata = (
            f"<metadata><{evacuated.TAG} xmlns:hypercobalt='{evacuated.NAMESPACE}'{_mark(mark)}>"
            f"{earlier}</{evacuated.TAG}></metadata>"
        )
    nvram = f"<nvram>{escape(devices.nvram)}</nvram>" if devices.nvram else ""
    return (
        f"<domain type='kvm'><name>{escape(domain.name)}</name><uuid>{domain.uuid}</uuid>"
        f"{metadata}<memory unit='b'>{domain.memory_bytes}</memory><vcpu>{domain.vcpus}</vcpu>"
        f"<os><type>hvm</type>{nvram}</os><devices>{disks}{ports}{serials}</devices></domain>"
    )


def _mark(mark: Evacuated) -> str:
    pending = " pending='yes'" * mark.pending + f" seal={quoteattr(mark.seal)}" * bool(mark.seal)
    return f" host={quoteattr(mark.host)} boot={quoteattr(mark.boot)}{pending}"


def domain_of(document: str) -> Domain | None:
    """The domain, off, that a document defines; None when it is no document of libvirt's."""
    uuid, name = _UUID.search(document), _NAME.search(document)
    if uuid is None or name is None:
        return None
    return parse(document).domain(uuid[1], name[1], DomainState.SHUTOFF, active=False)


def _marked(domain: Domain, defined: Domain) -> Domain:
    return replace(domain, evacuated=defined.evacuated, earlier=defined.earlier)


class FakeDomains:
    """Domains, and the queue of their events.

    Attributes:
        here: domains by UUID.
        jobs: running job by domain uuid.
        hung: how long a call has waited for the emulators that do not reply, seconds by uuid.
    """

    def __init__(self) -> None:
        self.here: dict[str, Domain] = {}
        self.jobs: dict[str, JobStats] = {}
        self.hung: dict[str, float] = {}
        self._transient: set[str] = set()
        self._next: dict[str, Domain] = {}  # definitions that count once the process has ended
        self._last_id = 0
        self._events = EventQueue()

    def put(self, domain: Domain) -> None:
        """Set a domain as it is now, without an event."""
        self.here[domain.uuid] = self.identified(domain)

    def add(self, domain: Domain) -> None:
        """Define an inactive domain."""
        self.put(replace(domain, active=False, state=DomainState.SHUTOFF, reason=0))
        self.lifecycle(domain.uuid, Lifecycle.DEFINED)

    def create(self, domain: Domain, detail: int = 0) -> None:
        """Start a transient domain: it is gone when it stops (`detail` 1 = it migrates to here)."""
        self.put(replace(domain, active=True, state=DomainState.RUNNING))
        self._transient.add(domain.uuid)
        self.lifecycle(domain.uuid, Lifecycle.STARTED, detail)

    def definition(self, uuid: str) -> Domain:
        """Return a domain as it is defined; its process keeps the definition of its start."""
        here, defined = self.here[uuid], self._next.get(uuid)
        return here if defined is None else _marked(here, defined)

    def redefine(self, domain: Domain) -> None:
        """Replace the marks of a domain that is there, at once or once its process has ended."""
        here = self.here[domain.uuid]
        if here.active:
            self._next[domain.uuid] = domain
        else:
            self.here[domain.uuid] = _marked(here, domain)

    def start(self, uuid: str) -> None:
        """Start a domain; an unknown one is a KeyError, here and below."""
        self._change(uuid, Lifecycle.STARTED, DomainState.RUNNING, RunningReason.BOOTED)

    def suspend(self, uuid: str, detail: Suspended = Suspended.PAUSED) -> None:
        """Pause a domain, for the reason that the event's detail has."""
        self._change(uuid, Lifecycle.SUSPENDED, DomainState.PAUSED, _PAUSED[detail], detail=detail)

    def stop(self, uuid: str, detail: int = Stopped.SHUTDOWN) -> None:
        """Stop a domain; `detail` is of `Stopped`."""
        self.jobs.pop(uuid, None)
        self.hung.pop(uuid, None)
        reason = _SHUT_OFF[Stopped(detail)]
        self.here[uuid] = self.definition(uuid)
        self._next.pop(uuid, None)
        self._change(uuid, Lifecycle.STOPPED, DomainState.SHUTOFF, reason, detail=detail)
        if uuid in self._transient:
            self.forget(uuid)

    def forget(self, uuid: str) -> None:
        """Remove a domain, without an event."""
        del self.here[uuid]
        self._next.pop(uuid, None)
        self._transient.discard(uuid)

    def lifecycle(self, uuid: str, type_: Lifecycle, detail: int = 0) -> None:
        """Emit a lifecycle event of a domain."""
        self.emit_of(uuid, EventKind.LIFECYCLE, type_=type_, detail=detail)

    def emit_of(
        self,
        uuid: str,
        kind: EventKind,
        *,
        type_: int = 0,
        detail: int = 0,
        reason: str = "",
        stats: JobStats | None = None,
        path: str = "",
        alias: str = "",
        flags: int = 0,
    ) -> None:
        """Emit an event of a domain that is there, just now."""
        domain, at = self.here[uuid], datetime.now(UTC)
        self.emit(
            DomainEvent(
                kind=kind,
                uuid=uuid,
                name=domain.name,
                at=at,
                type=int(type_),
                detail=detail,
                reason=reason,
                stats=stats,
                domain_id=domain.id,
                path=path,
                alias=alias,
                flags=flags,
            )
        )

    @property
    def connected(self) -> bool:
        return isinstance(self._events.state, Connected)

    def emit(self, event: DomainEvent) -> None:
        """Emit any event, if there is a connection for it."""
        if self.connected:
            self._events.put(event)

    def identified(self, domain: Domain) -> Domain:
        """The domain with the id of its present start."""
        if not domain.active:
            return replace(domain, id=-1)
        if domain.id >= 0:
            return domain
        self._last_id += 1
        return replace(domain, id=self._last_id)

    def _change(
        self, uuid: str, type_: Lifecycle, state: DomainState, reason: int, *, detail: int = 0
    ) -> None:
        active = state is not DomainState.SHUTOFF
        changed = replace(self.here[uuid], active=active, state=state, reason=reason)
        self.here[uuid] = self.identified(changed)
        self.lifecycle(uuid, type_, detail)
