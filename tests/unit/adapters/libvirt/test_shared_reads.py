"""Which calls share a read."""

from __future__ import annotations

import asyncio

import pytest

from hypercobalt.adapters.libvirt.port import LibvirtError
from hypercobalt.adapters.libvirt.shared_reads import SharedReads


class Slow:
    """Readings that end when they are let go: the first gives 1, the second 2."""

    def __init__(self) -> None:
        self.begun, self.fails = 0, False
        self.go = asyncio.Event()

    async def read(self) -> int:
        self.begun += 1
        number = self.begun
        await self.go.wait()
        if self.fails:
            raise LibvirtError("storage does not answer")
        return number


async def _started(
    reads: SharedReads[str, int], slow: Slow, *subjects: str
) -> list[asyncio.Task[int]]:
    tasks = [asyncio.create_task(reads.get(subject, slow.read)) for subject in subjects]
    await asyncio.sleep(0)  # each has called
    return tasks


async def test_calls_during_a_read_share_the_next_one() -> None:
    reads, slow = SharedReads[str, int](), Slow()
    first = await _started(reads, slow, "a")
    later = await _started(reads, slow, "a", "a", "a")
    slow.go.set()
    assert await asyncio.gather(*first, *later) == [1, 2, 2, 2]


async def test_subjects_are_read_side_by_side() -> None:
    reads, slow = SharedReads[str, int](), Slow()
    tasks = await _started(reads, slow, "a", "b")
    assert slow.begun == 2
    slow.go.set()
    await asyncio.gather(*tasks)


async def test_error_reaches_those_who_share_the_read_and_no_later_caller() -> None:
    reads, slow = SharedReads[str, int](), Slow()
    slow.fails = True
    tasks = await _started(reads, slow, "a", "a", "a")
    slow.go.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(one) for one in found] == [LibvirtError] * 3
    assert slow.begun == 2
    slow.fails = False
    assert await reads.get("a", slow.read) == 3


async def test_a_reader_that_is_cancelled_leaves_the_reading_to_the_next() -> None:
    reads, slow = SharedReads[str, int](), Slow()
    first, second = await _started(reads, slow, "a", "a")
    first.cancel()
    slow.go.set()
    assert await second == 2
    with pytest.raises(asyncio.CancelledError):
        await first
