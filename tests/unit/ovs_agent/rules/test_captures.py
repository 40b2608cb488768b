"""Which port is captured, where its packets are, and within which limits."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.adapters.capture.order import CaptureOrder
from hypercobalt.adapters.ovs.links import Link
from hypercobalt.adapters.ovs.rows import BridgeRow, Database, InterfaceRow, PortRow, SwitchRow
from hypercobalt.ovs_agent.rules.captures import (
    CaptureRefusedError,
    PacketSource,
    order_of,
    source_of,
)

IFACE = "6d7d7aa4-16ff-4b2f-9a3a-0c1f2d3e4f50"
ROWS = (
    InterfaceRow("i-tap", "tap1", external_ids={"iface-id": IFACE}),
    InterfaceRow("i-bare", "vnet0"),
    InterfaceRow("i-gone", "tap2", external_ids={"iface-id": "gone"}),
    InterfaceRow("i-twin1", "tap3", external_ids={"iface-id": "twin"}),
    InterfaceRow("i-twin2", "tap4", external_ids={"iface-id": "twin"}),
    InterfaceRow("i-any", "any", external_ids={"iface-id": "any"}),
    InterfaceRow("i-vhost", "vhu1", "dpdkvhostuserclient", external_ids={"iface-id": "vhost"}),
    InterfaceRow("i-dpdk", "dpdk0", "dpdk"),
    InterfaceRow("i-uplink", "eth0"),
    InterfaceRow("i-member", "eth1"),
    InterfaceRow("i-own", "br-int", "internal"),
    InterfaceRow("i-tunnel", "ovn-2", "geneve"),
    InterfaceRow("i-patch", "patch-1", "patch"),
)
PORTS = (
    PortRow("p-bond", "bond0", ("i-uplink", "i-member")),
    PortRow("p-vhost", "vhu1", ("i-vhost",)),
    PortRow("p-dpdk", "dpdk0", ("i-dpdk",)),
)
DATABASE = Database(
    "8.3.1",
    SwitchRow(),
    {"b-int": BridgeRow("b-int", "br-int", ("p-bond", "p-vhost", "p-dpdk"))},
    {row.uuid: row for row in PORTS},
    {row.uuid: row for row in ROWS},
)
TAPS = ("tap1", "vnet0", "tap3", "tap4", "any", "br-int")
LINKS = {
    name: Link(name, 5, admin_up=True, carrier=True, is_tap=name in TAPS)
    for name in (*TAPS, "eth0", "eth1")
}


def source(port: str, *, uplinks: bool = False, mirrors: bool = False) -> PacketSource:
    return source_of(DATABASE, LINKS, port, uplinks=uplinks, mirrors=mirrors)


@pytest.mark.parametrize(
    ("port", "found"),
    [("tap1", "tap1"), (IFACE, "tap1"), ("vnet0", "vnet0"), ("tap3", "tap3")],
)
def test_a_port_of_an_instance_is_captured_on_its_device(port: str, found: str) -> None:
    assert source(port) == PacketSource(found)
    assert source(port, uplinks=True, mirrors=True) == PacketSource(found)


@pytest.mark.parametrize("port", ["eth0", "br-int"])
def test_capture_of_a_port_of_no_instance_needs_the_other_right(port: str) -> None:
    with pytest.raises(CaptureRefusedError, match="ovsnodes/capture-uplink"):
        source(port)
    assert source(port, uplinks=True) == PacketSource(port)


def test_a_port_without_a_device_is_mirrored_only_if_that_is_switched_on() -> None:
    with pytest.raises(CaptureRefusedError, match="--capture-by-mirror"):
        source("vhu1")
    assert source("vhu1", mirrors=True) == PacketSource("vhu1", ("b-int", "p-vhost"))
    with pytest.raises(CaptureRefusedError, match="capture-uplink"):
        source("dpdk0", mirrors=True)
    assert source("dpdk0", uplinks=True, mirrors=True) == PacketSource("dpdk0", ("b-int", "p-dpdk"))


@pytest.mark.parametrize(
    ("port", "named"),
    [
        ("", "no such port; ports of instances: any, tap1"),
        ("tap9", "'tap9'.*no such port"),
        ("lo", "no such port"),  # a device of the host that is no port
        ("../../etc", "no such port"),
        ("-i", "no such port"),
        ("tap1\x1b[2J", r"'tap1\?\[2J'"),
        ("twin", "several ports carry this iface-id: tap3, tap4"),
        ("bond0", "is a bond; capture on a member: eth0, eth1"),
        ("ovn-2", "of type geneve"),
        ("patch-1", "of type patch"),
        ("tap2", "device is gone"),
        ("any", "tcpdump accepts no device"),
    ],
)
def test_another_port_is_refused_with_the_reason(port: str, named: str) -> None:
    with pytest.raises(CaptureRefusedError, match=named):
        source(port, uplinks=True, mirrors=True)


@given(st.text(max_size=80))
def test_only_ports_of_this_host_are_captured(port: str) -> None:
    try:
        found = source(port)
    except CaptureRefusedError as refusal:
        text = str(refusal)
    else:
        text = found.name
        assert port in {"tap1", IFACE, "vnet0", "tap3", "tap4"}
        assert found.name in LINKS
    assert text.isprintable()


@pytest.mark.parametrize(
    ("parameters", "order"),
    [
        ({}, CaptureOrder("")),
        (
            {"filter": " icmp ", "seconds": "5", "packets": "10", "snaplen": "65535"},
            CaptureOrder("", "icmp", timedelta(seconds=5), 10, 65535),
        ),
        ({"seconds": "60", "packets": "10000", "snaplen": "14"}, CaptureOrder("", snaplen=14)),
    ],
)
def test_limits_are_read(parameters: dict[str, str], order: CaptureOrder) -> None:
    assert order_of(parameters) == order


@pytest.mark.parametrize(
    ("name", "value", "bounds"),
    [
        *(("seconds", one, "1 to 60") for one in ("0", "61", "-1", "1.5", "", "1e1", "٣")),
        *(("packets", one, "1 to 10000") for one in ("0", "10001", "all", "9" * 5000)),
        *(("snaplen", one, "14 to 65535") for one in ("0", "13", "65536", "0x60")),
        ("filter", "a" * 513, "at most 512"),
    ],
)
def test_beyond_a_limit_is_refused_with_the_limit(name: str, value: str, bounds: str) -> None:
    with pytest.raises(CaptureRefusedError, match=f"^{name}.*{bounds}"):
        order_of({name: value})
