"""Follows live migrations: one Migration object each, written by the host that the server leaves.

The source makes the object when it first sees the job, writes its progress each second and its end;
the destination adds its own name, and the ending when the source's agent does not. What
is a migration is read off the job's operation, so a pause, a managed save or a snapshot is none.
An agent that was killed finds its unfinished objects again and ends them with what libvirt reports,
and claims those of the servers that came meanwhile.

Source: libvirt-domain.h, virDomainEventType and virDomainJobOperation; kvm-node-agent,
internal/libvirt/libvirt_events.go, whose polling this replaces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Final, TypeVar

from hypercobalt.adapters.libvirt.events import Connected, DomainEvent, Event, EventKind, Lost
from hypercobalt.adapters.libvirt.model import Domain, DomainState, JobStats
from hypercobalt.adapters.libvirt.port import Libvirt, LibvirtError
from hypercobalt.adapters.libvirt.vocabulary import Lifecycle
from hypercobalt.api.migration import (
    ORIGIN,
    SERVER,
    Migration,
    MigrationOperation,
    MigrationStatus,
    label_value,
)
from hypercobalt.errors import HypercobaltError
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.migrations.incoming import Incoming
from hypercobalt.node_agent.migrations.of_servers import of_servers
from hypercobalt.node_agent.migrations.outgoing import Outgoing
from hypercobalt.node_agent.migrations.record import MigrationRecord
from hypercobalt.node_agent.migrations.rules import (
    GRACE,
    arrived_by,
    expired,
    is_arrival,
    is_finished,
    is_outgoing,
    started_at,
)
from hypercobalt.node_agent.settings import NodeAgentSettings
from hypercobalt.runtime import Backoff, Clock, Kube
from hypercobalt.runtime.mailbox import Mailbox

log = get_logger(__name__)

T = TypeVar("T")

SWEEP: Final = timedelta(hours=6)
"""Objects grow old without an event; also after each end of a migration."""

_TOGETHER: Final = 100
"""Servers in one request, which has their UUIDs in its address."""

_RETRY: Final = Backoff(base=timedelta(milliseconds=500), cap=timedelta(seconds=30))
_RELEVANT: Final = frozenset(
    {EventKind.MIGRATION_ITERATION, EventKind.MIGRATION_STATUS, EventKind.JOB_COMPLETED}
)
_MIGRATED: Final = 1  # detail of STARTED, SUSPENDED and RESUMED
_PAUSED: Final = 0  # of SUSPENDED
_STOPPED_MIGRATED: Final = 3


class Migrations:
    """All migrations of one host.

    Args:
        grace: what the destination leaves to the source before it ends the object itself.
    """

    def __init__(
        self,
        kube: Kube,
        libvirt: Libvirt,
        settings: NodeAgentSettings,
        *,
        clock: Clock,
        grace: timedelta = GRACE,
    ) -> None:
        self._kube, self._libvirt, self._settings = kube, libvirt, settings
        self._clock, self._grace = clock, grace
        self._outgoing: dict[str, Outgoing] = {}
        self._incoming: dict[str, Incoming] = {}
        self._ending: set[MigrationRecord] = set()  # ended here, but not written yet
        self._behind: set[str] = set()  # domains whose mailbox was full
        self._tasks: asyncio.TaskGroup | None = None
        self._sweep = asyncio.Event()

    def on_event(self, event: Event) -> None:
        """Take note of what concerns migrations; until `run`, which looks first, nothing does."""
        if self._tasks is None:
            return
        if isinstance(event, Connected | Lost):
            self._spawn(self._recover(), "recover")
        elif isinstance(event, DomainEvent) and _concerns(event):
            self._post(event)

    async def run(self) -> None:
        """Follow migrations until cancelled; what is unfinished then, the next start finishes."""
        async with asyncio.TaskGroup() as tasks:
            # A silent QEMU holds up no other domain, and no write waits for one.
            self._domains, self._writes = Mailbox(tasks), Mailbox(tasks)
            self._tasks = tasks
            self._spawn(self._recover(), "recover")
            await self._sweep_old()

    def _post(self, event: DomainEvent) -> None:
        uuid = event.uuid
        if not self._domains.put(uuid, partial(self._take, event)) and uuid not in self._behind:
            log.warning("migration_events_dropped", server=uuid)
            self._behind.add(uuid)
            self._spawn(self._catch_up(uuid), f"catch-up-{uuid}")

    async def _catch_up(self, uuid: str) -> None:
        """Read the present state in place of events that were dropped."""

        async def drained() -> None:
            self._behind.discard(uuid)

        await self._domains.do(uuid, drained)
        await self._recover()

    async def _take(self, event: DomainEvent) -> None:
        match event.kind:
            case EventKind.MIGRATION_ITERATION:
                await self._look(event.uuid)
            case EventKind.MIGRATION_STATUS:
                if event.uuid in self._outgoing:
                    self._outgoing[event.uuid].nudge(event.reason)
            case EventKind.JOB_COMPLETED:
                self._job_completed(event.uuid, event.stats)
            case _:
                await self._lifecycle(event)

    def _job_completed(self, uuid: str, stats: JobStats | None) -> None:
        if uuid in self._outgoing:
            self._outgoing[uuid].job_ended(stats)
        elif is_outgoing(stats):
            self._begin(uuid, stats, ended=True)
        elif uuid in self._incoming:
            self._incoming[uuid].job_ended(stats)

    async def _lifecycle(self, event: DomainEvent) -> None:
        uuid, type_ = event.uuid, event.type
        outgoing, incoming = self._outgoing.get(uuid), self._incoming.get(uuid)
        if type_ == Lifecycle.STARTED:
            self._receive(uuid, event.at)  # another arrival, even if one before is not yet let go
        elif type_ == Lifecycle.SUSPENDED and incoming is not None:
            if event.detail == _PAUSED:  # one that was paused arrives so
                incoming.arrived()
        elif type_ == Lifecycle.SUSPENDED and event.detail == _MIGRATED:
            # Proof enough for a driver that has no job statistics.
            await self._look(uuid, proven=True)
        elif type_ == Lifecycle.RESUMED and outgoing is not None:
            outgoing.nudge()
        elif type_ == Lifecycle.RESUMED:
            (incoming or self._receive(uuid)).arrived()
        elif type_ == Lifecycle.STOPPED:
            if outgoing is not None:
                outgoing.stopped(migrated=event.detail == _STOPPED_MIGRATED)
            if incoming is not None:
                incoming.failed()

    async def _look(self, uuid: str, *, proven: bool = False) -> None:
        """Begin to follow a domain's job if it is a migration away that is not followed yet."""
        if uuid in self._outgoing:
            return
        stats: JobStats | None = None
        with suppress(LibvirtError):
            stats = await self._libvirt.job_stats(uuid)
        if is_outgoing(stats):
            self._begin(uuid, stats)
        elif proven and (stats is None or "operation" not in stats.values):
            self._begin(uuid, None)

    def _begin(
        self,
        uuid: str,
        stats: JobStats | None,
        *,
        ended: bool = False,
        stored: Migration | None = None,
    ) -> None:
        if uuid in self._outgoing:
            return
        started = started_at(stats, self._clock.now())
        if stored is not None and stored.status.started is not None:
            started = stored.status.started
        status = (
            stored.status
            if stored
            else MigrationStatus(
                origin=self._settings.label, operation=MigrationOperation.MIGRATION_OUT
            )
        )
        log.info("migration_followed", server=uuid, resumed=stored is not None)
        record = MigrationRecord(
            self._kube, self._settings, uuid, status, started=started, stored=stored
        )
        outgoing = Outgoing(uuid, self._libvirt, record, grace=self._grace)
        if stats is not None and ended:
            outgoing.job_ended(stats)
        elif stats is not None:
            outgoing.progress(stats)
        self._outgoing[uuid] = outgoing
        self._spawn(self._follow(uuid, outgoing, record), f"migration-{uuid}")

    async def _follow(self, uuid: str, outgoing: Outgoing, record: MigrationRecord) -> None:
        # After what is still to be written of the server's migration before.
        writing = asyncio.create_task(self._writes.do(uuid, record.run))
        try:
            ending = await outgoing.run()
            log.info("migration_ended", server=uuid, type=ending.type.value)
            del self._outgoing[uuid]  # the next one may begin while this one is still written
            self._ending.add(record)
            await writing
            self._sweep.set()
        finally:
            if self._outgoing.get(uuid) is outgoing:
                del self._outgoing[uuid]
            self._ending.discard(record)
            writing.cancel()
            await asyncio.wait({writing})

    def _receive(self, uuid: str, began: datetime | None = None) -> Incoming:
        if uuid in self._incoming:
            self._incoming[uuid].failed()  # the end of an earlier arrival was not reported
        incoming = Incoming(
            uuid,
            self._libvirt,
            self._kube,
            self._settings,
            began=began,
            clock=self._clock,
            grace=self._grace,
        )
        self._incoming[uuid] = incoming

        async def follow() -> None:
            try:
                await incoming.run()
            finally:
                if self._incoming.get(uuid) is incoming:
                    del self._incoming[uuid]

        self._spawn(follow(), f"incoming-{uuid}")
        return incoming

    async def _recover(self) -> None:
        """Find the migrations that are under way, and those that ended unseen."""
        waiting, came = dict(self._incoming), list[str]()
        try:
            domains = await self._libvirt.domains()
        except LibvirtError as error:
            log.warning("recovery_interrupted", error=str(error))  # a Connected will follow
            return
        for uuid, incoming in waiting.items():
            domain = next((d for d in domains if d.uuid == uuid), None)
            await self._domains.do(uuid, partial(self._settle, incoming, domain))
        for uuid in (domain.uuid for domain in domains if domain.active):
            if await self._domains.do(uuid, partial(self._look_for_arrival, uuid)):
                came.append(uuid)
        for left in await self._until_read(self._own):
            server = _server(left)
            ending = any(record.writes(left) for record in self._ending)
            if server and not is_finished(left) and not ending:
                self._begin(server, None, stored=left)
        await self._claim_arrived(came)

    async def _settle(self, incoming: Incoming, domain: Domain | None) -> None:
        """Settle an arrival whose events may have been missed while libvirt was away."""
        if domain is None or not domain.active:
            incoming.failed()
        elif domain.state is DomainState.RUNNING or await self._has_arrived(domain.uuid):
            incoming.arrived()

    async def _look_for_arrival(self, uuid: str) -> bool:
        """Begin to follow a migration away; return whether the server came here unseen."""
        await self._look(uuid)
        if uuid in self._outgoing or uuid in self._incoming:
            return False
        return await self._has_arrived(uuid)

    async def _has_arrived(self, uuid: str) -> bool:
        with suppress(LibvirtError):
            return is_arrival(await self._libvirt.job_stats(uuid, completed=True))
        return False

    async def _claim_arrived(self, uuids: Sequence[str]) -> None:
        """Claim the migrations of servers that arrived unseen, of late or long ago."""
        space = self._settings.namespace
        for first in range(0, len(uuids), _TOGETHER):
            some = uuids[first : first + _TOGETHER]
            found = await self._until_read(partial(of_servers, self._kube, space, some))
            for uuid in some:
                mine = arrived_by(found[uuid], self._settings.label, self._clock.now())
                if mine is not None and uuid not in self._incoming:
                    self._receive(uuid).arrived()

    async def _own(self) -> list[Migration]:
        selector = f"{ORIGIN}={label_value(self._settings.label)}"
        listed = await self._kube.list(Migration, self._settings.namespace, labels=selector)
        return listed.items

    async def _until_read(self, read: Callable[[], Awaitable[T]]) -> T:
        """Read Migrations, however long it takes."""
        failures = 0
        while True:
            try:
                return await read()
            except HypercobaltError as error:
                log.warning("migrations_not_listed", error=str(error))
                await asyncio.sleep(_RETRY.wait(failures))
                failures += 1

    async def _sweep_old(self) -> None:
        failures = 0
        while True:
            self._sweep.clear()
            try:
                await self._remove_expired()
                failures, wait = 0, SWEEP.total_seconds()
            except HypercobaltError as error:
                log.warning("migrations_not_removed", error=str(error))
                failures, wait = failures + 1, _RETRY.wait(failures)
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._sweep.wait()

    async def _remove_expired(self) -> None:
        for old in expired(await self._own(), self._clock.now(), self._settings.retention):
            meta = old.metadata
            log.info("migration_removed", migration=meta.name)
            await self._kube.delete(Migration, meta.name, meta.namespace, uid=meta.uid)

    def _spawn(self, work: Coroutine[None, None, None], name: str) -> None:
        if self._tasks is None:
            raise RuntimeError("not running")
        self._tasks.create_task(work, name=name)


def _concerns(event: DomainEvent) -> bool:
    if event.kind is not EventKind.LIFECYCLE:
        return event.kind in _RELEVANT
    if event.type == Lifecycle.STOPPED:
        return True
    if event.type == Lifecycle.SUSPENDED and event.detail == _PAUSED:
        return True
    moving = {Lifecycle.STARTED, Lifecycle.SUSPENDED, Lifecycle.RESUMED}
    return event.type in moving and event.detail == _MIGRATED


def _server(migration: Migration) -> str:
    """The server's UUID."""
    return migration.metadata.labels.get(SERVER, "")
