"""The node agent as the lab runs it: a service of each host, seen through the API."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.lab.agents import KUBECONFIG, NODE_AGENT
from hypercobalt.lab.host import Host
from hypercobalt.runtime import Kube
from tests.following import follow
from tests.lab.conftest import TakeHosts, until

pytestmark = pytest.mark.timeout(180)
MAIN_PID = ("systemctl", "show", "--property=MainPID", "--value", NODE_AGENT)
SOON = 30.0


async def shown(api: Kube, name: str, right: Callable[[Hypervisor], bool]) -> Hypervisor:
    """A Hypervisor as soon as it is right."""
    return await follow(api, Hypervisor, name, right, seconds=SOON)


def unit(hypervisor: Hypervisor, name: str) -> str:
    found = (c.status for c in hypervisor.conditions if c.type == name)
    return next(found, "")


async def test_every_host_reports_itself(nodes: TakeHosts, api: Kube) -> None:
    for host in await nodes(2):
        hypervisor = await shown(api, host.name, lambda hv: unit(hv, "LibVirtConnection") == "True")
        assert hypervisor.status.internalIp == host.address
        assert hypervisor.status.numInstances == 0


async def test_a_stopped_libvirtd_is_seen_and_its_return_too(nodes: TakeHosts, api: Kube) -> None:
    (host,) = await nodes(1)
    await shown(api, host.name, lambda hv: unit(hv, "libvirtd.service") == "True")

    await host.run("systemctl", "kill", "--signal=KILL", "libvirtd.service")
    await host.run("systemctl", "stop", "libvirtd.socket", "libvirtd-ro.socket", "libvirtd.service")
    await shown(api, host.name, lambda hv: unit(hv, "libvirtd.service") == "False")

    await host.run("systemctl", "start", "libvirtd.service")
    await shown(api, host.name, lambda hv: unit(hv, "libvirtd.service") == "True")


async def test_an_agent_that_is_killed_comes_back(nodes: TakeHosts) -> None:
    (host,) = await nodes(1)
    before = await main_pid(host)
    await host.run("kill", "-9", before)
    running = f"pid=$({' '.join(MAIN_PID)}) && [ $pid != 0 ] && [ $pid != {before} ]"
    await until(lambda: host.run("sh", "-c", running))


async def test_the_kubeconfig_of_an_agent_is_for_root_only(nodes: TakeHosts) -> None:
    (host,) = await nodes(1)
    assert await host.run("stat", "--format=%a %U", KUBECONFIG) == "600 root\n"
    command_lines = await host.run("ps", "-eo", "args")
    assert "client-key" not in command_lines


async def test_a_memory_of_150_mib_is_enough_for_a_host_with_its_agent(
    nodes: TakeHosts, api: Kube
) -> None:
    for host in await nodes(3):
        await shown(api, host.name, lambda hv: unit(hv, "LibVirtConnection") == "True")
        assert host.memory_bytes() < 150 * 2**20


async def main_pid(host: Host) -> str:
    return (
        await host.run("systemctl", "show", "--property=MainPID", "--value", NODE_AGENT)
    ).strip()
