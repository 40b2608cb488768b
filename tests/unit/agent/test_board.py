from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from hypercobalt.agent.board import Board, Parts
from hypercobalt.api.conditions import ConditionStatus
from hypercobalt.runtime import FakeClock

TRUE, FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@dataclass(frozen=True, slots=True)
class Counted(Parts):
    """Parts of a status besides conditions."""

    bridges: int | None = None


@pytest.fixture
def board(clock: FakeClock) -> Board[Counted]:
    return Board(clock, Counted())


def test_the_same_report_again_is_no_change(board: Board[Counted]) -> None:
    board.put_condition("libvirtd.service", TRUE, "Running", "active")
    board.put(replace(board.parts, bridges=3))
    before = board.parts

    board.put_condition("libvirtd.service", TRUE, "Running", "active")
    board.put(replace(board.parts, bridges=3))

    assert board.parts is before
    board.drop_condition("Other")
    dropped = board.parts
    board.drop_condition("Other")
    assert board.parts is dropped
    assert (dropped.conditions["Other"], dropped.bridges) == (None, 3)


def test_transition_time_changes_with_the_status_only(
    board: Board[Counted], clock: FakeClock
) -> None:
    start = clock.now()
    board.put_condition("x", TRUE, "Running")
    clock.advance(timedelta(seconds=5))
    board.put_condition("x", TRUE, "Running", "another message")
    same = board.parts.conditions["x"]
    board.put_condition("x", FALSE, "Stopped")
    other = board.parts.conditions["x"]

    assert same is not None
    assert (same.message, same.since) == ("another message", start)
    assert other is not None
    assert other.since == start + timedelta(seconds=5)


async def test_every_waiter_sees_a_change(board: Board[Counted]) -> None:
    seen = board.parts
    waiters = [asyncio.create_task(board.changed(seen)) for _ in range(3)]
    await asyncio.sleep(0)
    board.put_condition("x", TRUE, "Running")
    board.put_condition("y", TRUE, "Running")

    assert [await waiter for waiter in waiters] == [board.parts] * 3


async def test_waiter_that_is_behind_does_not_wait(board: Board[Counted]) -> None:
    seen = board.parts
    board.put_condition("x", TRUE, "Running")

    assert await asyncio.wait_for(board.changed(seen), 1) is board.parts
