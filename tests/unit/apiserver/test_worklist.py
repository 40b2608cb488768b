"""Keys that the server's own controllers have to reconcile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from hypercobalt.apiserver.errors import StatusError
from hypercobalt.apiserver.storage.objects import StoreError
from hypercobalt.apiserver.worklist import RETRY, Worklist


class Handler:
    """Records the keys, and raises the error listed for each, once."""

    def __init__(self, **errors: Exception) -> None:
        self.seen: list[str] = []
        self.times: list[float] = []
        self._errors = errors
        self._more = asyncio.Event()

    async def __call__(self, key: str) -> None:
        self.seen.append(key)
        self.times.append(asyncio.get_running_loop().time())
        self._more.set()
        if error := self._errors.pop(key, None):
            raise error

    async def until(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.seen) < count:
                self._more.clear()
                await self._more.wait()


@asynccontextmanager
async def running(
    handler: Handler, *keys: str, due: Callable[[float], float | None] = lambda _: None
) -> AsyncIterator[Worklist[str]]:
    work = Worklist[str]("test", handler, due)
    for key in keys:
        work.add(key)
    work.start()
    yield work
    await work.stop()


async def test_each_key_is_looked_at_once_in_order() -> None:
    handler = Handler()
    async with running(handler, "a", "b", "a"):
        await handler.until(2)
    assert handler.seen == ["a", "b"]


async def test_failed_key_keeps_no_other_key_waiting() -> None:
    handler = Handler(a=ValueError("a bug"), b=StatusError(422, "Invalid", "refused"))
    async with running(handler, "a", "b", "c"):
        await handler.until(3)
    assert handler.seen == ["a", "b", "c"]


async def test_key_that_the_store_could_not_write_comes_again() -> None:
    handler = Handler(a=StoreError("the disk is full"))
    async with running(handler, "a", "b"):
        await handler.until(3)
    assert handler.seen == ["a", "b", "a"]
    assert handler.times[2] - handler.times[0] >= RETRY.total_seconds() * 0.9


async def test_time_alone_makes_a_key_due() -> None:
    handler = Handler()
    loop = asyncio.get_running_loop()
    at_time = loop.time() + 0.05

    def due(now: float) -> float | None:
        if now < at_time:
            return at_time
        if not handler.seen:
            work.add("a")
        return None

    async with running(handler, due=due) as work:
        await handler.until(1)
    assert handler.times[0] >= at_time
