"""Reads the facts that a pass needs: one list of servers and one of moves for each host."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Final, TypeVar

from hypercobalt.api.conditions import is_true
from hypercobalt.api.eviction import Eviction, EvictionReason, ends_empty, has_ended
from hypercobalt.api.hypervisor import Hypervisor, is_claimed, is_fenced
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType
from hypercobalt.compute.errors import ComputeError
from hypercobalt.compute.model import Capacity, Host, Move, RestartResult, Server, ServerAction
from hypercobalt.compute.port import ComputeService
from hypercobalt.logs import get_logger
from hypercobalt.operator.agents.launcher_pods import LauncherPods
from hypercobalt.operator.eviction.assessing.case import CLOCK_SKEW
from hypercobalt.operator.eviction.assessing.course import Course, is_dead, is_to_be_empty
from hypercobalt.operator.eviction.assessing.deaths import Death, reported, with_deaths
from hypercobalt.operator.eviction.assessing.owner import incident_of
from hypercobalt.operator.eviction.assessing.situation import Situation
from hypercobalt.operator.eviction.assessing.witnesses import targets_to_check
from hypercobalt.operator.eviction.memory import Listing, Memory
from hypercobalt.operator.eviction.model.decision import EvictionPlan, Questions
from hypercobalt.operator.eviction.model.facts import Facts, Need, Networks, need
from hypercobalt.operator.eviction.model.policy import Policy
from hypercobalt.operator.eviction.model.states import Moment
from hypercobalt.operator.eviction.model.whereabouts import Whereabouts
from hypercobalt.operator.eviction.observing import whereabouts
from hypercobalt.operator.eviction.observing.lookups import (
    requests_to_be_read,
    restarts_to_be_read,
    to_be_verified,
)
from hypercobalt.operator.eviction.observing.migrations import Migrations
from hypercobalt.operator.eviction.planning.situate import situate
from hypercobalt.operator.shared.guests import NO_GUESTS, HostGuests, with_reported
from hypercobalt.operator.shared.node_facts import host_names, is_its_own
from hypercobalt.runtime import Cache, Clock, Kube
from hypercobalt.runtime.tasks import sole

log = get_logger(__name__)

_K = TypeVar("_K")
_A = TypeVar("_A")

_AT_ONCE: Final = 4
"""Reads of one kind at the same time: capacity takes one for each kind of instance."""

_HOST_AGE: Final = 5.0  # seconds; a host's state changes by hand, and when it dies
_SERVERS_AGE: Final = 10.0  # seconds; likewise, and instances come and go
_TARGETS_AGE: Final = 60.0  # seconds; a fleet's capacity changes slowly


class Observer:
    """Reader of the facts of a pass.

    Args:
        kube: for Hypervisors of other shards.
        hypervisors: those of this shard.
        compute: where the instances are.
        migrations: what the node agents report of them.
        policy: of the site.
        clock: for the time of a pass.
        launchers: follows the launcher pods of hosts.
        networks: returns the hosts whose networks keep instances out, except the host of that name.
    """

    def __init__(
        self,
        kube: Kube,
        hypervisors: Cache[Hypervisor],
        compute: ComputeService,
        migrations: Migrations,
        launchers: LauncherPods,
        *,
        policy: Policy,
        clock: Clock,
        networks: Callable[[str], Networks] = lambda _: Networks(),
    ) -> None:
        self._kube, self._hypervisors, self._compute = kube, hypervisors, compute
        self._migrations, self._policy, self._clock = migrations, policy, clock
        self._networks, self._launchers = networks, launchers

    def moment(self) -> Moment:
        """The time now."""
        return Moment(self._clock.now(), self._clock.monotonic())

    async def look(self, eviction: Eviction, memory: Memory) -> Situation:
        """Read the Hypervisor, the host and its servers, up to a fact that settles the pass."""
        situation = self._situate(await self._hypervisor(eviction, memory))
        for read in (self._host, self._instances):
            if situation.settled is None:
                situation = await self._read(situation, read(situation, memory))
        if situation.settled is not None and _would_succeed(situation.settled):
            situation = self._situate(await self._guests_left(situation.facts))
        return situation

    async def answer(self, situation: Situation, questions: Questions, memory: Memory) -> Situation:
        """Read the further facts that the plan depends on."""
        situation = await self._read(situation, self._capacity(situation.facts, questions, memory))
        if questions.counted and situation.settled is None:
            situation = await self._read(situation, self._count(situation, memory, questions.left))
            if situation.settled is None:
                situation = situation.having(await self._guests_left(situation.facts))
        return situation

    async def _read(self, situation: Situation, reading: Awaitable[Facts]) -> Situation:
        """Return the situation after a reading; what the compute service fails in settles it."""
        try:
            return self._situate(await reading)
        except ComputeError as error:
            name = situation.facts.eviction.metadata.name
            log.warning("compute_unreachable", eviction=name, error=str(error))
            return self._situate(replace(situation.facts, trouble=error, moment=self.moment()))

    def _situate(self, facts: Facts) -> Situation:
        return situate(facts, self._policy)

    async def _hypervisor(self, eviction: Eviction, memory: Memory) -> Facts:
        name = eviction.spec.hypervisor
        hypervisor = self._hypervisors.get(name)
        missing = hypervisor is None and eviction.metadata.deletionTimestamp is None
        networks = self._networks(name)
        empties = hypervisor is not None and _is_to_end_empty(eviction)
        return Facts(
            eviction=eviction,
            status=memory.status or eviction.status,
            moment=self.moment(),
            service=self._compute.name,
            chooses_target=self._compute.moves.chooses_target and not networks.named,
            keeps_servers=self._compute.counts_servers,
            networks=networks,
            hypervisor=hypervisor,
            of_other_shard=missing and await self._kube.get(Hypervisor, name) is not None,
            guests=await self._guests(eviction, hypervisor) if empties else NO_GUESTS,
        )

    async def _guests(self, eviction: Eviction, hypervisor: Hypervisor | None) -> HostGuests:
        """Return the guests that are known, of the host's own report only while it may live."""
        known = await self._launchers.follow(eviction.metadata.name, eviction.spec.hypervisor)
        dead = hypervisor is not None and is_fenced(hypervisor)
        return known if dead else with_reported(known, hypervisor)

    async def _guests_left(self, facts: Facts) -> Facts:
        """Read the guests past every cache, if none is known and that decides."""
        if facts.guests.any or facts.guests.fresh:
            return facts
        found = await self._launchers.read(facts.source)
        return replace(facts, guests=found, moment=self.moment())

    async def _host(self, situation: Situation, memory: Memory) -> Facts:
        facts = situation.facts
        hypervisor, at = facts.hypervisor, facts.moment.at
        claimed = hypervisor is not None and is_claimed(hypervisor) and not facts.is_deleted
        if claimed:
            memory.host = None
        elif memory.host is None or _is_doubted(memory, hypervisor, at):
            names = host_names(hypervisor) if hypervisor is not None else (facts.source,)
            host = await self._find(names)
            if host is not None and hypervisor is not None and not is_its_own(hypervisor, host):
                host = None
            memory.host, memory.host_at = host, at
        if memory.host is not None:
            memory.unknown_since = None
        elif memory.unknown_since is None:
            memory.unknown_since = at
        since = memory.unknown_since
        return replace(
            facts,
            looked=True,
            host=memory.host,
            unknown_for=timedelta(seconds=0 if since is None else at - since),
            lingered=memory.lingered,
        )

    async def _find(self, names: Iterable[str]) -> Host | None:
        """Find the host by the first of the names that is known."""
        for name in names:
            host = await self._compute.hosts.get(name)
            if host is not None:
                return host if host.up or host.forced_down else await self._anew(host)
        return None

    async def _anew(self, host: Host) -> Host:
        """Read a host that seems down past every cache: perhaps only its reports are cut off."""
        try:
            return await self._compute.hosts.get(host.name, fresh=True) or host
        except ComputeError:
            return host  # what answers for this host alone is silent, too

    async def _instances(self, situation: Situation, memory: Memory) -> Facts:
        """Read the servers on the host, and what the host does not show of its instances."""
        facts = situation.facts
        host = facts.host.name if facts.host is not None else facts.source
        listing, reused = await self._list(host, memory, reported(facts.hypervisor))
        memory.listing = listing
        servers = with_deaths(listing.servers, facts.hypervisor)
        facts = replace(facts, servers=servers, moves=listing.moves, reused=reused)
        sought = await _each(to_be_verified(situation.having(facts)), self._compute.moves.server)
        elsewhere = {id_: server for id_, server in sought.items() if server is not None}
        facts = replace(facts, elsewhere=elsewhere, sought=frozenset(sought))
        return replace(
            facts,
            requests=await self._requests(situation.having(facts)),
            restarts=await self._restarts(facts),
            neighbours=self._neighbours(situation.having(facts)),
            jobs=self._migrations.jobs_of(facts.source),
            groups_refused=self._compute.moves.groups_refused,
            targets=self._targets(memory),
            moment=self.moment(),
        )

    async def _list(
        self, host: str, memory: Memory, deaths: frozenset[Death]
    ) -> tuple[Listing, bool]:
        """List moves and, after a move, a death or some time, servers; return if they are known.

        Moves are read after the servers, unless those read before show how each missing server has
        left: one that leaves in between must not be neither here nor on its way.
        """
        started, known = self._clock.monotonic(), memory.listing
        recent = started - memory.listed_at <= _SERVERS_AGE
        moves: tuple[Move, ...] | None = None
        if known is not None and recent and known.deaths == deaths:
            moves = await self._compute.moves.moves(host)
            if known.goes_on_as(moves, memory.begun):
                return replace(known, moves=moves), True
        servers = await self._compute.moves.servers(host)
        if moves is None or known is None or not known.explains(moves, servers):
            moves = await self._compute.moves.moves(host)
        memory.listed_at = started
        return Listing(servers, moves, deaths), False

    async def _requests(self, situation: Situation) -> Mapping[str, tuple[ServerAction, ...]]:
        facts, owners = situation.facts, self._compute.owners
        if owners is None:
            return {}
        since = incident_of(facts.eviction, facts.hypervisor) - self._policy.planned_within

        async def read(id_: str) -> tuple[ServerAction, ...]:
            return await owners.actions(id_, since)

        return await _each(requests_to_be_read(situation), read)

    async def _restarts(self, facts: Facts) -> Mapping[str, RestartResult]:
        """Read results after the servers: a task that is shown as over has its result by then."""
        recovery = self._compute.recovery
        if recovery is None:
            return {}
        since = (facts.eviction.metadata.creationTimestamp or facts.moment.now) - CLOCK_SKEW

        async def read(id_: str) -> RestartResult:
            return await recovery.restarted(id_, since)

        return await _each(restarts_to_be_read(facts), read)

    def _neighbours(self, situation: Situation) -> Mapping[str, Hypervisor]:
        """Return the Hypervisors of hosts on which instances may run unknown to the service."""
        facts, dead = situation.facts, situation.course is Course.EVACUATE
        targets = targets_to_check(facts.servers, facts.moves, source_is_dead=dead)
        if not targets:
            return {}
        return {
            name: hypervisor
            for hypervisor in self._hypervisors
            for name in host_names(hypervisor)
            if name in targets and not is_claimed(hypervisor)
        }

    def _targets(self, memory: Memory) -> tuple[str, ...] | None:
        fresh = self._clock.monotonic() - memory.targets_at <= _TARGETS_AGE
        return memory.targets if fresh else None

    async def _capacity(self, facts: Facts, questions: Questions, memory: Memory) -> Facts:
        first = questions.next
        servers = questions.servers if first is None else (*questions.servers, first)
        if not servers:
            return facts
        candidates = await self._candidates(servers, facts.networks)
        if first is not None:
            memory.targets = tuple(candidate.host for candidate in candidates[need(first)])
            memory.targets_at = facts.moment.at
        return replace(facts, candidates=candidates, targets=self._targets(memory))

    async def _candidates(
        self, servers: Iterable[Server], networks: Networks
    ) -> Mapping[Need, tuple[Capacity, ...]]:
        """Return the hosts that could take a server, for each need among the servers."""
        by_need = {need(server): server for server in servers}

        async def read(kind: Need) -> tuple[Capacity, ...]:
            return networks.without_broken(await self._compute.moves.candidates(by_need[kind]))

        return await _each(by_need, read)

    async def _count(self, situation: Situation, memory: Memory, left: frozenset[str]) -> Facts:
        """Read the compute service's count of servers on the host, past every cache.

        Moves to the host are read before: a server that one of them has brought since is counted.
        """
        facts = situation.facts
        if memory.host is None:
            return facts
        incoming: tuple[Move, ...] = ()
        if is_to_be_empty(facts, situation.course):
            incoming = await self._compute.moves.incoming(memory.host.name)
        host = await self._compute.hosts.get(memory.host.name, fresh=True)
        if host is None:  # for now: the next pass reads it again
            memory.host = None
            return facts
        since = memory.counted_since
        waited = timedelta(seconds=0 if since is None else facts.moment.at - since)
        return replace(
            facts,
            counted=frozenset(host.servers),
            counted_for=waited,
            incoming=incoming,
            left={} if incoming else await self._whereabouts(situation, left),
        )

    async def _whereabouts(
        self, situation: Situation, left: frozenset[str]
    ) -> Mapping[str, Whereabouts]:
        """Read where the instances are that have left, which a move's record does not show."""
        facts = situation.facts
        targets = whereabouts.expected(facts, left)
        known = whereabouts.reported(targets, self._hypervisors)
        since = incident_of(facts.eviction, facts.hypervisor) - self._policy.planned_within
        reader = whereabouts.WhereaboutsReader(self._compute)
        return await reader.read(targets, known, whereabouts.ran(situation, left), since)


