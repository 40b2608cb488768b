"""The agent as a process, on real daemons and a real API server."""

from __future__ import annotations

import asyncio
import sys
import time

import httpx2
import pytest
from tests.integration.agent.process import stopped
from tests.integration.node_agent.host.conftest import (
    NAMESPACE,
    certificates,
    delete_all,
    kube,
    server,
)
from tests.integration.ovs.conftest import daemons, running_daemons
from tests.integration.ovs.daemons import Daemons
from tests.integration.ovs_agent.reporting import NODE, agent, bridges, healthy, state, until

from hypercobalt.adapters.ovs.model import DaemonName
from hypercobalt.api.coordination import Event, Lease
from hypercobalt.api.ovsnode import OVSNode
from hypercobalt.apiserver.server import Server
from hypercobalt.cli.network import bridges as show_bridges
from hypercobalt.cli.ports import ports
from hypercobalt.cli.trace import trace
from hypercobalt.runtime import Kube

__all__ = ["certificates", "daemons", "kube", "running_daemons", "server"]

pytestmark = pytest.mark.asyncio(loop_scope="module")

DETECTED = 10.0
VSWITCHD, OVSDB = DaemonName.VSWITCHD, DaemonName.OVSDB_SERVER
ACTIVE = "True/AllBridgesActive"
DERIVED = ("AllBridgesHealthy", "AllBondsHealthy", "PortsHealthy", "FlowsInSync")


@pytest.fixture
def switch(daemons: Daemons) -> Daemons:
    """Two bridges, an uplink, flows in two tables."""
    daemons.add_link("eth0", "cable")
    daemons.vsctl(
        *("add-br", "br-int", "--", "set", "bridge", "br-int", "datapath_type=netdev"),
        *("fail_mode=secure", "--", "add-br", "br-ex", "--"),
        *("set", "bridge", "br-ex", "datapath_type=netdev", "--", "add-port", "br-ex", "eth0"),
    )
    for flow in ("table=0,priority=9,in_port=7,actions=drop", "table=8,ip,actions=drop"):
        daemons.ofctl("add-flow", "br-int", flow)
    return daemons


FRAMES = 50
"""More than the devices of a bridge send by themselves."""

SEND = f"""
import socket
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as made:
    made.bind(("cable", 0))
    for _ in range({FRAMES}):
        made.send(bytes.fromhex("ffffffffffff" "020000000001" "88b5") + bytes(1000))
"""


METRICS = {
    "packetsReceived": ("eth0", "rx_packets"),
    "packetsSent": ("eth0", "tx_packets"),
    "bytesReceived": ("eth0", "rx_bytes"),
    "bytesSent": ("eth0", "tx_bytes"),
    "drops": ("", "rx_dropped", "tx_dropped"),
    "errors": ("", "rx_errors", "tx_errors"),
}
"""Counters of the uplink, or of all interfaces, that each field is the sum of."""


def counters(switch: Daemons) -> dict[str, int]:
    """What the database has for each field."""
    found = {}
    for field, (name, *keys) in METRICS.items():
        rows = switch.vsctl("--bare", "--columns=statistics", "list", "interface", *name.split())
        pairs = (word.split("=") for word in rows.split())
        found[field] = sum(int(value) for key, value in pairs if key in keys)
    return found


