"""`HaEnabled`, where no outside service writes it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.operator.lifecycle.facts import ON, facts
from tests.unit.operator.samples import condition

from hypercobalt.api.conditions import Condition
from hypercobalt.operator.lifecycle.ha_enabled import ENABLED, decide
from hypercobalt.operator.lifecycle.step import Facts

WANTED = replace(ON, highAvailability=True)
OURS = condition("HaEnabled", "True", "Succeeded", ENABLED)
DONE = condition("Onboarding", "False", "Succeeded")
LIBVIRT = condition("LibVirtConnection", "True", "Connected")


def given(*conditions: Condition, wanted: bool = True) -> Facts:
    return facts(OURS, *conditions, spec=WANTED if wanted else ON)


@pytest.mark.parametrize(
    ("known", "state"),
    [
        pytest.param(given(DONE, LIBVIRT), "True/Succeeded", id="in service"),
        pytest.param(
            given(condition("Onboarding", "True", "Handover"), LIBVIRT),
            "True/Succeeded",
            id="handed over",
        ),
        pytest.param(given(DONE, LIBVIRT, wanted=False), "False/Succeeded", id="not wanted"),
        pytest.param(
            given(DONE, LIBVIRT, condition("Evicting", "False", "Succeeded")),
            "False/Evicted",
            id="empty",
        ),
        pytest.param(
            given(condition("Onboarding", "True", "Testing"), LIBVIRT),
            "False/Onboarding",
            id="in its test",
        ),
        pytest.param(
            given(condition("Onboarding", "False", "Aborted"), LIBVIRT),
            "False/Onboarding",
            id="aborted",
        ),
        pytest.param(given(DONE), "Unknown/Failed", id="nobody would see a failure"),
        pytest.param(given(LIBVIRT), "", id="before an onboarding"),
    ],
)
def test_reasons_are_those_of_the_existing_controller(known: Facts, state: str) -> None:
    found = decide(known)
    assert (f"{found[0]}/{found[1]}" if found else "") == state
