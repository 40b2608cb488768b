"""VirtualMachineInstances of a lab's host: boot sectors, followed, and struck by failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final

import msgspec

from hypercobalt.api import codec
from hypercobalt.api.coordination import Event
from hypercobalt.api.kubevirt.names import FINAL_PHASES, LAUNCHER_USER
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.workloads import Pod
from hypercobalt.errors import TransientError
from hypercobalt.lab.errors import CommandError
from hypercobalt.lab.guest import bootsector
from hypercobalt.lab.guest.bootsector import Program
from hypercobalt.lab.host import Host
from hypercobalt.lab.lab import Lab
from hypercobalt.lab.pods.running.settings import KUBELET
from hypercobalt.lab.pods.running.unit import PREFIX, unit_name
from hypercobalt.runtime import Change, Kube
from hypercobalt.virt.controller.model import launcher_name
from tests.waiting import Pause, until

SOON: Final = 60.0
NAMESPACE: Final = "default"
_DISK_BYTES: Final = 17 << 20
"""What the programs that write need of their disk."""
LARGE_MIB: Final = 96
"""What `dirty-memory` fills, in MiB."""
_OF_ALL: Final = {"link hcpods", "mount /run/netns"}
"""What a host has for all of its pods, from the first one on."""
_KILLED: Final = "--signal=KILL"


def guest(
    name: str,
    program: Program = "idle",
    *,
    grace: int = 0,
    acpi: bool = True,
    panic: bool = False,
    memory_mib: int = 32,
) -> VirtualMachineInstance:
    """An instance whose guest is a boot sector.

    Args:
        name: of the instance.
        program: of the boot sector; only `obey` hears the power button.
        grace: seconds.
        acpi: whether the guest has a power button.
        panic: whether it has a device to report a panic by.
        memory_mib: memory of the guest.
    """
    devices: dict[str, object] = {"disks": [{"name": "root", "disk": {}}]}
    if panic:
        devices["panicDevices"] = [{"model": "isa"}]
    domain = {
        "memory": {"guest": f"{memory_mib}Mi"},
        "features": {"acpi": {"enabled": acpi}},
        "devices": devices,
    }
    body = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "terminationGracePeriodSeconds": grace,
            "domain": domain,
            "volumes": [{"name": "root", "containerDisk": {"image": f"lab/boot-{program}"}}],
        },
    }
    return codec.decode(msgspec.json.encode(body), VirtualMachineInstance)


def lay_out(directory: Path, programs: Iterable[Program]) -> None:
    """Make an image of each program among the images of a lab."""
    for program in programs:
        disk = directory / f"boot-{program}" / "disk"
        disk.mkdir(parents=True, exist_ok=True)
        sector = bootsector.image(program, memory_mib=LARGE_MIB)
        (disk / "disk.img").write_bytes(sector.ljust(_DISK_BYTES, b"\0"))


@dataclass
class Guests:
    """The instances of a host, and what is done to them.

    Attributes:
        last: each instance as it was seen last, by name.
        gone: names of those that were deleted since.
    """

    lab: Lab
    host: Host
    kube: Kube
    last: dict[str, VirtualMachineInstance] = field(
        default_factory=dict[str, VirtualMachineInstance]
    )
    gone: set[str] = field(default_factory=set[str])
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def create(self, *sent: VirtualMachineInstance) -> None:
        async with asyncio.TaskGroup() as group:
            for one in sent:
                self.gone.discard(one.metadata.name)
                self.last.pop(one.metadata.name, None)
                group.create_task(self.kube.create(one))

    async def delete(self, *names: str) -> None:
        for name in names:
            await self.kube.delete(VirtualMachineInstance, name, NAMESPACE)

    async def until(
        self,
        name: str,
        right: Callable[[VirtualMachineInstance], bool],
        within: float = SOON,
    ) -> VirtualMachineInstance:
        """Wait until an instance is as wanted."""

        def holds() -> bool:
            return name in self.last and right(self.last[name])

        await self._wait(holds, f"{name}", within)
        return self.last[name]

    async def run(self, *names: str) -> None:
        """Wait until guests run."""
        for name in names:
            vmi = await self.until(name, lambda vmi: vmi.status.phase in {"Running", *FINAL_PHASES})
            assert vmi.status.phase == "Running", vmi

    async def ended(self, name: str, within: float = SOON) -> str:
        """Wait until an instance has ended, and return its phase."""
        vmi = await self.until(name, lambda vmi: vmi.status.phase in FINAL_PHASES, within)
        return vmi.status.phase

    async def are_gone(self, *names: str, within: float = SOON) -> None:
        """Wait until the API has instances no more."""
        await self._wait(lambda: self.gone.issuperset(names), f"{', '.join(names)} gone", within)

    async def events(self, name: str, wanted: set[str]) -> None:
        """Wait until an instance has Events, each as `TYPE REASON`."""
        seen = set[str]()

        async def recorded() -> bool:
            found = (await self.kube.list(Event, NAMESPACE)).items
            uid = self.last[name].metadata.uid
            seen.update(
                f"{one.type} {one.reason}"
                for one in found
                if one.regarding is not None and one.regarding.uid == uid
            )
            return wanted <= seen

        with suppress(TimeoutError):
            await until(recorded, SOON)
        assert wanted <= seen, seen

    def unit(self, name: str) -> str:
        """Unit of an instance's pod."""
        (uid,) = self.last[name].status.activePods
        return unit_name(uid)

    def pod(self, name: str) -> str:
        """Name of an instance's pod."""
        return launcher_name(self.last[name])

    async def emulators(self, name: str) -> list[str]:
        """Process ids of an instance's QEMU, in the host."""
        try:
            found = await self.host.run("pgrep", "-f", f"guest={NAMESPACE}_{name},")
        except CommandError:
            return []
        return found.split()

    async def crash(self, name: str) -> None:
        """Kill an instance's QEMU."""
        (process,) = await self.emulators(name)
        await self.host.run("kill", "-9", process)

    async def kill_launcher(self, name: str) -> None:
        """Kill the process of a pod's unit that waits for the pod; the kernel ends the others."""
        await self.host.run("systemctl", "kill", _KILLED, "--kill-who=main", self.unit(name))

    async def kill(self, service: str) -> None:
        """Kill all processes of a service of the host; systemd starts it again."""
        await self.host.run("systemctl", "kill", _KILLED, "--kill-who=all", service)

    async def delete_pod(self, name: str, grace: timedelta | None = None) -> None:
        await self.kube.delete(Pod, self.pod(name), NAMESPACE, grace=grace)

    async def clear(self) -> None:
        """Delete all instances, and wait until the API has neither them nor their pods."""
        left = [name for name in self.last if name not in self.gone]
        await self.delete(*left)
        await self.are_gone(*left)

        async def without_pods() -> bool:
            return not (await self.kube.list(Pod, NAMESPACE)).items

        await until(without_pods, SOON)

    async def _wait(self, holds: Callable[[], bool], what: str, within: float) -> None:
        try:
            async with asyncio.timeout(within), self._news:
                await self._news.wait_for(holds)
        except TimeoutError:
            seen = {name: vmi.status.phase for name, vmi in self.last.items()}
            raise AssertionError(f"{what}: not within {within:g} s; {seen}") from None

    async def follow(self) -> None:
        """Keep `last` and `gone`, also over restarts of the API server, until cancelled."""
        pause = Pause(0.1)
        while True:
            with suppress(TransientError):
                async with self.kube.watch(VirtualMachineInstance, NAMESPACE) as events:
                    async for event in events:
                        assert not event.problem, event.problem
                        if event.object is not None:
                            await self._see(event.change, event.object)
            await pause()

    async def _see(self, change: Change, vmi: VirtualMachineInstance) -> None:
        async with self._news:
            name = vmi.metadata.name
            if change is Change.DELETED:
                self.gone.add(name)
            self.last[name] = vmi
            self._news.notify_all()


