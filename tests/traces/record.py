"""Record migrations between two real hosts of a lab, as root: `python -m tests.traces.record`.

Each scenario moves a running Linux guest; events and the job of both libvirts are recorded.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from hypercobalt.adapters.libvirt.connection import connect
from hypercobalt.adapters.libvirt.events import Connected, DomainEvent
from hypercobalt.adapters.libvirt.model import Versions
from hypercobalt.adapters.libvirt.port import Libvirt
from hypercobalt.lab.errors import LabError
from hypercobalt.lab.host import Host
from hypercobalt.lab.lab import Lab, down
from hypercobalt.lab.setup import Setup
from hypercobalt.lab.vms.fleet import Fleet
from hypercobalt.lab.vms.request import VMRequest
from hypercobalt.runtime import SystemClock
from tests.traces.trace import Recorded, Sample, Side, Trace, save

VM: Final = "moved"
_PERIOD: Final = 0.25  # seconds between two looks at the job
_AFTERWARDS: Final = 2.0  # seconds in which late events still come
_MIGRATE: Final = ("--live", "--p2p", "--persistent", "--undefinesource")


class Recorder:
    """Listens to one host."""

    def __init__(self, libvirt: Libvirt, uuid: str, began: datetime) -> None:
        self._libvirt, self._uuid, self._began = libvirt, uuid, began
        self.events: list[Recorded] = []
        self.samples: list[Sample] = []
        self.versions: Versions | None = None
        self.listens = asyncio.Event()

    def _now(self) -> float:
        return self._since(SystemClock().now())

    def _since(self, at: datetime) -> float:
        return round((at - self._began).total_seconds(), 3)

    async def listen(self) -> None:
        async for event in self._libvirt.events():
            if isinstance(event, Connected):
                self.versions = event.versions
                self.listens.set()
            elif isinstance(event, DomainEvent) and event.uuid == self._uuid:
                self.events.append(Recorded.of(event, self._since(event.at)))

    async def poll(self) -> None:
        """Keep the job whenever it differs from the time before."""
        await self.listens.wait()
        while True:
            job = await self._libvirt.job_stats(self._uuid)
            if not self.samples or job != self.samples[-1].job:
                self.samples.append(Sample(self._now(), job))
            await asyncio.sleep(_PERIOD)

    async def side(self) -> Side:
        domains = await self._libvirt.domains()
        runs = any(one.uuid == self._uuid and one.active for one in domains)
        last = await self._libvirt.job_stats(self._uuid, completed=True)
        return Side(tuple(self.events), tuple(self.samples), last, runs)


@asynccontextmanager
async def recording(host: Host, uuid: str, began: datetime) -> AsyncIterator[Recorder]:
    async with connect(f"qemu+tcp://{host.address}/system") as libvirt:
        recorder = Recorder(libvirt, uuid, began)
        tasks = [asyncio.create_task(work()) for work in (recorder.listen, recorder.poll)]
        try:
            await recorder.listens.wait()
            yield recorder
        finally:
            ended = [task for task in tasks if task.done()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert not ended, ended


async def migrate(one: Host, other: Host, *more: str) -> None:
    await one.run("virsh", "migrate", *_MIGRATE, *more, VM, f"qemu+tcp://{other.address}/system")


async def under_way(one: Host) -> None:
    """Wait until memory is being copied."""
    async with asyncio.timeout(30):
        while True:
            if "Memory processed" in await one.run("virsh", "domjobinfo", VM):
                await asyncio.sleep(2)  # for a few looks at the running job
                return
            await asyncio.sleep(0.1)


async def succeeds(one: Host, other: Host) -> None:
    await migrate(one, other, "--bandwidth", "32")


async def aborted(one: Host, other: Host) -> None:
    move = asyncio.create_task(migrate(one, other, "--bandwidth", "4"))
    await under_way(one)
    await one.run("virsh", "domjobabort", VM)
    await asyncio.gather(move, return_exceptions=True)


async def fails(one: Host, other: Host) -> None:
    move = asyncio.create_task(migrate(one, other, "--bandwidth", "4"))
    await under_way(one)
    await other.run("pkill", "-KILL", "-f", f"guest={VM},")
    await asyncio.gather(move, return_exceptions=True)


async def post_copy(one: Host, other: Host) -> None:
    move = asyncio.create_task(migrate(one, other, "--postcopy", "--bandwidth", "4"))
    await under_way(one)
    await one.run("virsh", "migrate-postcopy", VM)
    await move


SCENARIOS: Final[dict[str, tuple[str, Callable[[Host, Host], Awaitable[None]]]]] = {
    "succeeds": ("a running guest moves at 32 MiB a second", succeeds),
    "aborted": ("`virsh domjobabort` while memory is copied", aborted),
    "fails": ("the QEMU of the destination is killed while memory is copied", fails),
    "post_copy": ("post-copy begins while memory is copied", post_copy),
}


async def record(lab: Lab, name: str) -> None:
    """Do one scenario, with a guest of its own, and keep what both hosts report."""
    scenario, act = SCENARIOS[name]
    one, other = lab.hosts
    fleet, began = Fleet(lab), SystemClock().now()
    await fleet.add(VMRequest(name=VM, host=one.name, network=False))
    uuid = str(fleet.id_of(VM))
    try:
        began = SystemClock().now()
        async with recording(one, uuid, began) as origin, recording(other, uuid, began) as there:
            await act(one, other)
            await asyncio.sleep(_AFTERWARDS)
            versions = origin.versions
            assert versions is not None
            source = f"libvirt {versions.libvirt}, QEMU {versions.hypervisor}, two hosts of a lab"
            save(name, Trace(source, scenario, await origin.side(), await there.side()))
    finally:
        with suppress(LabError):
            await fleet.remove(VM)


@asynccontextmanager
async def two_hosts() -> AsyncIterator[Lab]:
    """A lab of two hosts, which is gone afterwards."""
    with TemporaryDirectory() as folder:
        data = Path(folder) / "lab"
        try:
            lab = await Lab.make(data)
            await lab.up(Setup(hosts=2, control_plane=False, ovn=False, operator=False))
            yield lab
        finally:
            await down(data)


async def record_all(names: Iterable[str], one: Callable[[Lab, str], Awaitable[None]]) -> None:
    """Record one scenario after the other, on two hosts."""
    async with two_hosts() as lab:
        for name in names:
            await one(lab, name)


if __name__ == "__main__":
    asyncio.run(record_all(sys.argv[1:] or SCENARIOS, record))
