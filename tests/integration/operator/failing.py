"""Hosts that fail: a compute service in memory, fence devices in memory, agents' Leases by hand."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from msgspec.structs import replace
from tests.integration.operator.agents import Agent
from tests.integration.operator.conftest import DEFAULTS, Operator, operator, ready, reason, until
from tests.integration.operator.dying import Dying
from tests.integration.operator.lifecycle import QUICK, agent_reports, site
from tests.integration.operator.service import SKIP, in_service
from tests.integration.runtime.scripted import eventually

from hypercobalt.adapters.fencing.fake import FakeFenceDevice
from hypercobalt.adapters.fencing.port import Cuts, FenceDevice, PowerState
from hypercobalt.api.core import Node, NodeStatus, NodeSystemInfo
from hypercobalt.api.eviction import Eviction
from hypercobalt.api.fencing import Fencing, GuestsStopped
from hypercobalt.api.hypervisor import MEMORY, Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.quantity import Quantity
from hypercobalt.compute.fake import FakeCompute
from hypercobalt.compute.model import Server, Size
from hypercobalt.ha.host_failure.facts import FenceSetup, Means
from hypercobalt.ha.host_failure.guard import GateLimits
from hypercobalt.ha.host_failure.node_failure import Waits
from hypercobalt.operator.assembly import add_controllers
from hypercobalt.operator.ha.settings import HaSettings
from hypercobalt.operator.shared.ha_mode import HaMode
from hypercobalt.runtime import Kube, Manager, Metrics, load_connection

S = timedelta(seconds=1)
SOON = HaSettings(
    mode=HaMode.INTERNAL,
    waits=Waits(dead=S, live=3 * S, reboot=3 * S, peers=0.3 * S, healthy=S),
    limits=GateLimits(cool_down=S),
    poll=0.1 * S,
)

HUGE = Size(1000, 1_000_000, 0)


@dataclass
class FakeFences:
    """A fence device for each host that was given one."""

    by_node: dict[str, FakeFenceDevice] = field(default_factory=dict[str, FakeFenceDevice])

    storage: dict[str, FakeFenceDevice] = field(default_factory=dict[str, FakeFenceDevice])
    power_lasts: timedelta = 20 * S
    document: int = 1

    def setup(self, node: Node) -> FenceSetup:
        power, storage = (self._of(node, cuts) for cuts in Cuts)
        if power is None and storage is None:
            return FenceSetup(problem="no device")
        return FenceSetup(
            Means(power.name, self.power_lasts) if power else Means(),
            Means(storage.name, 3 * S) if storage else Means(),
        )

    async def devices(self, node: Node, cuts: Cuts) -> Sequence[tuple[FenceDevice, timedelta]]:
        found = self._of(node, cuts)
        return [(found, 5 * S)] if found is not None else []

    async def version(self, node: Node) -> str:
        del node
        return str(self.document)

    def _of(self, node: Node, cuts: Cuts) -> FakeFenceDevice | None:
        kind = self.by_node if cuts is Cuts.POWER else self.storage
        return kind.get(node.metadata.name)

    def add(self, name: str) -> FakeFenceDevice:
        made = self.by_node[name] = FakeFenceDevice(f"bmc of {name}")
        return made

    def add_storage(self, name: str) -> FakeFenceDevice:
        """A device that cuts the host off from its storage."""
        made = self.storage[name] = FakeFenceDevice(f"san of {name}")
        return made


def recovering(
    kubeconfig: Path, compute: FakeCompute, fences: FakeFences
) -> AbstractAsyncContextManager[Operator]:
    """An operator that is the HA service, in a hurry."""
    return operator(kubeconfig, compute, fences, ha=SOON, lifecycle=QUICK)


async def run_until_death(kubeconfig: Path, site: Site, dying: Dying) -> None:
    """Run such an operator until it dies, or for as long as a recovery takes."""
    metrics = Metrics()
    async with Kube(load_connection(kubeconfig), metrics=metrics) as client:
        manager = Manager(client.guarded(dying), metrics=metrics)
        options = dataclasses.replace(DEFAULTS, ha=SOON, lifecycle=QUICK)
        add_controllers(manager, options, metrics, lambda *_: site.compute, site.fences)
        dying.task = asyncio.create_task(manager.run())
        await asyncio.wait({dying.task}, timeout=8)
        dying.task.cancel()
        await asyncio.gather(dying.task, return_exceptions=True)


@dataclass
class Host:
    """One host of a site: its Node, its agent, its compute service, its fence device."""

    kube: Kube
    compute: FakeCompute
    name: str
    device: FakeFenceDevice
    boot: str = "boot-1"

    async def starts(self, **labels: str) -> None:
        """Have it taken into service, with memory to spare."""
        await in_service(self.kube, self.name, labels=SKIP | labels)
        await self.reports("True")

    async def reports(self, status: str, boot: str = "") -> None:
        """What kubelet and agent of a boot report."""
        self.boot = boot or self.boot
        await self.node(status)
        agent = Agent(self.kube, self.name)
        await agent.renews()
        await agent.renews()
        await agent_reports(self.kube, self.name)
        mine = HypervisorStatus(
            bootID=self.boot,
            effectiveCapacity={MEMORY: Quantity("100Gi")},
            numInstances=len(self.compute.moves.on(self.name)),
        )
        await self.kube.as_manager("agent-facts").apply(
            Hypervisor(metadata=ObjectMeta(name=self.name), status=mine),
            force=True,
            subresource="status",
        )

    async def obeys(self) -> None:
        """What its agent reports once it has ended every instance, as the record orders it."""
        found = await self.kube.get(Hypervisor, self.name)
        assert found is not None
        assert found.fencing is not None
        done = GuestsStopped(self.boot, found.fencing.startedAt)
        await self.kube.as_manager("agent-fencing").apply(
            Hypervisor(
                metadata=ObjectMeta(name=self.name), status=HypervisorStatus(guestsStopped=done)
            ),
            force=True,
            subresource="status",
        )

    async def node(self, status: str) -> None:
        """What the Node's condition Ready is."""

        def changed(node: Node) -> Node:
            info = NodeSystemInfo(bootID=self.boot)
            found: NodeStatus = replace(node.status, conditions=ready(status), nodeInfo=info)
            return replace(node, status=found)

        await self.kube.modify(Node, self.name, changed, subresource="status")

    async def dies(self) -> None:
        """Silence the host: kubelet, agent and compute service."""
        self.compute.world.change_host(self.name, up=False)
        await Agent(self.kube, self.name).renews(lasts=1)
        await self.node("Unknown")

    async def comes_back(self, boot: str = "boot-2") -> None:
        """Boot the host again, with everything that reports."""
        self.device.state = PowerState.ON
        self.compute.world.change_host(self.name, up=True)
        await self.reports("True", boot)

    async def until(self, type_: str, expected: str) -> Hypervisor:
        """Wait for a condition to be `status/reason`."""
        return await until(
            self.kube, Hypervisor, self.name, lambda hv: reason(hv, type_) == expected
        )


