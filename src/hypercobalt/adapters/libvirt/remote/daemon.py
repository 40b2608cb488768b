"""The real `Daemon` and `Daemons`: libvirt's own client, by URI."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Final, TypeVar

import libvirt

from hypercobalt.adapters.libvirt import statistics
from hypercobalt.adapters.libvirt.calls import Calls
from hypercobalt.adapters.libvirt.documents import capabilities
from hypercobalt.adapters.libvirt.documents.tree import DocumentError
from hypercobalt.adapters.libvirt.model import DomainState, JobStats, JobType
from hypercobalt.adapters.libvirt.port import LibvirtError
from hypercobalt.adapters.libvirt.remote import makeup, storage
from hypercobalt.adapters.libvirt.remote.model import Definition, Guest, Makeup, Way
from hypercobalt.adapters.libvirt.remote.port import Daemon, LibvirtRefusedError
from hypercobalt.adapters.libvirt.remote.session import Session, close, connect, is_alive
from hypercobalt.adapters.libvirt.subscriptions import name_of

_Answer = TypeVar("_Answer")

_NOWAIT: Final = libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT
_PAUSED_MIGRATION: Final = 2  # virDomainPausedReason
_LONGEST_MOVE: Final = 24 * 3600.0
_MAX_DOWNTIME_MS: Final = 600_000
_MAKEUP_AGE: Final = 60.0
_WHOLE: Final = libvirt.VIR_DOMAIN_XML_SECURE | libvirt.VIR_DOMAIN_XML_INACTIVE
_FLAGS: Final = (
    libvirt.VIR_MIGRATE_LIVE
    | libvirt.VIR_MIGRATE_PEER2PEER
    | libvirt.VIR_MIGRATE_PERSIST_DEST
    | libvirt.VIR_MIGRATE_UNDEFINE_SOURCE
    | libvirt.VIR_MIGRATE_AUTO_CONVERGE
)


class RemoteDaemons:
    """See `Daemons`."""

    def __init__(self) -> None:
        self._known: dict[str, RemoteDaemon] = {}

    def at(self, uri: str) -> Daemon:
        if uri not in self._known:
            self._known[uri] = RemoteDaemon(uri)
        return self._known[uri]

    async def close(self) -> None:
        for daemon in self._known.values():
            await daemon.close()
        self._known.clear()


class RemoteDaemon:
    """See `Daemon`."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._session = Session(uri)
        self._makeups: dict[tuple[str, int], tuple[float, Makeup]] = {}

    async def host_uuid(self) -> str:
        def read(connection: libvirt.virConnect) -> str:
            try:
                return capabilities.parse(connection.getCapabilities()).uuid
            except (DocumentError, UnicodeDecodeError) as exc:
                raise LibvirtRefusedError(f"capabilities of {self._uri}: {exc}") from exc

        return await self._session.ask(f"host UUID of {self._uri}", read)

    async def guests(self) -> tuple[Guest, ...]:
        return await self._session.ask(f"guests of {self._uri}", self._guests)

    async def migrate(self, uuid: str, way: Way) -> None:
        # A thread and a connection of its own: the daemon answers only so many requests of one
        # connection at a time.
        what, calls = f"migration of {uuid} from {self._uri}", Calls()
        try:
            await calls.run(
                what, lambda: _migrate(what, self._uri, uuid, way), deadline=_LONGEST_MOVE
            )
        finally:
            calls.close()

    async def abort(self, uuid: str) -> None:
        await self._of_domain(f"abort of the job of {uuid}", uuid, _abort)

    async def hurry(self, uuid: str) -> None:
        await self._of_domain(
            f"longer downtime of {uuid}",
            uuid,
            lambda domain: domain.migrateSetMaxDowntime(_MAX_DOWNTIME_MS),
        )

    async def resume(self, uuid: str) -> None:
        await self._of_domain(f"resuming {uuid}", uuid, lambda domain: domain.resume())

    async def definition(self, uuid: str) -> Definition:
        return await self._of_domain(
            f"definition of {uuid}",
            uuid,
            lambda domain: Definition(domain.XMLDesc(_WHOLE), bool(domain.autostart())),
        )

    async def define(self, definition: Definition) -> None:
        def define(connection: libvirt.virConnect) -> None:
            connection.defineXML(definition.document).setAutostart(int(definition.autostart))

        await self._session.ask(f"definition on {self._uri}", define)

    async def undefine(self, uuid: str) -> None:
        flags = libvirt.VIR_DOMAIN_UNDEFINE_KEEP_NVRAM

        def undefine(connection: libvirt.virConnect) -> None:
            try:
                connection.lookupByUUIDString(uuid).undefineFlags(flags)
            except libvirt.libvirtError as exc:
                if exc.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
                    raise

        await self._session.ask(f"undefining {uuid} on {self._uri}", undefine)

    async def make_directory(self, directory: str) -> None:
        await self._ask_storage(
            f"directory {directory}",
            lambda connection: storage.make_directory(connection, directory),
        )

    async def mark(self, directory: str, name: str) -> None:
        await self._ask_storage(
            f"file {directory}/{name}", lambda connection: storage.mark(connection, directory, name)
        )

    async def has_file(self, directory: str, name: str) -> bool:
        return await self._session.ask(
            f"file {directory}/{name} on {self._uri}",
            lambda connection: storage.has_file(connection, directory, name),
        )

    async def delete_file(self, directory: str, name: str) -> None:
        await self._ask_storage(
            f"deleting {directory}/{name}",
            lambda connection: storage.delete_file(connection, directory, name),
        )

    async def close(self) -> None:
        self._session.close()

    async def _ask_storage(self, what: str, ask: Callable[[libvirt.virConnect], None]) -> None:
        await self._session.ask(f"{what} on {self._uri}", ask)

    async def _of_domain(
        self, what: str, uuid: str, ask: Callable[[libvirt.virDomain], _Answer]
    ) -> _Answer:
        return await self._session.ask(
            f"{what} on {self._uri}", lambda connection: ask(connection.lookupByUUIDString(uuid))
        )

    def _guests(self, connection: libvirt.virConnect) -> tuple[Guest, ...]:
        listed = connection.getAllDomainStats(libvirt.VIR_DOMAIN_STATS_STATE, _NOWAIT)
        found = [guest for one, values in listed if (guest := self._guest(one, values))]
        there = {guest.uuid for guest in found}
        self._makeups = {key: kept for key, kept in self._makeups.items() if key[0] in there}
        return tuple(sorted(found, key=lambda guest: (guest.name, guest.uuid)))

    def _guest(self, domain: libvirt.virDomain, values: statistics.Parameters) -> Guest | None:
        number, reason = values.get("state.state", 0), values.get("state.reason", 0)
        state = statistics.domain_state(number if isinstance(number, int) else 0)
        active = domain.ID() >= 0
        stopped_by_move = state is DomainState.PAUSED and reason == _PAUSED_MIGRATION
        try:
            job, is_far_end = _job(domain) if active else (None, False)
            return Guest(
                uuid=domain.UUIDString(),
                name=name_of(domain),
                state=state,
                active=active,
                moving_in=stopped_by_move and is_far_end,
                held=stopped_by_move and not is_far_end and job is None,
                saved=not active and bool(domain.hasManagedSaveImage()),
                makeup=self._makeup(domain),
                job=job,
            )
        except libvirt.libvirtError as exc:
            if exc.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
                raise
            return None  # it has gone meanwhile

    def _makeup(self, domain: libvirt.virDomain) -> Makeup:
        key = (domain.UUIDString(), domain.ID())
        read_at, known = self._makeups.get(key, (0.0, None))
        if known is not None and monotonic() - read_at < _MAKEUP_AGE:
            return known
        try:
            found = makeup.parse(domain.XMLDesc())
        except UnicodeDecodeError:
            found = Makeup(problem="its definition cannot be read: it is not UTF-8")
        self._makeups[key] = (monotonic(), found)
        return found


