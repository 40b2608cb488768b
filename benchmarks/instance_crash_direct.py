"""How soon an instance that has crashed runs again without OpenStack.

    python benchmarks/instance_crash_direct.py [--json FILE] [--crashes 9]

Boots a lab of one host without OpenStack (root, systemd-nspawn, libvirt and QEMU are needed) and
takes it down. QEMUs are killed, one after the other; an instance runs again once there is another
QEMU of it on its host, and has booted once its guest has written to its disk. Both are looked for
each 20 ms from outside the host.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.harness import arguments, report_figures

from hypercobalt.drills.instances import kill
from hypercobalt.drills.record import DrillRecord
from hypercobalt.drills.stage import Stage, staged

HOST = "kvm-1"
VMS = 12
EVERY = 21.0
"""Seconds from one crash to the next: three of twelve in a minute are no incident of the host."""
LOOK_SECONDS = 0.02
LONGEST = 60.0


async def until(right: Callable[[], bool]) -> float:
    """Time at which a condition first held, by the machine's clock."""
    async with asyncio.timeout(LONGEST):
        while not right():  # noqa: ASYNC110 - neither processes nor disks announce anything
            await asyncio.sleep(LOOK_SECONDS)
    return time.monotonic()


async def crash(stage: Stage, vm: str) -> tuple[float, float]:
    """Seconds from a crash until it runs again, and until its guest has written."""
    killed, crashed = kill(stage, vm), time.monotonic()
    before = stage.records(vm)
    runs = await until(lambda: any(one.pid != killed for one in stage.emulators(vm)))
    writes = await until(lambda: stage.records(vm) > before)
    (emulator,) = stage.emulators(vm)
    assert stage.host_of(emulator) == HOST, "it was moved, not restarted"
    return runs - crashed, writes - crashed


async def measure(crashes: int) -> dict[str, float]:
    found, loads = list[tuple[float, float]](), list[float]()
    async with staged(
        1, DrillRecord(lambda one: print(one.at, one.text, file=sys.stderr))
    ) as stage:
        names = await stage.vms(HOST, VMS)
        await stage.write(*names)
        for vm in names[:crashes]:
            due = asyncio.get_running_loop().time() + EVERY
            found.append(await crash(stage, vm))
            loads.append(os.getloadavg()[0])
            await asyncio.sleep(due - asyncio.get_running_loop().time())
        assert not stage.witness.double_runs, stage.witness.double_runs
    running, written = ([one[n] for one in found] for n in range(2))
    return {
        "crashes": crashes,
        "load of the machine": statistics.median(loads),
        "crash to running: p50": statistics.median(running),
        "crash to running: worst": max(running),
        "crash to booted: p50": statistics.median(written),
        "crash to booted: worst": max(written),
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--crashes", type=int, default=9, help=f"at most {VMS}")
    options = parser.parse_args()
    found = asyncio.run(measure(min(options.crashes, VMS)))
    report_figures(options.json, found)


if __name__ == "__main__":
    main()
