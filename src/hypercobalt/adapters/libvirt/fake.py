"""A libvirt in memory: for tests, and for running an agent on a machine without libvirt.

It keeps the port's promises (`hypercobalt.adapters.libvirt.port`); one contract test runs on this
class, on libvirt's own test driver and on a real libvirtd.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

from hypercobalt.adapters.libvirt.model import (
    Connected,
    Disconnected,
    Domain,
    DomainCapabilities,
    DomainEvent,
    DomainState,
    DomainStats,
    EventKind,
    HostCapabilities,
    HostCell,
    JobStats,
    Lifecycle,
    Notice,
    Versions,
)
from hypercobalt.adapters.libvirt.notices import Notices
from hypercobalt.adapters.libvirt.port import LibvirtError

Answer = TypeVar("Answer")

_HOST = HostCapabilities(
    "x86_64",
    (HostCell(0, 8 * 1024**3, frozenset(range(4)), 4),),
    uuid="5f0c9b8e-6f0c-4a5e-9d5e-3f1f0b8a7c11",
)
_OFFERS = DomainCapabilities(
    "x86_64", "kvm", ("video", "video/virtio"), ("mode/host-model",), ("vmcoreinfo",)
)
_VERSIONS = Versions(libvirt="9.0.0", hypervisor="7.2.22")


class FakeLibvirt:
    """In-memory `Libvirt`. It starts connected; set its attributes as the test needs.

    Args:
        host: what `capabilities` answers.
        offers: what `domain_capabilities` answers.
        versions: in `Connected`.
        missing: in `Connected`.

    Attributes:
        jobs: running job by domain uuid.
        completed_jobs: last job by domain uuid.
        counters: what `stats` answers, by uuid; an active domain without one gets zeros.
        failures: error that a method raises, by the method's name, until it is taken out.
        delays: seconds that a method takes, by name.
        calls: how often each method was called.
    """

    def __init__(
        self,
        *,
        host: HostCapabilities = _HOST,
        offers: DomainCapabilities = _OFFERS,
        versions: Versions = _VERSIONS,
        missing: tuple[str, ...] = (),
    ) -> None:
        self.host = host
        self.offers = offers
        self.versions = versions
        self.missing = missing
        self.jobs: dict[str, JobStats] = {}
        self.completed_jobs: dict[str, JobStats] = {}
        self.counters: dict[str, DomainStats] = {}
        self.failures: dict[str, LibvirtError] = {}
        self.delays: dict[str, float] = {}
        self.calls: Counter[str] = Counter()
        self._domains: dict[str, Domain] = {}
        self._transient: set[str] = set()
        self._notices = Notices()
        self.connect()

    # What a test does to it.

    def connect(self) -> None:
        """Bring the connection up, as if its subscriptions had just been made."""
        self._notices.put(Connected(self.versions, self.missing))

    def disconnect(self, reason: str = "End of file while reading data") -> None:
        """Lose the connection; events of the time without it are nobody's."""
        self._notices.put(Disconnected(reason))

    def put(self, domain: Domain) -> None:
        """Set a domain as it is now, without an event."""
        self._domains[domain.uuid] = domain

    def define(self, domain: Domain) -> None:
        """Add an inactive domain."""
        self.put(replace(domain, active=False, state=DomainState.SHUTOFF))
        self.lifecycle(domain.uuid, Lifecycle.DEFINED)

    def create(self, domain: Domain, detail: int = 0) -> None:
        """Start a transient domain: it is gone when it stops (`detail` 1 = it migrates to here)."""
        self.put(replace(domain, active=True, state=DomainState.RUNNING))
        self._transient.add(domain.uuid)
        self.lifecycle(domain.uuid, Lifecycle.STARTED, detail)

    def start(self, uuid: str) -> None:
        """Start a domain; an unknown one is a KeyError, here and below."""
        self._change(uuid, active=True, state=DomainState.RUNNING)
        self.lifecycle(uuid, Lifecycle.STARTED)

    def suspend(self, uuid: str) -> None:
        self._change(uuid, active=True, state=DomainState.PAUSED)
        self.lifecycle(uuid, Lifecycle.SUSPENDED)

    def resume(self, uuid: str) -> None:
        self._change(uuid, active=True, state=DomainState.RUNNING)
        self.lifecycle(uuid, Lifecycle.RESUMED)

    def stop(self, uuid: str, detail: int = 0) -> None:
        """Stop a domain; `detail` is virDomainEventStoppedDetailType (2 crashed, 3 migrated)."""
        self._change(uuid, active=False, state=DomainState.SHUTOFF)
        self.jobs.pop(uuid, None)
        self.lifecycle(uuid, Lifecycle.STOPPED, detail)
        if uuid in self._transient:
            self.forget(uuid)

    def undefine(self, uuid: str) -> None:
        self.lifecycle(uuid, Lifecycle.UNDEFINED)
        self.forget(uuid)

    def forget(self, uuid: str) -> None:
        """Have a domain no more, without an event."""
        del self._domains[uuid]
        self._transient.discard(uuid)

    def lifecycle(self, uuid: str, type_: Lifecycle, detail: int = 0) -> None:
        """Emit a lifecycle event of a domain."""
        self.tell(uuid, EventKind.LIFECYCLE, type_=type_, detail=detail)

    def tell(
        self,
        uuid: str,
        kind: EventKind,
        *,
        type_: int = 0,
        detail: int = 0,
        reason: str = "",
        stats: JobStats | None = None,
    ) -> None:
        """Emit an event of a domain that is there, just now."""
        name, at = self._domains[uuid].name, datetime.now(UTC)
        self.emit(DomainEvent(kind, uuid, name, at, int(type_), detail, reason, stats))

    def emit(self, event: DomainEvent) -> None:
        """Emit any event, if there is a connection to hear it."""
        if isinstance(self._notices.state, Connected):
            self._notices.put(event)

    # The port.

    def notices(self) -> AsyncGenerator[Notice]:
        return self._notices.read()

    async def capabilities(self) -> HostCapabilities:
        return await self._answer("capabilities", self.host)

    async def domain_capabilities(self) -> DomainCapabilities:
        return await self._answer("domain_capabilities", self.offers)

    async def domains(self) -> tuple[Domain, ...]:
        await self._answer("domains", None)
        return tuple(sorted(self._domains.values(), key=lambda one: (not one.active, one.name)))

    async def job_stats(self, uuid: str, *, completed: bool = False) -> JobStats | None:
        await self._answer("job_stats", None)
        if uuid not in self._domains:
            return None
        return (self.completed_jobs if completed else self.jobs).get(uuid)

    async def stats(self) -> tuple[DomainStats, ...]:
        await self._answer("stats", None)
        return tuple(
            self.counters.get(one.uuid) or DomainStats(one.uuid, one.name, one.state)
            for one in self._domains.values()
            if one.active
        )

    async def _answer(self, method: str, answer: Answer) -> Answer:
        self.calls[method] += 1
        await asyncio.sleep(self.delays.get(method, 0))
        if method in self.failures:
            raise self.failures[method]
        if isinstance(state := self._notices.state, Disconnected):
            raise LibvirtError(f"libvirt is not connected: {state.reason}")
        return answer

    def _change(self, uuid: str, *, active: bool, state: DomainState) -> None:
        self.put(replace(self._domains[uuid], active=active, state=state))
