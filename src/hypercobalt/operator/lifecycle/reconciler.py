"""One pass over a host: every step sees what the others have done, and the status is written once.

Steps run in order, again and again, until a round changes nothing: a host that needs no test goes
from its registration to `Ready` in one pass. Calls to OpenStack are not noted before the
end of the pass: each call may be made again, so a pass that dies half-way is simply repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from msgspec.structs import replace as with_fields

from hypercobalt.api.conditions import Condition, get_condition, is_true
from hypercobalt.api.eviction import Eviction
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import OnboardingReason
from hypercobalt.errors import HypercobaltError, TerminalError, TransientError
from hypercobalt.logs import get_logger
from hypercobalt.operator.lifecycle.drift import Drift
from hypercobalt.operator.lifecycle.holding import FINALIZER, has_node, is_needed, is_tested
from hypercobalt.operator.lifecycle.reads import Inputs, LastPass, Reads
from hypercobalt.operator.lifecycle.step import (
    PATIENCE,
    LifecycleFacts,
    LifecycleStep,
    StepOutcome,
    Type,
)
from hypercobalt.operator.shared.status_writer import Part, StatusWriter
from hypercobalt.runtime import Clock, Kube, Metrics, Recorder, Result
from hypercobalt.runtime.finalizer import Finalizer
from hypercobalt.runtime.write_cache import WriteCache, version_of

log = get_logger(__name__)

NAME: Final = "lifecycle"
TYPES: Final = frozenset(
    {
        Type.REGISTERED,
        Type.COMPUTE_SERVICE_UP,
        Type.ONBOARDING,
        Type.TRAITS_UPDATED,
        Type.AGGREGATES_UPDATED,
        Type.HYPERVISOR_DISABLED,
        Type.EVICTING,
        Type.INCOMING_MIGRATIONS_SETTLED,
        Type.OFFBOARDED,
    }
)
"""Conditions that the steps write, but for `HaEnabled`."""

FIELDS: Final = (
    "hypervisorId",
    "serviceId",
    "traits",
    "appliedTraits",
    "aggregates",
    "smokeTest",
    "evicted",
    "waits",
)
WRITES: Final = Reads(TYPES, frozenset(f"status.{name}" for name in FIELDS))
"""Fields that a pass puts right after others have changed them."""

_ROUNDS: Final = 8  # more than any way through the states has steps


@dataclass(slots=True)
class _Pass:
    """State that the steps of one pass have left so far."""

    facts: LifecycleFacts
    look_again: timedelta | None = None
    error: HypercobaltError | None = None
    final: bool = False

    def take(self, outcome: StepOutcome) -> None:
        self.facts = outcome.facts
        self.final = self.final or outcome.final
        self.error = outcome.error or self.error
        if outcome.look_again is not None:
            known = self.look_again
            self.look_again = min(known, outcome.look_again) if known else outcome.look_again


class LifecycleReconciler:
    """The pass.

    Args:
        kube: writes as this controller.
        hypervisors: what the controllers share.
        statuses: writes the status.
        registration: the step that finds the host; it runs once in a pass.
        steps: the others, in their order.
        drift: gets the state after each pass.
        metrics: passes, errors and times are counted for each step, under its name.
    """

    def __init__(
        self,
        kube: Kube,
        hypervisors: WriteCache[Hypervisor],
        statuses: StatusWriter,
        registration: LifecycleStep,
        steps: Sequence[LifecycleStep],
        *,
        drift: Drift,
        clock: Clock,
        metrics: Metrics,
        events: Recorder,
    ) -> None:
        self._kube, self._drift = kube.as_manager(NAME), drift
        self._hypervisors, self._statuses = hypervisors, statuses
        self._finalizer = Finalizer(FINALIZER, self._kube, hypervisors)
        self._registration, self._steps = registration, tuple(steps)
        self._clock, self._metrics, self._events = clock, metrics, events
        self._inputs = Inputs((WRITES, registration.reads, *(step.reads for step in steps)))
        self._last: dict[str, LastPass] = {}

    async def reconcile(self, name: str, /) -> Result:
        stored = self._hypervisors.get(name)
        self._last.pop(name, None)
        if stored is None or (_is_going(stored) and not self._finalizer.is_on(stored)):
            return Result()
        run = _Pass(LifecycleFacts(stored, None, self._clock.now()))
        if is_true(stored.conditions, Type.OFFBOARDED):
            await self._let_go(run)
            return Result()
        if _is_going(stored) and not is_tested(stored) and await has_node(self._kube, stored):
            log.info("hypervisor_released_before_onboarding", hypervisor=name)
            await self._finalizer.remove(stored)
            return Result()
        last = self._last[name] = LastPass(self._inputs.of(stored))
        try:
            await self._rounds(run)
            news = await self._write(stored, run, last)
        except BaseException:
            self._last.pop(name, None)
            raise
        if run.error is not None and not isinstance(run.error, TerminalError):
            raise run.error
        await self._let_go(run)
        return Result(timedelta(0) if news else run.look_again)

    async def _rounds(self, run: _Pass) -> None:
        await self._one(self._registration, run)
        soonest = run.look_again
        for _ in range(_ROUNDS):
            before, run.look_again = run.facts, soonest
            await self._round(run)
            if run.final or run.facts == before or run.error is not None:
                break

    async def _round(self, run: _Pass) -> None:
        """Run every step once; for a deleted object only the steps that end operations."""
        await self._hold(run)
        for step in self._steps:
            if _is_going(run.facts.hypervisor) and not is_needed(run.facts.hypervisor):
                return
            await self._one(step, run)
            if run.final:
                return

    async def _hold(self, run: _Pass) -> None:
        known = run.facts.hypervisor
        if self._finalizer.is_on(known) or not is_needed(known):
            return
        held = await self._finalizer.add(known)
        if held is None:
            raise TransientError(f"hypervisor {known.metadata.name}: is gone, or being deleted")
        run.facts = replace(run.facts, hypervisor=with_fields(known, metadata=held.metadata))

    async def _let_go(self, run: _Pass) -> None:
        known = run.facts.hypervisor
        if self._finalizer.is_on(known) and not is_needed(known):
            log.info("releasing_hypervisor", hypervisor=known.metadata.name)
            if _is_going(known):  # one made since then has no owner that would take it along
                await self._kube.delete(Eviction, known.metadata.name)
            await self._finalizer.remove(known)

    async def _one(self, step: LifecycleStep, run: _Pass) -> None:
        name, started = step.name, self._clock.monotonic()
        try:
            outcome = await step.run(run.facts)
        except HypercobaltError as error:
            # The others go on and the status is written; the step is tried again.
            outcome = StepOutcome(run.facts, PATIENCE, error)
        run.take(outcome)
        result = "error" if outcome.error else "requeue_after" if outcome.look_again else "success"
        self._metrics.reconcile_total.labels(name, result).inc()
        self._metrics.reconcile_seconds.labels(name).observe(self._clock.monotonic() - started)
        if outcome.error is not None:
            self._metrics.reconcile_errors.labels(name).inc()
            log.warning("step_failed", step=name, error=str(outcome.error))

    async def _write(self, stored: Hypervisor, run: _Pass, last: LastPass) -> bool:
        """Write the result of the pass, and return whether others changed the host meanwhile."""
        after = run.facts.hypervisor
        self._record_events(stored, after)
        conditions = tuple(c for c in after.conditions if c.type in TYPES)
        fields = {name: getattr(after.status, name) for name in FIELDS}
        self._drift.leave(run.facts)
        last.leave(self._inputs.of(after))
        written = await self._statuses.put(stored, Part(TYPES, conditions, fields))
        return last.end(version_of(written))

    def worth_a_pass(self, old: Hypervisor | None, new: Hypervisor | None) -> bool:
        """A predicate: a value that the steps read differs from the state after the last pass.

        The node agent writes every few seconds on a busy host, and passes write themselves: these
        writes do not count.
        """
        if new is None:
            if old is not None:
                self._last.pop(old.metadata.name, None)
                self._drift.forget(old.metadata.name)
            return False
        inputs = self._inputs.of(new)
        last = self._last.get(new.metadata.name)
        if last is not None:
            return last.is_news(inputs, version_of(new))
        return old is None or inputs != self._inputs.of(old)

    def _record_events(self, before: Hypervisor, after: Hypervisor) -> None:
        """Record Events of this pass for people: few, as each is a write."""
        for type_, new in _changes(before, after):
            failed = new.reason in ("Failed", "Aborted")
            done = type_ in (Type.ONBOARDING, Type.OFFBOARDED) and new.reason in (
                OnboardingReason.SUCCEEDED,
                "Offboarded",
            )
            if failed or done:
                self._events.record(
                    after,
                    "Warning" if failed else "Normal",
                    f"{type_}{new.reason}",
                    new.message,
                    action="Reconciling",
                )


def _is_going(hypervisor: Hypervisor) -> bool:
    return hypervisor.metadata.deletionTimestamp is not None


def _changes(before: Hypervisor, after: Hypervisor) -> Iterable[tuple[str, Condition]]:
    for new in after.conditions:
        old = get_condition(before.conditions, new.type)
        if new.type in TYPES and (
            old is None or (old.status, old.reason) != (new.status, new.reason)
        ):
            yield new.type, new
