"""Small tools for structured concurrency."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
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


async def sleep_unless(stop: asyncio.Event, seconds: float) -> bool:
    """Sleep; gives True, at once, when `stop` is set."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return False
    return True
