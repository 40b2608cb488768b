"""Waits for what nothing reports: look again, the more seldom the longer it takes.

A look sends a request, or starts a process on a real host. Ten a second take as much of the CPUs as
what is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

_GROWTH: Final = 2


@dataclass(slots=True)
class Pause:
    """The pauses between looks, in seconds: the next one, and the longest."""

    next: float = 0.01
    longest: float = 0.5

    async def __call__(self) -> None:
        await asyncio.sleep(self.next)
        self.next = min(self.next * _GROWTH, self.longest)


async def until(holds: Callable[[], Awaitable[object]], seconds: float = 90) -> None:
    """Wait until something holds.

    Raises:
        TimeoutError: it does not in time.
    """
    pause = Pause()
    async with asyncio.timeout(seconds):
        while not await holds():
            await pause()
