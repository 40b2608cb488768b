"""Finds changes in the compute service, which sends no events.

One listing of hosts, one of aggregates and one of providers serve the whole fleet. A host gets a
pass where they differ from what its last pass has left: drift, a host that has registered, an
aggregate that was created, a server that has come to an empty host. A difference that a pass leaves
as it is (a service that others disabled) leads to one pass, until it changes.

The fleet is compared each period, and the things that hosts wait for every few seconds. Beyond
`FLEET` hosts both grow in proportion, so that the compute service lists no more than `FLEET` hosts
a period.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum, auto
from typing import Final

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import (
    AggregatesReason,
    HypervisorConditionType,
    RegisteredReason,
    SyncReason,
)
from hypercobalt.api.hypervisor_status import Aggregate
from hypercobalt.compute.model import Host, HostAggregate
from hypercobalt.compute.port import Aggregates, ComputeService, Fleet, Traits
from hypercobalt.errors import HypercobaltError
from hypercobalt.logs import get_logger
from hypercobalt.operator.lifecycle.step import POLL, LifecycleFacts
from hypercobalt.operator.shared.node_facts import host_names
from hypercobalt.runtime import Clock, Source
from hypercobalt.runtime.tasks import sleep_unless

log = get_logger(__name__)

FLEET: Final = 1000
"""Hosts up to which the periods are kept to: as many as one page of Nova's listing has."""
READ_AGAIN: Final = 2
"""Number of providers whose traits are read in a period despite an equal generation: a thousand in
eight hours.

Placement increments the generation with each change of traits, except where its database was
restored; each of these reads costs a pass.
"""

_Type = HypervisorConditionType


class ListedKind(Enum):
    """Kinds of things that are listed."""

    HOSTS = auto()
    AGGREGATES = auto()
    TRAITS = auto()


_WAITS: Final = (
    (_Type.REGISTERED, RegisteredReason.NOT_REGISTERED, ListedKind.HOSTS),
    (_Type.AGGREGATES_UPDATED, AggregatesReason.FAILED, ListedKind.AGGREGATES),
    (_Type.TRAITS_UPDATED, SyncReason.FAILED, ListedKind.TRAITS),
)
"""Conditions that are False for these reasons, and what would show that they may become True."""


def waits_for(hypervisor: Hypervisor) -> Iterable[ListedKind]:
    """Return what the host waits for, by its conditions."""
    for type_, reason, kind in _WAITS:
        found = get_condition(hypervisor.conditions, type_)
        if found is not None and found.status == "False" and found.reason == reason:
            yield kind


def of_host(host: Host | None) -> Hashable:
    """Return the compared values of a host; of its servers only whether there are any."""
    if host is None:
        return None
    return (
        *(host.hypervisor_id, host.service_id, host.enabled, host.disabled_reason),
        *(host.up, host.forced_down, bool(host.servers)),
    )


def of_aggregate(one: Aggregate | HostAggregate) -> Hashable:
    """Return the values that the status shows of an aggregate that a host is in."""
    return one.uuid, one.name, frozenset(one.metadata.items())


@dataclass(slots=True)
class Compared:
    """One kind of thing: its states after passes, and differences that have led to a pass."""

    left: dict[str, Hashable] = field(default_factory=dict[str, Hashable])
    reported: dict[str, Hashable] = field(default_factory=dict[str, Hashable])

    def differs(self, name: str, now: Hashable) -> bool:
        """Whether a host needs a pass; one that had none yet gets one without this."""
        if name not in self.left or self.left[name] == now:
            self.reported.pop(name, None)
            return False
        if name in self.reported and self.reported[name] == now:
            return False
        self.reported[name] = now
        return True

    def forget(self, name: str) -> None:
        """Forget a Hypervisor that is gone."""
        self.left.pop(name, None)
        self.reported.pop(name, None)


