"""Keeps the definitions of the host's domains in the API, sealed, for the case that the host dies.

Needed without OpenStack only: see `hypercobalt.api.definitions`. A change of a definition, or of
whether a domain runs, marks the stored object as out of date; changes of one moment cost one write,
and so does another key that the operator publishes in the host's Hypervisor. While the API, libvirt
or the key is away the newest state waits, and the condition `DefinitionsStored` names the cause.

While the host is fenced, or may be, the stored object stays as it is: it has the domains that must
be started elsewhere. Here this agent ends them, or they have ended with the boot before. So each
write follows a reading of the own Hypervisor: of a host that was cut off the watch shows late that
it was fenced, and guests that ended meanwhile would be stored as stopped by their owners.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import posixpath
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from hypercobalt.adapters.libvirt.events import Connected, DomainEvent, Event, EventKind, Lost
from hypercobalt.adapters.libvirt.model import Disk, Domain
from hypercobalt.adapters.libvirt.port import Libvirt, LibvirtError, LibvirtRefusedError
from hypercobalt.adapters.libvirt.subscriptions import changes_definition
from hypercobalt.api.conditions import ConditionStatus
from hypercobalt.api.definitions import (
    HOST_LABEL,
    DomainDefinition,
    HostDefinitions,
    Packed,
    pack,
)
from hypercobalt.api.fencing import FencingPhase, is_declared_dead
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import DefinitionsStoredReason, HypervisorConditionType
from hypercobalt.api.meta import ObjectMeta, owner_reference
from hypercobalt.api.sealed_definitions import SealedDefinitions, SealedDefinitionsSpec
from hypercobalt.errors import HypercobaltError, TransientError
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.status.parts import Board
from hypercobalt.runtime import Backoff, Kube
from hypercobalt.runtime.tasks import first
from hypercobalt.runtime.write_cache import Latest

if TYPE_CHECKING:
    from hypercobalt.api.sealing import PublicKey

log = get_logger(__name__)

RESYNC: Final = timedelta(minutes=5)
"""How often all is read and compared, a safety net for what has no event: autostart, a saved
memory, an object that was deleted, or is an older one since the API's data were restored."""

SETTLE: Final = timedelta(seconds=1)
"""Wait after a change, so that changes of one moment are written together."""

_RETRY: Final = Backoff(base=timedelta(seconds=1), cap=timedelta(seconds=30))
_TYPE: Final = HypervisorConditionType.DEFINITIONS_STORED
_Reason = DefinitionsStoredReason


class _Written(NamedTuple):
    """What was written last.

    Args:
        content: digest of what was sealed: sealed again, it has other bytes.
        key: the one that it was sealed with.
        uid: of the Hypervisor that it was sealed for.
        sealed: digest of the bytes in the API.
    """

    content: bytes
    key: str
    uid: str
    sealed: bytes


