"""`AggregatesUpdated`: the host is in just those aggregates that it should be in.

These depend on how far the host is: its zone and the test aggregate while it is tested, the
aggregates of the spec in service, none at the end. They are compared with Nova's. An aggregate of
another availability zone is left before one is entered: Nova lets a host be in one zone only, and
refuses a change of zone while servers run there. So zones are set before the first server.

Source: openstack-hypervisor-operator, internal/controller/aggregates_controller.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from hypercobalt.api.conditions import ConditionStatus
from hypercobalt.api.hypervisor import Hypervisor, Maintenance, is_evicted
from hypercobalt.api.hypervisor_conditions import AggregatesReason, OnboardingReason
from hypercobalt.api.hypervisor_status import Aggregate
from hypercobalt.compute.errors import (
    ComputeConflictError,
    ComputeError,
    RefusedError,
    UnreachableError,
)
from hypercobalt.compute.model import Host, HostAggregate
from hypercobalt.compute.port import Aggregates, ComputeService
from hypercobalt.errors import HypercobaltError
from hypercobalt.logs import get_logger
from hypercobalt.operator.lifecycle.reads import Reads
from hypercobalt.operator.lifecycle.step import PATIENCE, LifecycleFacts, StepOutcome, Type
from hypercobalt.operator.shared.node_facts import ZONE_LABEL

log = get_logger(__name__)

NAME: Final = "aggregates"
_ZONE: Final = "availability_zone"
_Why = AggregatesReason


@dataclass(frozen=True, slots=True)
class DesiredAggregates:
    """Aggregates that a host should be in now.

    Args:
        names: of aggregates; None leaves it where it is.
        status: of the condition once the host is in them.
        reason: of the condition once the host is in them.
        message: of the condition once the host is in them.
    """

    names: tuple[str, ...] | None
    status: str
    reason: AggregatesReason
    message: str


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One call of the compute service.

    Args:
        aggregate: to enter, or to leave.
        enter: which of the two.
    """

    aggregate: HostAggregate
    enter: bool


@dataclass(frozen=True, slots=True)
class AggregatePlan:
    """Calls of one pass.

    Args:
        changes: in their order.
        missing: wanted names that no aggregate has; nothing is changed then.
    """

    changes: tuple[AggregateCall, ...] = ()
    missing: tuple[str, ...] = ()


def desired(facts: LifecycleFacts, test_aggregate: str) -> DesiredAggregates | None:
    """Return where the host should be; None while the operator does not manage that.

    Args:
        facts: of the pass.
        test_aggregate: name; "" for none.
    """
    spec, onboarding = facts.hypervisor.spec, facts.condition(Type.ONBOARDING)
    if not spec.lifecycleEnabled or facts.host is None:
        return None
    if spec.maintenance == Maintenance.TERMINATION:
        if is_evicted(facts.hypervisor):
            return DesiredAggregates(
                (), "False", _Why.TERMINATING, "Aggregates cleared: the host is leaving"
            )
        text = "Aggregates stay until the host is empty"
        return DesiredAggregates(None, "False", _Why.EVICTION_IN_PROGRESS, text)
    if onboarding is None:
        return None
    if onboarding.status == ConditionStatus.TRUE:
        if onboarding.reason != OnboardingReason.HANDOVER:
            return _in_test(facts, test_aggregate)
        if not facts.holds(Type.TRAITS_UPDATED, "True"):
            test = None if facts.host.servers else _in_test(facts, test_aggregate)
            text = "Aggregates stay until the traits are set"
            return DesiredAggregates(
                test.names if test else None, "False", _Why.WAITING_FOR_TRAITS, text
            )
    elif onboarding.reason == OnboardingReason.ABORTED:
        return None
    wanted = tuple(dict.fromkeys(spec.aggregates))
    return DesiredAggregates(wanted, "True", _Why.SUCCEEDED, "Aggregates updated")


def _in_test(facts: LifecycleFacts, test_aggregate: str) -> DesiredAggregates | None:
    zone = facts.hypervisor.metadata.labels.get(ZONE_LABEL, "")
    if not zone:
        return None  # onboarding reports that
    names = tuple(name for name in (zone, test_aggregate) if name)
    return DesiredAggregates(
        names, "False", _Why.TEST_AGGREGATES, "The host is in the aggregates for its test"
    )


def decide(host: Host, wanted: Iterable[str], known: Sequence[HostAggregate]) -> AggregatePlan:
    """Decide which aggregates to enter and to leave.

    Args:
        host: as Nova has it.
        wanted: names, each once.
        known: all aggregates.
    """
    here = [one for one in known if host.name in one.hosts]
    targets: list[HostAggregate] = []
    missing: list[str] = []
    for name in wanted:
        # Names need not be unique: an aggregate that the host is in already suffices.
        found = next((one for one in (*here, *known) if one.name == name), None)
        if found is None:
            missing.append(name)
        else:
            targets.append(found)
    if missing:
        return AggregatePlan(missing=tuple(missing))
    entered = {one.id for one in targets}
    zones = {one.metadata[_ZONE] for one in targets if _ZONE in one.metadata}
    leave = [one for one in here if one.id not in entered]
    first = [one for one in leave if one.metadata.get(_ZONE, "") not in ({"", *zones})]
    enter = [one for one in targets if host.name not in one.hosts]
    last = [one for one in leave if one not in first]
    # With no zone to enter, the old one is left last, as the others are.
    first, last = (first, last) if zones else ([], leave)
    return AggregatePlan(
        (
            *(AggregateCall(one, enter=False) for one in first),
            *(AggregateCall(one, enter=True) for one in enter),
            *(AggregateCall(one, enter=False) for one in last),
        )
    )


