"""Pauses of an informer whose server fails, and requests to begin its watch at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import cast

import pytest

from hypercobalt.api.core import Node
from hypercobalt.errors import TransientError
from hypercobalt.runtime import Backoff, Informer, Metrics
from hypercobalt.runtime.client.collection import ListResult
from hypercobalt.runtime.client.reader import Reader
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.client.watch import WatchEvent

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

HOUR = timedelta(hours=1)
HOURLY = Backoff(HOUR, HOUR, jitter=lambda ceiling: ceiling)


@dataclass
class Failing:
    """A server whose watches fail, or show nothing.

    Args:
        retry_after: the wait that it requests.
        hangs: its watches show nothing.
    """

    retry_after: timedelta | None = None
    hangs: bool = False
    watches: list[float] = field(default_factory=list[float])

    async def list(self, *_: object, **__: object) -> ListResult[Node]:
        nodes: list[Node] = []
        return ListResult(nodes, "1")

    @asynccontextmanager
    async def watch(
        self, *_: object, **__: object
    ) -> AsyncGenerator[AsyncIterator[WatchEvent[Node]]]:
        self.watches.append(asyncio.get_running_loop().time())
        if self.hangs:
            await asyncio.Event().wait()
        raise TransientError("no", retry_after=self.retry_after)
        yield


async def runs(server: Failing, *, requests: tuple[float, ...], until: float) -> list[float]:
    """Return when watches began, with requests to begin again at some times."""
    made = Informer(cast("Reader", server), Selection(Node), metrics=Metrics(), retry=HOURLY)

    async def request() -> None:
        for at in requests:
            await asyncio.sleep(at - asyncio.get_running_loop().time())
            made.restart()

    with suppress(TimeoutError):
        async with asyncio.timeout(until):
            await asyncio.gather(made.run(), request())
    return server.watches


async def test_watch_that_waits_for_its_next_attempt_begins_at_once_on_request() -> None:
    assert await runs(Failing(), requests=(5.0, 9.0), until=60) == [0.0, 5.0, 9.0]


async def test_pause_that_the_server_has_requested_is_kept() -> None:
    server = Failing(retry_after=timedelta(seconds=20))
    assert await runs(server, requests=(5.0,), until=3599) == [0.0]


async def test_watch_whose_connection_is_dead_begins_at_once_on_request() -> None:
    assert await runs(Failing(hangs=True), requests=(5.0,), until=60) == [0.0, 5.0]
