"""An API server that is away for a while, and the instances that it has."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest
from msgspec.structs import replace as with_fields
from tests.following import follow
from tests.integration.agent.process import stopped
from tests.integration.apiserver.conftest import fresh
from tests.integration.node_agent.host.conftest import NAMESPACE, certificates, kube, server
from tests.integration.ovs.conftest import daemons, running_daemons
from tests.integration.ovs.daemons import Daemons
from tests.integration.ovs_agent.reporting import NODE, SECONDS, agent, bridges, state, until

from hypercobalt.adapters.ovs.host import HostSwitch
from hypercobalt.api.conditions import get_condition, set_condition
from hypercobalt.api.core import Namespace
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import Instance
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.ovsnode import OVSNode
from hypercobalt.apiserver.server import Server, serve
from hypercobalt.ovs_agent.agent import NAME, register
from hypercobalt.ovs_agent.judging import TOGETHER
from hypercobalt.ovs_agent.rules import ports
from hypercobalt.ovs_agent.settings import OVSAgentSettings
from hypercobalt.runtime import Kube, Manager, Metrics, SystemClock, load_connection

__all__ = ["certificates", "daemons", "kube", "running_daemons", "server"]

pytestmark = pytest.mark.asyncio(loop_scope="module")

MAPPED = "external_ids:ovn-bridge-mappings=lab:br-lab"


def issues(node: OVSNode) -> dict[str | None, object]:
    """When each bridge that is missing was found so."""
    found = (one for one in node.status.issues if one.code == "BridgeMissing")
    return {one.object: one.detectedAt for one in found}


async def test_changes_while_the_api_is_away_are_one_write_once_it_is_back(
    daemons: Daemons, tmp_path: Path, certificates: Path
) -> None:
    ids = ("external_ids:system-id=chassis-a", "external_ids:ovn-remote=tcp:127.0.0.1:1", MAPPED)
    daemons.vsctl("set", "Open_vSwitch", ".", *ids)
    options = fresh(tmp_path, certificates)
    async with contextlib.AsyncExitStack() as running:
        async with serve(options) as server, person(server) as kube:
            await kube.create(Namespace(metadata=ObjectMeta(name=NAMESPACE)))
            process, port = await running.enter_async_context(agent(server, daemons))
            before = await until(kube, lambda node: issues(node).keys() >= {"br-int", "br-lab"})
            options = replace(options, port=int(server.url.rsplit(":", 1)[1]))
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as pages:
            for name in ("br-int", "br-gone", "br-new"):
                daemons.vsctl("add-br", name, "--", "set", "bridge", name, "datapath_type=netdev")
                await shows(pages, f'ovs_vswitchd_bridge_ports_total{{bridge="{name}"}} 1.0')
            await shows(pages, 'ovs_issues{code="BridgeMissing"} 1.0')
            daemons.vsctl("del-br", "br-gone")
            await shows(pages, "ovs_vswitchd_bridge_total 2.0")
            await asyncio.sleep(3 * TOGETHER.total_seconds())  # until that, too, would be written
        async with serve(options) as server, person(server) as kube:
            stored = await kube.get(OVSNode, NODE, NAMESPACE)
            assert stored is not None
            assert bridges(stored).keys() == bridges(before).keys()
            written = await versions(kube, stored)
            assert await stopped(process) == 0
    assert len(written) == 1
    (after,) = written
    assert [name for name in bridges(after) if name != "br-lab"] == ["br-int", "br-new"]
    assert issues(after) == {"br-lab": issues(before)["br-lab"]}
    assert issues(before)["br-lab"] is not None


@contextlib.asynccontextmanager
async def person(server: Server) -> AsyncIterator[Kube]:
    async with Kube(load_connection(server.kubeconfig)) as kube:
        yield kube


async def shows(pages: httpx2.AsyncClient, line: str) -> None:
    """Wait for a line of the agent's metrics."""
    async with asyncio.timeout(SECONDS):
        while line not in (await pages.get("/metrics")).text.splitlines():  # noqa: ASYNC110
            await asyncio.sleep(0.2)  # the page reports no change


