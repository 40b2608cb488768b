"""What a piece of work costs this process: turns of its loop, and memory."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import resource
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(slots=True)
class Cpu:
    """Seconds of CPU that this process used in the block, once it has ended."""

    seconds: float = 0.0


def spare_the_collector() -> None:
    """Have the collector look at new objects only.

    What is there now stays until the end of the process. Late in a run of all tests, one look at
    it takes half a second.
    """
    gc.collect()
    gc.freeze()


@contextmanager
def cpu() -> Iterator[Cpu]:
    """Measure a block of work, and not what other tests have left."""
    used = Cpu()
    spare_the_collector()
    began = time.process_time()
    yield used
    used.seconds = time.process_time() - began


def on_loop(work: Callable[[], object]) -> float:
    """Milliseconds of CPU."""
    with cpu() as used:
        work()
    return used.seconds * 1000


@dataclass(slots=True)
class Turns:
    """The longest turn of the loop so far, in milliseconds of CPU of its thread."""

    longest_ms: float = 0.0


@asynccontextmanager
async def turns() -> AsyncIterator[Turns]:
    """Measure the turns of the loop in a block of work."""
    seen = Turns()
    spare_the_collector()

    async def look() -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            seen.longest_ms, last = max(seen.longest_ms, (now - last) * 1000), now

    looking = asyncio.create_task(look())
    await asyncio.sleep(0)
    try:
        yield seen
        await asyncio.sleep(0)
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking


def resident_mib() -> float:
    """What is held; memory that is free already but not given back yet is no leak."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def grown(looks: Sequence[float]) -> float:
    """How much more stays in memory at the end than in the middle.

    The least of some looks each: an allocator gives back later what was needed for a moment.
    """
    some, middle = max(1, len(looks) // 4), len(looks) // 2
    return min(looks[-some:]) - min(looks[middle : middle + some])
