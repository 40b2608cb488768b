"""The OVS agent on a real host: delay from a bond member's link to the stored OVSNode.

python benchmarks/ovs_bond.py [--data DIR] [--flaps 30] [--json FILE]

Boots a small lab of its own (root, systemd-nspawn and Open vSwitch are needed) and takes it down.
A delay begins when the kernel has switched the rack's end of the cable, and ends with the event of
a watch here: a little later than the status was stored. ovs-vswitchd writes the state of a link at
most each 100 ms, which is part of it.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import fcntl
import os
import random
import socket
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.harness import report

from hypercobalt.api.ovsnode import OVSNode
from hypercobalt.lab.lab import Lab, down
from hypercobalt.lab.network.data_cables import MEMBERS
from hypercobalt.lab.setup import Setup
from hypercobalt.runtime import Kube

SETTLED = 60.0  # seconds until the bond is reported as whole, or as broken
PAUSE = (1.1, 1.6)  # seconds between a report and the next flap: longer than reports are gathered
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1
_NEW_NET = 0x40000000


def socket_in(pid: int) -> socket.socket:
    """A socket in the network namespace of a process, for requests about its interfaces."""

    def make() -> socket.socket:
        with Path(f"/proc/{pid}/ns/net").open("rb") as namespace:
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), _NEW_NET):
                raise OSError(ctypes.get_errno(), "setns")
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    with ThreadPoolExecutor(1) as thread:  # a namespace is a thread's; this one ends with it
        return thread.submit(make).result()


def switch(control: socket.socket, interface: str, *, up: bool) -> float:
    """Set a link up or down, and give the time when it was done."""
    name = interface.encode()
    reply = fcntl.ioctl(control, _GET_FLAGS, struct.pack("16sh14x", name, 0))
    flags = struct.unpack("16sh14x", reply)[1]
    wanted = flags | _UP if up else flags & ~_UP
    fcntl.ioctl(control, _SET_FLAGS, struct.pack("16sh14x", name, wanted))
    return time.monotonic()


class Watch:
    """The newest OVSNode, and when it came."""

    def __init__(self) -> None:
        self.active: int | None = None
        self.at = 0.0
        self._changed = asyncio.Event()

    def put(self, node: OVSNode) -> None:
        interfaces = node.status.interfaces
        bonds = interfaces.bonds if interfaces else ()
        self.active, self.at = (bonds[0].activeMembers if bonds else None), time.monotonic()
        self._changed.set()

    async def until(self, active: int) -> float:
        """When the count of active members was first that."""
        async with asyncio.timeout(SETTLED):
            while self.active != active:
                self._changed.clear()
                await self._changed.wait()
        return self.at


@asynccontextmanager
async def watching(kube: Kube, name: str) -> AsyncGenerator[Watch]:
    """Follow the OVSNode of a host."""
    watch = Watch()

    async def follow() -> None:
        async with kube.watch(OVSNode, fields=f"metadata.name={name}") as events:
            async for event in events:
                if event.object is not None:
                    watch.put(event.object)

    task = asyncio.create_task(follow())
    try:
        yield watch
    finally:
        task.cancel()
        await asyncio.wait([task])


async def measure(lab: Lab, flaps: int) -> dict[str, list[float]]:
    """Milliseconds of each flap, by what was done to the link."""
    found: dict[str, list[float]] = {"down": [], "up": []}
    end = f"h1-{MEMBERS[0]}"
    async with lab.control.client() as kube, watching(kube, "kvm-1") as watch:
        await watch.until(len(MEMBERS))
        with socket_in(lab.rack.pid) as control:
            for _ in range(flaps):
                for up, count in ((False, len(MEMBERS) - 1), (True, len(MEMBERS))):
                    # Flaps at a fixed distance would meet the agent's periods at one phase.
                    await asyncio.sleep(random.uniform(*PAUSE))  # noqa: S311 - no secret
                    began = switch(control, end, up=up)
                    ended = await watch.until(count)
                    found["up" if up else "down"].append(1000 * (ended - began))
    return found


async def main() -> None:
    """Measure, print, and write the file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path)
    parser.add_argument("--flaps", type=int, default=30)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = options.data or Path(folder) / "lab"
        try:
            lab = await Lab.make(data, api_port=0)
            await lab.up(Setup(1, operator=False))
            found = await measure(lab, options.flaps)
        finally:
            await down(data)
    for what, times in found.items():
        cut = statistics.quantiles(times, n=20)
        print(
            f"link {what} -> stored: p50 {statistics.median(times):.0f} ms, p95 {cut[-1]:.0f} ms, "
            f"worst {max(times):.0f} ms, of {len(times)}; load {os.getloadavg()[0]:.0f}"
        )
    report(options.json, found)


if __name__ == "__main__":
    asyncio.run(main())
