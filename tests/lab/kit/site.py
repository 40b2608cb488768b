"""A lab in service as tests visit it: its VMs, its API, and `cobalt` beside it."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from hypercobalt.api.conditions import is_true
from hypercobalt.api.eviction import Eviction, has_ended
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType
from hypercobalt.lab import processes
from hypercobalt.lab.errors import LabError
from hypercobalt.lab.lab import Lab
from hypercobalt.lab.operator import ROLE
from hypercobalt.lab.setup import Setup
from hypercobalt.lab.vms.fleet import Fleet
from hypercobalt.runtime import Kube
from tests.lab.kit.command import COBALT
from tests.waiting import until

HOSTS = ("kvm-1", "kvm-2", "kvm-3")
_SLOW = "8"  # MiB a second: a guest takes 8 s
_PINGED = re.compile(r"pinged \S+ (\d+) packets transmitted, (\d+) packets received")


@dataclass(frozen=True, slots=True)
class Site:
    """A lab with its operator, VMs, and an administrator's client."""

    lab: Lab
    vms: Fleet
    kube: Kube

    async def cobalt(self, *arguments: str) -> tuple[int, str]:
        """Exit code and output of a command."""
        process = await asyncio.create_subprocess_exec(
            *(COBALT, *arguments),
            env=os.environ | {"KUBECONFIG": str(self.lab.control.kubeconfig)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        printed = (await process.communicate())[0].decode()
        return process.returncode or 0, printed

    async def where(self) -> list[tuple[str, str, str]]:
        """Name, host and state of every domain."""
        vms = (await self.vms.inventory()).vms
        return sorted((vm.name, vm.host, vm.state) for vm in vms)

    async def emulators(self, name: str) -> list[str]:
        """Hosts with a process of this VM, once for each process; libvirt is not called."""
        found: list[str] = []
        for host in self.lab.hosts:
            count = await host.run("sh", "-c", f"pgrep -fc 'guest[=]{name},' || :")
            found += [host.name] * int(count)
        return found

    async def is_ready(self, host: str) -> bool:
        found = await self.kube.get(Hypervisor, host)
        return found is not None and is_true(found.conditions, HypervisorConditionType.READY)

    async def is_calm(self) -> bool:
        """Whether all hosts are in service, and nothing moves guests."""
        evictions = (await self.kube.list(Eviction)).items
        calm = all(has_ended(one.status) for one in evictions)
        return calm and all([await self.is_ready(host) for host in HOSTS])

    async def is_in_maintenance(self, host: str) -> bool:
        found = await self.kube.get(Hypervisor, host)
        return found is not None and bool(found.spec.maintenance)

    async def moves(self, name: str) -> bool:
        """Whether a VM is leaving kvm-1 now."""
        try:
            printed = await self.vms.host("kvm-1").run("virsh", "domjobinfo", name)
        except LabError:
            return False
        return "Outgoing migration" in printed and "Memory remaining" in printed

    async def make_slow(self, name: str) -> None:
        await self.vms.host("kvm-1").run("virsh", "migrate-setspeed", name, _SLOW)

    async def kill_operator(self) -> None:
        (operator,) = processes.find(self.lab.state.id, ROLE)
        processes.send(operator, self.lab.state.id, signal.SIGKILL)
        await until(self._has_no_operator)

    async def _has_no_operator(self) -> bool:
        return not self.lab.operator.is_running

    async def pings(self, name: str, number: int) -> tuple[int, int]:
        """Sent and received, as a guest counted them; waits for its answer of that number."""
        log = self.vms.log(name)

        async def are_there() -> bool:
            return len(_PINGED.findall(log.read_text())) >= number

        await until(are_there)
        sent, received = _PINGED.findall(log.read_text())[number - 1]
        return int(sent), int(received)


@asynccontextmanager
async def visited(lab: Lab) -> AsyncGenerator[Site]:
    """A lab whose hosts are in service; a test's VMs and maintenance are gone afterwards."""
    async with lab.control.client() as kube:
        site = Site(lab, Fleet(lab), kube)
        await until(site.is_calm)
        yield site
        await lab.up(Setup())
        hosts = [host for host in HOSTS if await site.is_in_maintenance(host)]
        await asyncio.gather(*(site.cobalt("resume", host) for host in hosts))
        vms = {name for name, _, _ in await site.where()}
        await asyncio.gather(*(site.vms.remove(vm) for vm in vms))
