"""How long a power cut keeps 20 VMs down, beyond time-outs and fencing.

    python benchmarks/host_failure.py [--json FILE] [--vms 20]

Boots a lab of three hosts without OpenStack (root, systemd-nspawn, libvirt and QEMU are needed) and
takes it down. All VMs are on one host, each writes to a disk that the hosts share. The power of
that host is cut; a VM runs again once it has written to its disk. Time counts from the proof that
the host is dead.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.harness import arguments, report_figures

from hypercobalt.api.hypervisor import Hypervisor, is_fenced
from hypercobalt.drills.record import DrillRecord
from hypercobalt.drills.stage import Stage, staged

HOST = "kvm-1"
LOOK_SECONDS = 0.1
LONGEST = 300.0


class Marks:
    """When the host's object first showed what it is waited for, by the machine's clock."""

    def __init__(self) -> None:
        self.seen: dict[str, float] = {}

    async def run(self, stage: Stage) -> None:
        while True:
            async with stage.kube.watch(Hypervisor, fields=f"metadata.name={HOST}") as events:
                async for event in events:
                    if event.object is not None:
                        self._look(event.object)

    def _look(self, host: Hypervisor) -> None:
        fencing = host.status.fencing
        found = {
            "unwell": host.status.unhealthySince is not None,
            "fencing": fencing is not None,
            "proof": is_fenced(host),
            "forced down": fencing is not None and fencing.forcedDownAt is not None,
        }
        for name, reached in found.items():
            if reached:
                self.seen.setdefault(name, time.monotonic())


@asynccontextmanager
async def marked(stage: Stage) -> AsyncGenerator[Marks]:
    marks = Marks()
    task = asyncio.create_task(marks.run(stage))
    try:
        yield marks
    finally:
        task.cancel()
        await asyncio.wait({task})


async def run_again(stage: Stage, vms: tuple[str, ...]) -> dict[str, float]:
    """When each VM has written again, by the machine's clock."""
    before = {vm: stage.records(vm) for vm in vms}
    found: dict[str, float] = {}
    async with asyncio.timeout(LONGEST):
        while len(found) < len(vms):
            for vm in vms:
                if vm not in found and stage.records(vm) > before[vm]:
                    found[vm] = time.monotonic()
            await asyncio.sleep(LOOK_SECONDS)  # a ledger on disk announces nothing
    return found


async def measure(vms: int) -> dict[str, float]:
    async with staged(
        3, DrillRecord(lambda one: print(one.at, one.text, file=sys.stderr))
    ) as stage:
        names = await stage.vms(HOST, vms)
        async with marked(stage) as marks:
            cut = time.monotonic()
            await stage.do("power cut", stage.host(HOST).crash())
            again = sorted((await run_again(stage, names)).values())
        twice = stage.witness.double_runs
        assert not twice, twice
        hosts = [stage.host_of(stage.emulators(vm)[0]) for vm in names]
    proof = marks.seen["proof"]
    return {
        "vms": vms,
        "power cut to unwell": marks.seen["unwell"] - cut,
        "power cut to first attempt": marks.seen["fencing"] - cut,
        "power cut to proof": proof - cut,
        "proof to forced down": marks.seen["forced down"] - proof,
        "proof to first running": again[0] - proof,
        "proof to half running": again[vms // 2 - 1] - proof,
        "proof to all running": again[-1] - proof,
        "power cut to all running": again[-1] - cut,
        "most on one host": max(map(hosts.count, hosts)),
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--vms", type=int, default=20)
    options = parser.parse_args()
    found = asyncio.run(measure(options.vms))
    report_figures(options.json, found)


if __name__ == "__main__":
    main()
