"""Each failure of daemons, bonds and ports on a real switch, and how the agent judges it."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from tests.following import background
from tests.integration.ovs.central import SOUTHBOUND, Central
from tests.integration.ovs.daemons import OVN_CONTROLLER, OVSDB_SERVER, VSWITCHD, Daemons
from tests.integration.ovs_agent.conftest import Watched, codes, judged, shown, state

from hypercobalt.adapters.ovs.host import HostSwitch
from hypercobalt.ovs_agent import flow_scan, probes
from hypercobalt.ovs_agent.assess import Judgement
from hypercobalt.ovs_agent.facts import SwitchFacts
from hypercobalt.ovs_agent.rules import bonds as bond_rules
from hypercobalt.ovs_agent.rules import controller, ports

CONTROLLER = "OVNControllerConnected"
TRACED = 0.5  # seconds, on a busy machine
Change = Callable[[Central], object]


def set_remote(central: Central, remote: str) -> None:
    central.daemons.vsctl("set", "Open_vSwitch", ".", f"external_ids:ovn-remote={remote}")


def allow_openflow(central: Central, *versions: str) -> None:
    """Have the integration bridge speak these versions only; ovn-controller needs 1.5."""
    allowed = f"protocols=[{','.join(versions)}]"
    central.daemons.vsctl("set", "bridge", "br-int", allowed)


FAULTS: dict[str, tuple[Change, Change, float]] = {
    "NotRunning": (
        lambda central: central.daemons.kill(OVN_CONTROLLER),
        lambda central: central.daemons.start(OVN_CONTROLLER),
        10.0,
    ),
    "NotRunning, as its unit was stopped": (
        lambda central: central.daemons.end(OVN_CONTROLLER),
        lambda central: central.daemons.start(OVN_CONTROLLER),
        10.0,
    ),
    "NotRunning, as it is being restarted": (
        lambda central: central.daemons.end(OVN_CONTROLLER, "--restart"),
        lambda central: central.daemons.start(OVN_CONTROLLER),
        10.0,
    ),
    "Unresponsive": (
        lambda central: central.daemons.stop(OVN_CONTROLLER),
        lambda central: central.daemons.resume(OVN_CONTROLLER),
        10.0,
    ),
    "Paused": (
        lambda central: central.daemons.appctl(OVN_CONTROLLER, "debug/pause"),
        lambda central: central.daemons.appctl(OVN_CONTROLLER, "debug/resume"),
        10.0,
    ),
    "NotConfigured": (
        lambda central: set_remote(central, '""'),
        lambda central: set_remote(central, central.remote),
        10.0,
    ),
    "OpenFlowDisconnected": (
        lambda central: allow_openflow(central, "OpenFlow10"),
        allow_openflow,
        10.0,
    ),
    "SBDisconnected": (
        lambda central: central.kill(SOUTHBOUND),
        lambda central: central.start(SOUTHBOUND),
        10.0,
    ),
    "SBStale": (
        lambda central: central.stop(SOUTHBOUND),
        lambda central: central.resume(SOUTHBOUND),
        30.0,
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_lost_leg_of_ovn_controller_shows_in_time_with_its_reason_and_comes_back(
    central: Central, fault: str
) -> None:
    fail, repair, bound = FAULTS[fault]
    reason, *_ = fault.split(",")
    async with judged(central.daemons) as watched:
        await watched.condition(CONTROLLER, "True/Connected")
        began = time.monotonic()
        fail(central)
        lost = await watched.condition(CONTROLLER, f"False/{reason}")
        assert time.monotonic() - began <= bound
        assert state(lost, "VswitchdResponding") == "True/Responding"
        if reason in ("NotRunning", "Unresponsive", "Paused"):
            await watched.condition("FlowsInSync", "False/FlowsFrozen")
        repair(central)
        await watched.condition(CONTROLLER, "True/Connected")
        await watched.condition("FlowsInSync", "True/InSync")


async def test_wrong_remote_is_named(central: Central) -> None:
    async with judged(central.daemons) as watched:
        await watched.condition(CONTROLLER, "True/Connected")
        set_remote(central, "unix:/nowhere/sb.sock")
        lost = await watched.condition(CONTROLLER, "False/SBDisconnected")
        set_remote(central, central.remote)
    (message,) = (one.message for one in lost.status.issues if one.code == "SBDisconnected")
    assert "unix:/nowhere/sb.sock" in message


async def test_connected_controller_of_a_dead_switch_is_not_connected(central: Central) -> None:
    async with judged(central.daemons) as watched:
        await watched.condition(CONTROLLER, "True/Connected")
        central.daemons.kill(VSWITCHD)
        await watched.condition("VswitchdResponding", "False/ConnectionRefused")
        dead = await watched.until(lambda one: not state(one, CONTROLLER).startswith("True"))
        central.daemons.start(VSWITCHD)
        await watched.condition(CONTROLLER, "True/Connected")
    assert state(dead, "FlowsInSync") == "Unknown/NotMeasurable"


async def test_tunnel_that_cannot_be_is_named_among_those_that_are_made(
    central: Central, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "PEER_GRACE", timedelta(seconds=1))
    central.sbctl("chassis-add", "kvm-2", "geneve", "192.0.2.2")
    try:
        async with judged(central.daemons) as watched:
            made = await watched.until(lambda one: tunnels(one) == (1, (), 0))
            # OVN leaves BFD of tunnels alone that are not its own; this one has no peer.
            central.daemons.vsctl(
                *("add-port", "br-int", "vtep0", "--", "set", "interface", "vtep0", "type=vxlan"),
                *("options:remote_ip=192.0.2.9", "bfd:enable=true"),
            )
            broken = await watched.until(lambda one: ("TunnelDown", "br-int") in codes(one))
            central.daemons.vsctl("del-port", "br-int", "vtep0")
            await watched.until(lambda one: tunnels(one) == (1, (), 0) and not codes(one))
    finally:
        central.sbctl("chassis-del", "kvm-2")
    assert codes(made) == []
    assert tunnels(broken) == (2, ("192.0.2.9",), 1)
    (message,) = (one.message for one in broken.status.issues)
    assert message == "Tunnels are down, to 192.0.2.9"


def tunnels(judgement: Judgement) -> tuple[int | None, tuple[str, ...], int | None] | None:
    """The number of tunnels, and the broken ones."""
    ovn = judgement.status.ovnController
    found = ovn.tunnels if ovn else None
    return (found.count, found.broken, found.brokenTotal) if found else None


async def test_restarted_switch_raises_no_false_alarm(central: Central) -> None:
    async with judged(central.daemons) as watched:
        await watched.condition("AllBridgesHealthy", "True/AllBridgesActive")
        central.daemons.restart(VSWITCHD)
        back = await watched.until(
            lambda one: (
                state(one, "AllBridgesHealthy") == "True/AllBridgesActive"
                and one.status.flowStats is not None
                and bool(one.status.flowStats.totalFlows)
            )
        )
    assert ("NoFlows", "br-int") not in codes(back)


async def test_restarted_ovsdb_raises_no_false_alarm(daemons: Daemons) -> None:
    add_bond(daemons, "bond_mode=active-backup")
    seen: list[Judgement] = []
    async with judged(daemons) as watched, watched.recorded(seen):
        await bond(watched, "Active", 2, 2)
        before = await watched.condition("Ready", "True/AllChecksPassed")
        began = len(seen)
        with daemons.stopped(VSWITCHD):  # so that the columns that it fills stay empty for a while
            daemons.restart(OVSDB_SERVER)
            await asyncio.sleep(1.5)
        daemons.vsctl("add-br", "br-new", "--", "set", "bridge", "br-new", "datapath_type=netdev")
        after = await watched.until(
            lambda one: "br-new" in {each.name for each in one.status.bridges}
        )
    assert shown(after) == shown(before)
    assert {str(shown(one)) for one in seen[began:]} == {str(shown(before))}
    assert {str(links(one)) for one in seen[began:]} == {str(links(before))}
    assert [code for one in seen[began:] for code in codes(one)] == []


def links(judgement: Judgement) -> object:
    """Uplinks and bonds with their states."""
    found = judgement.status.interfaces
    assert found is not None
    return found.physical, found.bonds


async def test_flows_of_others_and_flows_to_nowhere_show_and_go(
    central: Central, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "SCAN", timedelta(seconds=0.1))
    monkeypatch.setattr(probes, "COUNTS", timedelta(seconds=2))
    monkeypatch.setattr(flow_scan, "PAUSE", timedelta(seconds=1))
    daemons = central.daemons

    def stale(one: Judgement) -> set[str]:
        return {code for code, _ in codes(one) if code and code.startswith("StaleFlow")}

    async with judged(daemons) as watched:
        await watched.condition("FlowsInSync", "True/InSync")
        # Table 8 is one of OVN's: only one flow in it is not of OVN.
        daemons.ofctl("add-flow", "br-int", "table=8,priority=1,ip,actions=output:777")
        daemons.ofctl("add-flow", "br-int", "table=200,cookie=0x100000000,ip,actions=drop")
        found = await watched.until(
            lambda one: stale(one) == {"StaleFlowOutput", "StaleFlowCookie"}
        )
        await watched.condition("FlowsInSync", "False/ForeignFlows")  # of table 8
        daemons.ofctl("--strict", "del-flows", "br-int", "table=8,priority=1,ip")
        daemons.ofctl("del-flows", "br-int", "table=200")
        await watched.condition("FlowsInSync", "True/InSync")
    messages = {one.code: one.message for one in found.status.issues}
    assert "output 777 (table 8)" in messages["StaleFlowOutput"]
    assert "cookie 0x100000000 (table 200)" in messages["StaleFlowCookie"]


async def test_flows_with_the_cookie_of_ovn_s_own_are_named_and_ovn_s_own_are_not(
    central: Central, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All kinds of flows that OVN makes are there: VIFs, router, provider network, tunnel."""
    monkeypatch.setattr(probes, "SCAN", timedelta(seconds=0.1))
    monkeypatch.setattr(probes, "COUNTS", timedelta(seconds=2))
    monkeypatch.setattr(flow_scan, "PAUSE", timedelta(seconds=1))
    daemons = central.daemons
    network = (
        "ls-add net",
        "lsp-add net lp0",
        "lsp-set-addresses lp0 00:00:00:00:00:01",
        "lsp-set-port-security lp0 00:00:00:00:00:01",
        "lr-add r",
        "lrp-add r rp 00:00:00:00:00:02 10.0.0.254/24",
        "lsp-add net nr",
        "lsp-set-type nr router",
        "lsp-set-options nr router-port=rp",
        "lsp-set-addresses nr router",
        "acl-add net from-lport 1000 tcp.dst=={22,80}&&ip4.src=={10.0.0.1,10.0.0.2} allow-related",
        "acl-add net to-lport 32767 ip4 drop",
        "lsp-add net ln",
        "lsp-set-type ln localnet",
        "lsp-set-options ln network_name=phys",
        "lsp-set-addresses ln unknown",
        "lb-add lb0 10.0.0.99:80 10.0.0.1:80 tcp",
        "ls-lb-add net lb0",
    )
    central.nbctl(*(word for one in network for word in ("--", *one.split(" "))))
    central.sbctl("chassis-add", "kvm-2", "geneve", "192.0.2.2")
    daemons.add_link("p0", "q0")
    daemons.vsctl(
        *("add-br", "br-ex", "--", "set", "bridge", "br-ex", "datapath_type=netdev", "--"),
        *("set", "Open_vSwitch", ".", "external_ids:ovn-bridge-mappings=phys:br-ex"),
        "external_ids:ovn-chassis-mac-mappings=phys:aa:bb:cc:dd:ee:01",
        *("--", "add-port", "br-int", "p0", "--", "set", "interface", "p0"),
        "external_ids:iface-id=lp0",
    )
    try:
        central.synchronize()
        async with judged(daemons) as watched:
            well = await watched.until(
                lambda one: (
                    state(one, "FlowsInSync") == "True/InSync"
                    and len(watched.observer.facts.value.scans) > 20
                )
            )
            assert "ForeignFlow" not in {code for code, _ in codes(well)}
            await watched.until(lambda _: all_scanned(watched))
            assert not any(one.foreign for one in watched.observer.facts.value.scans.values())
            daemons.ofctl("add-flow", "br-int", "priority=65535,actions=drop")
            found = await watched.condition("FlowsInSync", "False/ForeignFlows")
            (issue,) = [one for one in found.status.issues if one.code == "ForeignFlow"]
            assert issue.severity == "Critical"
            assert "table 0 priority 65535 cookie 0x0 drops packets of any port" in issue.message
            traced = (
                "a broadcast from p0, traced, is dropped in table 0 of br-int by priority 65535"
            )
            assert traced in issue.message
            assert watched.observer.timings["suspects"].seconds < TRACED
            daemons.ofctl("--strict", "del-flows", "br-int", "priority=65535")
            await watched.condition("FlowsInSync", "True/InSync")
    finally:
        central.sbctl("chassis-del", "kvm-2")
        central.nbctl("lr-del", "r", "--", "lb-del", "lb0")


