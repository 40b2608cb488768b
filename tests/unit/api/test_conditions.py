"""Conditions: one per type, and lastTransitionTime moves with status only."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.api.conditions import (
    CUT_MARK,
    MAX_MESSAGE,
    Condition,
    InvalidConditionError,
    get_condition,
    is_true,
    remove_condition,
    set_condition,
)

T0 = datetime(2026, 1, 1, tzinfo=UTC)
T1 = T0 + timedelta(minutes=1)
READY = set_condition((), "Ready", "True", "Fine", "all is well", now=T0, observed_generation=1)


def test_new_condition_goes_to_the_end() -> None:
    after = set_condition(READY, "Evicting", "False", "Succeeded", "", now=T1)
    assert [c.type for c in after] == ["Ready", "Evicting"]
    assert after[1].lastTransitionTime == T1


def test_same_condition_again_changes_nothing() -> None:
    after = set_condition(READY, "Ready", "True", "Fine", "all is well", now=T1)
    assert after is READY


@pytest.mark.parametrize(
    ("reason", "message", "generation"),
    [("Better", "all is well", 1), ("Fine", "still", 1), ("Fine", "all is well", 2)],
    ids=["reason", "message", "generation"],
)
def test_transition_time_stays_while_status_does(
    reason: str, message: str, generation: int
) -> None:
    after = set_condition(
        READY, "Ready", "True", reason, message, now=T1, observed_generation=generation
    )
    assert after != READY
    assert after[0].lastTransitionTime == T0


def test_transition_time_moves_with_status() -> None:
    after = set_condition(READY, "Ready", "False", "Fine", "all is well", now=T1)
    assert after[0].lastTransitionTime == T1


def test_order_and_the_others_are_kept() -> None:
    three = set_condition(READY, "B", "True", "R", "", now=T0)
    three = set_condition(three, "C", "True", "R", "", now=T0)
    after = set_condition(three, "B", "False", "R", "", now=T1)
    assert [c.type for c in after] == ["Ready", "B", "C"]
    assert (after[0], after[2]) == (three[0], three[2])


def test_observed_generation_is_kept_when_not_given() -> None:
    assert set_condition(READY, "Ready", "False", "R", "", now=T1)[0].observedGeneration == 1


def test_time_is_kept_in_whole_seconds_of_utc() -> None:
    now = datetime(2026, 1, 1, 2, 0, 0, 999_999, tzinfo=timezone(timedelta(hours=2)))
    found = set_condition((), "Ready", "True", "R", "", now=now)[0].lastTransitionTime
    assert found == T0
    assert found.tzinfo is UTC


def test_long_message_is_cut_visibly() -> None:
    message = set_condition((), "Ready", "True", "R", "x" * 40_000, now=T0)[0].message
    assert len(message) == MAX_MESSAGE
    assert message.endswith(CUT_MARK)
    whole = set_condition((), "Ready", "True", "R", "x" * MAX_MESSAGE, now=T0)[0].message
    assert whole == "x" * MAX_MESSAGE


@pytest.mark.parametrize(
    ("type_", "status", "reason", "named"),
    [
        ("", "True", "R", "condition type ''"),
        ("a b", "True", "R", "condition type 'a b'"),
        ("x" * 317, "True", "R", "condition type"),
        ("Ready", "true", "R", "status 'true'"),
        ("Ready", "", "R", "status ''"),
        ("Ready", "True", "", "reason ''"),
        ("Ready", "True", "1st", "reason '1st'"),
        ("Ready", "True", "No Space", "reason 'No Space'"),
        ("Ready", "True", "End:", "reason 'End:'"),
        ("Ready", "True", "R\n", "reason"),
        ("Ready", "True", "R" * 1025, "reason"),
    ],
)
def test_condition_that_the_server_would_refuse_is_refused(
    type_: str, status: str, reason: str, named: str
) -> None:
    with pytest.raises(InvalidConditionError, match=named):
        set_condition((), type_, status, reason, "", now=T0)


@pytest.mark.parametrize("type_", ["libvirtd.service", "openvswitch-switch.service", "a.io/Ready"])
def test_condition_types_of_the_field_are_accepted(type_: str) -> None:
    assert is_true(set_condition((), type_, "True", "Running", "", now=T0), type_)


def test_time_without_zone_is_refused() -> None:
    with pytest.raises(InvalidConditionError, match="no time zone"):
        set_condition((), "Ready", "True", "R", "", now=datetime(2026, 1, 1))  # noqa: DTZ001


def test_condition_is_looked_up_and_removed_by_type() -> None:
    assert get_condition(READY, "Ready") is READY[0]
    assert get_condition(READY, "Other") is None
    assert is_true(READY, "Ready")
    assert not is_true(READY, "Other")
    assert not is_true(set_condition((), "Ready", "Unknown", "R", "", now=T0), "Ready")
    assert remove_condition(READY, "Ready") == ()
    assert remove_condition(READY, "Other") is READY


steps = st.tuples(
    st.sampled_from(["A", "B", "C"]),
    st.sampled_from(["True", "False", "Unknown"]),
    st.sampled_from(["R1", "R2"]),
)


@given(st.lists(steps, max_size=30))
def test_history_leaves_one_condition_per_type_with_the_time_of_its_last_change(
    history: list[tuple[str, str, str]],
) -> None:
    conditions: tuple[Condition, ...] = ()
    expected: dict[str, tuple[str, str, datetime]] = {}
    for second, (type_, status, reason) in enumerate(history):
        now = T0 + timedelta(seconds=second)
        conditions = set_condition(conditions, type_, status, reason, "", now=now)
        old = expected.get(type_)
        since = old[2] if old and old[0] == status else now
        expected[type_] = (status, reason, since)
    found = {c.type: (c.status, c.reason, c.lastTransitionTime) for c in conditions}
    assert list(found) == list(expected)  # first come, first listed
    assert found == expected
    assert len(conditions) == len(found)
