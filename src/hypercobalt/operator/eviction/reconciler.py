"""One pass over an Eviction: observe, assess, plan, act, record.

A pass may be the first after a crash: which moves are under way is read from the compute service
before any is begun. Progress is written about once a second, what programs wait for at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Final

from hypercobalt.api.eviction import FINALIZER, Eviction, EvictionStatus
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.logs import get_logger
from hypercobalt.operator.agents.launcher_pods import LauncherPods
from hypercobalt.operator.eviction.act import Actions
from hypercobalt.operator.eviction.assess import assess
from hypercobalt.operator.eviction.assessing.case import CLOCK_SKEW
from hypercobalt.operator.eviction.assessing.claims import held_by
from hypercobalt.operator.eviction.assessing.situation import Situation
from hypercobalt.operator.eviction.memory import Memories, Memory
from hypercobalt.operator.eviction.metrics import EvictionMetrics
from hypercobalt.operator.eviction.model.actions import Restart
from hypercobalt.operator.eviction.model.claims import MOST_NOTED, REASON, claims
from hypercobalt.operator.eviction.model.decision import EvictionPlan
from hypercobalt.operator.eviction.model.facts import Facts
from hypercobalt.operator.eviction.model.policy import Policy
from hypercobalt.operator.eviction.model.states import Assessment
from hypercobalt.operator.eviction.observe import Observer
from hypercobalt.operator.eviction.observing.migrations import Migrations
from hypercobalt.operator.eviction.plan import plan, questions
from hypercobalt.operator.eviction.planning.calls import with_outcomes
from hypercobalt.operator.eviction.planning.cancel import cancel
from hypercobalt.operator.eviction.planning.starts import as_of
from hypercobalt.operator.eviction.recording.notes import notes
from hypercobalt.operator.eviction.recording.status import pending, status_of, write_after
from hypercobalt.operator.eviction.turns import AGAIN, HostTurns, Turn
from hypercobalt.operator.shared.wording import Note
from hypercobalt.runtime import Kube, Recorder, Result
from hypercobalt.runtime.finalizer import Finalizer
from hypercobalt.runtime.write_cache import WriteCache

log = get_logger(__name__)

NAME: Final = "eviction"


class EvictionReconciler:
    """Makes the passes.

    Args:
        kube: writes status and finalizer, as this controller.
        evictions: all of the shard, with this controller's own writes.
        observer: reads the facts of a pass.
        actions: makes its calls.
        policy: of the site.
        events: for people.
        migrations: follows the migrations of hosts from which moves are under way.
        launchers: follows the launcher pods of hosts that are emptied.
        hypervisor: returns the Hypervisor of a host that claims an instance.
        turns: gives the Evictions of agents theirs.
        metrics: of Evictions.
    """

    def __init__(
        self,
        kube: Kube,
        evictions: WriteCache[Eviction],
        observer: Observer,
        actions: Actions,
        policy: Policy,
        *,
        events: Recorder,
        migrations: Migrations,
        launchers: LauncherPods,
        hypervisor: Callable[[str], Hypervisor | None],
        turns: HostTurns,
        metrics: EvictionMetrics,
    ) -> None:
        self._hypervisor, self._metrics = hypervisor, metrics
        self._kube, self._events, self._evictions = kube, events, evictions
        self._observer, self._actions, self._policy = observer, actions, policy
        self._migrations, self._launchers, self._turns = migrations, launchers, turns
        self._memories = Memories(policy)
        self._finalizer = Finalizer(FINALIZER, kube, evictions)

    async def reconcile(self, name: str, /) -> Result:
        eviction = self._evictions.get(name)
        if eviction is None:
            self._turns.forget(name)
            self._forget(name)
            return Result()
        match self._turns.begin(eviction):
            case Turn.NEVER:
                log.warning("surplus_eviction_deleted", hypervisor=eviction.spec.hypervisor)
                await self._kube.delete(Eviction, name, uid=eviction.metadata.uid)
                return Result()
            case Turn.LATER:
                return Result(AGAIN)
            case Turn.NOW:
                pass
        try:
            return await self._pass(name, eviction)
        finally:
            self._turns.end(self._evictions.get(name) or eviction)

    async def _pass(self, name: str, eviction: Eviction) -> Result:
        memory = self._memories.of(eviction)
        situation = await self._observer.look(eviction, memory)
        if situation.settled is not None:
            return await self._record(situation, situation.settled, memory)
        if not situation.facts.is_deleted:
            kept = await self._finalizer.add(eviction)  # before anything is begun
            if kept is None:
                return Result()
            situation = situation.having(replace(situation.facts, eviction=kept))
        situation = situation.having(
            replace(situation.facts, held=held_by(situation, self._evictions.all()))
        )
        self._note_claims(situation.facts, memory)
        instances = assess(situation, memory.tracks)
        moment = situation.facts.moment
        self._memories.ended(memory.timings.observe(instances, moment), moment.at)
        situation, planned = await self._plan(situation, instances, memory)
        if any(isinstance(action, Restart) for action in planned.actions.values()):
            # Nothing else shows that a restart was begun: it is written first.
            status = self._status(situation, planned, memory)
            await self._write(situation.facts, status, memory, at_once=True)
        return await self._record(
            situation, await self._act(situation.facts, planned, memory), memory
        )

    async def _plan(
        self, situation: Situation, instances: tuple[Assessment, ...], memory: Memory
    ) -> tuple[Situation, EvictionPlan]:
        if situation.facts.is_deleted:
            return situation, cancel(situation, instances)
        name = situation.facts.eviction.metadata.name
        before = self._memories.others(self._evictions.all(), name)
        situation = await self._observer.answer(
            situation, questions(situation, instances, before), memory
        )
        if situation.settled is not None:
            return situation, situation.settled
        # From here to the load nothing is awaited: another Eviction must not take the same places.
        others = as_of(before, self._memories.others(self._evictions.all(), name))
        limits = self._memories.limits(situation.facts.moment.at)
        situation = situation.having(replace(situation.facts, limits=limits))
        planned = plan(situation, instances, others, memory.timings)
        memory.load = planned.load or memory.load
        return situation, planned

    async def _act(self, facts: Facts, planned: EvictionPlan, memory: Memory) -> EvictionPlan:
        """Make the calls, and return the plan with the instances as they are afterwards."""
        if planned.instances is None:
            return planned
        # Remembered before the calls: if this pass is cut off, the next one does not repeat them.
        memory.tracks = {instance.id: instance.track for instance in planned.instances}
        outcomes = await self._actions.perform(facts.source, planned.actions)
        moment = self._observer.moment()
        instances = with_outcomes(
            planned.instances, planned.actions, outcomes, self._policy, moment
        )
        memory.tracks = {instance.id: instance.track for instance in instances}
        memory.timings.observe(instances, moment)
        memory.listing = memory.listing if planned.quiet else None
        if memory.counted(moment.at, lingering=planned.lingering):
            name = facts.eviction.metadata.name
            log.info("instances_counted_but_not_listed", eviction=name)
        return replace(planned, instances=instances)

    async def _record(self, situation: Situation, planned: EvictionPlan, memory: Memory) -> Result:
        facts = replace(situation.facts, moment=self._observer.moment())
        eviction, name = facts.eviction, facts.eviction.metadata.name
        status = self._status(situation.having(facts), planned, memory)
        for note in notes(facts.status, status, facts.source):
            self._note(eviction, note)
        memory.status = status
        waits = await self._write(facts, status, memory, at_once=planned.release)
        if planned.left_behind:
            log.warning("cancelled_late", eviction=name, text=planned.left_behind)
            self._note(eviction, Note("Warning", "CancelledLate", planned.left_behind))
        if planned.release:
            self._forget(name)
            await self._finalizer.remove(self._evictions.get(name) or eviction)
            return Result()
        if any(instance.occupies for instance in planned.instances or ()):
            self._migrations.follow(name, facts.source)
        due = [wait for wait in (planned.look_again, waits) if wait is not None]
        return Result(min(due, default=None))

    def _status(
        self, situation: Situation, planned: EvictionPlan, memory: Memory
    ) -> EvictionStatus:
        waiting = [s.size.memory_mib for s in pending(planned.instances or (), situation.order)]
        at = situation.facts.moment.at
        left = memory.timings.seconds_left(waiting, situation.most_at_once, at)
        return status_of(situation.facts, planned, situation.order, left)

    async def _write(
        self, facts: Facts, status: EvictionStatus, memory: Memory, *, at_once: bool
    ) -> timedelta | None:
        """Write the status, if it is time, and return how long it waits otherwise."""
        written, at = self._evictions.get(facts.eviction.metadata.name), facts.moment.at
        if written is None:
            return None
        waits = write_after(written.status, status, at - memory.written_at)
        if waits is None or (waits > timedelta(0) and not at_once):
            return waits
        self._evictions.wrote(await self._kube.patch_status(written, status))
        memory.written_at = at
        return None

    def _note_claims(self, facts: Facts, memory: Memory) -> None:
        """Show claims on both hosts, each once for each Eviction, and a few of many."""
        began = facts.eviction.metadata.creationTimestamp or facts.moment.now
        present = claims(facts.moves, began - CLOCK_SKEW, facts.source)
        for claim in present:
            if claim in memory.claims:
                continue
            self._metrics.claims.inc()
            log.warning(
                "instance_claimed", hypervisor=claim.by, server=claim.server, text=claim.text
            )
            memory.noted += 1
            if memory.noted > MOST_NOTED:
                continue
            more = f"; of further instances see the Eviction {facts.eviction.metadata.name}"
            text = f"{claim.text}{more if memory.noted == MOST_NOTED else ''}"
            for about in (self._hypervisor(claim.by), facts.hypervisor):
                if about is not None:
                    self._events.record(about, "Warning", REASON, text, action="Evicting")
        memory.claims = frozenset(present)

    def _forget(self, name: str) -> None:
        self._memories.forget(name)
        self._migrations.release(name)
        self._launchers.release(name)

    def _note(self, eviction: Eviction, note: Note) -> None:
        self._events.record(eviction, note.type, note.reason, note.text, action="Evicting")