@dataclass
class Site:
    """A few hosts, the first with a server."""

    compute: FakeCompute
    fences: FakeFences
    hosts: tuple[Host, ...]

    @asynccontextmanager
    async def agents(self) -> AsyncIterator[None]:
        """Have the agents of all hosts but the first renew their Leases."""

        async def renew() -> None:
            while True:
                for host in self.hosts[1:]:
                    await Agent(host.kube, host.name).renews()
                await asyncio.sleep(0.2)

        task = asyncio.create_task(renew())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})


def failing_site(kube: Kube, name: str, *, hosts: int = 3, servers: int = 1) -> Site:
    names = [name, *(f"{name}-{number}" for number in range(1, hosts))]
    compute, fences = site(*names), FakeFences()
    compute.moves.hosts = dict.fromkeys(names, HUGE)
    for number in range(servers):
        id_ = f"00000000-0000-4000-8000-{number:012}"
        server = Server(id_, f"vm-{number}", name, "ACTIVE", running=True, size=Size(1, 1024, 0))
        compute.moves.add(server)
    made = tuple(Host(kube, compute, one, fences.add(one)) for one in names)
    return Site(compute, fences, made)


async def start(site: Site) -> Host:
    """Have every host in service, and return the host with the server."""
    for host in site.hosts:
        await host.starts()
    await site.hosts[0].until("HaEnabled", "True/Succeeded")
    return site.hosts[0]


@asynccontextmanager
async def failing(
    kubeconfig: Path, kube: Kube, name: str, *, hosts: int = 3, servers: int = 1
) -> AsyncIterator[tuple[Site, Host]]:
    """Hosts in the service of an operator that recovers, and the one that will fail."""
    site = failing_site(kube, name, hosts=hosts, servers=servers)
    async with recovering(kubeconfig, site.compute, site.fences):
        yield site, await start(site)


async def evictions_of(kube: Kube, name: str) -> list[Eviction]:
    return [one for one in (await kube.list(Eviction)).items if one.spec.hypervisor == name]


async def recovered(site: Site, name: str) -> None:
    """Wait until no server is on the host any more, and all of them run elsewhere."""
    others = [host.name for host in site.hosts if host.name != name]
    moves = site.compute.moves
    await eventually(lambda: not moves.on(name), seconds=45)
    assert all(server.running for other in others for server in moves.on(other))
    assert any(moves.on(other) for other in others)


def fencing(host: Hypervisor) -> Fencing:
    assert host.status.fencing is not None
    return host.status.fencing


async def gone(kube: Kube, name: str) -> None:
    async def nothing() -> bool:
        return not await evictions_of(kube, name)

    await eventually(nothing, seconds=45)
