from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from hypercobalt.api.conditions import ConditionStatus
from hypercobalt.api.hypervisor_status import HyperVisorUpdateStatus
from hypercobalt.node_agent.status.board import Board
from hypercobalt.runtime import FakeClock

TRUE, FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def board(clock: FakeClock) -> Board:
    return Board(clock)


def test_the_same_said_again_is_no_change(board: Board) -> None:
    board.put_condition("libvirtd.service", TRUE, "Running", "active")
    board.put_update(HyperVisorUpdateStatus(retry=3))
    before = board.parts

    board.put_condition("libvirtd.service", TRUE, "Running", "active")
    board.put_update(HyperVisorUpdateStatus(retry=3))
    board.drop_condition("Other")
    board.drop_condition("Other")

    assert board.parts.conditions["libvirtd.service"] == before.conditions["libvirtd.service"]
    assert board.parts.conditions["Other"] is None
    assert board.parts.update is before.update


def test_since_moves_with_the_status_only(board: Board, clock: FakeClock) -> None:
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


async def test_every_waiter_hears_of_a_change(board: Board) -> None:
    seen = board.parts
    waiters = [asyncio.create_task(board.changed(seen)) for _ in range(3)]
    await asyncio.sleep(0)
    board.put_condition("x", TRUE, "Running")
    board.put_condition("y", TRUE, "Running")

    assert [await waiter for waiter in waiters] == [board.parts] * 3


async def test_who_is_behind_does_not_wait(board: Board) -> None:
    seen = board.parts
    board.put_condition("x", TRUE, "Running")

    assert await asyncio.wait_for(board.changed(seen), 1) is board.parts
