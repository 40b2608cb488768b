"""One pass over a host: observe, decide, act, then one write of the status."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.compute.leadership import LeaderGuard
from hypercobalt.errors import TerminalError, TransientError
from hypercobalt.ha.host_failure.node_failure import Contradicted, Returned, Well
from hypercobalt.operator.ha.act import RecoveryActions
from hypercobalt.operator.ha.decide import decide
from hypercobalt.operator.ha.lone_reports import LoneReports
from hypercobalt.operator.ha.metrics import HaMetrics
from hypercobalt.operator.ha.model.facts import RecoveryFacts
from hypercobalt.operator.ha.observe import Observation, Sources
from hypercobalt.operator.ha.observing.peers import Peers
from hypercobalt.operator.ha.planning.keeping import is_over, is_to_be_kept
from hypercobalt.operator.ha.recording.attempts import Attempts
from hypercobalt.operator.ha.recording.phase import recovery
from hypercobalt.operator.ha.settings import HaSettings
from hypercobalt.operator.ha.store import RecoveryStore
from hypercobalt.operator.shared.evictions import FINALIZER, is_recovery
from hypercobalt.operator.shared.status_writer import StatusWriter
from hypercobalt.runtime import Clock, Recorder, Result
from hypercobalt.runtime.finalizer import Finalizer

NAME: Final = "host-failure"


class HostFailureReconciler:
    """The shell around `decide`.

    Args:
        sources: sources of the observations, and targets of the writes.
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
        sources: Sources,
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
        self._sources, self._observation, self._peers = sources, observation, peers
        self._settings, self._metrics = settings, metrics
        metrics.count_unhealthy(lambda: observation.fleet.census().unwell)
        kube, fleet = sources.kube.as_manager(NAME), observation.fleet
        self._finalizer = Finalizer(FINALIZER, kube, sources.hypervisors)
        self._attempts: Attempts = {}
        self._actions = RecoveryActions(
            sources,
            kube,
            fleet,
            peers=peers,
            attempts=self._attempts,
            settings=settings,
            guard=guard,
            clock=clock,
            events=events,
            metrics=metrics,
        )
        self._store = RecoveryStore(
            sources, kube, statuses, fleet, self._attempts, clock=clock, events=events
        )
        self._lone_reports = LoneReports(sources.hypervisors, events)

    async def reconcile(self, name: str, /) -> Result:
        try:
            return await self._pass(name)
        except TerminalError as error:
            # Nothing of a dead host changes that would lead to another pass.
            raise TransientError(str(error)) from error

    async def _pass(self, name: str) -> Result:
        if self._observation.is_quiet(name):
            self._metrics.judged(name, ())
            self._lone_reports.forget(name)
            await self._peers.forget(name)
            return Result()
        facts = await self._observation.facts(name, self._attempts.get(name))
        if facts is None:
            self._metrics.judged(name, ())
            self._attempts.pop(name, None)
            if (left := self._sources.hypervisors.get(name)) is not None:
                await self._finalizer.remove(left)
            return Result()
        if is_to_be_kept(facts) and await self._is_held_now(facts.hypervisor):
            return Result(timedelta(0))
        plan = decide(facts, self._settings)
        over = isinstance(facts.verdict, Well | Returned | Contradicted)
        self._metrics.judged(name, () if over else facts.gates)
        if over:
            await self._peers.forget(name)
        self._lone_reports.report(facts)
        done = await self._actions.take(facts, plan)
        done = replace(done, recovery=recovery(facts, done, self._settings))
        await self._store.write(facts, done)
        await self._store.take_out_departed(facts)
        if is_over(facts):
            await self._let_go(facts)
        return Result(done.look_again)

    async def _let_go(self, facts: RecoveryFacts) -> None:
        """Let a Hypervisor go, with the Evictions that were made while it was being deleted."""
        if facts.hypervisor.metadata.deletionTimestamp is not None:
            for eviction in filter(is_recovery, facts.evictions):
                await self._actions.delete(eviction)
        await self._finalizer.remove(facts.hypervisor)

    async def _is_held_now(self, hypervisor: Hypervisor) -> bool:
        """Keep the Hypervisor until its recovery is over, and return whether that is new."""
        if self._finalizer.is_on(hypervisor) or hypervisor.metadata.deletionTimestamp is not None:
            return False
        return await self._finalizer.add(hypervisor) is not None
