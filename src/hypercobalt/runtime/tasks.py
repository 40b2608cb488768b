"""Small tools for structured concurrency."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import cast


def sole(error: BaseException) -> BaseException:
    """The one error inside nested exception groups, if there is just one; else `error`."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    group = cast("BaseExceptionGroup[BaseException]", error)
    return sole(group.exceptions[0]) if len(group.exceptions) == 1 else group


async def first(*waits: Coroutine[None, None, object]) -> None:
    """Wait until the first of several waits is over, and end the others.

    An error of the one that was first is raised.
    """
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(wait) for wait in waits]
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for task in running:
            task.cancel()


@asynccontextmanager
async def beside(work: Coroutine[None, None, None], *, name: str) -> AsyncGenerator[None]:
    """Run background work until the block is left; raise the error that ended the work."""
    task = asyncio.create_task(work, name=name)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.result()


class NamedTasks:
    """Tasks that are started and ended by name; a service of the manager.

    What is begun before the service runs waits for it; what is begun once it is ending never runs.
    An error of one ends the service.
    """

    def __init__(self) -> None:
        self._work: dict[str, Callable[[], Coroutine[None, None, None]]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None

    def begin(self, name: str, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Begin some work under a name that is free."""
        self._work[name] = work
        self._start(name)

    def end(self, name: str) -> None:
        """End the work of that name, if there is any."""
        self._work.pop(name, None)
        if task := self._tasks.pop(name, None):
            task.cancel()

    async def run(self, stop: asyncio.Event) -> None:
        """Keep the work going until `stop`."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                for name in self._work:
                    self._start(name)
                await stop.wait()
            finally:
                self._group = None
            for task in self._tasks.values():
                task.cancel()

    def _start(self, name: str) -> None:
        if self._group is not None:
            self._tasks[name] = self._group.create_task(self._run(name), name=name)

    async def _run(self, name: str) -> None:
        try:
            await self._work[name]()
        except Exception:
            self._group = None  # it takes no task from here on
            raise


async def sleep_unless(stop: asyncio.Event, seconds: float) -> bool:
    """Sleep and return False; return True at once when `stop` is set."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return False
    return True