def _is_to_end_empty(eviction: Eviction) -> bool:
    """Whether the Eviction goes on until nothing runs on the host."""
    going = eviction.metadata.deletionTimestamp is None and not has_ended(eviction.status)
    return going and ends_empty(eviction.spec)


def _would_succeed(plan: EvictionPlan) -> bool:
    return plan.end is not None and plan.end.reason is EvictionReason.SUCCEEDED


async def _each(
    keys: Iterable[_K], read: Callable[[_K], Coroutine[object, object, _A]]
) -> dict[_K, _A]:
    """Read each item, some at a time."""
    turn = asyncio.Semaphore(_AT_ONCE)

    async def read_one(key: _K) -> _A:
        async with turn:
            return await read(key)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = {key: group.create_task(read_one(key)) for key in keys}
    except BaseExceptionGroup as errors:
        raise sole(errors) from errors
    return {key: task.result() for key, task in tasks.items()}


def _is_doubted(memory: Memory, hypervisor: Hypervisor | None, at: float) -> bool:
    """Whether the host may have changed: after a time, or when a condition differs."""
    conditions = hypervisor.conditions if hypervisor is not None else ()
    disabled = is_true(conditions, HypervisorConditionType.HYPERVISOR_DISABLED)
    host = memory.host
    outdated = host is not None and (
        (disabled and host.enabled)
        or (hypervisor is not None and is_fenced(hypervisor) and not is_dead(hypervisor, host))
    )
    return outdated or at - memory.host_at > _HOST_AGE
