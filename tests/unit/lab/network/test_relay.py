from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.lab.network.relay import Cable


def cable(delay: float = 0.0, loss: float = 0.0) -> Cable:
    return Cable(delay, loss, random.Random(4))  # noqa: S311


def test_a_frame_comes_out_when_its_delay_is_over() -> None:
    slow = cable(delay=0.05)
    slow.put(b"a", now=10.0)
    assert slow.due_in(10.01) == pytest.approx(0.04)
    assert slow.take(10.049) == []
    assert slow.take(10.051) == [b"a"]
    assert slow.due_in(10.051) is None


@given(st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=4)), max_size=50))
def test_frames_keep_their_order_and_none_is_lost_on_a_whole_cable(
    frames: list[tuple[float, bytes]],
) -> None:
    slow, now = cable(delay=0.5), 0.0
    came: list[bytes] = []
    for wait, frame in frames:
        now += wait
        came += slow.take(now)
        slow.put(frame, now)
    assert came + slow.take(now + 1) == [frame for _, frame in frames]


def test_a_lossy_cable_loses_its_share() -> None:
    lossy = cable(loss=0.3)
    for _ in range(10_000):
        lossy.put(b"x", now=0.0)
    assert 6_700 < len(lossy.take(1.0)) < 7_300


def test_a_cable_that_loses_all_carries_nothing() -> None:
    dead = cable(loss=1.0)
    dead.put(b"x", now=0.0)
    assert dead.take(1.0) == []


def test_a_cable_holds_no_more_than_fits() -> None:
    slow = cable(delay=10)
    for _ in range(30_000):
        slow.put(b"x", now=0.0)
    assert len(slow.take(11.0)) == 20_000
