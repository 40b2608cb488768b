"""Effects of one step of a pass on the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import cast

import pytest
from msgspec.structs import replace
from tests.unit.operator.lifecycle.facts import HOST, ON, facts
from tests.unit.operator.lifecycle.steps import steps
from tests.unit.operator.samples import condition

from hypercobalt.api.conditions import Condition
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.compute.errors import RefusedError, UnreachableError
from hypercobalt.compute.fake import FakeCompute
from hypercobalt.errors import HypercobaltError
from hypercobalt.operator.lifecycle.drift import Drift
from hypercobalt.operator.lifecycle.reads import Reads
from hypercobalt.operator.lifecycle.reconciler import LifecycleReconciler
from hypercobalt.operator.lifecycle.step import PATIENCE, LifecycleFacts, LifecycleStep, StepOutcome
from hypercobalt.operator.shared.status_writer import Part, StatusWriter, compose
from hypercobalt.runtime import FakeClock, Kube, Metrics, Recorder
from hypercobalt.runtime.write_cache import WriteCache


@dataclass
class Doing:
    """A step that does what a test gives it."""

    name: str
    act: Callable[[LifecycleFacts], StepOutcome]
    reads: Reads = Reads()  # noqa: RUF009 - frozen

    async def run(self, facts: LifecycleFacts) -> StepOutcome:
        return self.act(facts)


@dataclass
class Written:
    """Takes the place of what the controllers share, and of the status' writer."""

    hypervisor: Hypervisor
    parts: list[Part] = field(default_factory=list[Part])

    def as_manager(self, _name: str) -> Written:
        return self

    def get(self, _name: str) -> Hypervisor:
        return self.hypervisor

    async def put(self, stored: Hypervisor, part: Part) -> Hypervisor:
        self.parts.append(part)
        return stored

    def record(self, *_about: object, **_more: object) -> None:
        """Events are not looked at here."""


def fails(error: HypercobaltError) -> Callable[[LifecycleFacts], StepOutcome]:
    def act(_facts: LifecycleFacts) -> StepOutcome:
        raise error

    return act


def sets_disabled(facts: LifecycleFacts) -> StepOutcome:
    return StepOutcome(facts.with_condition("HypervisorDisabled", "True", "Succeeded", "text"))


def made(
    around: Written, *steps: LifecycleStep, clock: FakeClock | None = None
) -> LifecycleReconciler:
    found = Doing("registration", lambda given: StepOutcome(registered(given)))
    clock = clock or FakeClock()
    return LifecycleReconciler(
        cast("Kube", around),
        cast("WriteCache[Hypervisor]", around),
        cast("StatusWriter", around),
        found,
        steps,
        drift=Drift(FakeCompute(clock.now), list, timedelta(minutes=1), clock=clock),
        clock=clock,
        metrics=Metrics(),
        events=cast("Recorder", around),
    )


def registered(given: LifecycleFacts) -> LifecycleFacts:
    return LifecycleFacts(given.hypervisor, HOST, given.now)


@pytest.mark.parametrize("error", [RefusedError("Forbidden", code=403), UnreachableError("away")])
async def test_error_of_one_step_leaves_the_others_and_the_status_and_is_tried_again(
    error: HypercobaltError,
) -> None:
    known = facts().hypervisor
    around = Written(replace(known, spec=replace(known.spec, lifecycleEnabled=False)))
    reconciler = made(around, Doing("aggregates", fails(error)), Doing("service", sets_disabled))
    if isinstance(error, UnreachableError):
        with pytest.raises(UnreachableError):
            await reconciler.reconcile("kvm-a")
    else:
        result = await reconciler.reconcile("kvm-a")
        assert result.requeue_after == PATIENCE
    (part,) = around.parts
    assert [c.message for c in part.conditions] == ["text"]


