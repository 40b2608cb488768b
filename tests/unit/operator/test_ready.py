"""`Ready`, one test a rule, in the order in which they win."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.operator.samples import condition, hypervisor

from hypercobalt.api.conditions import Condition
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.operator.ready import decide, worth_a_pass

DONE = condition("Onboarding", "False", "Succeeded")
RUNNING = condition("Onboarding", "True", "Testing", "test server boots")
EVICTED = condition("Evicting", "False", "Succeeded")
EVICTING = condition("Evicting", "True", "Running")
TERMINATING = condition("Terminating", "True")
OFFBOARDED = condition("Offboarded", "True")
ON = HypervisorSpec(lifecycleEnabled=True)
MANUAL = HypervisorSpec(lifecycleEnabled=True, maintenance="manual", maintenanceReason="fan")


def of(spec: HypervisorSpec, *conditions: Condition, ids: bool = True) -> Hypervisor:
    known = "00000000-0000-0000-0000-000000000001" if ids else None
    status = HypervisorStatus(hypervisorId=known, serviceId=known, conditions=conditions)
    return hypervisor(spec=spec, status=status)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        pytest.param(of(ON, DONE), "Ready", id="onboarded and in service"),
        pytest.param(of(ON, DONE, OFFBOARDED, TERMINATING), "Offboarded", id="offboarded wins"),
        pytest.param(of(ON, RUNNING, TERMINATING), "Terminating", id="terminating next"),
        pytest.param(
            of(ON, DONE, condition("Terminating", "False")), "Ready", id="no longer terminating"
        ),
        pytest.param(of(MANUAL, RUNNING), "Onboarding", id="onboarding beats maintenance"),
        pytest.param(of(MANUAL, DONE, EVICTING), "Evicting", id="evicting"),
        pytest.param(of(MANUAL, DONE, EVICTED), "Evicted", id="evicted"),
        pytest.param(of(MANUAL, DONE), "Maintenance", id="maintenance, eviction not begun"),
        pytest.param(
            of(MANUAL, DONE, condition("Evicting", "False", "Failed", "i1 is stuck")),
            "Maintenance",
            id="failed eviction does not read evicted",
        ),
        pytest.param(of(MANUAL), "Maintenance", id="maintenance beats not started"),
        pytest.param(
            of(MANUAL, condition("Onboarding", "False", "Aborted")),
            "Maintenance",
            id="maintenance beats aborted",
        ),
        pytest.param(of(ON), "Onboarding", id="not started"),
        pytest.param(of(ON, condition("Onboarding", "False", "Aborted")), "Onboarding", id="gone"),
        pytest.param(of(ON, condition("Onboarding", "False", "Odd")), "Onboarding", id="odd"),
    ],
)
def test_state(given: Hypervisor, reason: str) -> None:
    assert decide(given)[0] == reason


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (of(ON, RUNNING), "test server boots"),
        (of(HypervisorSpec(lifecycleEnabled=False)), "lifecycle management is disabled"),
        (of(ON, ids=False), "nova-compute"),
        (of(ON), "Onboarding not started"),
        (of(ON, condition("Onboarding", "False", "Aborted")), "aborted"),
        (of(ON, condition("Onboarding", "False", "Odd")), "not yet completed"),
        (of(MANUAL, condition("Evicting", "False", "Failed", "i1 is stuck")), "i1 is stuck"),
    ],
)
def test_message_says_why(given: Hypervisor, words: str) -> None:
    assert words in decide(given)[1]


IDLE = of(ON, DONE)


@pytest.mark.parametrize(
    ("old", "new", "worth"),
    [
        pytest.param(None, IDLE, True, id="created"),
        pytest.param(IDLE, None, False, id="deleted"),
        pytest.param(IDLE, IDLE, False, id="no change"),
        pytest.param(IDLE, of(replace(ON, version="2"), DONE), False, id="unrelated"),
        pytest.param(IDLE, of(MANUAL, DONE), True, id="maintenance"),
        pytest.param(IDLE, of(ON, RUNNING), True, id="conditions"),
        pytest.param(of(ON, ids=False), of(ON), True, id="registered in Nova"),
    ],
)
def test_which_changes_are_worth_a_pass(
    old: Hypervisor | None, new: Hypervisor | None, worth: bool
) -> None:
    assert worth_a_pass(old, new) is worth