async def test_bridges_flows_and_uplinks_equal_what_the_switch_has(
    server: Server, kube: Kube, switch: Daemons
) -> None:
    switch.namespace.run(sys.executable, "-c", SEND)
    switch.wait(lambda: counters(switch)["packetsReceived"] >= FRAMES)  # written each 5 s
    before = counters(switch)
    async with agent(server, switch) as (process, _):
        found = await until(
            kube,
            lambda node: (
                healthy(node)
                and state(node, "Ready") == "True/AllChecksPassed"
                and node.status.metrics is not None
            ),
        )
        after = counters(switch)
        lease = await kube.get(Lease, f"ovs-agent-{NODE}", NAMESPACE)
        counted = {
            name: int(switch.ofctl("dump-aggregate", name).split("flow_count=")[1])
            for name in switch.vsctl("list-br").split()
        }
        assert await stopped(process) == 0

    assert {name: flows for name, (_, _, flows) in bridges(found).items()} == counted
    assert bridges(found)["br-int"] == ("Active", 1, 2)
    assert bridges(found)["br-ex"][:2] == ("Active", 2)
    stats = found.status.flowStats
    assert stats is not None
    assert stats.totalFlows == sum(counted.values()) == sum(t.flows for t in stats.flowsPerTable)
    assert found.status.interfaces is not None
    (uplink,) = found.status.interfaces.physical
    assert (uplink.name, uplink.status) == ("eth0", "Up")
    speed = int(switch.vsctl("get", "interface", "eth0", "link_speed"))
    assert uplink.speed == f"{speed // 10**9}Gbps"
    assert {one.datapathType for one in found.status.bridges} == {"netdev"}
    assert (found.status.dpdkEnabled, found.status.dpdkVersion) == (False, None)
    assert found.status.metrics is not None
    for field in METRICS:
        assert before[field] <= getattr(found.status.metrics, field) <= after[field], field
    assert after["packetsSent"] < FRAMES
    versions = switch.vsctl("--version").split()[3]
    assert (found.status.ovsVersion, found.status.ovsdVersion) == (versions, versions)
    assert state(found, "OVNControllerConnected") == "True/NotUsed"
    assert found.status.ovnController is None
    assert lease is not None


async def test_people_trace_and_list_ports_at_the_agent(
    server: Server, kube: Kube, switch: Daemons, capsys: pytest.CaptureFixture[str]
) -> None:
    where = server.kubeconfig
    async with agent(server, switch) as (process, _):
        await until(kube, lambda node: healthy(node) and node.status.diagnostics is not None)
        shown = await asyncio.to_thread(ports, NODE, "eth0", kubeconfig=where)
        assert (shown, capsys.readouterr().out.split()[:4]) == (0, ["port", "eth0", "on", "br-ex"])
        assert await asyncio.to_thread(show_bridges, NODE, "br-ex", kubeconfig=where) == 0
        shown_ports = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert [line[0] for line in shown_ports if line[3:4] == ["system"]] == ["eth0"]
        traced = await asyncio.to_thread(
            trace,
            NODE,
            "in_port=br-int,ip,nw_dst=10.0.0.2",
            to_mac="fa:16:3e:00:00:02",
            kubeconfig=where,
        )
        assert traced == 0
        verdict, *_, last = capsys.readouterr().out.splitlines()
        assert verdict == "dropped in table 0 of br-int: no flow matches"
        assert last == "flows have no names: OVN is not configured on this host"
        assert await stopped(process) == 0


@pytest.mark.parametrize(("kill", "reason"), [(True, "ConnectionRefused"), (False, "Timeout")])
async def test_dead_vswitchd_shows_within_ten_seconds_and_nothing_healthy_is_remembered(
    server: Server, kube: Kube, switch: Daemons, kill: bool, reason: str
) -> None:
    async with agent(server, switch) as (process, _):
        await until(kube, healthy)
        began = time.monotonic()
        (switch.kill if kill else switch.stop)(VSWITCHD)
        dead = await until(
            kube, lambda node: state(node, "VswitchdResponding") == f"False/{reason}"
        )
        took = time.monotonic() - began
        (switch.start if kill else switch.resume)(VSWITCHD)
        back = await until(
            kube,
            lambda node: healthy(node) and state(node, "VswitchdResponding") == "True/Responding",
        )
        assert await stopped(process) == 0

    assert took <= DETECTED
    assert {type_: state(dead, type_).split("/")[0] for type_ in DERIVED} == dict.fromkeys(
        DERIVED, "Unknown"
    )
    assert state(dead, "OVSDBConnected") == "True/Connected"
    assert state(dead, "Ready").startswith("False/")
    assert {status for status, _, _ in bridges(dead).values()} == {"Unknown"}
    assert {flows for _, _, flows in bridges(dead).values()} == {None}
    assert dead.status.metrics is None
    assert dead.status.flowStats is None
    assert dead.status.interfaces is not None
    assert [one.status for one in dead.status.interfaces.physical] == ["Unknown"]
    assert [one.code for one in dead.status.issues if one.object == VSWITCHD] == [
        "VswitchdNotResponding"
    ]
    assert [one for one in back.status.issues if one.object == VSWITCHD] == []


