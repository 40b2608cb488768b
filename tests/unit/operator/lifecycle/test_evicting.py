"""Which Eviction belongs to a maintenance."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec.structs import replace as with_fields
from tests.unit.operator.lifecycle.facts import LABELS, ON, facts
from tests.unit.operator.samples import NOW, condition

from hypercobalt.operator.lifecycle.evicting import decide
from hypercobalt.operator.lifecycle.step import Facts

LEAVING = with_fields(ON, maintenance="termination")


def deleted(of: Facts) -> Facts:
    meta = with_fields(of.hypervisor.metadata, deletionTimestamp=NOW)
    return replace(of, hypervisor=with_fields(of.hypervisor, metadata=meta))


@pytest.mark.parametrize(
    ("given", "owners"),
    [
        pytest.param(facts(spec=LEAVING), ["Hypervisor"], id="it goes with its Hypervisor"),
        pytest.param(deleted(facts(spec=LEAVING)), [], id="it empties one that goes already"),
    ],
)
def test_who_owns_it(given: Facts, owners: list[str]) -> None:
    made = decide(given, None, LABELS).create
    assert made is not None
    assert [owner.kind for owner in made.metadata.ownerReferences] == owners
    assert made.metadata.labels == LABELS


def test_one_that_was_tidied_up_after_its_success_is_not_made_again() -> None:
    given = facts(condition("Evicting", "False", "Succeeded"), spec=LEAVING)
    assert decide(given, None, LABELS).create is None
