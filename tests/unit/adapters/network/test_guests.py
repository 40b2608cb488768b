"""How a guest is connected: rules, and each step from any state in which a call was cut."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

import pytest

from hypercobalt.adapters.network import bridging, masquerade
from hypercobalt.adapters.network.addressing import local_mac
from hypercobalt.adapters.network.bridging import PodIdentity, decode_identity, identity
from hypercobalt.adapters.network.model import KernelRoute, Link, NetworkError, NetworkValueError
from hypercobalt.adapters.network.port import ForwardedPort, GuestBinding, PortProtocol, WantedNic

ADDRESS, GATEWAY, MAC = IPv4Interface("10.1.1.5/24"), IPv4Address("10.1.1.1"), "0a:00:00:00:00:05"
ETH0 = Link(name="eth0", kind="veth", mac=MAC, mtu=1400, is_up=True, addresses=(ADDRESS,))
DEFAULT = KernelRoute(IPv4Network("0.0.0.0/0"), GATEWAY, "eth0")
POD = PodIdentity(ADDRESS, MAC, 1400, GATEWAY)
WANTED = WantedNic(binding=GuestBinding.BRIDGE, owner=107)


def test_all_ports_are_forwarded_where_none_is_named() -> None:
    assert "\n    counter dnat to 10.0.2.2\n" in masquerade.ruleset(())


def test_only_named_ports_are_forwarded() -> None:
    rules = masquerade.ruleset((ForwardedPort(80), ForwardedPort(53, PortProtocol.UDP)))
    assert "tcp dport 80 counter dnat to 10.0.2.2" in rules
    assert "udp dport 53 counter dnat to 10.0.2.2" in rules
    assert "\n    counter dnat" not in rules


@pytest.mark.parametrize("number", [0, -1, 65536])
def test_a_port_that_cannot_be_is_refused(number: int) -> None:
    with pytest.raises(NetworkValueError, match="1 to 65535"):
        ForwardedPort(number)


def test_a_pod_whose_nic_has_no_address_yet_is_an_error() -> None:
    for found in ({}, {"eth0": replace(ETH0, addresses=())}):
        with pytest.raises(NetworkError, match="eth0"):
            masquerade.wanted_links(found, WANTED)
        with pytest.raises(NetworkError, match="eth0"):
            identity(found, ())


def test_the_guest_gets_what_the_nic_has() -> None:
    other = KernelRoute(IPv4Network("10.9.0.0/16"), IPv4Address("10.1.1.9"), "eth0")
    on_link = KernelRoute(IPv4Network("10.8.0.0/16"), None, "eth0")
    elsewhere = KernelRoute(IPv4Network("10.7.0.0/16"), None, "eth1")
    assert identity({"eth0": ETH0}, (DEFAULT,)) == POD
    found = identity({"eth0": ETH0}, (DEFAULT, other, on_link, elsewhere))
    assert found.routes == (
        (IPv4Network("10.9.0.0/16"), IPv4Address("10.1.1.9")),
        (IPv4Network("10.8.0.0/16"), IPv4Address(0)),
    )
    assert identity({"eth0": ETH0}, ()).gateway is None


def test_what_the_nic_had_is_read_from_its_alias() -> None:
    routes = ((IPv4Network("10.9.0.0/16"), IPv4Address("10.1.1.9")),) * 2
    for pod in (POD, replace(POD, gateway=None), replace(POD, routes=routes)):
        assert decode_identity(pod.encode()) == pod
        cut = replace(ETH0, is_up=False, alias=pod.encode())
        assert identity({"eth0": cut}, ()) == pod
        renamed = replace(cut, name="eth0-nic", mac="06:00:00:00:00:01", addresses=())
        assert identity({"eth0-nic": renamed}, ()) == pod
        assert identity({"eth0-nic": renamed, "eth0": replace(ETH0, kind="bridge")}, ()) == pod


@pytest.mark.parametrize(
    "alias",
    ["", "uplink", "guest=x,0a:00:00:00:00:05,1400,", "guest=10.1.1.5/24,0a:00,1400,x"],
)
def test_an_alias_of_others_is_no_record(alias: str) -> None:
    assert decode_identity(alias) is None


def test_more_routes_than_an_alias_holds_are_an_error() -> None:
    route = (IPv4Network("10.100.0.0/16"), IPv4Address("10.100.100.100"))
    with pytest.raises(NetworkError, match="too many routes"):
        replace(POD, routes=(route,) * 8).encode()


def test_a_nic_that_was_renamed_without_a_record_is_an_error() -> None:
    with pytest.raises(NetworkError):
        identity({"eth0-nic": replace(ETH0, name="eth0-nic")}, ())


def test_the_record_is_written_before_anything_that_it_records_is_lost() -> None:
    lines = list(bridging.changes({"eth0": ETH0}, POD, WANTED))
    record = lines.index(f"link set dev eth0 alias {POD.encode()}")
    for loss in ("link set dev eth0 down", "address delete 10.1.1.5/24 dev eth0-nic"):
        assert record < lines.index(loss)


def test_a_guest_that_is_connected_is_left_alone() -> None:
    bridge = Link(
        name="k6t-eth0", kind="bridge", mtu=1400, is_up=True, addresses=(bridging.SERVER,)
    )
    nic = Link(
        name="eth0-nic",
        kind="veth",
        mac=local_mac(MAC),
        mtu=1400,
        is_up=True,
        master="k6t-eth0",
        alias=POD.encode(),
    )
    tap = Link(name="tap0", kind="tun", mtu=1400, is_up=True, master="k6t-eth0")
    there = {one.name: one for one in (bridge, nic, tap, replace(ETH0, kind="bridge"))}
    assert list(bridging.changes(there, POD, WANTED)) == [
        "link set dev eth0-nic type bridge_slave learning off"
    ]