def all_scanned(watched: Watched) -> bool:
    facts = watched.observer.facts.value
    counts = facts.flows["br-int"].value
    return counts is not None and counts.tables.keys() == facts.scans.keys()


def add_bond(daemons: Daemons, *options: str, members: tuple[str, str] = ("p0", "p1")) -> None:
    daemons.vsctl("add-br", "br-ex", "--", "set", "bridge", "br-ex", "datapath_type=netdev")
    daemons.add_link("p0", "q0")
    daemons.add_link("p1", "q1")
    daemons.vsctl("--no-wait", "add-bond", "br-ex", "bond0", *members, *options)


async def bond(watched: Watched, status: str, members: int, active: int, *issues: str) -> None:
    """Wait until the bond is so, with these issues."""

    def is_so(now: Judgement) -> bool:
        found = [code for code, object_ in codes(now) if (object_ or "").startswith("bond0")]
        return (status, members, active) in bonds(now) and found == list(issues)

    await watched.until(is_so)


async def test_cut_cable_of_a_bond_shows_within_a_second(daemons: Daemons) -> None:
    add_bond(daemons, "bond_mode=active-backup")
    async with judged(daemons) as watched:
        await bond(watched, "Active", 2, 2)
        began = time.monotonic()
        daemons.namespace.run("ip", "link", "set", "q0", "down")
        await bond(watched, "Degraded", 2, 1, "MemberDown")
        took = time.monotonic() - began
        daemons.namespace.run("ip", "link", "set", "q0", "up")
        await bond(watched, "Active", 2, 2)
    assert took <= 2.0  # a second for what is collected, and the switch's own time