async def test_time_since_when_a_condition_waits_outlasts_a_pass() -> None:
    clock, around = FakeClock(), Written(facts().hypervisor)

    def waits(given: LifecycleFacts) -> StepOutcome:
        return StepOutcome(given.with_condition("Offboarded", "False", "W", "text", waits_for="it"))

    for _ in range(2):
        await made(around, Doing("offboarding", waits), clock=clock).reconcile("kvm-a")
        status = compose(around.hypervisor, around.parts, lambda _: ())
        around.hypervisor = replace(around.hypervisor, status=status)
        clock.advance(timedelta(minutes=1))
    before, after = ((part.conditions, part.fields["waits"]) for part in around.parts)
    assert before == after
    assert around.hypervisor.status.waits[0].waitsFor == "it"


LEAVING = replace(ON, maintenance="termination")


@pytest.mark.parametrize(
    ("old", "new", "worth"),
    [
        pytest.param(facts(), facts(numInstances=3), False, id="an instance came"),
        pytest.param(
            facts(spec=LEAVING, numInstances=1),
            facts(spec=LEAVING, numInstances=0),
            True,
            id="the last instance left a host that leaves",
        ),
        pytest.param(
            facts(condition("NodeHealthy", "True", "Healthy"), spec=LEAVING),
            facts(condition("NodeHealthy", "Unknown", "Unreachable"), spec=LEAVING),
            True,
            id="the Node of a host that leaves is unreachable",
        ),
        pytest.param(
            facts(condition("AgentReporting", "True", "Reporting")),
            facts(condition("AgentReporting", "False", "AgentSilent")),
            True,
            id="the node agent is silent",
        ),
        pytest.param(
            facts(condition("Ready", "True", "Ready")),
            facts(condition("Ready", "False", "AgentSilent")),
            False,
            id="what is computed from the rest",
        ),
        pytest.param(
            facts(spec=replace(ON, version="1")),
            facts(spec=replace(ON, version="2")),
            False,
            id="a field that the node agent acts on",
        ),
        pytest.param(
            facts(spec=ON),
            facts(spec=replace(ON, customTraits=("CUSTOM_A",))),
            True,
            id="a field that a step acts on",
        ),
    ],
)
def test_pass_follows_only_relevant_changes_of_others(
    old: LifecycleFacts, new: LifecycleFacts, worth: bool
) -> None:
    reconciler = made(Written(old.hypervisor), *steps())
    assert reconciler.worth_a_pass(old.hypervisor, new.hypervisor) is worth


def at(given: LifecycleFacts, version: int) -> Hypervisor:
    """The host of a pass, as the watch shows it at a version."""
    known = given.hypervisor
    return replace(known, metadata=replace(known.metadata, resourceVersion=str(version)))


MANUAL = facts(spec=replace(ON, maintenance="manual"))
CONNECTED = condition("LibVirtConnection", "True", "Connected")


@pytest.mark.parametrize(
    ("others", "again"),
    [
        pytest.param((), None, id="nothing but the pass's own write"),
        pytest.param((CONNECTED,), timedelta(0), id="the node agent's report"),
    ],
)
async def test_write_during_a_pass_leads_to_another_one_only_if_others_made_it(
    others: tuple[Condition, ...], again: timedelta | None
) -> None:
    around = Written(at(MANUAL, 1))

    def enables(given: LifecycleFacts) -> StepOutcome:
        after = given.with_condition("HaEnabled", "False", "Evicted", "The host is empty")
        meanwhile = after.with_status(conditions=(*after.hypervisor.conditions, *others))
        around.hypervisor = at(meanwhile, 2)  # the watch is faster than the answer
        assert not reconciler.worth_a_pass(at(given, 1), around.hypervisor)
        return StepOutcome(after)

    reconciler = made(around, Doing("ha", enables, steps()[4].reads))
    result = await reconciler.reconcile("kvm-a")
    assert result.requeue_after == again


async def test_state_that_a_pass_has_replaced_leads_to_no_other_pass() -> None:
    around = Written(at(MANUAL, 3))
    reconciler = made(around, Doing("service", sets_disabled), *steps()[1:2])
    await reconciler.reconcile("kvm-a")
    (part,) = around.parts
    older, own = at(MANUAL, 2), at(MANUAL.with_status(conditions=part.conditions), 3)
    assert not reconciler.worth_a_pass(None, older)
    assert not reconciler.worth_a_pass(older, own)
    assert reconciler.worth_a_pass(own, at(MANUAL, 4))  # a client removed the condition
