"""The conditions of a pass, and when their waits began."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from tests.unit.operator.lifecycle.facts import facts
from tests.unit.operator.samples import NOW

from hypercobalt.operator.lifecycle.step import LifecycleFacts

LATER = NOW + timedelta(hours=1)


def waiting_for(given: LifecycleFacts, text: str, waits_for: str = "") -> LifecycleFacts:
    return given.with_condition("Onboarding", "True", "Handover", text, waits_for=waits_for)


def message(given: LifecycleFacts) -> str:
    found = given.condition("Onboarding")
    return found.message if found else ""


def test_time_of_a_wait_stays_while_it_waits_for_the_same() -> None:
    first = waiting_for(facts(), "no bridge", "Checks")
    later = waiting_for(replace(first, now=LATER), "no bridge", "Checks")
    assert later.hypervisor == first.hypervisor
    other_words = waiting_for(replace(first, now=LATER), "no bridge and no storage", "Checks")
    assert message(other_words) == f"no bridge and no storage, since {NOW:%Y-%m-%dT%H:%M:%SZ}"


def test_wait_for_something_else_has_its_own_time() -> None:
    first = waiting_for(facts(), "no bridge", "Checks")
    other = waiting_for(replace(first, now=LATER), "no traits", "TraitsUpdated")
    assert message(other).endswith(f"since {LATER:%Y-%m-%dT%H:%M:%SZ}")
    assert [one.waitsFor for one in other.hypervisor.status.waits] == ["TraitsUpdated"]


def test_condition_that_waits_no_more_keeps_no_time() -> None:
    waiting = waiting_for(facts(), "no bridge", "Checks")
    assert waiting_for(waiting, "done").hypervisor.status.waits == ()
    assert waiting.without_condition("Onboarding").hypervisor.status.waits == ()


def test_conditions_wait_apart() -> None:
    both = waiting_for(facts(), "no bridge", "Checks").with_condition(
        "Registered", "False", "NotRegistered", "unknown", waits_for="NotRegistered"
    )
    assert [one.condition for one in both.hypervisor.status.waits] == ["Onboarding", "Registered"]
    assert [one.condition for one in waiting_for(both, "done").hypervisor.status.waits] == [
        "Registered"
    ]
