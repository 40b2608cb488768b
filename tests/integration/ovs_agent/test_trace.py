"""Traces between instances of a real OVN: two switches, a router, an ACL, another chassis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest
from tests.integration.ovs.central import SOUTHBOUND, Central
from tests.integration.ovs.daemons import VSWITCHD, Daemons
from tests.integration.ovs_agent.conftest import BOUND

from hypercobalt.adapters.ovs.host import HostSwitch
from hypercobalt.adapters.ovs.model import DaemonName
from hypercobalt.adapters.ovs.rows import Database
from hypercobalt.agent.diagnostics.use import RefusedUseError
from hypercobalt.cli.trace_text import lines
from hypercobalt.ovs_agent.diagnostics.lookup import places
from hypercobalt.ovs_agent.diagnostics.ports import ports
from hypercobalt.ovs_agent.diagnostics.report import TraceOutcome, TraceReport
from hypercobalt.ovs_agent.diagnostics.tracing import trace
from hypercobalt.ovs_agent.facts import Reading, SwitchFacts

PAGE = Path(__file__).parents[3] / "docs" / "ovs-agent.md"
COLUMNS = 112
NETWORKS = {1: "net", 2: "net", 3: "net2", 4: "net"}
HERE = (1, 2, 3)


def lport(number: int) -> str:
    return f"c0ffee00-0000-4000-8000-00000000000{number}"


def vm(number: int) -> str:
    return f"0f2c1a5e-0000-4000-8000-00000000000{number}"


def mac(number: int) -> str:
    return f"fa:16:3e:00:00:0{number}"


class Site:
    """What a trace needs, as an agent has it."""

    def __init__(self, switch: HostSwitch, facts: SwitchFacts, central: Central) -> None:
        self.switch, self.facts, self.central = switch, facts, central

    async def trace(self, **parameters: str) -> TraceReport:
        return await trace(self.switch, self.facts, {"from": "tap1", **parameters})


def _build(central: Central) -> None:
    """Instances 1 and 2 on one network, 3 behind a router, 4 on another chassis."""
    for network, subnet in (("net", 0), ("net2", 1)):
        port, address = f"r1-{network}", f"10.0.{subnet}.254/24"
        central.nbctl(
            *("--may-exist", "ls-add", network, "--", "--may-exist", "lr-add", "r1"),
            *("--", "lrp-add", "r1", port, f"00:00:00:00:ff:0{subnet}", address),
            *("--", "lsp-add", network, f"{network}-r1"),
            *("--", "lsp-set-type", f"{network}-r1", "router"),
            *("--", "lsp-set-addresses", f"{network}-r1", "router"),
            *("--", "lsp-set-options", f"{network}-r1", f"router-port={port}"),
        )
    for number, network in NETWORKS.items():
        addresses = f"{mac(number)} 10.0.{int(network == 'net2')}.{number}"
        name = lport(number)
        central.nbctl(
            *("lsp-add", network, name, "--", "lsp-set-addresses", name, addresses),
            *("--", "lsp-set-port-security", name, addresses),
        )
    central.nbctl(
        "acl-add", "net", "to-lport", "1001", f'outport == "{lport(2)}" && tcp.dst == 23', "drop"
    )
    # One that keeps state makes packets go through connection tracking.
    central.nbctl("acl-add", "net", "from-lport", "1001", "ip4 && udp", "allow-related")
    central.sbctl("chassis-add", "kvm-2", "geneve", "192.0.2.2")
    central.sbctl("lsp-bind", lport(4), "kvm-2")


def _plug(daemons: Daemons) -> None:
    for number in HERE:
        daemons.vsctl(
            *("add-port", "br-int", f"tap{number}", "--", "set", "interface", f"tap{number}"),
            *("type=internal", f"external_ids:iface-id={lport(number)}"),
            *(f"external_ids:vm-uuid={vm(number)}", f"external_ids:attached-mac={mac(number)}"),
        )
        daemons.namespace.run("ip", "link", "set", f"tap{number}", "up")


def _is_ready(database: Database) -> bool:
    known = [place.row for place in places(database)]
    installed = [row for row in known if row.external_ids.get("ovn-installed") == "true"]
    up = [row for row in installed if row.link_up]
    return len(up) == len(HERE) and any(row.type == "geneve" and row.ofport for row in known)


async def _ready(switch: HostSwitch) -> Database:
    """The rows once OVN has installed every port."""
    async with aclosing(switch.watch()) as reports, asyncio.timeout(BOUND):
        async for report in reports:
            if isinstance(report, Database) and _is_ready(report):
                return report
    raise AssertionError("the database is followed without end")


@pytest.fixture
async def site(central: Central, daemons: Daemons) -> AsyncIterator[Site]:
    _build(central)
    _plug(daemons)
    switch = HostSwitch(daemons.paths)
    central.synchronize()
    facts = SwitchFacts(
        database=Reading(await _ready(switch)),
        vswitchd=Reading(await switch.daemon(DaemonName.VSWITCHD)),
        links=Reading(await switch.links()),
    )
    yield Site(switch, facts, central)
    if SOUTHBOUND not in central.running:
        central.start(SOUTHBOUND)
    central.nbctl("--if-exists", "ls-del", "net2", "--", "lr-del", "r1")
    central.sbctl("--if-exists", "chassis-del", "kvm-2")


@pytest.mark.timeout(3 * BOUND)
async def test_trace_shows_where_packets_between_instances_end(site: Site) -> None:
    same = await site.trace(to="tap2")
    assert (same.outcome, same.unnamed) == (TraceOutcome.DELIVERED, "")
    assert same.verdict == f"delivered to tap2 (instance {vm(2)})"
    assert "icmp_type=8" in same.packet  # a ping, when nothing else is given

    routed = await site.trace(to=vm(3), proto="udp", dst_port="53")
    assert routed.verdict == f"delivered to tap3 (instance {vm(3)})"
    networks = [step.network for one in routed.passes for step in one.steps if step.network]
    assert list(dict.fromkeys(networks)) == ["switch net", "router r1", "switch net2"]

    lost = await site.trace(ip_dst="8.8.8.8")
    assert lost.outcome is TraceOutcome.DROPPED
    assert "lr_in_ip_routing of router r1 (the router has no route)" in lost.verdict

    far = await site.trace(to=lport(4), proto="tcp", dst_port="80")
    assert far.outcome is not TraceOutcome.DELIVERED
    assert "host kvm-2 (192.0.2.2) by tunnel ovn-kvm-2-0" in far.verdict

    refused = await site.trace(to="tap2", proto="tcp", dst_port="23")
    assert refused.outcome is TraceOutcome.DROPPED
    assert "ls_out_acl of switch net (an ACL or security group)" in refused.verdict
    assert "tcp.dst == 23" in refused.verdict

    spoofed = await site.trace(to="tap2", ip_src="10.0.0.9")
    assert "(port security: its addresses are not those of the port)" in spoofed.verdict

    resolved = await site.trace(proto="arp", arp_tpa="10.0.0.254")
    assert resolved.verdict == f"delivered to tap1 (instance {vm(1)})"
    with pytest.raises(RefusedUseError, match="on the network that the packet comes from"):
        await site.trace(ip_dst="10.0.0.77")


def key(central: Central, number: int) -> int:
    """The number that tunnels carry for an instance's port."""
    port = ("find", "port_binding", f"logical_port={lport(number)}")
    return int(central.sbctl("--bare", "--columns=tunnel_key", *port))