@pytest.mark.parametrize("kill", [True, False])
async def test_dead_ovsdb_shows_within_ten_seconds_and_flows_are_counted_while_it_hangs(
    server: Server, kube: Kube, switch: Daemons, kill: bool
) -> None:
    async with agent(server, switch) as (process, _):
        await until(kube, healthy)
        began = time.monotonic()
        (switch.kill if kill else switch.stop)(OVSDB)
        dead = await until(kube, lambda node: state(node, "OVSDBConnected").startswith("False/"))
        took = time.monotonic() - began
        (switch.start if kill else switch.resume)(OVSDB)
        back = await until(kube, healthy)
        assert await stopped(process) == 0

    assert took <= DETECTED
    expected = {"False/ConnectionRefused"} if kill else {"False/EchoTimeout"}
    assert state(dead, "OVSDBConnected") in expected
    assert state(dead, "VswitchdResponding") == "True/Responding"
    assert state(dead, "AllBridgesHealthy") == "Unknown/OVSDBUnavailable"
    # Without its database ovs-vswitchd serves no OpenFlow, though it answers.
    assert bridges(dead)["br-int"] == ("Unknown", None, None if kill else 2)
    # ovs-vswitchd fills its columns again: nothing was down meanwhile.
    assert back.status.interfaces is not None
    assert [one.status for one in back.status.interfaces.physical] == ["Up"]


async def test_issue_comes_with_an_event_keeps_its_first_sight_over_a_restart_and_goes(
    server: Server, kube: Kube, switch: Daemons
) -> None:
    def mapped(node: OVSNode) -> list[str | None]:
        return [one.object for one in node.status.issues if one.code == "BridgeMissing"]

    ids = ("external_ids:system-id=chassis-a", "external_ids:ovn-remote=tcp:127.0.0.1:1")
    switch.vsctl("set", "Open_vSwitch", ".", *ids, "external_ids:ovn-bridge-mappings=lab:br-lab")
    async with agent(server, switch) as (process, _):
        first = await until(kube, lambda node: mapped(node) == ["br-lab"])
        assert await stopped(process) == 0
    async with agent(server, switch) as (process, port):
        again = await until(kube, lambda node: by_another(node, first))
        switch.vsctl("add-br", "br-lab", "--", "set", "bridge", "br-lab", "datapath_type=netdev")
        gone = await until(kube, lambda node: state(node, "AllBridgesHealthy") == ACTIVE)
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            page = (await client.get("/metrics")).text
        assert await stopped(process) == 0
    events = {one.reason for one in (await kube.list(Event, NAMESPACE)).items}

    assert state(first, "AllBridgesHealthy") == "False/BridgeMissing"
    assert detected(again) == detected(first)
    assert mapped(gone) == []
    assert {"BridgeMissing", "BridgeMissingResolved"} <= events
    assert 'ovs_agent_source_up{source="ovs-vswitchd"} 1.0' in page
    assert 'ovs_vswitchd_bridge_flows_total{bridge="br-int"} 2.0' in page
    assert 'ovs_upcall_flows_limit{datapath="netdev@ovs-netdev"}' in page
    assert 'ovs_table_flows{bridge="br-int",table="8"} 1.0' in page
    assert "ovs_vswitchd_bridge_reconfigure " in page
    assert "ovs_memory_rules_total " in page
    assert 'ovs_vswitchd_dp_if_total{datapath="netdev@ovs-netdev"}' in page
    assert 'ovs_interface_link_state{interface="eth0"} 1.0' in page
    assert 'ovs_interface_rx_bytes{interface="eth0"}' in page


async def test_agent_that_is_killed_with_its_test_holds_up_no_other_test(
    server: Server, kube: Kube, switch: Daemons
) -> None:
    async with agent(server, switch):
        await until(kube, healthy)
    await delete_all(kube)
    async with agent(server, switch) as (process, _):
        assert await stopped(process) == 0


def by_another(node: OVSNode, before: OVSNode) -> bool:
    """Whether another process than before has written the status and serves people.

    Each has a certificate of its own. Times do not distinguish them: they are in whole seconds.
    """
    return node.status.diagnostics not in (None, before.status.diagnostics)


def detected(node: OVSNode) -> list[object]:
    return [one.detectedAt for one in node.status.issues if one.code == "BridgeMissing"]
