"""Services of the host in memory: they change, wake those that watch them, and can be away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import TypeVar

from hypercobalt.adapters.host.port import HostError

T = TypeVar("T")


class Watched:
    """State that tests change, and a way to wait for that."""

    def __init__(self) -> None:
        self._change = asyncio.Event()

    def _notify(self) -> None:
        """Wake every waiter, once for each change."""
        self._change.set()
        self._change = asyncio.Event()

    async def _each(self, read: Callable[[], T]) -> AsyncGenerator[T]:
        """What is read: now, and after each change of it."""
        given: T | None = None
        while True:
            change, now = self._change, read()
            if now != given:
                given = now
                yield now
            else:
                await change.wait()


class FakeService(Watched):
    """A service that can be away."""

    def __init__(self) -> None:
        super().__init__()
        self._away: HostError | None = None

    def leave(self, why: str = "cannot connect to the system bus") -> None:
        """From now on, the service cannot be reached."""
        self._away = HostError(why)
        self._notify()

    def come_back(self) -> None:
        """From now on, the service can be reached."""
        self._away = None
        self._notify()

    def _check(self) -> None:
        if self._away is not None:
            raise self._away
