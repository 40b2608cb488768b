"""Reads the present state of a host: facts that may lead to fencing never come from a cache.

A host that is well, and is not being recovered, costs no read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.core import Node
from hypercobalt.api.eviction import Eviction, Trigger, has_ended
from hypercobalt.api.fencing import FencingPhase
from hypercobalt.api.hypervisor import Hypervisor, Maintenance, is_fenced
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType, RecoveryBlockedReason
from hypercobalt.compute.errors import ComputeError
from hypercobalt.compute.model import Host
from hypercobalt.compute.port import ComputeService, Fleet
from hypercobalt.ha.crash_loop import loop
from hypercobalt.ha.host_failure.assertions import LastReports
from hypercobalt.ha.host_failure.census import HostState
from hypercobalt.ha.host_failure.doubts import LatestReports, held, unconfirmed
from hypercobalt.ha.host_failure.guard import Gate, GatedHost, ObserverState, closures, gates
from hypercobalt.ha.host_failure.node_failure import AgentLiveness, Alive, Signs, judge
from hypercobalt.ha.host_failure.storms import Storms, followed, inherited, pauses
from hypercobalt.operator.agents.leases import AgentLeases, LeaseSighting, LeaseState
from hypercobalt.operator.ha.devices.fences import Fences, vanished
from hypercobalt.operator.ha.devices.power import PowerReader
from hypercobalt.operator.ha.model.facts import RecoveryFacts
from hypercobalt.operator.ha.observing import fleet
from hypercobalt.operator.ha.observing.locks import lock_refusals
from hypercobalt.operator.ha.observing.looks import Looks
from hypercobalt.operator.ha.observing.peers import Peers
from hypercobalt.operator.ha.observing.signs import (
    asserted_death,
    declared_dead,
    fell,
    gates_opened,
    powered_since,
    reported_at,
    stopped,
    with_power,
    with_record,
)
from hypercobalt.operator.ha.observing.silenced import is_abandoned, is_kept, silenced
from hypercobalt.operator.ha.settings import HaSettings
from hypercobalt.operator.shared.evictions import FINALIZER, is_whole
from hypercobalt.operator.shared.node_facts import host_names, is_its_own
from hypercobalt.runtime import Cache, Clock, Kube
from hypercobalt.runtime.write_cache import WriteCache

_LISTED: Final = 5.0
"""Seconds that a listing of the compute service's hosts counts as fresh, for all hosts together."""

_AGENT: Final[Mapping[LeaseState, AgentLiveness]] = {
    LeaseState.RENEWED: AgentLiveness.ALIVE,
    LeaseState.UNRENEWED: AgentLiveness.UNKNOWN,
    LeaseState.RELEASED: AgentLiveness.RELEASED,
    LeaseState.EXPIRED: AgentLiveness.SILENT,
    LeaseState.ABSENT: AgentLiveness.SILENT,
}


@dataclass(frozen=True, slots=True)
class Sources:
    """Sources of the observations of a host.

    Args:
        kube: reads objects as they are now.
        nodes: those that are hypervisors.
        hypervisors: what the controllers share.
        leases: of the node agents.
        evictions: those of a Hypervisor, by its name.
        compute: where the instances are.
        fences: the devices of the site.
        power: reads the power of hosts that are proven dead.
        contact: age of the last contact of each watch, by its kind.
        leads: whether this process holds its lease.
    """

    kube: Kube
    nodes: Cache[Node]
    hypervisors: WriteCache[Hypervisor]
    leases: AgentLeases
    evictions: Callable[[str], Iterable[Eviction]]
    compute: ComputeService
    fences: Fences
    power: PowerReader
    contact: Callable[[], Mapping[str, timedelta | None]]
    leads: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class _Compute:
    """Report of the compute service: the host, whether it answers, why it cannot be read."""

    host: Host | None = None
    answers: bool | None = None
    problem: str = ""