class Drift:
    """A service of the manager, and a source of the controller.

    Args:
        service: the compute service that is listed.
        hypervisors: returns all Hypervisors.
        period: time between two comparisons of the fleet.
        clock: for tests.
    """

    def __init__(
        self,
        service: ComputeService,
        hypervisors: Callable[[], Sequence[Hypervisor]],
        period: timedelta,
        *,
        clock: Clock,
    ) -> None:
        self._service, self._hypervisors = service, hypervisors
        self._period, self._clock = period, clock
        self._hosts, self._aggregates = Compared(), Compared()
        self._names: dict[str, str] = {}
        """Names of the hosts that the service lists."""
        self._waits: dict[str, tuple[Hypervisor, frozenset[ListedKind]]] = {}
        """Needs of each host, with the object that they were derived from."""
        self._compared_at = clock.monotonic()
        self.source = Source()

    def leave(self, facts: LifecycleFacts) -> None:
        """Note the state of a host after a pass."""
        name, status = facts.hypervisor.metadata.name, facts.hypervisor.status
        self._hosts.left[name] = of_host(facts.host)
        self._aggregates.left[name] = (frozenset(map(of_aggregate, status.aggregates)), None)
        if facts.host is not None:
            self._names[name] = facts.host.name

    def forget(self, name: str) -> None:
        """Forget a Hypervisor that is gone."""
        self._hosts.forget(name)
        self._aggregates.forget(name)
        self._names.pop(name, None)
        self._waits.pop(name, None)

    async def run(self, stop: asyncio.Event) -> None:
        """Compare until `stop`."""
        while not stop.is_set():
            step = min(POLL, self._period) * growth(len(self._hypervisors()))
            if not await sleep_unless(stop, step.total_seconds()):
                await self.look()

    async def look(self) -> None:
        """Compare what is due: everything each period, else what hosts wait for.

        Before the first pass there is nothing to compare with, and nothing is listed.
        """
        if not self._hosts.left:
            return
        known, now = self._hypervisors(), self._clock.monotonic()
        period = (self._period * growth(len(known))).total_seconds()
        due = now - self._compared_at >= period
        waiting = [(one, self._waits_of(one)) for one in known]
        kinds = set(ListedKind) if due else {kind for _, kinds in waiting for kind in kinds}
        if due:
            self._compared_at = now
        elif self._look_themselves(
            [one for one, kinds in waiting if ListedKind.HOSTS in kinds], known
        ):
            kinds.discard(ListedKind.HOSTS)
        if ListedKind.HOSTS in kinds:
            await self._compare(self._compare_hosts(known))
        if ListedKind.AGGREGATES in kinds and self._service.aggregates is not None:
            failed = {one.metadata.name for one, kinds in waiting if ListedKind.AGGREGATES in kinds}
            listing = self._service.aggregates
            await self._compare(self._compare_aggregates(known, failed, listing))
        if ListedKind.TRAITS in kinds and self._service.traits is not None:
            also = READ_AGAIN if due else 0
            await self._compare(self._compare_traits(known, self._service.traits, also))

    def _waits_of(self, hypervisor: Hypervisor) -> frozenset[ListedKind]:
        """Return what a host waits for; an object that was read before has the same result."""
        name = hypervisor.metadata.name
        seen = self._waits.get(name)
        if seen is None or seen[0] is not hypervisor:
            seen = self._waits[name] = hypervisor, frozenset(waits_for(hypervisor))
        return seen[1]

    def _look_themselves(self, hosts: list[Hypervisor], known: Sequence[Hypervisor]) -> bool:
        """Enqueue the hosts if they are few of many: cheaper than the pages of a listing."""
        if len(hosts) * FLEET > len(known):
            return False
        for hypervisor in hosts:
            self.source.enqueue(hypervisor.metadata.name)
        return True

    async def _compare(self, work: Awaitable[int]) -> None:
        try:
            changed = await work
        except HypercobaltError as error:
            log.warning("fleet_not_compared", error=str(error))
        else:
            if changed:
                log.info("hosts_changed", hosts=changed)

    async def _compare_hosts(self, known: Sequence[Hypervisor]) -> int:
        fleet = await self._service.hosts.fleet()
        return self._enqueue(
            one for one in known if self._hosts.differs(one.metadata.name, of_host(_in(fleet, one)))
        )

    async def _compare_aggregates(
        self, known: Sequence[Hypervisor], failed: set[str], listing: Aggregates
    ) -> int:
        """Compare the membership of all hosts with the aggregates in their status.

        For hosts that miss an aggregate, also compare which aggregates exist.
        """
        every = await listing.list(fresh=True)
        names, of = frozenset(one.name for one in every), dict[str, set[Hashable]]()
        for aggregate in every:
            shown = of_aggregate(aggregate)
            for host in aggregate.hosts:
                of.setdefault(host, set()).add(shown)

        def differs(one: Hypervisor) -> bool:
            name = one.metadata.name
            here = of.get(self._names.get(name, ""), set[Hashable]())
            there = names if name in failed else None
            return self._aggregates.differs(name, (frozenset(here), there))

        return self._enqueue(one for one in known if differs(one))

    async def _compare_traits(self, known: Sequence[Hypervisor], listing: Traits, also: int) -> int:
        changed = await listing.changed(also=also)
        return self._enqueue(one for one in known if one.status.hypervisorId in changed)

    def _enqueue(self, hypervisors: Iterable[Hypervisor]) -> int:
        names = [hypervisor.metadata.name for hypervisor in hypervisors]
        for name in names:
            self.source.enqueue(name)
        return len(names)


def growth(hosts: int) -> float:
    """Return the factor by which the periods grow in a fleet of so many hosts."""
    return max(1.0, hosts / FLEET)


def _in(fleet: Fleet, hypervisor: Hypervisor) -> Host | None:
    found = (fleet.get(name) for name in host_names(hypervisor))
    return next((host for host in found if host is not None), None)