class StoredDefinitions:
    """Writes the SealedDefinitions of one host.

    Args:
        kube: writes it.
        libvirt: of the host.
        hypervisor: the own one, which the object goes with.
        board: takes the condition.
        namespace: of the object.
        boot: the boot that this process runs in.
        settle: see `SETTLE`.
        resync: see `RESYNC`.
    """

    def __init__(
        self,
        kube: Kube,
        libvirt: Libvirt,
        hypervisor: Latest[Hypervisor],
        board: Board,
        *,
        namespace: str,
        boot: str,
        settle: timedelta = SETTLE,
        resync: timedelta = RESYNC,
    ) -> None:
        self._kube, self._libvirt, self._hypervisor = kube, libvirt, hypervisor
        self._board, self._namespace, self._boot = board, namespace, boot
        self._settle, self._resync = settle, resync
        self._due = asyncio.Event()
        self._written: _Written | None = None
        self._compare_at = 0.0  # by the loop's time
        self._marked: set[tuple[str, str]] = set()  # directory and mark

    def on_event(self, event: Event) -> None:
        """Take in what may have changed."""
        changed = isinstance(event, DomainEvent) and (
            changes_definition(event) or event.kind is EventKind.LIFECYCLE
        )
        if changed or isinstance(event, Connected | Lost):
            self._due.set()

    async def run(self) -> None:
        """Keep the object current until cancelled."""
        failures, seen = 0, self._hypervisor.value
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._resync.total_seconds()):
                    await first(self._due.wait(), self._key_changed(seen))
            await asyncio.sleep(self._settle.total_seconds())
            self._due.clear()
            seen = self._hypervisor.value
            try:
                await self._store()
                failures = 0
            except HypercobaltError as error:  # no word of a document is in it
                log.warning("definitions_not_stored", error=str(error))
                self._report(_Reason.NOT_STORED, str(error))
                self._due.set()
                await asyncio.sleep(_RETRY.wait(failures))
                failures += 1

    async def _key_changed(self, since: Hypervisor | None) -> None:
        """Wait until the key that seals, or the host that it seals for, has changed."""
        known = since
        while _sealed_by(known) == _sealed_by(since):
            known = await self._hypervisor.changed(known)

    async def _store(self) -> None:
        own = self._hypervisor.value
        while own is None or is_kept(own):
            own = await self._hypervisor.changed(own)
        domains, mark = await self._libvirt.domains(), mark_of(own)
        await self._write(domains, mark)
        await self._leave_marks(domains, mark)

    async def _write(self, domains: tuple[Domain, ...], mark: str) -> None:
        read = [(domain, await self._read(domain)) for domain in domains]
        found = {domain.uuid: definition for domain, definition in read if definition}
        unread = await self._still_listed(one for one, definition in read if definition is None)
        found |= {domain.uuid: DomainDefinition(domain.name, "") for domain in unread}
        try:
            packed = pack(HostDefinitions(bootID=self._boot, mark=mark, domains=found))
        except ValueError as error:
            raise TransientError(str(error)) from None
        now = self._hypervisor.value
        if now is None or is_kept(now):  # guests end after that is known, so none has been read
            self._due.set()
            return
        key = key_of(now)
        if key is None:
            self._report(
                _Reason.NO_KEY,
                "The operator has published no key in status.definitionsKey; check that it runs, "
                "with --compute direct, in the version of this agent or a later one",
            )
            return
        if not await self._is_stored(now, packed, key):
            if await self._is_kept_now(now.metadata.name):
                self._due.set()
                return
            await self._seal(now, packed, key)
        if packed.left_out:
            self._report(_Reason.LEFT_OUT, _why_left_out(packed, unread))
        else:
            self._report(_Reason.STORED, f"Sealed for key {key.id}")

    async def _is_kept_now(self, name: str) -> bool:
        """Whether the API has the host as fenced, whatever the watch has shown.

        Read by a list of one: agents have no right to get a Hypervisor.

        Raises:
            TransientError: the host has no Hypervisor.
        """
        listed = await self._kube.list(Hypervisor, fields=f"metadata.name={name}")
        found = next(iter(listed.items), None)
        if found is None:
            raise TransientError(f"Hypervisor {name} is gone")
        if is_kept(found):
            self._hypervisor.wrote(found)
        return is_kept(found)

    async def _is_stored(self, own: Hypervisor, packed: Packed, key: PublicKey) -> bool:
        """Whether the API has just this; it is read once for each resync."""
        known, time = self._written, asyncio.get_running_loop().time()
        if known is None or known[:3] != (_digest(packed.data), key.id, own.metadata.uid):
            return False
        if time >= self._compare_at:
            name = own.metadata.name
            present = await self._kube.get(SealedDefinitions, name, self._namespace)
            if present is None or _digest(present.spec.sealed.encode()) != known.sealed:
                return False
            self._compare_at = time + self._resync.total_seconds()
        return True

    async def _seal(self, own: Hypervisor, packed: Packed, key: PublicKey) -> None:
        # Imported here: only agents that store definitions need what seals them, 7 MiB.
        from hypercobalt.api.sealing import Owner, SealError  # noqa: PLC0415

        meta = own.metadata
        try:
            data = await asyncio.to_thread(key.seal, packed.data, Owner(meta.name, meta.uid))
        except SealError as error:
            raise TransientError(f"status.definitionsKey: {error}") from None
        sealed = base64.b64encode(data).decode()
        made = SealedDefinitions(
            metadata=ObjectMeta(
                name=meta.name,
                namespace=self._namespace,
                labels={HOST_LABEL: meta.name},
                ownerReferences=(owner_reference(own),),
            ),
            spec=SealedDefinitionsSpec(key=key.id, hypervisorUID=meta.uid, sealed=sealed),
        )
        if packed.left_out:
            log.warning("definitions_left_out", domains=packed.left_out)
        await self._kube.apply(made, force=True)
        self._written = _Written(_digest(packed.data), key.id, meta.uid, _digest(sealed.encode()))
        self._compare_at = asyncio.get_running_loop().time() + self._resync.total_seconds()

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
            halted=domain.active and domain.halted,
            crashed=domain.crashed,
        )

    async def _still_listed(self, refused: Iterable[Domain]) -> tuple[Domain, ...]:
        """Domains that libvirt lists, though it has refused their documents.

        They are stored by name: what is not stored counts as having left the host.
        """
        uuids = {domain.uuid for domain in refused}
        listed = await self._libvirt.domains() if uuids else ()
        return tuple(domain for domain in listed if domain.uuid in uuids)

    async def _leave_marks(self, domains: Iterable[Domain], mark: str) -> None:
        """Leave the mark once in each directory; one without it is not known to be shared."""
        wanted = {(directory, mark) for domain in domains for directory in directories_of(domain)}
        self._marked &= wanted
        for directory, name in sorted(wanted - self._marked):
            try:
                if not await self._libvirt.has_file(directory, name):
                    await self._libvirt.mark(directory, name)
            except LibvirtError as error:
                log.warning("mark_not_written", directory=directory, error=str(error))
            else:
                self._marked.add((directory, name))

    def _report(self, reason: DefinitionsStoredReason, message: str) -> None:
        stored = reason is _Reason.STORED
        status = ConditionStatus.TRUE if stored else ConditionStatus.FALSE
        self._board.put_condition(_TYPE, status, reason, message)