async def test_bond_is_reported_by_vswitchd_while_ovsdb_hangs_and_unknown_once_vswitchd_is_dead(
    daemons: Daemons,
) -> None:
    add_bond(daemons, "bond_mode=active-backup")
    switch = HostSwitch(daemons.paths)
    async with judged(daemons) as watched:
        await bond(watched, "Active", 2, 2)
        daemons.stop(OVSDB_SERVER)
        await watched.condition("OVSDBConnected", "False/EchoTimeout", 10.0)
        daemons.namespace.run("ip", "link", "set", "q0", "down")
        hung = await watched.until(lambda one: bonds(one) == [("Degraded", None, 1)])
        daemons.kill(OVSDB_SERVER)
        dead = await watched.until(lambda one: bonds(one) == [("Unknown", None, None)])
        daemons.namespace.run("ip", "link", "set", "q0", "up")
        daemons.namespace.run("ip", "link", "set", "q1", "down")
        await asyncio.sleep(2)  # in which ovs-vswitchd would have noticed
        (stale,) = await switch.bonds()
        assert [one.enabled for one in stale.members] == [False, True]
        daemons.start(OVSDB_SERVER)
        await bond(watched, "Degraded", 2, 1, "MemberDown")
    for found in (hung, dead):
        assert state(found, "AllBondsHealthy") == "Unknown/OVSDBUnavailable"


