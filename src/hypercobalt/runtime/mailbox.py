"""Serial work per key: in order for one key, concurrently for different keys.

Work of one key that hangs delays that key alone. When the mailbox of a key is full, `put` refuses:
what waits is kept, what is new is dropped, and the caller reads the present state of the key once
the waiting work is done.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

R = TypeVar("R")
Work = Callable[[], Awaitable[None]]

LIMIT: Final = 64
"""Pieces of work under way or waiting for one key: more than any burst of events of one domain."""


class Mailbox:
    """The mailboxes of all keys.

    Args:
        tasks: runs the work; an error of one piece ends the group, as of any task in it.
        limit: most pieces of work for one key.
    """

    def __init__(self, tasks: asyncio.TaskGroup, *, limit: int = LIMIT) -> None:
        self._tasks, self._limit = tasks, limit
        self._boxes: dict[str, deque[Work]] = {}  # only of keys that have work

    def put(self, key: str, work: Work) -> bool:
        """Have work done after all earlier work of the key; return False if the mailbox is full."""
        if len(self._boxes.get(key, ())) >= self._limit:
            return False
        self._append(key, work)
        return True

    async def do(self, key: str, work: Callable[[], Awaitable[R]]) -> R:
        """Do work after all earlier work of the key and return its result.

        It is never refused: a caller that waits bounds itself.
        """
        turn, done = asyncio.Event(), asyncio.Event()

        async def hold() -> None:
            turn.set()
            await done.wait()

        self._append(key, hold)
        try:
            await turn.wait()
            return await work()
        finally:
            done.set()

    def _append(self, key: str, work: Work) -> None:
        if key in self._boxes:
            self._boxes[key].append(work)
        else:
            self._boxes[key] = deque([work])
            self._tasks.create_task(self._empty(key), name=f"mailbox-{key}")

    async def _empty(self, key: str) -> None:
        box = self._boxes[key]
        while box:
            await box[0]()
            box.popleft()
        del self._boxes[key]
