"""Work that the other controllers let go first."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from hypercobalt.runtime import Controller, Metrics, Result, SystemClock, initially
from hypercobalt.runtime.precedence import Precedence


class Passes:
    """Notes which keys got a pass."""

    def __init__(self) -> None:
        self.keys = asyncio.Queue[str]()

    async def reconcile(self, key: str, /) -> Result:
        self.keys.put_nowait(key)
        return Result()


def run(passes: Passes, precedence: Precedence, stop: asyncio.Event) -> asyncio.Task[None]:
    """Run a controller that has one key from its beginning."""
    made = Controller("later", passes, watches=(initially("a"),), yields_to=precedence)
    return asyncio.create_task(made.run(stop, metrics=Metrics(), clock=SystemClock()))


async def test_controller_that_yields_makes_its_passes_once_nothing_goes_first() -> None:
    passes, precedence, stop = Passes(), Precedence(), asyncio.Event()
    precedence.begin("x")
    precedence.begin("y")
    running = run(passes, precedence, stop)
    precedence.end("x")
    for _ in range(20):
        await asyncio.sleep(0)
    assert passes.keys.empty()
    assert not precedence.is_free
    precedence.end("y")
    precedence.end("never begun")
    async with asyncio.timeout(5):
        assert await passes.keys.get() == "a"
        stop.set()
        await running


async def test_work_that_never_ends_holds_up_nothing_for_good() -> None:
    passes, precedence = Passes(), Precedence(timedelta(milliseconds=10))
    stop = asyncio.Event()
    precedence.begin("x")
    running = run(passes, precedence, stop)
    async with asyncio.timeout(5):
        assert await passes.keys.get() == "a"
        stop.set()
        await running


async def test_controller_that_waits_for_others_stops_at_once() -> None:
    passes, precedence, stop = Passes(), Precedence(timedelta(hours=1)), asyncio.Event()
    precedence.begin("x")
    running = run(passes, precedence, stop)
    for _ in range(20):
        await asyncio.sleep(0)
    async with asyncio.timeout(5):
        stop.set()
        await running
