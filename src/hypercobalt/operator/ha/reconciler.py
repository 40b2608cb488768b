"""One pass over a host: observe, decide, act, then one write of the status."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace as with_fields

from hypercobalt.adapters.fencing.port import Cuts
from hypercobalt.api.core import Node
from hypercobalt.api.eviction import Eviction
from hypercobalt.api.fencing import (
    ASSERTED_DEAD,
    RECORD,
    Fencing,
    FencingMethod,
    FencingPhase,
    as_record,
)
from hypercobalt.api.hypervisor import Hypervisor, Maintenance, is_fenced
from hypercobalt.api.hypervisor_conditions import RecoveryBlockedReason
from hypercobalt.compute.errors import ComputeError
from hypercobalt.compute.leadership import LeaderGuard
from hypercobalt.compute.model import Host
from hypercobalt.errors import (
    ConfigurationError,
    HypercobaltError,
    TerminalError,
    TransientError,
)
from hypercobalt.ha.host_failure import fencing_record, rebooting, unfencing
from hypercobalt.ha.host_failure.node_failure import Contradicted, Returned, Well
from hypercobalt.logs import get_logger
from hypercobalt.operator.ha.decide import decide
from hypercobalt.operator.ha.devices.fences import (
    give_back,
    power_cycle,
    read_off,
    switch_off,
    vanished,
)
from hypercobalt.operator.ha.metrics import HaMetrics
from hypercobalt.operator.ha.model.facts import (
    BEFORE,
    AskPeers,
    DeleteEviction,
    Evict,
    Facts,
    Fence,
    ForceDown,
    GiveBack,
    Plan,
    Reboot,
    SetMaintenance,
    TakeBack,
)
from hypercobalt.operator.ha.observe import Observation, World
from hypercobalt.operator.ha.observing.peers import Peers
from hypercobalt.operator.ha.planning.keeping import is_over, is_silent, is_to_be_kept
from hypercobalt.operator.ha.recording import conditions
from hypercobalt.operator.ha.recording.departed import departed, without
from hypercobalt.operator.ha.recording.phase import recovery
from hypercobalt.operator.ha.settings import HaSettings
from hypercobalt.operator.shared.evictions import FINALIZER, is_recovery
from hypercobalt.operator.shared.status_writer import Part, StatusWriter
from hypercobalt.runtime import AlreadyExistsError, Clock, Recorder, Result
from hypercobalt.runtime.client.errors import ConflictError as StaleError
from hypercobalt.runtime.finalizer import Finalizer

log = get_logger(__name__)

NAME: Final = "host-failure"

_TRIES: Final = 4
"""Writes of a status that others change at the same time."""


class HostFailureReconciler:
    """The shell around `decide`.

    Args:
        world: sources of the observations, and targets of the writes.
        observation: makes the facts.
        peers: has other hosts' agents probe this one.
        statuses: writes the status.
        settings: of the site.
        guard: raises when this process does not lead; called right before a host is switched off.
        clock: times answers to attempts, and writes.
        events: for people.
        metrics: of attempts, steps and closed gates.
    """

    def __init__(
        self,
        world: World,
        observation: Observation,
        peers: Peers,
        statuses: StatusWriter,
        settings: HaSettings,
        *,
        guard: LeaderGuard,
        clock: Clock,
        events: Recorder,
        metrics: HaMetrics,
    ) -> None:
        self._world, self._observation, self._peers = world, observation, peers
        self._kube, self._statuses = world.kube.as_manager(NAME), statuses
        self._settings, self._guard, self._clock = settings, guard, clock
        self._events, self._metrics = events, metrics
        metrics.count_unhealthy(lambda: observation.fleet.census().unwell)
        self._finalizer = Finalizer(FINALIZER, self._kube, world.hypervisors)
        self._mine: dict[str, datetime] = {}
        """Deadlines of attempts that this process has recorded and not called yet."""
        self._doubted: dict[str, datetime] = {}
        """Requests for which doubted answers were reported, by host."""

    async def reconcile(self, name: str, /) -> Result:
        try:
            return await self._pass(name)
        except TerminalError as error:
            # Nothing of a dead host changes that would lead to another pass.
            raise TransientError(str(error)) from error

    async def _pass(self, name: str) -> Result:
        if self._observation.is_quiet(name):
            self._metrics.judged(name, ())
            await self._peers.forget(name)
            return Result()
        facts = await self._observation.facts(name, self._mine.get(name))
        if facts is None:
            self._metrics.judged(name, ())
            self._mine.pop(name, None)
            if (left := self._world.hypervisors.get(name)) is not None:
                await self._finalizer.remove(left)
            return Result()
        if is_to_be_kept(facts) and await self._is_held_now(facts.hypervisor):
            return Result(timedelta(0))
        plan = decide(facts, self._settings)
        over = isinstance(facts.verdict, Well | Returned | Contradicted)
        self._metrics.judged(name, () if over else facts.gates)
        if over:
            await self._peers.forget(name)
        self._report_peers(facts)
        done = await self._act(facts, plan)
        done = replace(done, recovery=recovery(facts, done, self._settings))
        await self._write(facts, done)
        await self._take_out_departed(facts)
        if is_over(facts):
            await self._let_go(facts)
        return Result(done.look_again)

    def _report_peers(self, facts: Facts) -> None:
        """Name peers whose report on a silent host does not count, once for each question."""
        question, name = facts.question, facts.hypervisor.metadata.name
        if question is None or not is_silent(facts):
            self._doubted.pop(name, None)
            return
        found = (*question.contradicted, *question.alone)
        if not found or self._doubted.get(name) == question.sent:
            return
        self._doubted[name] = question.sent
        for one in found:
            log.warning("peer_doubted", hypervisor=name, peer=one.peer, text=one.text)
            text = f"{one.peer} alone reports that {name} answers: {one.text or 'no evidence'}"
            peer = self._world.hypervisors.get(one.peer)
            for about in (facts.hypervisor, *((peer,) if peer is not None else ())):
                self._events.record(about, "Warning", "PeerDoubted", text, action="RecoveringHost")

    async def _take_out_departed(self, facts: Facts) -> None:
        """Have the status of a dead host list no instances that run elsewhere now."""
        gone, host = departed(facts), facts.host
        if not gone or host is None:
            return
        name, boot = facts.hypervisor.metadata.name, facts.hypervisor.status.bootID
        try:
            left = await self._world.compute.moves.servers(host.name) if host.servers else ()
        except ComputeError:
            return  # it is read again in the next pass

        def taken_out(found: Hypervisor) -> Hypervisor:
            """Leave alone the status that an agent which is back has written."""
            if found.status.bootID != boot or not is_fenced(found):
                return found
            return with_fields(found, status=without(found.status, gone, left))

        async with self._world.hypervisors.turn(name):
            written = await self._kube.modify(Hypervisor, name, taken_out, subresource="status")
            if written is not None:
                log.info("departed_instances_taken_out", hypervisor=name, count=len(gone))
                self._world.hypervisors.wrote(written)

    async def _let_go(self, facts: Facts) -> None:
        """Let a Hypervisor go, with the Evictions that were made while it was being deleted."""
        if facts.hypervisor.metadata.deletionTimestamp is not None:
            for one in filter(is_recovery, facts.evictions):
                await self._delete(one)
        await self._finalizer.remove(facts.hypervisor)

    async def _delete(self, eviction: Eviction) -> None:
        meta = eviction.metadata
        with suppress(StaleError):  # another has its name by now
            await self._kube.delete(Eviction, meta.name, uid=meta.uid)

    async def _is_held_now(self, hypervisor: Hypervisor) -> bool:
        """Keep the Hypervisor until its recovery is over, and return whether that is new."""
        if self._finalizer.is_on(hypervisor) or hypervisor.metadata.deletionTimestamp is not None:
            return False
        return await self._finalizer.add(hypervisor) is not None

    async def _act(self, facts: Facts, plan: Plan) -> Plan:
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
            case GiveBack(record):
                return await self._give_back(facts, plan, record)
            case Reboot(record):
                return await self._reboot(facts, plan, record)
            case ForceDown(record):
                return await self._force_down(facts, plan, record)
            case TakeBack(host, record):
                return await self._take_back(plan, host, record)
            case Evict(eviction):
                await self._evict(eviction)
            case DeleteEviction(eviction):
                await self._delete(eviction)
        return plan

    async def _evict(self, wanted: Eviction) -> None:
        """Create the Eviction of a failure; an Eviction of that name for another host is deleted.

        Every agent can predict the name, so another one may hold it: the recovery waits until it is
        free.
        """
        try:
            await self._kube.create(wanted)
        except AlreadyExistsError:
            found = await self._kube.get(Eviction, wanted.metadata.name)
            if found is None or found.spec.hypervisor == wanted.spec.hypervisor:
                return  # the watch reports it
            log.warning(
                "recovery_name_taken",
                eviction=wanted.metadata.name,
                host=wanted.spec.hypervisor,
                by=found.spec.hypervisor,
            )
            await self._delete(found)

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
            self._observation.fleet.begin(hypervisor)
        name = hypervisor.metadata.name
        try:
            async with self._world.hypervisors.turn(name):
                self._world.hypervisors.wrote(await self._kube.patch(hypervisor, wanted))
        finally:
            self._observation.fleet.written(name)

    async def _fence(self, facts: Facts, plan: Plan, record: Fencing, reached_by: str) -> Plan:
        """Switch the host off, or cut it off; called once, also if it fails.

        A host that one peer reaches is not cut off; the devices only read whether it is already.
        """
        name, now = facts.hypervisor.metadata.name, self._clock.now()
        self._mine.pop(name, None)
        within = (record.deadline or now) - now
        cuts = Cuts.STORAGE if record.method == FencingMethod.STORAGE else Cuts.POWER
        node = await self._world.kube.get(Node, name) or vanished(facts.hypervisor)
        fences = self._world.fences
        setup = await fences.version(node)  # before the call: a later change counts
        try:
            devices = await fences.devices(node, cuts)
            if reached_by:
                answer = await read_off(devices, cuts, within, reached_by)
            else:
                answer = await switch_off(devices, cuts, within, self._guard)
        except ConfigurationError as error:
            text = str(error)
            answer = fencing_record.Answer(False, text, acts_late=False, refused=text)
        except HypercobaltError as error:
            answer = fencing_record.Answer(False, str(error))
        answer = replace(answer, setup=setup)
        self._guard()
        self._metrics.fences.labels("off" if answer.off else "failed").inc()
        log.warning("host_fenced", hypervisor=name, cuts=cuts, off=answer.off, answer=answer.text)
        return replace(plan, fencing=fencing_record.answered(record, answer, self._clock.now()))

    async def _give_back(self, facts: Facts, plan: Plan, record: Fencing) -> Plan:
        """Give the host its storage back; called once, also if it fails."""
        name, now = facts.hypervisor.metadata.name, self._clock.now()
        self._mine.pop(name, None)
        within = (record.unfenceDeadline or now) - now
        node = await self._world.kube.get(Node, name) or vanished(facts.hypervisor)
        try:
            devices = await self._world.fences.devices(node, Cuts.STORAGE)
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

    async def _reboot(self, facts: Facts, plan: Plan, record: Fencing) -> Plan:
        """Reboot the host by its fence device; called once, also if it fails."""
        name, now = facts.hypervisor.metadata.name, self._clock.now()
        self._mine.pop(name, None)
        within = (record.rebootDeadline or now) - now
        node = await self._world.kube.get(Node, name) or vanished(facts.hypervisor)
        try:
            devices = await self._world.fences.devices(node, Cuts.POWER)
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

    async def _force_down(self, facts: Facts, plan: Plan, record: Fencing) -> Plan:
        if facts.host is None:
            return plan
        try:
            await self._world.compute.hosts.force_down(facts.host)
        except ComputeError as error:
            text = f"The host is proven dead, but not forced down yet: {error}"
            blocked = (RecoveryBlockedReason.GATES_CLOSED, text)
            return replace(plan, blocked=blocked, look_again=self._settings.poll)
        at = self._clock.now().replace(microsecond=0)
        return replace(plan, fencing=with_fields(record, forcedDownAt=at))

    async def _take_back(self, plan: Plan, host: Host, record: Fencing) -> Plan:
        try:
            await self._world.compute.hosts.take_back(host)
        except ComputeError as error:
            text = f"The host is back, but not in the compute service yet: {error}"
            blocked = (RecoveryBlockedReason.GATES_CLOSED, text)
            return replace(plan, blocked=blocked, look_again=self._settings.poll)
        return replace(plan, fencing=record)

    async def _write(self, facts: Facts, plan: Plan) -> None:
        hypervisor, name = facts.hypervisor, facts.hypervisor.metadata.name
        part = conditions.part(hypervisor, plan, self._clock.now())
        deadline = new_deadline(hypervisor.fencing, plan.fencing)
        if deadline is not None:
            # Noted before: of a write that fails it is not known whether it was stored.
            self._mine[name] = deadline
            # A host whose last attempt has failed is not counted until this one is stored.
            self._observation.fleet.begin(hypervisor)
        try:
            if plan.removes_assertion:
                await self._remove_assertion(hypervisor)
            written = await self._record(hypervisor, plan.fencing)
            part = await self._put(written, plan, part)
        finally:
            if deadline is not None:
                self._observation.fleet.written(name)
        for note in conditions.notes(hypervisor, part):
            self._events.record(
                hypervisor, note.type, note.reason, note.text, action="RecoveringHost"
            )

    async def _remove_assertion(self, hypervisor: Hypervisor) -> None:
        """Remove the annotation of a disproved assertion, which would count in the next silence."""
        meta = hypervisor.metadata
        if (boot := meta.annotations.get(ASSERTED_DEAD)) is None:
            return

        def without(found: Hypervisor) -> Hypervisor:
            """Keep an annotation that a person has set to another boot meanwhile."""
            kept = found.metadata.annotations.items() - {(ASSERTED_DEAD, boot)}
            notes = dict(sorted(kept))
            return with_fields(found, metadata=with_fields(found.metadata, annotations=notes))

        log.warning("fencing_assertion_removed", hypervisor=meta.name, boot=boot)
        async with self._world.hypervisors.turn(meta.name):
            if (written := await self._kube.modify(Hypervisor, meta.name, without)) is None:
                return
            self._world.hypervisors.wrote(written)
        text = (
            f"Removed the annotation {ASSERTED_DEAD}={boot}: the host has reported since it was "
            "set; set it again when the host is dead"
        )
        self._events.record(
            hypervisor, "Warning", "FencingAssertionRemoved", text, action="RecoveringHost"
        )

    async def _record(self, hypervisor: Hypervisor, record: Fencing | None) -> Hypervisor:
        """Store the record of the fencing, before the status shows it.

        What a device has answered must not be lost to a write of another controller.
        """
        if record is None or record == hypervisor.fencing:
            return hypervisor

        def changed(found: Hypervisor) -> Hypervisor:
            """Leave alone a record that another process has changed meanwhile."""
            if found.fencing != hypervisor.fencing:
                return found
            notes = {**found.metadata.annotations, RECORD: as_record(record)}
            return with_fields(found, metadata=with_fields(found.metadata, annotations=notes))

        name = hypervisor.metadata.name
        async with self._world.hypervisors.turn(name):
            written = await self._kube.modify(Hypervisor, name, changed)
            if written is None or written.fencing != record:
                text = f"Hypervisor {name}: its fencing was recorded by another process"
                raise TransientError(text)
            return self._world.hypervisors.wrote(written)

    async def _put(self, hypervisor: Hypervisor, plan: Plan, part: Part) -> Part:
        """Write the status, also over a newer one of a host whose record is as it was stored."""
        name, found = hypervisor.metadata.name, hypervisor
        for _ in range(_TRIES):
            try:
                await self._statuses.put(found, part)
            except StaleError:
                newest = await self._kube.get(Hypervisor, name)
                if newest is None or newest.fencing != plan.fencing:
                    raise
                found = self._world.hypervisors.wrote(newest)
                part = conditions.part(found, plan, self._clock.now())
            else:
                return part
        await self._statuses.put(found, part)
        return part


def new_deadline(stored: Fencing | None, record: Fencing | None) -> datetime | None:
    """Return the deadline of an attempt that is not stored yet; None if there is none."""
    if record is None:
        return None
    known = stored.unfenceDeadline if stored is not None else None
    if record.unfenceDeadline not in {None, known}:
        return record.unfenceDeadline
    known = stored.rebootDeadline if stored is not None else None
    if record.rebootDeadline not in {None, known}:
        return record.rebootDeadline
    if record.phase != FencingPhase.ATTEMPTING:
        return None
    same = stored is not None and (stored.phase, stored.deadline) == (record.phase, record.deadline)
    return None if same else record.deadline
