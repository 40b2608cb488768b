"""Which device fences a host: what a host that was taken over, or a wrong document, can reach.

The effect is looked at: the power of the other host stays on, no listener is given the password,
and the host that lives is not held for dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.integration.operator.conftest import operator, reason, until
from tests.integration.operator.failing import (
    SOON,
    Host,
    Site,
    evictions_of,
    failing_site,
    recovered,
)
from tests.integration.operator.lifecycle import QUICK, message
from tests.integration.runtime.scripted import eventually

from hypercobalt.adapters.fencing.devices import Device, parse
from hypercobalt.adapters.fencing.fake import FakeFenceDevice
from hypercobalt.adapters.fencing.port import Credentials, FenceDevice, PowerState
from hypercobalt.api.coordination import Event
from hypercobalt.api.core import Node
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.operator.shared.node_facts import HOSTNAME_LABEL
from hypercobalt.runtime import Kube

PORT = "node-restriction.kubernetes.io/bmc-port"
PORTS = ("7001", "7002", "7003")
BY_LABEL = f"""
devices:
- name: bmc
  agent: fence_redfish
  parameters: {{ip: 192.0.2.1, ipport: "{{labels[{PORT}]}}"}}
  values: {{{PORT}: ["7001", "7002", "7003"]}}
"""
PROVEN = "FenceDevicesProven"

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(90)]


def uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-00000000000{number}"


@dataclass
class Bench:
    """Three hosts, each with a BMC that reports the UUID of its system."""

    kube: Kube
    site: Site
    opened: list[str] = field(default_factory=list[str])

    def open(self, device: Device, credentials: Credentials) -> FenceDevice:
        """What answers at an address; a listener where no BMC does."""
        del credentials
        port = device.parameters.get("ipport", "")
        self.opened.append(port)
        if port in PORTS:
            return self.site.hosts[PORTS.index(port)].device
        return FakeFenceDevice(f"listener {port}", PowerState.OFF)

    @property
    def victim(self) -> Host:
        return self.site.hosts[2]

    async def label(self, host: Host, port: str) -> None:
        """Label a Node as an administrator, or a cluster without NodeRestriction, lets it be."""
        change = {"metadata": {"labels": {PORT: port}}}
        await self.kube.merge_patch(Node, host.name, change)

    async def claims(self, host: Host, found: str) -> None:
        mine = Hypervisor(
            metadata=ObjectMeta(name=host.name), status=HypervisorStatus(hostUUID=found)
        )
        agent = self.kube.as_manager("agent-inventory")
        await agent.apply(mine, force=True, subresource="status")

    async def starts(self) -> Host:
        async def one(number: int, host: Host) -> None:
            host.device.uuids = frozenset({uuid(number)})
            await host.starts(**{PORT: PORTS[number - 1]})
            await self.claims(host, uuid(number))

        await asyncio.gather(*(one(*found) for found in enumerate(self.site.hosts, 1)))
        await self.site.hosts[0].until("HaEnabled", "True/Succeeded")
        return self.site.hosts[0]

    async def events(self, why: str, host: Host) -> list[Event]:
        found = (await self.kube.list(Event, "default")).items
        return [one for one in found if one.reason == why and host.name in (one.note or "")]


@asynccontextmanager
async def recovering(
    kube: Kube, kubeconfig: Path, name: str, document: str
) -> AsyncIterator[Bench]:
    bench = Bench(kube, failing_site(kube, name))
    async with operator(
        kubeconfig,
        bench.site.compute,
        open_device=bench.open,
        fence_devices=parse(document),
        ha=SOON,
        lifecycle=QUICK,
    ):
        yield bench


def by_name(name: str, *ports: str) -> str:
    hosts = [name, f"{name}-1", f"{name}-2"]
    listed = ", ".join(
        f'{host}: {{ip: 192.0.2.1, ipport: "{port}"}}'
        for host, port in zip(hosts, ports, strict=True)
    )
    return f"devices: [{{name: bmc, agent: fence_redfish, hosts: {{{listed}}}}}]"


async def test_label_of_another_device_switches_no_host_off_and_gives_no_password_away(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with recovering(kube, kubeconfig, name, BY_LABEL) as bench:
        taken, victim = await bench.starts(), bench.victim
        await taken.until(PROVEN, "True/Proven")
        await bench.label(taken, "9999")
        found = await taken.until(PROVEN, "Unknown/NotSetUp")
        assert f"{PORT}=9999, which is not one of" in message(found, PROVEN)
        await bench.label(taken, PORTS[2])
        for host in (taken, victim):
            found = await host.until(PROVEN, "False/Shared")
            assert f"hosts {taken.name} and {victim.name}" in message(found, PROVEN)
        await taken.dies()
        found = await taken.until("RecoveryBlocked", "True/GatesClosed")
        assert f"hosts {taken.name} and {victim.name}" in message(found, "RecoveryBlocked")
        await eventually_in_events(bench, "FenceDeviceShared", victim)
        assert not found.status.fencing or found.status.fencing.phase != "Fenced"
        assert await evictions_of(kube, taken.name) == []
        await bench.label(taken, "9999")
        await until(
            kube,
            Hypervisor,
            name,
            lambda hv: "which is not one of" in message(hv, "RecoveryBlocked"),
        )
    assert [host.device.orders for host in bench.site.hosts] == [[], [], []]
    assert "9999" not in bench.opened


async def test_device_that_is_another_hosts_is_refused_before_and_when_its_host_dies(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    """The document names the third host's BMC, by another name, for the first one."""
    document = by_name(name, PORTS[0], PORTS[1], PORTS[2])
    async with recovering(kube, kubeconfig, name, document) as bench:
        taken, victim = await bench.starts(), bench.victim
        await taken.until(PROVEN, "True/Proven")
        taken.device.uuids = victim.device.uuids  # its address leads there now
        await taken.dies()
        found = await taken.until("Fenced", "Unknown/Refused")
        assert f"the device of host {victim.name} has" in message(found, "Fenced")
        assert await evictions_of(kube, taken.name) == []
        await bench.claims(taken, uuid(3))
        await taken.comes_back()
        found = await taken.until(PROVEN, "False/OtherHost")
        assert victim.name in message(found, PROVEN)
        await eventually_in_events(bench, "FenceDeviceOtherHost", victim)
        assert found.status.fenceDevices[0].proven is False
    assert [host.device.orders for host in bench.site.hosts] == [[], [], []]


