"""Findings that a switch can show side by side, each made on real daemons and repaired."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import ModuleType

import pytest
from tests.integration.ovs.central import Central
from tests.integration.ovs.daemons import OVN_CONTROLLER, Daemons
from tests.integration.ovs_agent.conftest import codes, judged, state

from hypercobalt.ovs_agent import probes
from hypercobalt.ovs_agent.rules import bridges, controller, daemons, flows, mirrors, ports

CONTROLLER = "OVNControllerConnected"
GRACES: tuple[tuple[ModuleType, str], ...] = (
    (bridges, "SETTLE"),
    (controller, "CHASSIS_GRACE"),
    (daemons, "MANAGER_GRACE"),
    (flows, "LAG_GRACE"),
    (flows, "NO_FLOWS_GRACE"),
    (flows, "STALE_GRACE"),
    (mirrors, "GRACE"),
    (ports, "GRACE"),
)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short graces and periods: up to a minute each otherwise."""
    for module, name in GRACES:
        monkeypatch.setattr(module, name, timedelta(seconds=1))
    for name in ("SHAPE", "COUNTS", "TRAFFIC"):
        monkeypatch.setattr(probes, name, timedelta(seconds=2))


def add_tap(daemons: Daemons, name: str, port: str) -> None:
    """A port of an instance on the integration bridge."""
    daemons.vsctl(
        *("add-port", "br-int", name, "--", "set", "interface", name, "type=internal"),
        f"external_ids:iface-id={port}",
    )


@contextmanager
def network(central: Central, *ports: str) -> Iterator[None]:
    """A logical switch with ports, and a second chassis."""
    central.nbctl("ls-add", "net", *(w for one in ports for w in ("--", "lsp-add", "net", one)))
    central.sbctl("chassis-add", "kvm-2", "geneve", "192.0.2.2")
    try:
        yield
    finally:
        central.sbctl("chassis-del", "kvm-2")


async def test_findings_show_side_by_side_and_a_port_that_moves_is_none(central: Central) -> None:
    daemons = central.daemons
    with network(central, "here", "away", "moving"):
        both = ("requested-chassis=kvm-2,kvm-1", "activation-strategy=rarp")
        central.nbctl("lsp-set-options", "away", "requested-chassis=kvm-2")
        central.nbctl("lsp-set-options", "moving", *both)
        for name, port in (("tap1", "here"), ("tap2", "away"), ("tap3", "moving")):
            add_tap(daemons, name, port)
        central.synchronize()
        async with judged(daemons) as watched:
            away = await watched.until(lambda one: codes(one) == [("PortNotInstalled", "tap2")])
            break_rows(daemons)
            found = await watched.until(lambda one: set(codes(one)) == BROKEN)
            mend_rows(daemons)
            central.nbctl("lsp-set-options", "away", "requested-chassis=kvm-1")
            well = await watched.condition("Ready", "True/AllChecksPassed")
    assert state(away, "PortsHealthy") == "False/PortsNotInstalled"
    assert state(found, "AllBridgesHealthy") == "False/BridgeDown"
    assert state(found, "PortsHealthy") == "False/PortErrors"
    assert state(found, "FlowsInSync") == "False/StaleFlows"
    assert state(found, CONTROLLER) == "True/Connected"
    assert {one.name: one.status for one in found.status.bridges} == {
        "br-ex": "Degraded",
        "br-int": "Active",
        "br-odd": "Down",
    }
    messages = {(one.code, one.object): one.message for one in found.status.issues}
    assert "in_port 4242" in messages["StaleFlowInPort", "br-int"]
    assert "requires valid 'remote_ip'" in messages["PortError", "vx0"]
    assert "9.9.9 is installed" in messages["VersionSkew", "ovs-vswitchd"]
    assert codes(well) == []


BROKEN = {
    ("PortNotInstalled", "tap2"),
    ("BridgeDown", "br-odd"),
    ("DatapathMismatch", "br-odd"),
    ("PatchPeerMissing", "patch0"),
    ("PortError", "patch0"),
    ("PortError", "vx0"),
    ("PortPending", "br-odd"),
    ("VersionSkew", "ovs-vswitchd"),
    ("ManagerDisconnected", "tcp:127.0.0.1:1"),
    ("MirrorLeftOver", "left"),
    ("StaleFlowInPort", "br-int"),
}


def break_rows(daemons: Daemons) -> None:
    """One of each fault that Open vSwitch's database and its flows can have."""
    daemons.vsctl(
        *("add-br", "br-ex", "--", "set", "bridge", "br-ex", "datapath_type=netdev"),
        *("--", "--id=@left", "create", "mirror", "name=left", "select_all=true"),
        *("--", "add", "bridge", "br-ex", "mirrors", "@left"),
        *("--", "set-manager", "tcp:127.0.0.1:1"),
        *("--", "set", "Open_vSwitch", ".", "ovs_version=9.9.9"),
        "external_ids:ovn-bridge-mappings=lab:br-odd",
    )
    daemons.vsctl(  # ovs-vswitchd cannot make these
        *("--no-wait", "add-br", "br-odd", "--", "set", "bridge", "br-odd", "datapath_type=odd"),
        *("--", "add-port", "br-ex", "patch0", "--", "set", "interface", "patch0", "type=patch"),
        *("options:peer=nowhere", "--", "add-port", "br-ex", "vx0"),
        *("--", "set", "interface", "vx0", "type=vxlan"),
    )
    daemons.ofctl("add-flow", "br-int", "table=0,in_port=4242,actions=drop")


def mend_rows(daemons: Daemons) -> None:
    daemons.ofctl("del-flows", "br-int", "table=0,in_port=4242")
    daemons.vsctl(
        *("del-br", "br-ex", "--", "del-br", "br-odd", "--", "del-manager", "--"),
        *("clear", "Open_vSwitch", ".", "ovs_version", "--"),
        *("remove", "Open_vSwitch", ".", "external_ids", "ovn-bridge-mappings"),
    )


async def test_paused_controller_lags_and_neither_its_chassis_nor_its_flows_come_back(
    central: Central,
) -> None:
    daemons = central.daemons
    with network(central, "here"):
        add_tap(daemons, "tap1", "here")
        central.synchronize()
        async with judged(daemons) as watched:
            await watched.condition("Ready", "True/AllChecksPassed")
            daemons.appctl(OVN_CONTROLLER, "debug/pause")
            central.nbctl("--wait=sb", "sync")
            frozen = {("Paused", "ovn-controller"), ("FlowsFrozen", "br-int")}
            await watched.until(
                lambda one: set(codes(one)) == {*frozen, ("FlowsLagging", "br-int")}
            )
            central.sbctl("chassis-del", "kvm-1")
            await watched.until(lambda one: ("ChassisMismatch", "ovn-controller") in codes(one))
            daemons.ofctl("del-flows", "br-int")
            cut = await watched.until(lambda one: ("NoFlows", "br-int") in codes(one))
            daemons.restart(OVN_CONTROLLER)
            well = await watched.condition("Ready", "True/AllChecksPassed")
    assert state(cut, CONTROLLER) == "False/Paused"
    assert state(cut, "AllBridgesHealthy") == "False/NoFlows"
    assert [one.status for one in cut.status.bridges if one.name == "br-int"] == ["Down"]
    assert ("FlowsFrozen", "br-int") not in codes(cut)
    assert codes(well) == []
