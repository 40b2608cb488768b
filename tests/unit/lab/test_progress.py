from __future__ import annotations

import asyncio

import pytest

from hypercobalt.lab.errors import LabError
from hypercobalt.lab.progress import Progress, step


async def test_steps_that_a_failed_one_ends_are_reported_as_cancelled() -> None:
    seen: list[tuple[str, Progress]] = []

    async def fail() -> None:
        raise LabError("no bridge")

    def report(name: str, progress: Progress) -> None:
        seen.append((name, progress))

    async def both_steps() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(step(report, "waits", asyncio.Event().wait()))
            group.create_task(step(report, "fails", fail()))

    with pytest.raises(ExceptionGroup):
        await both_steps()
    assert seen[2:] == [("fails", Progress.FAILED), ("waits", Progress.CANCELLED)]
