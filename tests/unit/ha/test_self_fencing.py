"""When a host that is cut off ends its own instances."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.ha.self_fencing import History, Sign, is_cut_off

TICK = timedelta(seconds=5)
WINDOW = timedelta(seconds=60)
EVERY = frozenset(Sign)
NONE = frozenset[Sign]()


def ticks(history: History, count: int, signs: frozenset[Sign] = NONE) -> History:
    for _ in range(count):
        history = history.after(TICK, TICK, signs)
    return history


KNOWN = ticks(History(), 1, EVERY)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        (History(), False),
        (KNOWN, False),
        (ticks(KNOWN, 11), False),
        (ticks(KNOWN, 12), True),
        *((ticks(KNOWN, 1000, EVERY - {sign}), False) for sign in Sign),
        *((ticks(KNOWN, 1000, frozenset({sign})), False) for sign in Sign),
        # A sign that was never there cannot be lost.
        *((ticks(ticks(History(), 1, EVERY - {sign}), 1000), False) for sign in Sign),
        # Seen once more in time.
        (ticks(ticks(ticks(KNOWN, 11), 1, frozenset({Sign.STORAGE})), 11), False),
        (ticks(ticks(ticks(KNOWN, 11), 1, frozenset({Sign.STORAGE})), 12), True),
    ],
)
def test_a_host_is_cut_off_once_every_sign_was_lost_for_the_window(
    history: History, expected: bool
) -> None:
    assert is_cut_off(history, WINDOW) is expected


def test_time_in_which_the_process_did_not_run_does_not_count() -> None:
    frozen = KNOWN.after(timedelta(hours=1), TICK, NONE)
    assert not is_cut_off(frozen, WINDOW)
    assert frozen.ran == KNOWN.ran + 2 * TICK
    assert is_cut_off(ticks(frozen, 10), WINDOW)


@given(
    looks=st.lists(st.tuples(st.floats(0, 1e5), st.frozensets(st.sampled_from(Sign))), max_size=60)
)
def test_a_host_that_sees_any_sign_within_the_window_is_never_cut_off(
    looks: list[tuple[float, frozenset[Sign]]],
) -> None:
    history = KNOWN
    for passed, signs in looks:
        history = history.after(timedelta(seconds=passed), TICK, signs or frozenset({Sign.API}))
        assert not is_cut_off(history, WINDOW)