def bonds(judgement: Judgement) -> list[tuple[str | None, int | None, int | None]]:
    found = judgement.status.interfaces
    return [(one.status, one.members, one.activeMembers) for one in found.bonds] if found else []


async def test_bond_that_vswitchd_dropped_is_degraded_and_not_gone(daemons: Daemons) -> None:
    add_bond(daemons, members=("p0", "none0"))
    async with judged(daemons) as watched:
        await bond(watched, "Degraded", 2, 1, "MemberMissing")
        await watched.condition("AllBondsHealthy", "False/MemberMissing")


async def test_bond_with_a_silent_partner_is_down_while_its_links_are_up(
    daemons: Daemons, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bond_rules, "LACP_GRACE", timedelta(seconds=1))
    add_bond(daemons, "bond_mode=balance-tcp", "lacp=active", "other_config:lacp-time=fast")
    async with judged(daemons) as watched:
        down = await watched.condition("AllBondsHealthy", "False/LACPNotNegotiated")
        await bond(watched, "Down", 2, 0, "LACPNotNegotiated")
    assert down.status.interfaces is not None
    assert {one.status for one in down.status.interfaces.physical} == {"Up"}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short graces and periods: a minute each otherwise."""
    monkeypatch.setattr(ports, "GRACE", timedelta(seconds=1))
    for name in ("SHAPE", "COUNTS"):
        monkeypatch.setattr(probes, name, timedelta(seconds=2))
    # ovs-vswitchd writes statistics each 5 s.
    monkeypatch.setattr(probes, "TRAFFIC", timedelta(seconds=6))


@pytest.mark.usefixtures("impatient")
async def test_ports_left_over_and_dead_ones_are_distinguished(central: Central) -> None:
    daemons = central.daemons
    central.nbctl("ls-add", "net", "--", "lsp-add", "net", "lp0", "--", "lsp-add", "net", "lp1")
    central.nbctl(
        "lsp-set-addresses", "lp0", "unknown", "--", "lsp-set-addresses", "lp1", "unknown"
    )
    for number in (0, 1):
        daemons.add_link(f"p{number}", f"q{number}")
        daemons.vsctl(
            *("add-port", "br-int", f"p{number}", "--", "set", "interface", f"p{number}"),
            f"external_ids:iface-id=lp{number}",
        )
    central.synchronize()
    async with judged(daemons) as watched:
        await watched.condition("PortsHealthy", "True/NoIssues")
        daemons.namespace.run("ip", "link", "del", "p1")
        await watched.until(lambda one: ("OrphanPortNoDevice", "p1") in codes(one))
        daemons.namespace.run("ip", "link", "del", "p0")
        await watched.until(lambda one: ("OrphanPortNoDevice", "p0") in codes(one))
        daemons.add_link("p0", "q0")
        await watched.until(lambda one: ("OrphanPortNoDevice", "p0") not in codes(one))
        async with background(partial(keep_sending, daemons)):
            dead = await watched.until(lambda one: ("PortSilentlyDead", "p0") in codes(one))
            (issue,) = [one for one in dead.status.issues if one.code == "PortSilentlyDead"]
            assert "its device was re-created" in issue.message
            assert "; a broadcast from it, traced, is " in issue.message


_SEND = """
import socket
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as made:
    made.bind(("q0", 0))
    for _ in range(40):
        made.send(bytes.fromhex("ffffffffffff" "020000000001" "88b5") + bytes(50))
