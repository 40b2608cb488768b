"""A host has as many new traits as it can have at once, and then one an hour."""

from __future__ import annotations

from hypercobalt.compute.nova.trait_pace import AT_ONCE, PAUSE, TraitPace
from hypercobalt.operator.lifecycle.traits import MOST


def test_every_trait_that_a_host_may_have_is_created_at_once() -> None:
    assert AT_ONCE >= MOST
    assert TraitPace().take("a", MOST, 0)


def test_a_host_that_has_had_them_all_gets_one_an_hour() -> None:
    pace = TraitPace()
    assert pace.take("a", AT_ONCE, 0)
    assert not pace.take("a", 1, PAUSE - 1)
    assert pace.take("a", 1, PAUSE)
    assert not pace.take("a", 1, PAUSE)
    assert not pace.take("a", 3, 3 * PAUSE)
    assert pace.take("a", 2, 3 * PAUSE)


def test_what_was_refused_does_not_count() -> None:
    pace = TraitPace()
    assert not pace.take("a", AT_ONCE + 1, 0)
    assert pace.take("a", AT_ONCE, 0)


def test_traits_of_one_host_take_nothing_from_another() -> None:
    pace = TraitPace()
    assert pace.take("a", AT_ONCE, 0)
    assert pace.take("b", AT_ONCE, 0)
    assert pace.take("c", 1, 0)
    assert not pace.take("a", 1, 1)


def test_nothing_is_saved_up_beyond_what_a_host_can_have() -> None:
    pace = TraitPace()
    assert pace.take("a", 1, 0)
    assert not pace.take("a", AT_ONCE + 1, 1_000 * PAUSE)
