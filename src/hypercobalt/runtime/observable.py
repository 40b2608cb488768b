"""A value, and a wait for the next one."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

V = TypeVar("V")


class Observable(Generic[V]):
    """A value that several tasks follow; single-threaded, on the event loop.

    Values are compared by identity: a new object is a new value.

    Attributes:
        value: the present one.
    """

    def __init__(self, value: V) -> None:
        self.value = value
        self._changed = asyncio.Event()

    def set(self, value: V) -> None:
        """Replace the value and wake every waiter."""
        self.value = value
        # A waiter holds the old event, which is set once and for good; the next event is new.
        self._changed.set()
        self._changed = asyncio.Event()

    async def changed(self, since: V) -> V:
        """Wait until the value is another than `since`; return it."""
        while self.value is since:
            await self._changed.wait()
        return self.value
