"""One answer for all callers that read the same thing at about the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Generic, TypeVar

Answer = TypeVar("Answer")
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Snapshot(Generic[Item]):
    """An answer, and when it was requested, by the clock of its `SharedRead`."""

    requested: float
    answer: Item


class SharedRead(Generic[Answer]):
    """A read that callers share.

    Args:
        what: names the task, for people who debug.
        read: sends the request.
        seconds: how old an answer may be that is returned again, counted from its request.
        clock: seconds that never step back.

    Attributes:
        seconds: as above; may be changed at any time.
    """

    def __init__(
        self,
        what: str,
        read: Callable[[], Coroutine[None, None, Answer]],
        *,
        seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self.seconds = seconds
        self._what, self._read, self._clock = what, read, clock
        self._task: asyncio.Task[Snapshot[Answer]] | None = None
        self._next: asyncio.Task[Snapshot[Answer]] | None = None
        self._requested = 0.0

    @property
    def warm(self) -> bool:
        """Whether there is an answer to share, or will be without another call."""
        task = self._task
        if task is None or (task.done() and (task.cancelled() or task.exception())):
            return False
        return not task.done() or self._clock() - self._requested < self.seconds

    async def get(self, *, fresh: bool = False) -> Answer:
        """Return the answer.

        Args:
            fresh: never one that was requested before now. Callers that arrive while an older one
                is on its way wait for that, and then share the next.
        """
        return (await self.seen(fresh=fresh)).answer

    async def seen(self, *, fresh: bool = False) -> Snapshot[Answer]:
        """Return the answer, with the time of its request."""
        task = self._task
        if not fresh and task is not None and self.warm:
            return await asyncio.shield(task)
        if task is None or task.done():
            task = self._start(self._fetch())
            self._task = task
        else:
            task = self._next = self._next or self._start(self._fetch_after(task))
        return await asyncio.shield(task)

    async def seen_with(self, there: Callable[[Answer], bool]) -> Snapshot[Answer]:
        """Return the answer, or a new one if it lacks what the caller looks for.

        Absence is never decided by an answer that is older than the question. All callers that miss
        something while an answer is on its way share the next one.

        Args:
            there: whether an answer has it.
        """
        now = self._clock()
        seen = await self.seen()
        return seen if seen.requested >= now or there(seen.answer) else await self.seen(fresh=True)

    def forget(self) -> None:
        """Make the next caller read again."""
        self._task = None

    async def close(self) -> None:
        """End pending reads."""
        tasks = {task for task in (self._task, self._next) if task is not None}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _start(
        self, work: Coroutine[None, None, Snapshot[Answer]]
    ) -> asyncio.Task[Snapshot[Answer]]:
        task = asyncio.create_task(work, name=self._what)
        task.add_done_callback(_look)
        return task

    async def _fetch(self) -> Snapshot[Answer]:
        requested = self._requested = self._clock()
        return Snapshot(requested, await self._read())

    async def _fetch_after(self, earlier: asyncio.Task[Snapshot[Answer]]) -> Snapshot[Answer]:
        await asyncio.wait({earlier})
        self._task, self._next = self._next, None
        return await self._fetch()


def _look(task: asyncio.Task[Snapshot[Answer]]) -> None:
    """Retrieve an error for which no caller waits any more."""
    if not task.cancelled():
        task.exception()
