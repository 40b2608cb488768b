"""Follows migrations by the node agents' reports: how much is left, and their end.

Migrations are watched only of hosts that are being emptied, by their label, so the cost does not
grow with the fleet. They are a help and never the truth: where no agent writes them, evictions go
on by what the compute service reports.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from hypercobalt.api.iec import SizeError, parse_iec
from hypercobalt.api.migration import (
    MIGRATION_TYPES,
    ORIGIN,
    SERVER,
    Migration,
    MigrationStatus,
    label_value,
)
from hypercobalt.logs import get_logger
from hypercobalt.operator.eviction.model.tracks import Job, Left
from hypercobalt.runtime import Informer, Kube, Metrics, Source
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.tasks import NamedTasks

log = get_logger(__name__)


class Migrations:
    """Watches the Migrations of chosen hosts; a service of the manager.

    What the agent of one host reports counts for that host alone: its labels name any instance.

    Attributes:
        source: for the controller: the end of a migration leads to the Evictions of its host.
    """

    def __init__(self, kube: Kube, metrics: Metrics) -> None:
        self._kube, self._metrics = kube, metrics
        self._jobs: dict[str, dict[str, Job]] = {}  # by host, then by UUID of the instance
        self._hosts: dict[str, str] = {}  # Eviction to host
        self._informers: dict[str, Informer[Migration]] = {}
        self._tasks = NamedTasks()
        self.source = Source()

    def follow(self, eviction: str, host: str) -> None:
        """Watch the host's migrations from now on, for this Eviction."""
        self._hosts[eviction] = host
        if host not in self._informers:
            selection = Selection(Migration, labels=f"{ORIGIN}={label_value(host)}")
            informer = Informer(self._kube, selection, metrics=self._metrics)
            informer.add_handler(_Reader(host, self))
            self._informers[host] = informer
            self._tasks.begin(host, informer.run)

    def jobs_of(self, host: str) -> Mapping[str, Job]:
        """The newest migration of each instance away from a host that is followed, by UUID."""
        return self._jobs.get(host, {})

    def release(self, eviction: str) -> None:
        """The Eviction is over; a host that no other one empties is watched no longer."""
        host = self._hosts.pop(eviction, None)
        if host is None or host in self._hosts.values():
            return
        del self._informers[host]
        self._jobs.pop(host, None)
        self._tasks.end(host)

    async def run(self, stop: asyncio.Event) -> None:
        """Keep the watches going until `stop`."""
        await self._tasks.run(stop)

    def read(self, host: str, old: Migration | None, new: Migration) -> None:
        """Take in what an agent reports."""
        if new.status.type is None:
            return
        server, job = new.metadata.labels.get(SERVER, ""), _job(new.status)
        jobs = self._jobs.setdefault(host, {})
        known = jobs.get(server)
        if known is None or not job.is_before(known):
            jobs[server] = job
        if job.ended and old is not None and old.status.type not in MIGRATION_TYPES.ends:
            self._ended(host)

    def forget(self, host: str, gone: Migration) -> None:
        """Drop a Migration of a host that was deleted."""
        server, jobs = gone.metadata.labels.get(SERVER, ""), self._jobs.get(host, {})
        known = jobs.get(server)
        if known is not None and known.started == gone.status.started:
            del jobs[server]

    def _ended(self, host: str) -> None:
        for eviction, emptied in self._hosts.items():
            if emptied == host:
                self.source.enqueue(eviction)


class _Reader:
    def __init__(self, host: str, migrations: Migrations) -> None:
        self._host, self._migrations = host, migrations

    def on_add(self, obj: Migration) -> None:
        self._migrations.read(self._host, None, obj)

    def on_update(self, old: Migration, new: Migration) -> None:
        self._migrations.read(self._host, old, new)

    def on_delete(self, obj: Migration) -> None:
        self._migrations.forget(self._host, obj)


def _job(status: MigrationStatus) -> Job:
    left = Left(_bytes(status.memRemaining), _bytes(status.diskRemaining))
    ended = str(status.type) if status.type in MIGRATION_TYPES.ends else ""
    return Job(status.started, left, ended)


def _bytes(text: str | None) -> int:
    """A size that an agent has written; 0 when it cannot be read."""
    try:
        return parse_iec(text or "")
    except SizeError:
        return 0
