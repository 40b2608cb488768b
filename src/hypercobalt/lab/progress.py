"""Reports the progress of the steps of an `up` or a `down` to their display."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import TypeVar

T = TypeVar("T")


class Progress(StrEnum):
    """How far a step is."""

    BEGUN = "begun"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"  # by Ctrl-C, or because another step failed


Report = Callable[[str, Progress], None]
"""Called with the name of a step, such as `host kvm-1`, whenever it begins or ends."""


def silent(_step: str, _progress: Progress) -> None:
    """Report nothing."""


async def step(report: Report, name: str, work: Awaitable[T]) -> T:
    """Await some work, reporting its begin and its end, and give what it gives.

    Raises:
        BaseException: whatever the work raises.
    """
    report(name, Progress.BEGUN)
    try:
        given = await work
    except asyncio.CancelledError:
        report(name, Progress.CANCELLED)
        raise
    except BaseException:
        report(name, Progress.FAILED)
        raise
    report(name, Progress.DONE)
    return given
