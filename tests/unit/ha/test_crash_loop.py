"""A host that boots again and again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from hypercobalt.ha.crash_loop import MOST, loop, remembered

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
M = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("boots", "looping"),
    [
        pytest.param((), 0, id="none"),
        pytest.param((-20, -10), 0, id="two"),
        pytest.param((-30, -20, -10), 3, id="three within an hour"),
        pytest.param((-60, -20, -10), 0, id="two, and one an hour ago"),
        pytest.param((-59, -20, -10, 0), 4, id="four"),
        pytest.param((-20, -10, 5), 0, id="one ahead of the clock"),
    ],
)
def test_three_boots_within_an_hour_are_a_loop(boots: tuple[int, ...], looping: int) -> None:
    assert len(loop([NOON + minute * M for minute in boots], NOON)) == looping


def test_boots_are_remembered_for_an_hour_and_ten_at_most() -> None:
    known: tuple[datetime, ...] = ()
    for minute in range(0, 120, 5):
        known = remembered(known, NOON + minute * M)
    assert known == tuple(NOON + minute * M for minute in range(115 - 5 * (MOST - 1), 120, 5))
    assert remembered(known, NOON + 600 * M) == (NOON + 600 * M,)
    assert remembered(known, NOON) == (NOON,), "of a clock that has gone back"
