"""Which state may follow which, and the page that draws it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypercobalt.api import states_reference
from hypercobalt.api.eviction import EVICTION_REASONS, EvictionReason
from hypercobalt.api.hypervisor_conditions import ONBOARDING_STAGES, OnboardingReason
from hypercobalt.api.migration import MIGRATION_TYPES, MigrationType
from hypercobalt.api.transitions import ImpossibleTransitionError, Transitions

ROOT = Path(__file__).resolve().parents[3]
LIGHT = Transitions("light", ("red",), {"red": ("green",), "green": ("red", "off"), "off": ()})


@pytest.mark.parametrize(
    ("old", "new", "allowed"),
    [
        pytest.param(None, "red", True, id="first"),
        pytest.param(None, "green", False, id="not first"),
        pytest.param("red", "red", True, id="stays"),
        pytest.param("red", "green", True, id="follows"),
        pytest.param("red", "off", False, id="does not follow"),
        pytest.param("off", "red", False, id="after the end"),
        pytest.param("blue", "green", True, id="from what another version has written"),
        pytest.param("blue", "pink", False, id="to what is no state"),
    ],
)
def test_only_transitions_of_the_table_are_allowed(
    old: str | None, new: str, *, allowed: bool
) -> None:
    assert LIGHT.allow(old, new) is allowed
    if allowed:
        LIGHT.check(old, new)
    else:
        with pytest.raises(ImpossibleTransitionError, match=f"light: {new} cannot follow"):
            LIGHT.check(old, new)


def test_diagram_has_every_transition() -> None:
    assert LIGHT.mermaid().splitlines() == [
        "stateDiagram-v2",
        "    [*] --> red",
        "    red --> green",
        "    green --> red",
        "    green --> off",
        "    off --> [*]",
    ]
    assert LIGHT.ends == {"off"}


@pytest.mark.parametrize(
    ("table", "states"),
    [
        (EVICTION_REASONS, EvictionReason),
        (ONBOARDING_STAGES, OnboardingReason),
        (MIGRATION_TYPES, MigrationType),
    ],
    ids=["eviction", "onboarding", "migration"],
)
def test_every_state_is_in_its_table(
    table: Transitions, states: type[EvictionReason | OnboardingReason | MigrationType]
) -> None:
    assert set(table.after) == set(states)
    assert {*table.first, *(one for many in table.after.values() for one in many)} <= set(states)


def test_page_of_states_is_up_to_date() -> None:
    page = (ROOT / "docs/reference/states.md").read_text(encoding="utf-8")
    assert page == states_reference.reference(), "run scripts/generate"
