"""Finds storage that fails on several hosts, for which no instance is moved.

Each node agent sees only the instances of its own host, and would recover one of them as if its
host had lost the path to the storage. So the operator compares the open incidents of all hosts, and
writes the storages that they share to `status.failingStorage` of each host; the agents wait for
these. A host whose agent is silent does not count: its incidents may be over.

A captured host reports what it likes. So two other hosts have to report a storage, or one of them
for the first minutes: then a host that has lost the path to it by itself is recovered, whatever one
other host reports. Of storage that two hosts alone have, their instances then try to leave.

Source: the HA reference, section 5, IO_ERROR_REASON; section 12.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType
from hypercobalt.logs import get_logger
from hypercobalt.operator.shared.hypervisors import Shared
from hypercobalt.operator.shared.status_writer import Part, StatusWriter
from hypercobalt.runtime import Cache, Clock, Controller, Manager, Result, mapped
from hypercobalt.runtime.write_cache import WriteCache

log = get_logger(__name__)

NAME: Final = "shared-storage"

ALONE: Final = timedelta(minutes=10)
"""How long one other host that reports a storage suffices: longer than storage takes to fail on all
hosts that have it, and for their agents to notice.
"""
_ENOUGH: Final = 2
"""Number of other hosts that have to report it from then on: one alone may be captured."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

BY_STORAGE: Final = "storage"
"""Index of Hypervisors: by the storages that fail there."""


def storages_of(hypervisor: Hypervisor) -> Iterable[str]:
    """Index function of `BY_STORAGE`; a fleet in order has nothing in it."""
    found = hypervisor.status.incidents
    if not found:
        return ()
    agent = get_condition(hypervisor.conditions, HypervisorConditionType.AGENT_REPORTING)
    if agent is not None and agent.status == "False":
        return ()
    return {one.storage for one in found if one.storage}


def shared_by(
    hypervisors: Cache[Hypervisor], hypervisor: Hypervisor, now: datetime
) -> tuple[tuple[str, ...], datetime | None]:
    """Return storages that fail on this host and on others, sorted; and when to check again.

    Args:
        hypervisors: with the index `BY_STORAGE`.
        hypervisor: of the host.
        now: UTC.
    """
    shared, due = list[str](), list[datetime]()
    for storage in sorted(storages_of(hypervisor)):
        found = {one.metadata.name for one in hypervisors.find(BY_STORAGE, storage)}
        others = len(found - {hypervisor.metadata.name})
        until = _since(hypervisor, storage) + ALONE
        if others >= _ENOUGH:
            shared.append(storage)
        elif others and now < until:
            shared.append(storage)
            due.append(until)
    return tuple(shared), min(due, default=None)


def _since(hypervisor: Hypervisor, storage: str) -> datetime:
    """Return since when a storage fails on the host, by its incidents; without a time, long ago."""
    found = (one for one in hypervisor.status.incidents if one.storage == storage)
    return min((one.firstSeen or _EPOCH for one in found), default=_EPOCH)


class SharedStorageReconciler:
    """Keeps the field of each host.

    Args:
        cache: with the index `BY_STORAGE`.
        hypervisors: what the controllers share.
        statuses: writes the field.
        clock: for how long one other host suffices.
    """

    def __init__(
        self,
        cache: Cache[Hypervisor],
        hypervisors: WriteCache[Hypervisor],
        statuses: StatusWriter,
        clock: Clock,
    ) -> None:
        self._cache, self._hypervisors = cache, hypervisors
        self._statuses, self._clock = statuses, clock

    async def reconcile(self, name: str, /) -> Result:
        found = self._hypervisors.get(name)
        if found is None:
            return Result()
        now = self._clock.now()
        wanted, until = shared_by(self._cache, found, now)
        if wanted != found.status.failingStorage:
            log.warning("shared_storage_fails", hypervisor=name, storages=wanted)
            await self._statuses.put(found, Part(fields={"failingStorage": wanted}))
        return Result(until - now) if until is not None else Result()


def add_shared_storage(manager: Manager, shared: Shared) -> None:
    """Add the controller.

    Args:
        manager: runs it.
        shared: with the other controllers; its informer has the index `BY_STORAGE`.
    """
    cache = shared.informer.cache

    def concerned(changed: Hypervisor) -> Iterable[str]:
        others = (cache.find(BY_STORAGE, storage) for storage in storages_of(changed))
        return {changed.metadata.name, *(one.metadata.name for found in others for one in found)}

    reconciler = SharedStorageReconciler(cache, shared.hypervisors, shared.statuses, manager.clock)
    watch = mapped(shared.informer, concerned, when=worth_a_pass)
    manager.add(Controller(NAME, reconciler, watches=(watch,)))


def worth_a_pass(old: Hypervisor | None, new: Hypervisor | None) -> bool:
    """A predicate: the failing storages of the host, or the field, have changed."""

    def seen(one: Hypervisor | None) -> tuple[frozenset[str], tuple[str, ...]]:
        if one is None:
            return frozenset(), ()
        return frozenset(storages_of(one)), one.status.failingStorage

    return seen(old) != seen(new)