def _lead_to_other_host(daemons: Daemons) -> None:
    """Have packets for the address of the other chassis leave by a bridge."""
    daemons.vsctl("add-br", "br-phy", "--", "set", "bridge", "br-phy", "datapath_type=netdev")
    daemons.namespace.run("ip", "address", "add", "192.0.2.1/24", "dev", "br-phy")
    daemons.namespace.run("ip", "link", "set", "br-phy", "up")
    daemons.appctl(VSWITCHD, "ovs/route/add", "192.0.2.2/32", "br-phy")
    daemons.appctl(VSWITCHD, "tnl/neigh/set", "br-phy", "192.0.2.2", "aa:55:aa:55:00:02")


@pytest.mark.timeout(2 * BOUND)
async def test_a_packet_in_a_tunnel_is_traced_from_where_its_host_has_ended(site: Site) -> None:
    _lead_to_other_host(site.central.daemons)
    network = site.central.sbctl(
        "--bare", "--columns=tunnel_key", *("find", "datapath_binding", "external_ids:name=net")
    )
    here, there, other = (key(site.central, number) for number in (1, 4, 2))

    sent = await site.trace(to=lport(4), proto="tcp", dst_port="80")
    assert sent.outcome is TraceOutcome.SENT
    assert sent.onward is not None
    assert (sent.onward.chassis, sent.onward.parameters["from"]) == ("kvm-2", "kvm-1")
    carried = {name: int(sent.onward.parameters[name], 16) for name in ("tun_id", "tun_metadata0")}
    assert carried == {"tun_id": int(network), "tun_metadata0": here << 16 | there}

    # What kvm-2 sends to an instance of this host: its ACL is looked at here alone.
    coming = {
        **sent.onward.parameters,
        "from": "kvm-2",
        "tun_metadata0": hex(there << 16 | other),
        "eth_src": mac(4),
        "eth_dst": mac(2),
        "ip_src": "10.0.0.4",
        "ip_dst": "10.0.0.2",
    }
    got = await site.trace(**coming)
    assert (got.port, got.verdict) == ("ovn-kvm-2-0", f"delivered to tap2 (instance {vm(2)})")
    refused = await site.trace(**{**coming, "dst_port": "23"})
    assert "ls_out_acl of switch net (an ACL or security group)" in refused.verdict