@asynccontextmanager
async def guests_of(lab: Lab) -> AsyncGenerator[Guests]:
    """The guests of the one host of a lab; what is left of them afterwards fails the test."""
    (host,) = lab.hosts
    async with lab.control.client() as kube:
        found = Guests(lab, host, kube)
        following = asyncio.create_task(found.follow(), name="instances")
        before = await belongings(host)
        try:
            yield found
            await found.clear()
            await nothing_more(host, before)
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


async def nothing_more(host: Host, before: set[str]) -> None:
    """Wait until a host has nothing of pods that it did not have before."""
    left = set[str]()

    async def clean() -> bool:
        left.clear()
        left.update(await belongings(host) - before)
        return not left

    with suppress(TimeoutError):
        await until(clean, SOON)
    assert not left, sorted(left)


async def belongings(host: Host) -> set[str]:
    """What a host has of pods and guests, a line each."""
    listed = await host.run(
        "sh", "-c",
        f"systemctl list-units --all --plain --no-legend '{PREFIX}*' | awk '{{print $1}}';"
        " ip netns list | awk '{print \"netns\", $1}'; ls /run/netns | sed 's/^/netns file /';"
        " ip -oneline link | awk -F'[:@] *' '{print \"link\", $2}';"
        f" ls {KUBELET}/pods | sed 's/^/directory /'; awk '{{print \"mount\", $2}}' /proc/mounts;"
        f" find /sys/fs/cgroup -name '{PREFIX}*'; nft list ruleset;"
        f" ps -o args= -u {LAUNCHER_USER}; pgrep -a qemu-system; :",
    )  # fmt: skip
    return {line for line in listed.splitlines() if line.strip()} - _OF_ALL
