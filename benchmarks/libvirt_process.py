"""The process that `libvirt_adapter` measures: it holds libvirt's adapter and nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from time import monotonic

from hypercobalt.adapters.libvirt.connection import connect
from hypercobalt.adapters.libvirt.events import Connected

ROUNDS = 5
IDLE = 20.0  # seconds over which the CPU time of doing nothing is counted


def resident_mib(kind: str = "VmRSS") -> float:
    """Resident memory of this process: all of it, or its private part with `RssAnon`."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(kind))


async def timed(call: Callable[[], Awaitable[object]]) -> float:
    """Milliseconds that a call takes."""
    started = monotonic()
    await call()
    return (monotonic() - started) * 1000


async def measure(uri: str) -> dict[str, float]:
    """Passes, memory and idle time of one connection."""
    found = {"resident_imported_mib": resident_mib()}
    async with connect(uri) as subject:
        events = subject.events()
        while not isinstance(await anext(events), Connected):
            pass
        found["first_pass_ms"] = await timed(subject.domains)
        found["next_pass_ms"] = median([await timed(subject.domains) for _ in range(ROUNDS)])
        found["counters_ms"] = median([await timed(subject.stats) for _ in range(ROUNDS)])
        found["resident_mib"] = resident_mib()
        found["resident_anonymous_mib"] = resident_mib("RssAnon")
        before = sum(os.times()[:2])
        await asyncio.sleep(IDLE)  # what is measured: doing nothing
        found["idle_percent_of_a_core"] = (sum(os.times()[:2]) - before) / IDLE * 100
        await events.aclose()
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(sys.argv[1]))))
