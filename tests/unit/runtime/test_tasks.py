"""Work that is begun and ended by name."""

from __future__ import annotations

import asyncio

import pytest

from hypercobalt.runtime.tasks import NamedTasks


class Work:
    """Runs until it is ended, and records it."""

    def __init__(self) -> None:
        self.began, self.ended = asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()


async def test_work_that_was_begun_early_waits_for_the_service() -> None:
    tasks, early, late, stop = NamedTasks(), Work(), Work(), asyncio.Event()
    tasks.begin("early", early.run)
    assert not early.began.is_set()

    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(tasks.run(stop))
        await early.began.wait()
        tasks.begin("late", late.run)
        await late.began.wait()
        tasks.end("early")
        await early.ended.wait()
        assert not late.ended.is_set()
        stop.set()
    assert late.ended.is_set()


async def test_work_that_was_ended_before_the_service_ran_never_begins() -> None:
    tasks, work, stop = NamedTasks(), Work(), asyncio.Event()
    tasks.begin("a", work.run)
    tasks.end("a")
    tasks.end("a")
    stop.set()
    await tasks.run(stop)
    assert not work.began.is_set()


async def test_an_error_ends_the_service() -> None:
    async def fail() -> None:
        raise ValueError("broken")

    tasks = NamedTasks()
    tasks.begin("a", fail)
    with pytest.raises(ExceptionGroup, match="unhandled"):
        await tasks.run(asyncio.Event())
