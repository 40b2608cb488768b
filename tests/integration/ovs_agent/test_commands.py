"""Commands at an agent: its switch is in memory, the API server is real."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio
from tests.contracts import agent_access
from tests.contracts.agent_access import NODE, SPACE, Engine
from tests.integration.node_agent.host.conftest import certificates, server
from tests.unit.ovs_agent.diagnostics.networks import (
    HTTP,
    TELNET,
    facts,
    lport,
    recorded,
    switch,
    vm,
)
from tests.unit.ovs_agent.switches import but

from hypercobalt.adapters.ovs.fake import FakeSwitch
from hypercobalt.adapters.ovs.internals import (
    BridgeOfDatapath,
    EngineNode,
    MacEntry,
    MacTable,
    PortOfDatapath,
)
from hypercobalt.adapters.ovs.model import ControllerStart, DaemonName, LocalBinding
from hypercobalt.agent.diagnostics.use import Use
from hypercobalt.api.coordination import Event
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.ovsnode import NodeReference, OVSNode, OVSNodeSpec
from hypercobalt.apiserver.server import Server
from hypercobalt.cli.network import bridges
from hypercobalt.cli.ovn import ovn
from hypercobalt.cli.ports import ports
from hypercobalt.cli.trace import trace
from hypercobalt.ovs_agent.diagnostics import tracing
from hypercobalt.ovs_agent.diagnostics.report import Onward
from hypercobalt.ovs_agent.diagnostics.uses import uses
from hypercobalt.ovs_agent.facts import Reading
from hypercobalt.pki import load
from hypercobalt.runtime import Kube, load_connection

__all__ = ["certificates", "server"]

pytestmark = pytest.mark.asyncio(loop_scope="module")


CHASSIS = "kvm-2"
"""Chassis that the host's tunnel leads to, and the host's own: its packets come back to it."""


@dataclass
class Offering(Engine):
    """An agent of a host whose switch drops telnet to the second instance."""

    fake: FakeSwitch = field(default_factory=switch)

    def uses(self) -> tuple[Use, ...]:
        self.fake.traces[TELNET] = recorded("acl")
        self.fake.interface_statistics = {"i-tap1": {"rx_packets": 7, "rx_bytes": 700}}
        self.fake.traces[HTTP] = recorded("tunnel")
        chassis = Reading(ControllerStart(CHASSIS))
        return tuple(uses(self.fake, lambda: but(facts(), start=chassis), lambda: ()))


@dataclass
class Site:
    """An agent, its administrator, and a person without a right."""

    kube: Kube
    fake: FakeSwitch
    admin: Path
    eve: Path


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(server: Server) -> AsyncIterator[Site]:
    offering = Offering()
    ca = load(server.kubeconfig.parent / "pki", "ca")
    connection, shown = load_connection(server.kubeconfig), agent_access.certificate(ca, "eve")
    async with Kube(connection) as kube, agent_access.agent(kube, offering):
        await agent_access.view(kube, user="eve")
        eve = server.kubeconfig.parent / "eve"
        agent_access.person_kubeconfig(eve, server.kubeconfig, shown)
        yield Site(kube, offering.fake, server.kubeconfig, eve)


@pytest_asyncio.fixture(loop_scope="module")
async def chassis(site: Site) -> AsyncIterator[None]:
    """Have the host report a chassis, until the test is over."""
    await _report(site, CHASSIS)
    yield
    await _report(site, None)


async def _report(site: Site, chassis: str | None) -> None:
    status = {"status": {"ovnController": {"chassisId": chassis}}}
    await site.kube.merge_patch(OVSNode, NODE, status, SPACE, subresource="status")


async def test_a_trace_reads_from_the_verdict_down(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    made = await asyncio.to_thread(
        trace, NODE, from_="tap1", to="tap2", tcp=23, kubeconfig=site.admin
    )
    assert made == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == (
        "dropped in table 46, ls_out_acl of switch net (an ACL or security group): tcp.dst == 23"
    )
    assert shown[2].startswith("in by tap1 on br-int: tcp,dl_src=fa:16:3e:00:00:01,")
    assert "  connection tracking answers new (assumed: see --ct-next)" in shown
    assert shown[-2].split() == ["46", "ls_out_acl", "tcp.dst", "==", "23", "drop"]
    assert shown[-1] == ("36 tables that only pass the packet on are left out (--all shows them)")
    events = [one.note for one in (await site.kube.list(Event, SPACE)).items]
    assert any("used trace (" in note and "from=tap1" in note for note in events)


async def test_json_output_has_the_whole_report(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = "in_port=tap1,tcp,nw_dst=10.0.0.2,tcp_dst=23"
    made = await asyncio.to_thread(
        trace, NODE, flow, to=vm(2), output="json", kubeconfig=site.admin
    )
    assert made == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["outcome"], len(found["passes"])) == ("Dropped", 3)
    assert found["passes"][2]["steps"][1]["logical"]["stage"] == "ls_out_acl"


async def test_a_packet_is_followed_to_the_host_that_a_tunnel_sends_it_to(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    followed = partial(trace, NODE, from_="tap1", to=lport(4), tcp=80, kubeconfig=site.admin)
    assert await asyncio.to_thread(followed) == 0
    sent = "sent to host kvm-2.example.org (192.0.2.2) by tunnel ovn-kvm-2-0"
    unknown = f"no OVSNode reports the chassis {CHASSIS}; check its OVS agent"
    shown = capsys.readouterr().out.splitlines()
    assert shown[:3] == [sent, f"on kvm-2.example.org: not traced: {unknown}", ""]

    await _report(site, CHASSIS)
    assert await asyncio.to_thread(followed) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[:3] == [sent, f"on {NODE}: dropped in table 0 of br-int: no flow matches", ""]
    below = shown.index(f"on {NODE}")
    assert shown[below + 1].startswith(
        "in by ovn-kvm-2-0 on br-int: tun_id=0x2,tun_metadata0=0x20004"
    )
    assert await asyncio.to_thread(followed, output="json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [(hop["host"], hop["report"]["outcome"]) for hop in found["hops"]] == [(NODE, "Dropped")]

    # A packet that always goes on is not followed without end.
    again = HTTP.replace("in_port=2,", "in_port=1,tun_id=0x2,tun_metadata0=0x20004,")
    site.fake.traces[again] = recorded("tunnel")
    try:
        assert await asyncio.to_thread(followed) == 0
    finally:
        del site.fake.traces[again]
        await _report(site, None)
    hops = [one for one in capsys.readouterr().out.splitlines() if one.startswith("on ")]
    assert hops[:4] == [
        *[f"on {NODE}: {sent}"] * 3,
        "on kvm-2.example.org: not traced: a packet is followed to 4 hosts at most",
    ]


@pytest.mark.usefixtures("chassis")
async def test_a_chassis_that_two_hosts_report_is_followed_to_neither(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    status = {"status": {"ovnController": {"chassisId": CHASSIS}}}
    spec = OVSNodeSpec(nodeRef=NodeReference(name="another"))
    await site.kube.create(OVSNode(metadata=ObjectMeta(name="another", namespace=SPACE), spec=spec))
    try:
        await site.kube.merge_patch(OVSNode, "another", status, SPACE, subresource="status")
        made = await asyncio.to_thread(
            trace, NODE, from_="tap1", to=lport(4), tcp=80, kubeconfig=site.admin
        )
    finally:
        await site.kube.delete(OVSNode, "another", SPACE)
    assert made == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[1] == (
        f"on kvm-2.example.org: not traced: several OVSNodes report the chassis {CHASSIS}: "
        f"{SPACE}/another, {SPACE}/{NODE}; one of them is false: compare "
        "external_ids:system-id on these hosts"
    )


@pytest.mark.usefixtures("chassis")
async def test_a_host_has_others_trace_nothing_but_a_packet_out_of_its_tunnel(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = Onward(CHASSIS, CHASSIS, {"from": "tap1", "to": "tap2", "proto": "tcp"})
    monkeypatch.setattr(tracing, "onward", lambda *_: hostile)
    made = await asyncio.to_thread(
        trace, NODE, from_="tap1", to=lport(4), tcp=80, kubeconfig=site.admin
    )
    assert made == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[1].startswith(f"on {CHASSIS}: not traced: {NODE} sends the packet on with 'to'")


async def test_an_invalid_argument_is_named_and_nothing_is_traced(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, flags, message in (
        ((), {"from_": "nope"}, "from 'nope' is not a port of this host"),
        (("ip_dst=here",), {"from_": "tap1"}, "ip_dst 'here': must be: IPv4 or IPv6 address"),
        (("reg0=1",), {"from_": "tap1"}, "'reg0' is unknown"),
        (("x",), {"from_": "tap1"}, "'x' is neither FIELD=VALUE nor a protocol"),
        ((), {}, "--from is missing"),
    ):
        made = await asyncio.to_thread(
            trace,
            NODE,
            *words,
            kubeconfig=site.admin,
            **flags,  # type: ignore[arg-type]
        )
        assert made == 2
        assert message in capsys.readouterr().err


async def test_ports_are_listed_in_a_table_and_one_in_full(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await asyncio.to_thread(ports, NODE, kubeconfig=site.admin) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[:4] == ["BRIDGE", "PORT", "NUMBER", "LINK"]
    taps = [row.split() for row in rows if " tap1 " in row]
    assert taps == [["br-int", "tap1", "2", "up", "system", vm(1), "7", "?", "0", "-"]]
    assert await asyncio.to_thread(ports, NODE, vm(1), kubeconfig=site.admin) == 0
    shown = capsys.readouterr().out
    assert "flows of OVN  installed" in shown
    assert "received      7 packets, 700 bytes, 0 dropped, 0 errors" in shown
    assert "table 0       priority 100, cookie 0x72fd84cb: 5 packets" in shown
    assert await asyncio.to_thread(ports, NODE, "nope", kubeconfig=site.admin) == 2
    assert "port 'nope' is not a port of this host" in capsys.readouterr().err


async def test_each_command_needs_its_right(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert await asyncio.to_thread(trace, NODE, from_="tap1", to="tap2", kubeconfig=site.eve) == 1
    assert "user eve may not create ovsnodes/trace" in capsys.readouterr().err
    assert await asyncio.to_thread(ports, NODE, kubeconfig=site.eve) == 1
    assert "user eve may not get ovsnodes/diagnose" in capsys.readouterr().err


async def test_a_switch_that_is_away_is_not_reported_as_an_invalid_request(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.fake.fail(DaemonName.VSWITCHD)
    made = await asyncio.to_thread(trace, NODE, from_="tap1", to="tap2", kubeconfig=site.admin)
    site.fake.recover(DaemonName.VSWITCHD)
    assert made == 1
    assert "ovs-vswitchd: made to fail" in capsys.readouterr().err


async def test_a_bridge_shows_its_mac_addresses_and_its_ports_in_the_datapath(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    port = PortOfDatapath("eth0", 1, 3, "system")
    site.fake.bridge_states = (BridgeOfDatapath("br-ex", "system@ovs-system", 10, 2, (port,)),)
    learned = (MacEntry(1, 7, "fa:16:3e:00:00:02", 5),)
    site.fake.mac_tables["br-ex"] = MacTable(learned, {"Total number of evicted MAC entries": 3})
    assert await asyncio.to_thread(bridges, NODE, "br-ex", kubeconfig=site.admin) == 0
    shown = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert shown[:2] == [
        "br-ex on system@ovs-system",
        "packets of the datapath: 10 by a cached flow, 2 without one",
    ]
    assert "eth0 1 3 system -" in shown
    assert "Total number of evicted MAC entries: 3" in shown
    assert shown[-1] == "fa:16:3e:00:00:02 7 eth0 5 s"
    assert await asyncio.to_thread(bridges, NODE, "br-none", kubeconfig=site.admin) == 2
    assert "there are br-ex, br-int" in capsys.readouterr().err


async def test_ovn_controller_shows_what_it_has_bound_and_computed(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.fake.bindings = (LocalBinding(lport(1), "tap1", 1), LocalBinding("gone", "tap9", 0))
    site.fake.zone_numbers = {lport(1): 4}
    site.fake.engine_nodes = tuple(EngineNode(f"n{one}", one, 0, 0) for one in range(12))
    site.fake.cache_counters = {"total": 61}
    assert await asyncio.to_thread(ovn, NODE, kubeconfig=site.admin) == 0
    shown = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert shown[0] == "connected"
    assert f"tap1 {lport(1)} yes 4" in shown
    assert "tap9 gone no -" in shown
    assert "n11 11 0 0" in shown
    assert "and 2 more (-o json has them)" in shown
    assert shown[-1] == "cache of logical flows: total 61"
    for command in (partial(ovn, NODE), partial(bridges, NODE, "br-ex")):
        assert await asyncio.to_thread(command, kubeconfig=site.eve) == 1
        assert "may not get ovsnodes/diagnose" in capsys.readouterr().err
