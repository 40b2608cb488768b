"""Carries events to one reader, in bounded memory.

A reader first gets the present state of the connection, once there is one, then everything after
it, in order. A reader that falls too far behind gets `Lost` in place of what was dropped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator

from hypercobalt.adapters.libvirt.model import Connected, Disconnected, Event, Lost

_LIMIT = 4096


class EventQueue:
    """The way of events to their reader.

    Args:
        limit: how many may wait; about half a KiB each.
    """

    def __init__(self, *, limit: int = _LIMIT) -> None:
        self._limit = limit
        self._state: Connected | Disconnected | None = None
        self._waiting: deque[Event] = deque()
        self._wake: asyncio.Event | None = None

    @property
    def state(self) -> Connected | Disconnected | None:
        """The latest state of the connection; None before the first attempt has ended."""
        return self._state

    def put(self, event: Event) -> None:
        """Hand an event over; without a reader only the connection's state is kept."""
        if isinstance(event, Connected | Disconnected):
            self._state = event
        if self._wake is None:
            return
        if len(self._waiting) >= self._limit:
            self._drop()
        if not (isinstance(event, Lost) and event in self._waiting):
            self._waiting.append(event)
        self._wake.set()

    async def read(self) -> AsyncGenerator[Event]:
        """Yield the state of the connection, then what follows, without end.

        Raises:
            RuntimeError: there is a reader already.
        """
        if self._wake is not None:
            raise RuntimeError("libvirt's events have a reader already")
        self._wake = wake = asyncio.Event()
        self._waiting.extend(self._known_state())
        try:
            while True:
                while self._waiting:
                    yield self._waiting.popleft()
                wake.clear()
                await wake.wait()
        finally:
            self._wake = None
            self._waiting.clear()

    def _drop(self) -> None:
        """Forget the events; a change of the connection among them is kept as its last state."""
        changed = any(isinstance(one, Connected | Disconnected) for one in self._waiting)
        self._waiting.clear()
        if changed:
            self._waiting.extend(self._known_state())
        self._waiting.append(Lost())

    def _known_state(self) -> tuple[Event, ...]:
        return () if self._state is None else (self._state,)