class Observation:
    """Makes the facts of a pass.

    Args:
        sources: see there.
        peers: what other hosts' agents answer.
        settings: of the site.
        clock: the only one of the decisions.
    """

    def __init__(self, sources: Sources, peers: Peers, settings: HaSettings, clock: Clock) -> None:
        self._sources, self._peers = sources, peers
        self._settings, self._clock = settings, clock
        self.fleet = fleet.CensusCache(self._states, clock, self._counted)
        self._storms: Storms | None = None  # before the first look
        self._listing: tuple[float, Fleet] | None = None
        self._hindrance = ""  # of the compute service, as of that listing
        self._lock, self._looks = asyncio.Lock(), Looks(clock)

    def is_quiet(self, name: str) -> bool:
        """Whether the host is well and nothing on it has to be brought to an end."""
        hypervisor = self._sources.hypervisors.get(name)
        if hypervisor is None:
            return True
        status = hypervisor.status
        fencing = hypervisor.fencing
        open_ = fencing is not None and fencing.phase != FencingPhase.RELEASED
        open_ = open_ or status.fencing != fencing  # it shows what is not recorded
        in_ha = hypervisor.spec.maintenance == Maintenance.HA
        blocked = get_condition(status.conditions, HypervisorConditionType.RECOVERY_BLOCKED)
        noted = blocked is not None and blocked.reason != RecoveryBlockedReason.NOT_NEEDED
        held = FINALIZER in hypervisor.metadata.finalizers
        node = self._sources.nodes.get(name)
        well = fleet.ready(node) in {"True", ""}
        asserted = bool(
            status.assertion or (node is not None and asserted_death(hypervisor, node).by)
        )
        unwell = status.unhealthySince or status.recovery
        looping = bool(loop(status.recentBoots, self._clock.now()))
        return well and not (unwell or open_ or in_ha or noted or held or looping or asserted)

    async def facts(self, name: str, mine: datetime | None) -> RecoveryFacts | None:
        """Return all facts about a host; None when it is gone, or its Node while it was well.

        A host that was silent when its Node was deleted is as silent as it was.

        Nothing is awaited after the gates were checked: a caller that begins a recovery at once,
        and notes it in `fleet`, is counted by the next one.

        Args:
            name: of the Hypervisor.
            mine: deadline of the attempt that this process has recorded for it.
        """
        sources = self._sources
        power = await sources.power.of(name)  # first: a device may take its time
        lease = await sources.leases.of(name)
        hypervisor = await sources.kube.get(Hypervisor, name)
        node = await sources.kube.get(Node, name)
        if hypervisor is None or (node is None and not is_kept(hypervisor)):
            return None
        sources.hypervisors.wrote(hypervisor)
        node = node or vanished(hypervisor)
        renewed_at = await self._renewed_at(hypervisor, node, lease)
        compute = await self._compute(hypervisor)
        evictions = tuple(
            eviction
            for eviction in sources.evictions(name)
            if eviction.metadata.deletionTimestamp is None and is_whole(eviction)
        )
        now = self._clock.now()
        signs = self._signs(hypervisor, node, lease, compute, evictions)
        verdict = judge(signs, self._settings.waits, now)
        fence = sources.fences.setup(node)
        if hypervisor.fencing is not None and hypervisor.fencing.refused:
            fence = replace(fence, version=await sources.fences.version(node))
        reports = LastReports(renewed_at, reported_at(node))
        asserted = with_power(asserted_death(hypervisor, node), power, fence.power.devices)
        asserted = with_record(asserted, hypervisor.status.assertion, reports, now)
        silence = silenced(hypervisor, compute.host, evictions)
        abandoned = is_abandoned(silence, counts_servers=sources.compute.counts_servers)
        needs_fence = not isinstance(verdict, Alive) and not is_fenced(hypervisor)
        no_boot = "" if hypervisor.status.bootID else "no boot ID of the host was ever reported"
        unfit = (no_boot or fence.problem) if needs_fence else ""
        unstored = await self._unstored(hypervisor, compute.host)
        refusals = await lock_refusals(hypervisor, sources.compute)
        subject = self._subject(hypervisor, silence, unfit)
        return RecoveryFacts(
            hypervisor=hypervisor,
            verdict=verdict,
            ready=signs.ready,
            latest=LatestReports(
                signs.node_boot,
                lease.renewed_at if lease is not None else None,
                power,
                agent=signs.agent is AgentLiveness.ALIVE,
                in_use=held(refusals),
            ),
            silenced=silence,
            abandoned=abandoned and not compute.problem,
            gates=self._gates(subject, compute.problem, now),
            host=compute.host,
            evictions=evictions,
            fence=fence,
            stopped=stopped(hypervisor),
            asserted=asserted.text if not asserted.doubt else "",
            rejected=asserted.doubt,
            assertion=asserted.record,
            mine=mine,
            now=now,
            question=signs.question,
            refusal=unconfirmed(refusals),
            unstored=unstored,
            fell=self._fell() if is_fenced(hypervisor) and evictions else {},
        )

    async def _renewed_at(
        self, hypervisor: Hypervisor, node: Node, lease: LeaseSighting | None
    ) -> str | None:
        """Return when the agent last renewed, read again while that may disprove an assertion.

        A renewal from before the assertion, which the watch shows after it, disproves nothing.
        """
        if lease is None:
            return None
        asserted = asserted_death(hypervisor, node).by
        return await self._sources.leases.renewed_at(lease) if asserted else lease.renewed_at

    def _fell(self) -> Mapping[str, datetime]:
        """Return the hosts that are proven dead, by their names in the compute service."""
        return {
            name: since
            for hypervisor in self._sources.hypervisors.all()
            if is_fenced(hypervisor) and (since := fell(hypervisor)) is not None
            for name in host_names(hypervisor)
        }

    async def _unstored(self, hypervisor: Hypervisor, host: Host | None) -> frozenset[str] | None:
        """Return what the Hypervisor must not be deleted for yet; see `RecoveryFacts`."""
        if hypervisor.metadata.deletionTimestamp is None or not is_fenced(hypervisor):
            return frozenset()
        if host is None:
            return None
        try:
            return await self._sources.compute.hosts.unstored(host)
        except ComputeError:
            return None

    def _subject(self, hypervisor: Hypervisor, silence: str, unfit: str) -> GatedHost:
        """Return the host as the gates see it, with why it may not be recovered or fenced."""
        return GatedHost(
            hypervisor.metadata.name,
            fleet.domains(hypervisor, self._settings.domain_labels),
            fleet.instances(hypervisor),
            fleet.memory_mib(hypervisor),
            silenced=silence,
            fence=unfit,
            boot=hypervisor.status.bootID or "",
            opened=gates_opened(hypervisor),
        )

    def _gates(self, subject: GatedHost, problem: str, now: datetime) -> tuple[Gate, ...]:
        """Return every gate's answer; a closed one about many hosts pauses recovery.

        Args:
            subject: the host.
            problem: why the compute service cannot be read; "" when it was.
            now: the clock of the decision.
        """
        census, limits = self.fleet.census(), self._settings.limits
        before = self._storms if self._storms is not None else self._inherited(now)
        storms = followed(before, closures(subject, census, limits, now), limits, now)
        self._storms = storms
        observer = ObserverState(
            self._sources.leads(),
            self._sources.contact(),
            problem or self._hindrance,
            pauses(storms),
        )
        return gates(subject, census, observer, limits, now)

    def _inherited(self, now: datetime) -> Storms:
        """Return the storms of the last leader, which may have found a gate closed."""
        blocked = (
            get_condition(hypervisor.conditions, HypervisorConditionType.RECOVERY_BLOCKED)
            for hypervisor in self._sources.hypervisors.all()
        )
        reasons = {condition.reason for condition in blocked if condition is not None}
        many = RecoveryBlockedReason.MANY_HOSTS in reasons
        return inherited(self._settings.limits, now) if many else {}

    def _signs(
        self,
        hypervisor: Hypervisor,
        node: Node,
        lease: LeaseSighting | None,
        compute: _Compute,
        evictions: Iterable[Eviction],
    ) -> Signs:
        info, status = node.status.nodeInfo, hypervisor.status
        agent = _AGENT[lease.state] if lease is not None else AgentLiveness.UNKNOWN
        if lease is not None and lease.state is LeaseState.ABSENT and lease.left:
            agent = AgentLiveness.UNKNOWN
        shutdown = any(
            eviction.spec.trigger == Trigger.HOST_SHUTDOWN and not has_ended(eviction.status)
            for eviction in evictions
        )
        return Signs(
            ready=fleet.ready(node),
            node_boot=info.bootID if info is not None else "",
            boot=status.bootID or "",
            agent=agent,
            compute=compute.answers,
            silence=self._sources.compute.silence,
            loops=bool(loop(status.recentBoots, self._clock.now())),
            leaving=shutdown or (lease is not None and lease.released),
            unhealthy_since=status.unhealthySince,
            fenced=declared_dead(hypervisor),
            powered_since=powered_since(hypervisor, node),
            question=self._peers.question(hypervisor.metadata.name),
        )

    async def _compute(self, hypervisor: Hypervisor) -> _Compute:
        """Return the host, listed within the last seconds, and whether it answers now."""
        hosts = self._sources.compute.hosts
        try:
            host = _listed(await self._list(), hypervisor)
        except ComputeError as error:
            return _Compute(problem=str(error))
        if host is None:
            return _Compute()
        fresh = await self._looks.at(hosts, host, hypervisor.status.bootID or "")
        return _Compute(fresh, fresh.up) if fresh is not None else _Compute()

    async def _list(self) -> Fleet:
        async with self._lock:
            now = self._clock.monotonic()
            if self._listing is None or now - self._listing[0] > _LISTED:
                hosts = self._sources.compute.hosts
                listing = await hosts.fleet()
                self._listing, self._hindrance = (now, listing), await hosts.hindrance()
            return self._listing[1]

    def _counted(self, hypervisor: Hypervisor) -> int:
        """See `fleet.Counted`: none where the compute service has the host's own word only."""
        if self._listing is None or not self._sources.compute.counts_servers:
            return 0
        host = _listed(self._listing[1], hypervisor)
        return len(host.servers) if host is not None else 0

    def _states(self) -> Iterable[HostState]:
        sources, labels = self._sources, self._settings.domain_labels
        settled = self._clock.now() - self._settings.waits.healthy
        for hypervisor in sources.hypervisors.all():
            name = hypervisor.metadata.name
            lease = sources.leases.glance(name)
            yield fleet.state(
                hypervisor, sources.nodes.get(name), lease, labels, settled, counted=self._counted
            )


def _listed(listing: Fleet, hypervisor: Hypervisor) -> Host | None:
    """Return the host of a Hypervisor in a listing.

    A kubelet may write the name by which the host is found: another host's name does not count.
    """
    known = (listing.get(name) for name in host_names(hypervisor))
    own = hypervisor.status.serviceId
    host = next(
        (known_host for known_host in known if known_host and own in {None, known_host.service_id}),
        None,
    )
    return host if host is not None and is_its_own(hypervisor, host) else None