"""


async def keep_sending(daemons: Daemons) -> None:
    """Frames into the port `p0`, some in each interval between two samples."""
    while True:
        await asyncio.to_thread(daemons.namespace.run, sys.executable, "-c", _SEND)
        await asyncio.sleep(0.2)  # the pace of the traffic


@pytest.mark.usefixtures("impatient")
async def test_port_without_a_logical_port_and_a_second_of_one_name(central: Central) -> None:
    daemons = central.daemons
    central.nbctl("ls-add", "net", "--", "lsp-add", "net", "lp1")
    for name, port in (("tap1", "lp1"), ("tap2", "lp1"), ("tap3", "nowhere")):
        daemons.vsctl(
            *("add-port", "br-int", name, "--", "set", "interface", name, "type=internal"),
            f"external_ids:iface-id={port}",
        )
    async with judged(daemons) as watched:
        found = await watched.until(
            lambda one: (
                {code for code, _ in codes(one)} >= {"DuplicateIfaceID", "OrphanPortNoBinding"}
            )
        )
    assert ("OrphanPortNoBinding", "tap3") in codes(found)
    assert ("DuplicateIfaceID", "lp1") in codes(found)


@pytest.mark.usefixtures("impatient")
async def test_port_of_neutron_s_metadata_agent_is_no_issue(central: Central) -> None:
    """A localport is on every chassis, so ovn-controller neither claims it nor marks it."""
    daemons = central.daemons
    central.nbctl("ls-add", "net", "--", "lsp-add", "net", "meta", "--", "lsp-add", "net", "lp1")
    central.nbctl("lsp-set-type", "meta", "localport")
    for name, port in (("tap0", "meta"), ("tap1", "lp1"), ("tap2", "nowhere")):
        daemons.vsctl(
            *("add-port", "br-int", name, "--", "set", "interface", name, "type=internal"),
            f"external_ids:iface-id={port}",
        )
    async with judged(daemons) as watched:
        left_over = ("OrphanPortNoBinding", "tap2")
        found = await watched.until(lambda one: left_over in codes(one))
        assert codes(found) == [left_over]
        assert daemons.vsctl("get", "interface", "tap1", "external_ids:ovn-installed")
        assert "ovn-installed" not in daemons.vsctl("get", "interface", "tap0", "external_ids")


INSTANCE = "0f2c1a5e-0000-4000-8000-000000000001"


@pytest.mark.usefixtures("impatient")
async def test_running_instance_without_its_port_is_critical_until_it_is_back(
    central: Central,
) -> None:
    """The port is deleted, its bridge is deleted and made again, and its device is taken away."""
    daemons = central.daemons
    iface = "c0ffee00-0000-4000-8000-000000000001"
    central.nbctl("ls-add", "net", "--", "lsp-add", "net", iface)
    daemons.add_link("p0", "q0")

    def plug() -> None:
        daemons.vsctl(
            *("--may-exist", "add-br", "br-int", "--", "add-port", "br-int", "p0", "--", "set"),
            *(
                "interface",
                "p0",
                f"external_ids:iface-id={iface}",
                f"external_ids:vm-id={INSTANCE}",
            ),
        )

    plug()
    async with judged(daemons) as watched:

        def running(facts: SwitchFacts) -> SwitchFacts:
            return replace(facts, instances={INSTANCE: True}, wanted={INSTANCE: (iface,)})

        watched.observer.update(running)
        await watched.condition("PortsHealthy", "True/NoIssues")
        for delete in (("del-port", "p0"), ("del-br", "br-int", "--", "add-br", "br-int")):
            daemons.vsctl(*delete)
            cut = await watched.condition("PortsHealthy", "False/InstancesCutOff")
            assert ("InstancePortMissing", iface) in codes(cut)
            assert {one.severity for one in cut.status.issues if one.object == iface} == {
                "Critical"
            }
            plug()
            await watched.condition("PortsHealthy", "True/NoIssues")
        daemons.namespace.run("ip", "link", "del", "p0")
        lost = await watched.condition("PortsHealthy", "False/InstancesCutOff")
        (issue,) = [one for one in lost.status.issues if one.object == "p0"]
        assert (issue.code, issue.severity) == ("InstanceDeviceLost", "Critical")
        assert "was of instance" not in issue.message
