"""Which step onboarding takes next."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.unit.operator.lifecycle.facts import ON, facts
from tests.unit.operator.samples import condition

from hypercobalt.api.conditions import Condition
from hypercobalt.api.hypervisor import HypervisorSpec
from hypercobalt.api.hypervisor_status import SmokeTest
from hypercobalt.operator.lifecycle.onboarding import (
    DELETED,
    LIFECYCLE_OFF,
    MAINTENANCE,
    TERMINATION,
    Act,
    Skip,
    decide,
    is_checked,
    may_go_on,
)
from hypercobalt.operator.lifecycle.settings import LifecycleSettings
from hypercobalt.operator.lifecycle.step import LifecycleFacts
from hypercobalt.operator.shared.ha_mode import HaMode

SETTINGS = LifecycleSettings()
OFF = HypervisorSpec(lifecycleEnabled=False)
LEAVING = HypervisorSpec(lifecycleEnabled=True, maintenance="termination")
HA = replace(ON, highAvailability=True)


def onboarding(reason: str, status: str = "True", message: str = "") -> Condition:
    return condition("Onboarding", status, reason, message)


IN_TEST = condition("AggregatesUpdated", "False", "TestAggregates")
AGGREGATES = condition("AggregatesUpdated", "True", "Succeeded")
TRAITS = condition("TraitsUpdated", "True", "Succeeded")
HANDOVER = onboarding("Handover")


@pytest.mark.parametrize(
    ("given", "act", "state"),
    [
        pytest.param(facts(), Act.NONE, "True/Initial", id="begins when registered"),
        pytest.param(facts(host=None), Act.NONE, "", id="waits to be registered"),
        pytest.param(facts(spec=OFF), Act.NONE, "", id="lifecycle off: nothing begins"),
        pytest.param(facts(onboarding("Initial")), Act.NONE, "True/Initial", id="no aggregates"),
        pytest.param(
            facts(onboarding("Initial"), IN_TEST), Act.ENABLE, "True/Testing", id="may be tested"
        ),
        pytest.param(
            facts(onboarding("Testing")), Act.NONE, "True/Testing", id="no test outside its zone"
        ),
        pytest.param(facts(onboarding("Testing"), IN_TEST), Act.TEST, "", id="is tested"),
        pytest.param(facts(HANDOVER), Act.NONE, "True/Handover", id="two missing"),
        pytest.param(
            facts(HANDOVER, AGGREGATES), Act.NONE, "True/Handover", id="traits still missing"
        ),
        pytest.param(
            facts(HANDOVER, AGGREGATES, TRAITS), Act.ENABLE, "False/Succeeded", id="all is there"
        ),
        pytest.param(
            facts(HANDOVER, AGGREGATES, TRAITS, spec=HA), Act.NONE, "True/Handover", id="HA missing"
        ),
        pytest.param(
            facts(
                HANDOVER, AGGREGATES, TRAITS, condition("HaEnabled", "True", "Succeeded"), spec=HA
            ),
            Act.ENABLE,
            "False/Succeeded",
            id="HA is there",
        ),
        pytest.param(facts(onboarding("Succeeded", "False")), Act.NONE, "", id="done"),
        pytest.param(
            facts(onboarding("Testing"), spec=OFF), Act.CLEAN_UP, "False/Aborted", id="switched off"
        ),
        pytest.param(
            facts(onboarding("Succeeded", "False"), spec=LEAVING),
            Act.NONE,
            "False/Aborted",
            id="terminated: no test server can be left",
        ),
        pytest.param(
            facts(onboarding("Initial"), spec=replace(LEAVING, skipTests=True)),
            Act.NONE,
            "False/Aborted",
            id="terminated before any test",
        ),
        pytest.param(
            facts(onboarding("Aborted", "False"), spec=LEAVING, smokeTest=SmokeTest(1)),
            Act.CLEAN_UP,
            "False/Aborted",
            id="terminated with a test server left",
        ),
        pytest.param(
            facts(onboarding("Aborted", "False", TERMINATION), spec=LEAVING),
            Act.NONE,
            "False/Aborted",
            id="aborted stays so",
        ),
        pytest.param(
            facts(onboarding("Aborted", "False", LIFECYCLE_OFF)),
            Act.NONE,
            "True/Initial",
            id="switched off and on again: begins anew",
        ),
        pytest.param(
            facts(onboarding("Aborted", "True", "cannot delete")),
            Act.NONE,
            "True/Initial",
            id="a cleanup error has a way back",
        ),
        pytest.param(
            facts(onboarding("Aborted", "True", "cannot delete"), spec=OFF),
            Act.CLEAN_UP,
            "False/Aborted",
            id="a cleanup that failed is tried again",
        ),
    ],
)
def test_next_step_of_onboarding_follows_from_the_conditions(
    given: LifecycleFacts, act: Act, state: str
) -> None:
    plan = decide(given, None, "", SETTINGS)
    assert plan.act is act
    assert (f"{plan.condition[0]}/{plan.condition[1]}" if plan.condition else "") == state


def deleted(of: LifecycleFacts) -> LifecycleFacts:
    meta = replace(of.hypervisor.metadata, deletionTimestamp=of.now)
    return dataclasses.replace(of, hypervisor=replace(of.hypervisor, metadata=meta))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (facts(onboarding("Initial"), spec=OFF), LIFECYCLE_OFF),
        (facts(onboarding("Initial"), spec=LEAVING), TERMINATION),
        (deleted(facts(onboarding("Initial"))), DELETED),
        (facts(onboarding("Initial"), spec=replace(ON, maintenance="manual")), MAINTENANCE),
    ],
)
def test_message_names_what_aborts_it(given: LifecycleFacts, message: str) -> None:
    plan = decide(given, None, "", SETTINGS)
    assert plan.condition == ("False", "Aborted", message)


def test_test_server_without_a_condition_is_deleted() -> None:
    plan = decide(facts(spec=OFF, smokeTest=SmokeTest(1)), None, "", SETTINGS)
    assert plan.act is Act.CLEAN_UP


@pytest.mark.parametrize(
    ("given", "goes_on"),
    [
        (facts(), True),
        (facts(spec=OFF), False),
        (facts(spec=replace(ON, maintenance="manual")), False),
    ],
)
def test_onboarding_goes_on_within_the_lifecycle_and_outside_maintenance(
    given: LifecycleFacts, goes_on: bool
) -> None:
    assert may_go_on(given) is goes_on


@pytest.mark.parametrize("step", ["Initial", "Testing"])
@pytest.mark.parametrize(
    ("aggregates", "message"),
    [
        pytest.param((), "Waiting for the test aggregates", id="not there yet"),
        pytest.param((AGGREGATES,), "Waiting for the test aggregates", id="in others"),
        pytest.param(
            (condition("AggregatesUpdated", "False", "Failed", "no aggregate 'tests'"),),
            "Waiting for the test aggregates: no aggregate 'tests'",
            id="refused",
        ),
    ],
)
def test_message_names_why_the_host_is_not_in_the_test_aggregates(
    aggregates: tuple[Condition, ...], message: str, step: str
) -> None:
    plan = decide(facts(onboarding(step), *aggregates), None, "", SETTINGS)
    assert plan.condition == ("True", step, message)
    assert plan.waits_for == "AggregatesUpdated"


@pytest.mark.parametrize(
    ("given", "act"),
    [
        (facts(onboarding("Initial"), spec=replace(ON, skipTests=True)), Act.NONE),
        (facts(onboarding("Testing"), smokeTest=SmokeTest(1)), Act.CLEAN_UP),
    ],
    ids=["there is none", "there is one"],
)
def test_test_server_of_a_host_that_is_no_longer_tested_is_deleted(
    given: LifecycleFacts, act: Act
) -> None:
    assert decide(given, Skip("2 servers run here", stays=True), "", SETTINGS).act is act


def test_high_availability_that_is_off_for_all_hosts_is_not_waited_for() -> None:
    given = facts(HANDOVER, AGGREGATES, TRAITS, spec=HA)
    assert decide(given, None, "", LifecycleSettings(ha=HaMode.OFF)).act is Act.ENABLE


def test_service_without_aggregates_tests_at_once() -> None:
    assert decide(facts(onboarding("Testing")), None, "", SETTINGS, grouped=False).act is Act.TEST


def test_message_names_each_condition_that_is_missing() -> None:
    traits = condition("TraitsUpdated", "False", "Failed", "Placement: 503")
    plan = decide(facts(HANDOVER, traits, spec=HA), None, "", SETTINGS)
    text = (
        "Waiting for AggregatesUpdated; TraitsUpdated (Placement: 503); "
        "HaEnabled (no node agent and no HA service has reported)"
    )
    assert plan.condition == ("True", "Handover", text)


@pytest.mark.parametrize("mode", ["manual", "auto", "ha"])
@pytest.mark.parametrize(
    ("given", "act", "state"),
    [
        pytest.param((), Act.NONE, "", id="none begins"),
        pytest.param((onboarding("Initial"), IN_TEST), Act.CLEAN_UP, "False/Aborted", id="before"),
        pytest.param((onboarding("Testing"),), Act.CLEAN_UP, "False/Aborted", id="in its test"),
        pytest.param((HANDOVER, AGGREGATES, TRAITS), Act.NONE, "False/Aborted", id="after it"),
        pytest.param(
            (onboarding("Aborted", "True", "cannot delete"),),
            Act.CLEAN_UP,
            "False/Aborted",
            id="a cleanup that failed is tried again",
        ),
        pytest.param((onboarding("Succeeded", "False"),), Act.NONE, "", id="in service"),
        pytest.param(
            (onboarding("Aborted", "False", "Smoke test failed"),), Act.NONE, "", id="failed"
        ),
    ],
)
def test_onboarding_neither_begins_nor_goes_on_in_maintenance(
    given: tuple[Condition, ...], act: Act, state: str, mode: str
) -> None:
    plan = decide(facts(*given, spec=replace(ON, maintenance=mode)), None, "", SETTINGS)
    assert plan.act is act
    assert (f"{plan.condition[0]}/{plan.condition[1]}" if plan.condition else "") == state


def test_onboarding_that_a_maintenance_aborted_begins_again_when_that_ends() -> None:
    aborted = replace(onboarding("Aborted", "False", MAINTENANCE), observedGeneration=2)
    plan = decide(facts(aborted), None, "", SETTINGS)
    assert plan.condition is not None
    assert plan.condition[:2] == ("True", "Initial")


SKIPPED, IN_SERVICE = Skip("skip-tests"), Skip("2 servers run here already", stays=True)


@pytest.mark.parametrize(
    ("given", "skip", "unmet", "state"),
    [
        pytest.param(facts(), SKIPPED, "", "Initial", id="begins as every host"),
        pytest.param(facts(onboarding("Initial")), SKIPPED, "", "Initial", id="no aggregates yet"),
        pytest.param(
            facts(onboarding("Initial"), IN_TEST), SKIPPED, "old libvirt", "Initial", id="unchecked"
        ),
        pytest.param(facts(onboarding("Initial"), IN_TEST), SKIPPED, "", "Handover", id="checked"),
        pytest.param(facts(onboarding("Testing")), SKIPPED, "", "Handover", id="while tested"),
        pytest.param(facts(), IN_SERVICE, "", "Handover", id="with servers: stays where it is"),
        pytest.param(facts(onboarding("Initial")), IN_SERVICE, "", "Handover", id="with servers"),
    ],
)
def test_host_that_is_not_tested_is_checked_all_the_same(
    given: LifecycleFacts, skip: Skip, unmet: str, state: str
) -> None:
    plan = decide(given, skip, unmet, SETTINGS)
    assert plan.condition is not None
    assert plan.condition[:2] == ("True", state)
    assert plan.act is not Act.ENABLE
    assert skip.why in plan.condition[2] or state == "Initial"


def test_service_without_aggregates_is_waited_for_with_no_aggregates() -> None:
    plan = decide(facts(onboarding("Initial")), SKIPPED, "", SETTINGS, grouped=False)
    assert plan.condition is not None
    assert plan.condition[:2] == ("True", "Handover")


def test_no_host_comes_into_service_past_a_check() -> None:
    plan = decide(facts(HANDOVER, AGGREGATES, TRAITS), IN_SERVICE, "libvirt is away", SETTINGS)
    assert (plan.act, plan.condition and plan.condition[:2]) == (Act.NONE, ("True", "Handover"))
    assert "libvirt is away" in (plan.condition or ("", "", ""))[2]


@pytest.mark.parametrize(
    ("given", "due"),
    [
        pytest.param(facts(), False, id="not begun"),
        pytest.param(facts(onboarding("Initial")), True, id="before the test"),
        pytest.param(facts(onboarding("Testing")), False, id="in the test"),
        pytest.param(facts(HANDOVER, AGGREGATES), False, id="more is missing"),
        pytest.param(facts(HANDOVER, AGGREGATES, TRAITS), True, id="at the end"),
        pytest.param(facts(onboarding("Succeeded", "False")), False, id="in service"),
        pytest.param(
            facts(onboarding("Testing"), AGGREGATES, TRAITS), False, id="in the test, all there"
        ),
        pytest.param(
            facts(onboarding("Handover", "False"), AGGREGATES, TRAITS), False, id="aborted then"
        ),
    ],
)
def test_checks_are_due_during_the_onboarding(given: LifecycleFacts, due: bool) -> None:
    assert is_checked(given, LifecycleSettings()) is due


@pytest.mark.parametrize(
    ("libvirt", "again"),
    [("True", timedelta(seconds=10)), ("False", None)],
    ids=["a switch or a probe, which is not watched", "libvirt, which is in the status"],
)
def test_check_that_does_not_pass_is_named_with_the_time_and_looked_at_again(
    libvirt: str, again: timedelta | None
) -> None:
    agent = condition("LibVirtConnection", libvirt, "Connected")
    plan = decide(facts(onboarding("Initial"), IN_TEST, agent), None, "no bridge", SETTINGS)
    assert plan.condition is not None
    assert plan.condition[2].endswith("no bridge")
    assert (plan.waits_for, plan.look_again) == ("Checks", again)


@pytest.mark.parametrize(
    ("generation", "passed", "begins"),
    [
        pytest.param(3, timedelta(minutes=59), False, id="rests"),
        pytest.param(3, timedelta(minutes=60), True, id="after the pause"),
        pytest.param(2, timedelta(0), True, id="the spec has changed"),
    ],
)
def test_failed_onboarding_has_a_way_back(generation: int, passed: timedelta, begins: bool) -> None:
    failed = replace(
        onboarding("Aborted", "False", "Smoke test failed 3 times"), observedGeneration=generation
    )
    given = facts(failed)
    plan = decide(
        LifecycleFacts(given.hypervisor, given.host, given.now + passed), None, "", SETTINGS
    )
    assert (plan.condition is not None) is begins
    assert begins or plan.look_again == timedelta(minutes=1)
