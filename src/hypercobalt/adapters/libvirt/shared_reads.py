"""Reads shared by all callers of the same read while one is running.

They share the next one: it begins after all of their calls, so it is no older than a read
of their own would be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from hypercobalt.adapters.libvirt.port import LibvirtError

Key = TypeVar("Key", bound=Hashable)
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class _Read(Generic[Found]):
    value: Found


@dataclass(slots=True)
class _Turn(Generic[Found]):
    """Readings of one subject, one after the other.

    Attributes:
        callers: number of callers.
        served: number of those whose call came before the last read began.
        waiting: how many wait now.
        last: what it gave; an error that it raised.
    """

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    callers: int = 0
    served: int = 0
    waiting: int = 0
    last: _Read[Found] | LibvirtError | None = None


class SharedReads(Generic[Key, Found]):
    """One reading at a time for each subject."""

    def __init__(self) -> None:
        self._turns: dict[Key, _Turn[Found]] = {}  # while a caller waits

    async def get(self, subject: Key, read: Callable[[], Awaitable[Found]]) -> Found:
        """Return the result of a reading that begins no earlier than now.

        Raises:
            LibvirtError: what `read` has raised, also to callers who share it.
        """
        turn = self._turns.setdefault(subject, _Turn())
        turn.callers += 1
        turn.waiting += 1
        ticket = turn.callers
        try:
            async with turn.lock:
                if turn.last is None or turn.served < ticket:
                    callers = turn.callers
                    try:
                        turn.last = _Read(await read())
                    except LibvirtError as error:
                        turn.last = error
                    turn.served = callers
                if isinstance(turn.last, LibvirtError):
                    raise turn.last
                return turn.last.value
        finally:
            turn.waiting -= 1
            if not turn.waiting:
                del self._turns[subject]
