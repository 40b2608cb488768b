from __future__ import annotations

import asyncio

import pytest

from hypercobalt.lab.errors import LabError
from hypercobalt.lab.progress import Progress, step


async def test_steps_that_a_failed_one_ends_are_reported_as_cancelled() -> None:
    seen: list[tuple[str, Progress]] = []

    async def fail() -> None:
        raise LabError("no bridge")

    async def all_steps() -> None:
        async with asyncio.TaskGroup() as group:
            for name, work in (("done", asyncio.sleep(0)), ("waits", asyncio.Event().wait())):
                group.create_task(step(lambda *report: seen.append(report), name, work))
            group.create_task(step(lambda *report: seen.append(report), "fails", fail()))

    with pytest.raises(ExceptionGroup):
        await all_steps()
    ended = dict(report for report in seen if report[1] is not Progress.BEGUN)
    assert ended == {
        "done": Progress.DONE,
        "fails": Progress.FAILED,
        "waits": Progress.CANCELLED,
    }
