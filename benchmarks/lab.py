"""How long the lab takes to come, to change and to go, and what a host costs.

    python benchmarks/lab.py [--hosts 3] [--vms 6] [--json FILE]

Needs root, and the packages that `cobalt lab up` installs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
from collections.abc import Awaitable
from pathlib import Path
from time import monotonic

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.lab.host import Host
from hypercobalt.lab.lab import Lab, down
from hypercobalt.lab.membership import add_host
from hypercobalt.lab.setup import Setup
from hypercobalt.lab.vms.fleet import Fleet
from hypercobalt.lab.vms.request import VMRequest
from hypercobalt.views.lab import is_taken_up

BARE = Setup(control_plane=False, ovn=False)
REPORT_SECONDS = 60


async def timed(work: Awaitable[object]) -> float:
    """Seconds that some work takes."""
    began = monotonic()
    await work
    return monotonic() - began


async def in_service(lab: Lab) -> None:
    """Wait until every host's agent has written its status, and the operator has onboarded it."""
    async with lab.control.client() as kube, kube.watch(Hypervisor) as events:
        left = {host.name for host in lab.hosts}
        async with asyncio.timeout(REPORT_SECONDS):
            async for event in events:
                if event.object is not None and is_taken_up(event.object):
                    left.discard(event.object.metadata.name)
                if not left:
                    return


async def bare(data: Path, hosts: int) -> dict[str, float]:
    """Hosts alone."""
    lab = await Lab.make(data)
    found = {"bare_hosts_s": await timed(lab.up(Setup(hosts, control_plane=False, ovn=False)))}
    found["bare_host_mib"] = mean_mib(lab.hosts)
    found["add_bare_host_s"] = await timed(add_host(lab, "more", setup=BARE))
    host = lab.host("more")
    found["crash_s"] = await timed(host.crash())
    found["start_s"] = await timed(host.start(lab.addresses))
    found["shutdown_s"] = await timed(host.shutdown())
    found["down_bare_s"] = await timed(down(data))
    return found


async def whole(data: Path, hosts: int, vms: int) -> dict[str, float]:
    """What `cobalt lab up` makes, with the guest image built before."""
    began = monotonic()
    lab = await Lab.make(data)
    fleet = Fleet(lab)
    await lab.up(Setup(hosts))
    found = {"up_s": monotonic() - began}
    await in_service(lab)
    found["up_in_service_s"] = monotonic() - began
    found["host_mib"] = mean_mib(lab.hosts)
    await fleet.add(*[VMRequest()] * vms)
    found["up_with_vms_s"] = monotonic() - began
    found["up_again_s"] = await timed(lab.up(Setup(hosts)))
    found["down_s"] = await timed(down(data))
    return found


def mean_mib(hosts: tuple[Host, ...]) -> float:
    """Memory of a host, in the mean."""
    return sum(host.memory_bytes() for host in hosts) / len(hosts) / 2**20


async def main() -> None:
    """Measure, print, and write the file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("--vms", type=int, default=6)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results: dict[str, float] = {"load_before": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "lab"
        try:
            results |= await bare(data, options.hosts)
            results |= await whole(data, options.hosts, options.vms)
        finally:
            await down(data)
    for name, value in results.items():
        print(f"{name:20} {value:8.2f}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    asyncio.run(main())
