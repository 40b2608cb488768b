"""One answer for all who ask for the same thing at about the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


class Shared(Generic[Answer]):
    """A read that callers share.

    Args:
        what: names the task, for people who debug.
        read: asks for it.
        seconds: how old an answer may be that is given again, counted from when it was asked for.
        clock: seconds that never step back.
    """

    def __init__(
        self,
        what: str,
        read: Callable[[], Coroutine[None, None, Answer]],
        *,
        seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self._what, self._read, self._seconds, self._clock = what, read, seconds, clock
        self._task: asyncio.Task[Answer] | None = None
        self._asked = 0.0

    @property
    def warm(self) -> bool:
        """Whether there is an answer to share, or will be without another call."""
        task = self._task
        if task is None or (task.done() and (task.cancelled() or task.exception())):
            return False
        return not task.done() or self._clock() - self._asked < self._seconds

    async def get(self, *, fresh: bool = False) -> Answer:
        """The answer.

        Args:
            fresh: ask now; never what somebody asked for earlier.
        """
        if fresh or not self.warm:
            self._asked = self._clock()
            self._task = asyncio.create_task(self._read(), name=self._what)
            self._task.add_done_callback(_look)
        task = self._task
        assert task is not None  # noqa: S101  made above
        return await asyncio.shield(task)

    def forget(self) -> None:
        """Let the next caller ask: what was read has just been changed."""
        self._task = None

    async def close(self) -> None:
        """End a read that is under way."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})


def _look(task: asyncio.Task[Answer]) -> None:
    """Take note of an error for which nobody waits any more."""
    if not task.cancelled():
        task.exception()