async def test_every_cookie_has_a_logical_flow_or_a_port(site: Site) -> None:
    report = await site.trace(to="tap3", ct_next="est est")
    steps = [step for one in report.passes for step in one.steps if step.cookie]
    assert len(steps) > 50
    unnamed = [step for step in steps if step.logical is None and not step.port]
    assert unnamed == []
    assert "ct_state=est|trk" in report.passes[1].resumed
    first = report.passes[0].steps[0]
    assert (first.table, first.port) == (0, lport(1))


async def test_a_trace_without_the_southbound_database_names_what_it_can(site: Site) -> None:
    site.central.kill(SOUTHBOUND)
    report = await site.trace(
        eth_dst=mac(2), ip_src="10.0.0.1", ip_dst="10.0.0.2", proto="tcp", dst_port="23"
    )
    assert report.outcome is TraceOutcome.DROPPED
    assert report.verdict.startswith("dropped in table ")
    assert "cookie 0x" in report.verdict
    assert report.unnamed.startswith("the southbound database cannot be read:")


async def test_ports_of_real_daemons_have_their_flows_and_counters(site: Site) -> None:
    found = {one.name: one for one in (await ports(site.switch, site.facts, (), {})).ports}
    tap, tunnel = found["tap1"], found["ovn-kvm-2-0"]
    assert (tap.bridge, tap.instance, tap.iface_id) == ("br-int", vm(1), lport(1))
    assert (tap.admin_up, tap.link_up, tap.installed) == (True, True, True)
    assert tap.counters["rx_packets"] >= 0
    assert tap.flows
    assert len(tap.flows[0].cookie) > len("0x")
    assert (tunnel.type, tunnel.remote) == ("geneve", "192.0.2.2")
    assert found["br-int"].type == "internal"


async def test_page_shows_a_trace_as_it_is_printed(site: Site) -> None:
    report = await site.trace(to="tap2", proto="tcp", dst_port="23")
    shown = "\n".join(lines(report, COLUMNS))
    begin = "$ cobalt trace kvm-1 --from tap1 --to tap2 --tcp 23\n"
    assert f"{begin}{shown}\n```" in PAGE.read_text(), f"docs/ovs-agent.md has to show:\n{shown}"