async def versions(kube: Kube, stored: OVSNode) -> list[OVSNode]:
    """The status in each version after this one, until the agent has been quiet for a while."""
    found: list[OVSNode] = []
    with contextlib.suppress(TimeoutError):
        async with kube.watch(OVSNode, fields=f"metadata.name={NODE}") as events:
            async with asyncio.timeout(SECONDS) as quiet:
                async for event in events:
                    if event.object is None:
                        continue
                    if event.object.metadata.resourceVersion == stored.metadata.resourceVersion:
                        continue
                    found.append(event.object)
                    quiet.reschedule(asyncio.get_running_loop().time() + 4.0)
    return found


VM, EARLY = (f"0f2c1a5e-0000-4000-8000-00000000000{last}" for last in "12")


async def test_port_whose_instance_has_gone_is_left_over_and_one_plugged_ahead_is_not(
    server: Server, kube: Kube, daemons: Daemons, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "GRACE", timedelta(seconds=1))
    daemons.vsctl("add-br", "br-int", "--", "set", "bridge", "br-int", "datapath_type=netdev")
    for name, instance in (("tap1", VM), ("tap2", EARLY)):
        daemons.vsctl(
            *("add-port", "br-int", name, "--", "set", "interface", name, "type=internal"),
            *(f"external_ids:iface-id={name}", f"external_ids:vm-uuid={instance}"),
        )
    host = await kube.create(Hypervisor(metadata=ObjectMeta(name=NODE)))
    await kube.create(Hypervisor(metadata=ObjectMeta(name="kvm-b")))
    async with registered(server, daemons):
        unknown = await until(kube, lambda node: state(node, "PortsHealthy") == "True/NoIssues")
        await report(kube, host, VM.upper(), connected=True)
        await until(kube, lambda node: "OrphanPortNoDomain" not in message(node))
        await report(kube, host, connected=True)
        orphan = await until(kube, lambda node: bool(codes(node)))
        await report(kube, host, VM, connected=True)
        await until(kube, lambda node: codes(node) == [])
        await report(kube, host, connected=False)
        lost = await until(kube, lambda node: "OrphanPortNoDomain" in message(node))
    assert "OrphanPortNoDomain" in message(unknown)
    assert codes(orphan) == [("OrphanPortNoDomain", "tap1")]
    assert state(orphan, "PortsHealthy") == "False/OrphanPorts"
    assert state(lost, "PortsHealthy") == "True/NoIssues"


def codes(node: OVSNode) -> list[tuple[str | None, str | None]]:
    return [(one.code, one.object) for one in node.status.issues]


def message(node: OVSNode) -> str:
    found = get_condition(node.status.conditions, "PortsHealthy")
    return found.message if found else ""


async def report(kube: Kube, host: Hypervisor, *instances: str, connected: bool) -> None:
    """Write what the node agent reports of libvirt and its instances."""
    status = "True" if connected else "False"
    found = set_condition((), "LibVirtConnection", status, "Of", "", now=SystemClock().now())
    listed = tuple(Instance(id=one, name="a", active=True) for one in instances)
    made = with_fields(host.status, conditions=found, instances=listed)
    meta = ObjectMeta(name=host.metadata.name)
    await kube.as_manager("kvm-node-agent").apply(
        with_fields(host, metadata=meta, status=made), force=True, subresource="status"
    )
    await follow(kube, Hypervisor, NODE, lambda one: one.conditions == found, seconds=SECONDS)


@contextlib.asynccontextmanager
async def registered(server: Server, daemons: Daemons) -> AsyncIterator[None]:
    """The agent in this process, so that its grace can be short."""
    paths, metrics = daemons.paths, Metrics()
    settings = OVSAgentSettings(
        NODE,
        namespace=NAMESPACE,
        ovs_rundir=paths.ovs,
        ovn_rundir=paths.ovn,
        host_root=paths.root,
    )
    connection = load_connection(server.kubeconfig)
    async with Kube(connection, field_manager=NAME, metrics=metrics) as client:
        manager = Manager(client, metrics=metrics)
        register(settings, manager, HostSwitch(paths))
        running = asyncio.create_task(manager.run())
        try:
            yield
        finally:
            manager.stop()
            await asyncio.wait_for(running, SECONDS)