def _job(domain: libvirt.virDomain) -> tuple[JobStats | None, bool]:
    """A domain's migration, and whether this is the far end of one."""
    try:
        found = statistics.job_of(domain.jobStats())
    except libvirt.libvirtError as exc:
        if exc.get_error_code() == libvirt.VIR_ERR_OPERATION_UNSUPPORTED:
            return None, True  # "migration statistics are available only on the source host"
        if exc.get_error_code() == libvirt.VIR_ERR_OPERATION_INVALID:
            return None, False  # it has stopped meanwhile
        raise
    is_move = found.type in {JobType.BOUNDED, JobType.UNBOUNDED} and found.is_migration
    return (found if is_move else None), False


def _abort(domain: libvirt.virDomain) -> None:
    try:
        domain.abortJob()
    except libvirt.libvirtError as exc:
        if exc.get_error_code() != libvirt.VIR_ERR_OPERATION_INVALID:
            raise  # that one says that no job is active


def _migrate(what: str, uri: str, uuid: str, way: Way) -> None:
    parameters: dict[str, int | str | list[str]] = {}
    flags = _FLAGS | (libvirt.VIR_MIGRATE_TLS if way.tls else 0)
    if way.stream:
        parameters[libvirt.VIR_MIGRATE_PARAM_URI] = way.stream
    if way.mib_per_second:
        parameters[libvirt.VIR_MIGRATE_PARAM_BANDWIDTH] = way.mib_per_second
    if way.copies:
        flags |= libvirt.VIR_MIGRATE_NON_SHARED_DISK
        parameters[libvirt.VIR_MIGRATE_PARAM_MIGRATE_DISKS] = list(way.copies)
    try:
        connection = connect(uri)
    except libvirt.libvirtError as exc:
        raise LibvirtRefusedError(f"{what}: {exc}") from exc
    try:
        connection.lookupByUUIDString(uuid).migrateToURI3(way.destination, parameters, flags)
    except libvirt.libvirtError as exc:
        answered = is_alive(connection)
        error = LibvirtRefusedError if answered else LibvirtError
        raise error(f"{what}: {exc}") from exc
    finally:
        close(connection)
