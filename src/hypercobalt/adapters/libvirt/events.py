"""Carries events from any thread to one reader on an event loop, in bounded memory.

A reader first gets the present state of the connection, once there is one, then everything after
it, in order. A reader that falls too far behind gets `Lost` in place of what was dropped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from threading import Lock

from hypercobalt.adapters.libvirt.model import Connected, Disconnected, Event, Lost

_LIMIT = 4096


class EventQueue:
    """The way of events to their reader. `put` is safe from every thread.

    Args:
        limit: how many may wait; about half a KiB each.
    """

    def __init__(self, *, limit: int = _LIMIT) -> None:
        self._limit = limit
        self._lock = Lock()
        self._state: Connected | Disconnected | None = None
        self._waiting: deque[Event] = deque()
        self._wake: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    @property
    def state(self) -> Connected | Disconnected | None:
        """The latest state of the connection; None before the first attempt has ended."""
        return self._state

    def put(self, event: Event) -> None:
        """Hand a event over; without a reader only the connection's state is kept."""
        with self._lock:
            if isinstance(event, Connected | Disconnected):
                self._state = event
            if self._wake is None:
                return
            if len(self._waiting) >= self._limit:
                self._drop()
            if not (isinstance(event, Lost) and event in self._waiting):
                self._waiting.append(event)
            loop, wake = self._wake
            if len(self._waiting) == 1:
                loop.call_soon_threadsafe(wake.set)

    async def read(self) -> AsyncGenerator[Event]:
        """Yield the state of the connection, then what follows, without end.

        Raises:
            RuntimeError: there is a reader already.
        """
        wake = asyncio.Event()
        with self._lock:
            if self._wake is not None:
                raise RuntimeError("libvirt's events have a reader already")
            self._wake = (asyncio.get_running_loop(), wake)
            self._waiting.extend(self._known_state())
        try:
            while True:
                while (event := self._take(wake)) is not None:
                    yield event
                await wake.wait()
        finally:
            with self._lock:
                self._wake = None
                self._waiting.clear()

    def _take(self, wake: asyncio.Event) -> Event | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            wake.clear()
            return None

    def _drop(self) -> None:
        """Forget the events; a change of the connection among them is told by its last state."""
        changed = any(isinstance(one, Connected | Disconnected) for one in self._waiting)
        self._waiting.clear()
        if changed:
            self._waiting.extend(self._known_state())
        self._waiting.append(Lost())

    def _known_state(self) -> tuple[Event, ...]:
        return () if self._state is None else (self._state,)