def key_of(own: Hypervisor) -> PublicKey | None:
    """The key that the operator has published; None without one.

    Raises:
        TransientError: it is no key.
    """
    from hypercobalt.api.sealing import PublicKey, SealError  # noqa: PLC0415

    text = own.status.definitionsKey
    if not text:
        return None
    try:
        return PublicKey(text)
    except SealError as error:
        raise TransientError(f"status.definitionsKey: {error}") from None


def is_kept(own: Hypervisor) -> bool:
    """Whether what is stored of a host has to stay as it is.

    Always when the agent has to end the host's guests, see `is_ordered`.
    """
    fencing = own.status.fencing
    if fencing is None:
        return False
    return fencing.phase == FencingPhase.ATTEMPTING or is_declared_dead(fencing)


def mark_of(own: Hypervisor) -> str:
    """Name of the file that the host leaves: of its own, and the same after each boot."""
    return f".hypercobalt-{own.metadata.uid}"


def directories_of(domain: Domain) -> set[str]:
    """Directories with files that the domain writes to, or that its disks are built upon."""
    disks = [disk for disk in domain.devices.disks if _is_written_file(disk)]
    files = [file for disk in disks for file in (disk.path, *disk.backing)]
    return {posixpath.dirname(file) for file in (*files, domain.devices.nvram) if file}


def _is_written_file(disk: Disk) -> bool:
    return not (disk.block or disk.readonly or disk.device in {"cdrom", "floppy"})


def _why_left_out(packed: Packed, unread: Iterable[Domain]) -> str:
    """Name the domains that are stored by name only, and why.

    Args:
        packed: has them.
        unread: those among them whose documents libvirt refuses.
    """
    refused = sorted(domain.name for domain in unread)
    others = [name for name in packed.left_out if name not in refused]
    texts = (
        f"No room for the definitions of {', '.join(others)}" if others else "",
        f"libvirt gives no definition of {', '.join(refused)}" if refused else "",
    )
    return "; ".join(filter(None, texts))


def _sealed_by(own: Hypervisor | None) -> tuple[str | None, str]:
    return (None, "") if own is None else (own.status.definitionsKey, own.metadata.uid)


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
