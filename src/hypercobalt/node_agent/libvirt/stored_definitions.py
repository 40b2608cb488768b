"""Keeps the definitions of the host's domains in one Secret, for the case that the host dies.

Needed without OpenStack only: see `hypercobalt.api.definitions`. What changes a definition, or
whether a domain runs, marks the Secret as out of date; changes of one moment cost one write. While
the API or libvirt is away the newest state waits.

While the host is fenced, or may be, the Secret stays as it is: it has what is to be started
elsewhere, which ends here by the agent's own hand, or has ended with the boot before.
"""

from __future__ import annotations

import asyncio
import contextlib
import posixpath
from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from hypercobalt.adapters.libvirt.events import Connected, DomainEvent, Event, EventKind, Lost
from hypercobalt.adapters.libvirt.model import Disk, Domain
from hypercobalt.adapters.libvirt.port import Libvirt, LibvirtError, LibvirtRefusedError
from hypercobalt.adapters.libvirt.subscriptions import changes_definition
from hypercobalt.api.definitions import DomainDefinition, HostDefinitions, Packed, pack, secret
from hypercobalt.api.fencing import FencingPhase
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import owner_reference
from hypercobalt.errors import HypercobaltError
from hypercobalt.logs import get_logger
from hypercobalt.runtime import Backoff, Kube
from hypercobalt.runtime.write_cache import Latest

log = get_logger(__name__)

RESYNC: Final = timedelta(minutes=5)
"""How often all is read and written, a safety net for what has no event: autostart, a saved memory,
a Secret that was deleted, or is an older one since the API's data were restored."""

SETTLE: Final = timedelta(seconds=1)
"""After a change, so that those of one moment are written together."""

_RETRY: Final = Backoff(base=timedelta(seconds=1), cap=timedelta(seconds=30))


class StoredDefinitions:
    """Writes the Secret of one host.

    Args:
        kube: writes it.
        libvirt: of the host.
        hypervisor: the own one, which the Secret goes with.
        namespace: of the Secret.
        boot: the boot that this process runs in.
        settle: see `SETTLE`.
        resync: see `RESYNC`.
    """

    def __init__(
        self,
        kube: Kube,
        libvirt: Libvirt,
        hypervisor: Latest[Hypervisor],
        *,
        namespace: str,
        boot: str,
        settle: timedelta = SETTLE,
        resync: timedelta = RESYNC,
    ) -> None:
        self._kube, self._libvirt, self._hypervisor = kube, libvirt, hypervisor
        self._namespace, self._boot = namespace, boot
        self._settle, self._resync = settle, resync
        self._due = asyncio.Event()
        self._written: Packed | None = None
        self._write_again = 0.0  # by the loop's time
        self._marked: set[tuple[str, str]] = set()  # directory and mark

    def on_event(self, event: Event) -> None:
        """Take in what may have changed."""
        changed = isinstance(event, DomainEvent) and (
            changes_definition(event) or event.kind is EventKind.LIFECYCLE
        )
        if changed or isinstance(event, Connected | Lost):
            self._due.set()

    async def run(self) -> None:
        """Keep the Secret current until cancelled."""
        failures = 0
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._due.wait(), self._resync.total_seconds())
            await asyncio.sleep(self._settle.total_seconds())
            self._due.clear()
            try:
                await self._store()
                failures = 0
            except HypercobaltError as error:  # no word of a document is in it
                log.warning("definitions_not_stored", error=str(error))
                self._due.set()
                await asyncio.sleep(_RETRY.wait(failures))
                failures += 1

    async def _store(self) -> None:
        own = self._hypervisor.value
        while own is None or is_kept(own):
            own = await self._hypervisor.changed(own)
        domains, mark = await self._libvirt.domains(), mark_of(own)
        await self._write(own, domains, mark)
        await self._leave_marks(domains, mark)

    async def _write(self, own: Hypervisor, domains: tuple[Domain, ...], mark: str) -> None:
        read = [(domain, await self._read(domain)) for domain in domains]
        found = {domain.uuid: definition for domain, definition in read if definition}
        packed = pack(HostDefinitions(bootID=self._boot, mark=mark, domains=found))
        now = self._hypervisor.value
        if now is None or is_kept(now):  # guests end after that is known, so none has been read
            self._due.set()
            return
        time = asyncio.get_running_loop().time()
        if packed == self._written and time < self._write_again:
            return
        if packed.left_out:
            log.warning("definitions_left_out", domains=packed.left_out)
        made = secret(own.metadata.name, self._namespace, packed)
        owned = replace(made.metadata, ownerReferences=(owner_reference(own),))
        await self._kube.apply(replace(made, metadata=owned), force=True)
        self._written, self._write_again = packed, time + self._resync.total_seconds()

    async def _read(self, domain: Domain) -> DomainDefinition | None:
        """The definition of a domain; None when libvirt refuses it, as of one that has gone."""
        try:
            document = await self._libvirt.document(domain.uuid)
        except LibvirtRefusedError as error:
            log.warning("definition_not_read", domain=domain.name, error=str(error))
            return None
        return DomainDefinition(
            name=domain.name,
            xml=document.xml,
            active=domain.active,
            autostart=document.autostart,
            saved=domain.saved,
        )

    async def _leave_marks(self, domains: Iterable[Domain], mark: str) -> None:
        """Leave the mark once in each directory; one without it is not known to be shared."""
        wanted = {(directory, mark) for domain in domains for directory in directories_of(domain)}
        self._marked &= wanted
        for directory, name in sorted(wanted - self._marked):
            try:
                if not await self._libvirt.has_file(directory, name):
                    await self._libvirt.mark(directory, name)
            except LibvirtError as error:
                log.warning("mark_not_left", directory=directory, error=str(error))
            else:
                self._marked.add((directory, name))


def is_kept(own: Hypervisor) -> bool:
    """Whether what is stored of a host has to stay as it is."""
    fencing = own.status.fencing
    return fencing is not None and fencing.phase in {FencingPhase.ATTEMPTING, FencingPhase.FENCED}


def mark_of(own: Hypervisor) -> str:
    """Name of the file that the host leaves: of its own, and the same after each boot."""
    return f".hypercobalt-{own.metadata.uid}"


def directories_of(domain: Domain) -> set[str]:
    """Directories with files that the domain writes to."""
    files = [disk.path for disk in domain.devices.disks if _is_written_file(disk)]
    return {posixpath.dirname(file) for file in (*files, domain.devices.nvram) if file}


def _is_written_file(disk: Disk) -> bool:
    return not (disk.block or disk.readonly or disk.device in {"cdrom", "floppy"})
