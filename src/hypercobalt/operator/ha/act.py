"""Takes the action of a plan: at most one a pass, and each call to a device once."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from msgspec.structs import replace as with_fields

from hypercobalt.adapters.fencing.port import Cuts
from hypercobalt.api.core import Node
from hypercobalt.api.eviction import Eviction
from hypercobalt.api.fencing import Fencing, FencingMethod
from hypercobalt.api.hypervisor import Hypervisor, Maintenance
from hypercobalt.api.hypervisor_conditions import RecoveryBlockedReason
from hypercobalt.compute.errors import ComputeError
from hypercobalt.compute.leadership import LeaderGuard
from hypercobalt.compute.model import Host
from hypercobalt.errors import ConfigurationError, HypercobaltError
from hypercobalt.ha.host_failure import fencing_record, rebooting, unfencing
from hypercobalt.ha.host_failure.fencing import Fence
from hypercobalt.logs import get_logger
from hypercobalt.operator.ha.devices.fences import (
    give_back,
    power_cycle,
    read_off,
    switch_off,
    vanished,
)
from hypercobalt.operator.ha.metrics import HaMetrics
from hypercobalt.operator.ha.model.facts import RecoveryFacts
from hypercobalt.operator.ha.model.plan import (
    BEFORE,
    AskPeers,
    DeleteEviction,
    Evict,
    ForceDown,
    RecoveryPlan,
    SetMaintenance,
    TakeBack,
)
from hypercobalt.operator.ha.observe import Sources
from hypercobalt.operator.ha.observing.fleet import CensusCache
from hypercobalt.operator.ha.observing.peers import Peers
from hypercobalt.operator.ha.recording.attempts import Attempts
from hypercobalt.operator.ha.settings import HaSettings
from hypercobalt.runtime import AlreadyExistsError, Clock, Kube, Recorder
from hypercobalt.runtime.client.errors import ConflictError

log = get_logger(__name__)


class RecoveryActions:
    """Targets of the actions.

    Args:
        sources: see there.
        kube: writes as the HA service.
        fleet: counts a host as recovering before the write that shows it.
        peers: has other hosts' agents probe this one.
        attempts: an attempt is taken out before its call.
        settings: of the site.
        guard: raises when this process does not lead; called right before a host is switched off.
        clock: times answers to attempts.
        events: for people.
        metrics: of attempts and steps.
    """

    def __init__(
        self,
        sources: Sources,
        kube: Kube,
        fleet: CensusCache,
        *,
        peers: Peers,
        attempts: Attempts,
        settings: HaSettings,
        guard: LeaderGuard,
        clock: Clock,
        events: Recorder,
        metrics: HaMetrics,
    ) -> None:
        self._sources, self._kube, self._fleet, self._peers = sources, kube, fleet, peers
        self._attempts, self._settings = attempts, settings
        self._guard, self._clock = guard, clock
        self._events, self._metrics = events, metrics

    async def take(self, facts: RecoveryFacts, plan: RecoveryPlan) -> RecoveryPlan:
        """Take the plan's action, and return the plan with the result."""
        hypervisor = facts.hypervisor
        if plan.action is not None:
            kind = type(plan.action).__name__
            self._metrics.recoveries.labels(kind).inc()
            log.info("ha_action", hypervisor=hypervisor.metadata.name, action=kind)
        match plan.action:
            case None:
                return plan
            case AskPeers():
                await self._peers.request(hypervisor)
            case SetMaintenance():
                await self._set_maintenance(hypervisor, plan.action)
            case Fence(record, reached_by):
                return await self._fence(facts, plan, record, reached_by)
            case unfencing.GiveBack(record):
                return await self._give_back(facts, plan, record)
            case rebooting.Reboot(record):
                return await self._reboot(facts, plan, record)
            case ForceDown(record):
                return await self._force_down(facts, plan, record)
            case TakeBack(host, record):
                return await self._take_back(plan, host, record)
            case Evict(eviction):
                await self._evict(eviction)
            case DeleteEviction(eviction):
                await self.delete(eviction)
        return plan

    async def _evict(self, wanted: Eviction) -> None:
        """Create the Eviction of a failure; an Eviction of that name for another host is deleted.

        Every agent can predict the name, so another one may hold it: the recovery waits until it is
        free.
        """
        try:
            await self._kube.create(wanted)
        except AlreadyExistsError:
            present = await self._kube.get(Eviction, wanted.metadata.name)
            if present is None or present.spec.hypervisor == wanted.spec.hypervisor:
                return  # the watch reports it
            log.warning(
                "recovery_name_taken",
                eviction=wanted.metadata.name,
                host=wanted.spec.hypervisor,
                by=present.spec.hypervisor,
            )
            await self.delete(present)

    async def delete(self, eviction: Eviction) -> None:
        """Delete an Eviction, unless another one has its name by now."""
        meta = eviction.metadata
        with suppress(ConflictError):
            await self._kube.delete(Eviction, meta.name, uid=meta.uid)

    async def _set_maintenance(self, hypervisor: Hypervisor, action: SetMaintenance) -> None:
        notes = {k: v for k, v in hypervisor.metadata.annotations.items() if k != BEFORE}
        if action.before:
            notes[BEFORE] = action.before
        wanted = with_fields(
            hypervisor,
            metadata=with_fields(hypervisor.metadata, annotations=notes),
            spec=with_fields(hypervisor.spec, maintenance=action.mode),
        )
        if action.mode == Maintenance.HA:
            self._fleet.begin(hypervisor)
        name = hypervisor.metadata.name
        try:
            async with self._sources.hypervisors.turn(name):
                self._sources.hypervisors.wrote(await self._kube.patch(hypervisor, wanted))
        finally:
            self._fleet.written(name)

    async def _fence(
        self, facts: RecoveryFacts, plan: RecoveryPlan, record: Fencing, reached_by: str
    ) -> RecoveryPlan:
        """Switch the host off, or cut it off; called once, also if it fails.

        A host that one peer reaches is not cut off; the devices only read whether it is already.
        """
        name, now = facts.hypervisor.metadata.name, self._clock.now()
        self._attempts.pop(name, None)
        within = (record.deadline or now) - now
        cuts = Cuts.STORAGE if record.method == FencingMethod.STORAGE else Cuts.POWER
        node = await self._node(facts.hypervisor)
        fences = self._sources.fences
        setup = await fences.version(node)  # before the call: a later change counts
        try:
            devices = await fences.devices(node, cuts)
            if reached_by:
                answer = await read_off(devices, cuts, within, reached_by)
            else:
                answer = await switch_off(devices, cuts, within, self._guard)
        except ConfigurationError as error:
            text = str(error)
            answer = fencing_record.DeviceAnswer(False, text, acts_late=False, refused=text)
        except HypercobaltError as error:
            answer = fencing_record.DeviceAnswer(False, str(error))
        answer = replace(answer, setup=setup)
        self._guard()
        self._metrics.fences.labels("off" if answer.off else "failed").inc()
        log.warning("host_fenced", hypervisor=name, cuts=cuts, off=answer.off, answer=answer.text)
        return replace(plan, fencing=fencing_record.answered(record, answer, self._clock.now()))

    async def _give_back(
        self, facts: RecoveryFacts, plan: RecoveryPlan, record: Fencing
    ) -> RecoveryPlan:
        """Give the host its storage back; called once, also if it fails."""
        name, now = facts.hypervisor.metadata.name, self._clock.now()
        self._attempts.pop(name, None)
        within = (record.unfenceDeadline or now) - now
        node = await self._node(facts.hypervisor)
        try:
            devices = await self._sources.fences.devices(node, Cuts.STORAGE)
            problem = await give_back(devices, within, self._guard)
        except HypercobaltError as error:
            problem = str(error)
        self._guard()
        log.warning("host_unfenced", hypervisor=name, problem=problem)
        if problem:
            text = f"The host is back, but not its access to the storage: {problem}"
            blocked = (RecoveryBlockedReason.GATES_CLOSED, text)
            return replace(plan, blocked=blocked, look_again=self._settings.poll)
        return replace(plan, fencing=unfencing.given_back(record))

    async def _reboot(
        self, facts: RecoveryFacts, plan: RecoveryPlan, record: Fencing
    ) -> RecoveryPlan:
        """Reboot the host by its fence device; called once, also if it fails."""
        name, now = facts.hypervisor.metadata.name, self._clock.now()
        self._attempts.pop(name, None)
        within = (record.rebootDeadline or now) - now
        node = await self._node(facts.hypervisor)
        try:
            devices = await self._sources.fences.devices(node, Cuts.POWER)
            problem, ordered = await power_cycle(devices, within, self._guard)
        except HypercobaltError as error:
            problem, ordered = str(error), False
        self._guard()
        log.warning("host_rebooted", hypervisor=name, problem=problem)
        title, done = facts.fence.power.devices, self._clock.now()
        if not problem:
            text = f"{title} has switched the host off and on: its boot {record.bootID} was fenced"
            self._events.record(
                facts.hypervisor, "Normal", "HostRebooted", text, action="RecoveringHost"
            )
        record = rebooting.answered(record, problem, title, done, ordered=ordered)
        return replace(plan, fencing=record)

    async def _force_down(
        self, facts: RecoveryFacts, plan: RecoveryPlan, record: Fencing
    ) -> RecoveryPlan:
        if facts.host is None:
            return plan
        try:
            await self._sources.compute.hosts.force_down(facts.host)
        except ComputeError as error:
            text = f"The host is proven dead, but not forced down yet: {error}"
            blocked = (RecoveryBlockedReason.GATES_CLOSED, text)
            return replace(plan, blocked=blocked, look_again=self._settings.poll)
        at = self._clock.now().replace(microsecond=0)
        return replace(plan, fencing=with_fields(record, forcedDownAt=at))

    async def _take_back(self, plan: RecoveryPlan, host: Host, record: Fencing) -> RecoveryPlan:
        try:
            await self._sources.compute.hosts.take_back(host)
        except ComputeError as error:
            text = f"The host is back, but not in the compute service yet: {error}"
            blocked = (RecoveryBlockedReason.GATES_CLOSED, text)
            return replace(plan, blocked=blocked, look_again=self._settings.poll)
        return replace(plan, fencing=record)

    async def _node(self, hypervisor: Hypervisor) -> Node:
        return await self._sources.kube.get(Node, hypervisor.metadata.name) or vanished(hypervisor)
