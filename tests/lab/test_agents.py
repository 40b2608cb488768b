"""The node agent as the lab runs it: a service of each host, seen through the API."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hypercobalt.api.coordination import Lease
from hypercobalt.api.core import Node
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.lab import heartbeat, kubelet, tokens
from hypercobalt.lab.agents import KUBECONFIG, NAMESPACE, NODE_AGENT
from hypercobalt.lab.errors import LabError
from hypercobalt.lab.lab import Lab
from hypercobalt.runtime import Kube
from tests.following import follow
from tests.lab.conftest import TakeHosts, until
from tests.lab.kit.agent import main_pid

pytestmark = pytest.mark.timeout(180)
MAIN_PID = ("systemctl", "show", "--property=MainPID", "--value", NODE_AGENT)
SOON = 60.0


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
        node = await api.get(Node, host.name)
        assert node is not None
        assert node.status.nodeInfo is not None
        assert hypervisor.status.bootID == node.status.nodeInfo.bootID
        assert hypervisor.status.bootedAt is not None


async def test_a_stopped_libvirtd_is_seen_and_its_return_too(nodes: TakeHosts, api: Kube) -> None:
    (host,) = await nodes(1)
    await shown(api, host.name, lambda hv: unit(hv, "libvirtd.service") == "True")

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


async def test_the_credentials_of_a_host_are_for_root_only(nodes: TakeHosts) -> None:
    (host,) = await nodes(1)
    files = (KUBECONFIG, tokens.OF_NODE_AGENT, f"{kubelet.CREDENTIALS}/{heartbeat.KEY}")
    modes = await host.run("stat", "--format=%a %U", *files)
    assert modes.splitlines() == ["600 root"] * len(files)
    command_lines = await host.run("ps", "-eo", "args")
    assert "client-key" not in command_lines
    assert (await host.run("cat", tokens.OF_NODE_AGENT)) not in command_lines


async def test_an_agent_goes_on_with_the_token_that_replaces_its_own(
    nodes: TakeHosts, lab: Lab, api: Kube
) -> None:
    (host,) = await nodes(1)
    await shown(api, host.name, lambda hv: unit(hv, "LibVirtConnection") == "True")
    before = await host.run("cat", tokens.OF_NODE_AGENT)
    assert await tokens.renew(lab.layout)
    assert await host.run("cat", tokens.OF_NODE_AGENT) != before
    await host.run("systemctl", "restart", NODE_AGENT)  # reads it at once
    lease = await api.get(Lease, f"node-agent-{host.name}", NAMESPACE)
    await api.delete(Lease, f"node-agent-{host.name}", NAMESPACE)
    assert lease is not None
    await until(lambda: _has_lease(api, host.name))


async def _has_lease(api: Kube, name: str) -> None:
    if await api.get(Lease, f"node-agent-{name}", NAMESPACE) is None:
        raise LabError("not yet")