async def test_host_that_claims_anothers_uuid_stops_no_fencing_but_its_own(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with recovering(kube, kubeconfig, name, by_name(name, *PORTS)) as bench:
        dead = await bench.starts()
        liar = bench.site.hosts[1]
        await dead.until(PROVEN, "True/Proven")
        await bench.claims(liar, uuid(1))
        await dead.dies()
        await dead.until("Fenced", "True/Proven")
        await recovered(bench.site, name)
        assert dead.device.orders == [PowerState.OFF]
    assert liar.device.orders == []


async def test_device_is_checked_at_the_first_sight_of_its_host(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with recovering(kube, kubeconfig, name, by_name(name, *PORTS)) as bench:
        host = bench.site.hosts[0]
        host.device.uuids = frozenset({uuid(3)})
        await host.starts()
        await bench.claims(host, uuid(1))
        found = await host.until(PROVEN, "False/OtherHost")
        assert f"reports the UUID {uuid(3)}, and the host {uuid(1)}" in message(found, PROVEN)
        found = await until(
            kube, Hypervisor, name, lambda hv: reason(hv, "HaEnabled") == "Unknown/Failed"
        )
        assert "cannot be fenced" in message(found, "HaEnabled")
        host.device.uuids = frozenset({uuid(1)})
        await bench.claims(host, "")
        await bench.claims(host, uuid(1))
        await host.until(PROVEN, "True/Proven")
        await host.until("HaEnabled", "True/Succeeded")


async def eventually_in_events(bench: Bench, why: str, host: Host) -> None:
    async def there() -> bool:
        return bool(await bench.events(why, host))

    await eventually(there, seconds=45)


async def test_host_that_takes_anothers_name_has_its_own_service_forced_down(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with recovering(kube, kubeconfig, name, by_name(name, *PORTS)) as bench:
        dead, victim = await bench.starts(), bench.victim
        taken = {"metadata": {"labels": {HOSTNAME_LABEL: victim.name}}}
        await kube.merge_patch(Node, dead.name, taken)
        await dead.dies()
        await dead.until("Fenced", "True/Proven")
        await recovered(bench.site, name)
        world = bench.site.compute.world
        assert world.calls.count(f"hosts.force_down {dead.name}") == 1
        assert not world.hosts[victim.name].forced_down
        assert world.hosts[victim.name].enabled
    assert victim.device.orders == []