def is_settled(hypervisor: Hypervisor, names: Iterable[str]) -> bool:
    """Whether the host was last in exactly the aggregates of these names."""
    return {one.name for one in hypervisor.status.aggregates} == set(names)


class AggregateSync:
    """The shell around `desired` and `decide`."""

    name = NAME
    reads = Reads(
        fields=frozenset({"spec.lifecycleEnabled", "spec.maintenance", "spec.aggregates"}),
        labels=frozenset({ZONE_LABEL}),
    )

    def __init__(self, service: ComputeService, test_aggregate: str) -> None:
        self._service, self._test = service, test_aggregate

    async def run(self, facts: LifecycleFacts) -> StepOutcome:
        wanted = desired(facts, self._test)
        if wanted is None or facts.host is None:
            return StepOutcome(facts)
        service = self._service.aggregates
        if service is None:
            return StepOutcome(_none(facts, wanted, self._service.name))
        if wanted.names is None or (NAME, *wanted.names) in facts.compared:
            return StepOutcome(_set(facts, wanted))
        try:
            return await self._sync(facts, facts.host, wanted, wanted.names, service)
        except UnreachableError as error:
            so = facts.holds(Type.AGGREGATES_UPDATED, wanted.status, wanted.reason)
            if so and is_settled(facts.hypervisor, wanted.names):
                return StepOutcome(facts, PATIENCE, error)  # nothing is known to be wrong
            return _failed(facts, str(error), error)
        except ComputeError as error:
            return _failed(facts, str(error), error)

    async def _sync(
        self,
        facts: LifecycleFacts,
        host: Host,
        wanted: DesiredAggregates,
        names: tuple[str, ...],
        service: Aggregates,
    ) -> StepOutcome:
        settled = is_settled(facts.hypervisor, names)
        known = await service.list()
        plan = decide(host, names, known)
        if plan.missing or (settled and plan.changes):  # the list may be older than what it lacks
            known = await service.list(fresh=True)
            plan = decide(host, names, known)
        if plan.missing:
            text = f"there is no aggregate {', '.join(map(repr, plan.missing))}: create it"
            return StepOutcome(_failed(facts, text).facts)
        wrong: list[HypercobaltError] = []
        for change in plan.changes:
            try:
                await self._change(host, change, service)
            except (RefusedError, ComputeConflictError) as error:
                wrong.append(error)
        if wrong:
            return _failed(facts, "; ".join(map(str, wrong)), wrong[0])
        there = tuple(
            Aggregate(name=one.name, uuid=one.uuid, metadata=one.metadata)
            for one in _after(host, plan, known)
        )
        done = facts.with_compared(NAME, *names).with_status(aggregates=there)
        return StepOutcome(_set(done, wanted))

    async def _change(self, host: Host, change: AggregateCall, service: Aggregates) -> None:
        log.info(
            "entering_aggregate" if change.enter else "leaving_aggregate",
            host=host.name,
            aggregate=change.aggregate.name,
        )
        if change.enter:
            await service.add(change.aggregate, host.name)
        else:
            await service.remove(change.aggregate, host.name)


def _after(host: Host, plan: AggregatePlan, known: Sequence[HostAggregate]) -> list[HostAggregate]:
    changed = {change.aggregate.id: change.enter for change in plan.changes}
    there = [one for one in known if changed.get(one.id, host.name in one.hosts)]
    return sorted(there, key=lambda one: (one.name, one.id))


def _none(facts: LifecycleFacts, wanted: DesiredAggregates, service: str) -> LifecycleFacts:
    """Set the condition for a compute service without aggregates: nothing has to be done."""
    number = len(facts.hypervisor.spec.aggregates)
    ignored = f"; {number} of spec.aggregates are ignored" if number else ""
    text = f"{service} has no host aggregates{ignored}"
    shown = DesiredAggregates(None, wanted.status, wanted.reason, text)
    return _set(facts.with_status(aggregates=()), shown)


def _set(facts: LifecycleFacts, wanted: DesiredAggregates) -> LifecycleFacts:
    return facts.with_condition(
        Type.AGGREGATES_UPDATED, wanted.status, wanted.reason, wanted.message
    )


def _failed(facts: LifecycleFacts, why: str, error: HypercobaltError | None = None) -> StepOutcome:
    text = f"failed to apply aggregates: {why}"
    after = facts.with_condition(Type.AGGREGATES_UPDATED, "False", AggregatesReason.FAILED, text)
    return StepOutcome(after, PATIENCE, error)
