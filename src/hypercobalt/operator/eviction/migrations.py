"""What the node agents see of migrations: how much is left, and that one has ended.

Migrations are watched only of hosts that are being emptied, by their label, so the cost does not
grow with the fleet. They are a help and never the truth: where no agent writes them, evictions go
on by what the compute service says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from hypercobalt.api.iec import SizeError, parse_iec
from hypercobalt.api.migration import ORIGIN, SERVER, Migration, MigrationType, label_value
from hypercobalt.logs import get_logger
from hypercobalt.runtime import Informer, Kube, Metrics
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.controller import Watch

log = get_logger(__name__)

_ENDED: Final = frozenset(
    {
        MigrationType.COMPLETED,
        MigrationType.FAILED,
        MigrationType.CANCELLED,
        MigrationType.SUCCESS,
    }
)


class Migrations:
    """Watches the Migrations of chosen hosts; a service of the manager.

    Attributes:
        remaining: bytes of memory that each instance under way still has to move, by UUID.
    """

    def __init__(self, kube: Kube, metrics: Metrics) -> None:
        self._kube, self._metrics = kube, metrics
        self.remaining: dict[str, int] = {}
        self._hosts: dict[str, str] = {}  # Eviction to host
        self._informers: dict[str, Informer[Migration]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._tell: list[Callable[[str], None]] = []

    @property
    def watch(self) -> Watch:
        """For the controller: the end of a migration leads to the Evictions of its host."""
        return Watch(self._tell.append, _at_once)

    def follow(self, eviction: str, host: str) -> None:
        """Watch the host's migrations from now on, for this Eviction."""
        self._hosts[eviction] = host
        if host not in self._informers:
            selection = Selection(Migration, labels=f"{ORIGIN}={label_value(host)}")
            informer = Informer(self._kube, selection, metrics=self._metrics)
            informer.add_handler(_Reader(host, self))
            self._informers[host] = informer
            self._start(host)

    def release(self, eviction: str) -> None:
        """The Eviction is over; a host that no other one empties is watched no longer."""
        host = self._hosts.pop(eviction, None)
        if host is None or host in self._hosts.values():
            return
        informer = self._informers.pop(host)
        for migration in informer.cache:
            self.remaining.pop(migration.metadata.labels.get(SERVER, ""), None)
        if task := self._tasks.pop(host, None):
            task.cancel()

    async def run(self, stop: asyncio.Event) -> None:
        """Keep the watches going until `stop`."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for host in self._informers:
                self._start(host)
            await stop.wait()
            self._group = None
            for task in self._tasks.values():
                task.cancel()

    def read(self, host: str, old: Migration | None, new: Migration) -> None:
        """Take in what an agent says."""
        server = new.metadata.labels.get(SERVER, "")
        if new.status.type in _ENDED:
            self.remaining.pop(server, None)
            if old is not None and old.status.type not in _ENDED:
                self._ended(host)
            return
        with suppress(SizeError):
            self.remaining[server] = parse_iec(new.status.memRemaining or "")

    def _ended(self, host: str) -> None:
        for eviction, emptied in self._hosts.items():
            if emptied == host:
                for tell in self._tell:
                    tell(eviction)

    def _start(self, host: str) -> None:
        if self._group is not None:
            work = self._informers[host].run()
            self._tasks[host] = self._group.create_task(work, name=f"migrations-{host}")


class _Reader:
    def __init__(self, host: str, migrations: Migrations) -> None:
        self._host, self._migrations = host, migrations

    def on_add(self, obj: Migration) -> None:
        self._migrations.read(self._host, None, obj)

    def on_update(self, old: Migration, new: Migration) -> None:
        self._migrations.read(self._host, old, new)

    def on_delete(self, obj: Migration) -> None:
        """One that is gone says nothing."""


async def _at_once() -> None:
    """There is nothing to wait for: watches open later."""
