"""Work that goes on beside other work."""

from __future__ import annotations

import asyncio

import pytest

from hypercobalt.runtime.tasks import NamedTasks, beside


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


class BeginsAnotherOnce:
    """Ends when cancelled, and begins other work while the service is ending."""

    def __init__(self, tasks: NamedTasks) -> None:
        self._tasks = tasks
        self.other = Work()

    async def run(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self._tasks.begin("other", self.other.run)


async def test_work_begun_while_the_service_is_cancelled_never_runs() -> None:
    tasks, stop = NamedTasks(), asyncio.Event()
    late = BeginsAnotherOnce(tasks)
    tasks.begin("a", late.run)
    service = asyncio.create_task(tasks.run(stop))
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    service.cancel()
    with pytest.raises(asyncio.CancelledError):
        await service
    assert not late.other.began.is_set()


async def test_work_begun_while_an_error_ends_the_service_never_runs() -> None:
    tasks, other = NamedTasks(), Work()

    async def fail() -> None:
        # The group has noticed the error by then, and its own task has not run since.
        asyncio.get_running_loop().call_soon(tasks.begin, "b", other.run)
        asyncio.get_running_loop().call_soon(tasks.begin, "c", other.run)
        raise ValueError("broken")

    tasks.begin("a", fail)
    with pytest.raises(ExceptionGroup, match="unhandled"):
        await tasks.run(asyncio.Event())
    assert not other.began.is_set()


async def test_work_beside_a_block_ends_with_it() -> None:
    work = Work()
    async with beside(work.run(), name="work"):
        await work.began.wait()
        assert not work.ended.is_set()
    assert work.ended.is_set()


async def test_error_of_work_beside_a_block_is_raised_at_its_end() -> None:
    failed = asyncio.Event()

    async def fail() -> None:
        failed.set()
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        async with beside(fail(), name="work"):
            await failed.wait()
