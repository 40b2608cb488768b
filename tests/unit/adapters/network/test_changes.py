"""Only what is missing is changed."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Interface

import pytest

from hypercobalt.adapters.network.changes import link_changes
from hypercobalt.adapters.network.model import Link, NetworkError, NetworkValueError, WantedLink

ADDRESS, OTHER = IPv4Interface("10.0.2.1/24"), IPv4Interface("10.0.3.1/24")
MAC = "02:00:00:00:00:00"
WANTED = WantedLink(name="b0", kind="bridge", mac=MAC, mtu=1400, addresses=(ADDRESS,))
THERE = Link(name="b0", kind="bridge", mac=MAC, mtu=1400, is_up=True, addresses=(ADDRESS,))


def test_a_bridge_is_made_whole() -> None:
    assert link_changes({}, (WANTED,)) == (
        f"link add name b0 address {MAC} type bridge mcast_snooping 0",
        f"link set dev b0 address {MAC}",
        "link set dev b0 mtu 1400",
        "address add 10.0.2.1/24 dev b0",
        "link set dev b0 up",
    )


def test_a_tap_is_made_for_its_owner() -> None:
    tap = WantedLink(name="tap0", kind="tap", master="b0", owner=107)
    assert link_changes({}, (tap,)) == (
        "tuntap add dev tap0 mode tap user 107",
        "link set dev tap0 master b0",
        "link set dev tap0 up",
    )


def test_what_is_there_is_left_alone() -> None:
    assert link_changes({"b0": THERE}, (WANTED,)) == ()
    tap = Link(name="tap0", kind="tun", is_up=True)
    assert link_changes({"tap0": tap}, (WantedLink(name="tap0", kind="tap"),)) == ()
    eth0 = Link(name="eth0", kind="veth", is_up=True)
    assert link_changes({"eth0": eth0}, (WantedLink(name="eth0"),)) == ()


@pytest.mark.parametrize(
    ("there", "change"),
    [
        (replace(THERE, mac="02:00:00:00:00:01"), f"link set dev b0 address {MAC}"),
        (replace(THERE, mtu=1500), "link set dev b0 mtu 1400"),
        (replace(THERE, master="b1"), "link set dev b0 nomaster"),
        (replace(THERE, is_up=False), "link set dev b0 up"),
        (replace(THERE, addresses=()), "address add 10.0.2.1/24 dev b0"),
        (replace(THERE, addresses=(ADDRESS, OTHER)), "address delete 10.0.3.1/24 dev b0"),
    ],
)
def test_what_differs_is_changed(there: Link, change: str) -> None:
    assert link_changes({"b0": there}, (WANTED,)) == (change,)


def test_a_link_of_another_kind_is_an_error() -> None:
    with pytest.raises(NetworkError, match="b0: is veth, not bridge"):
        link_changes({"b0": replace(THERE, kind="veth")}, (WANTED,))
    with pytest.raises(NetworkError, match="is hardware"):
        link_changes({"b0": replace(THERE, kind="")}, (WANTED,))


def test_a_link_that_others_make_must_be_there() -> None:
    with pytest.raises(NetworkError, match="eth0: is not there"):
        link_changes({}, (WantedLink(name="eth0"),))


def test_a_name_that_could_be_a_command_is_refused() -> None:
    with pytest.raises(NetworkValueError):
        link_changes({}, (WantedLink(name="a\nlink delete b", kind="bridge"),))
    with pytest.raises(NetworkValueError):
        link_changes({}, (replace(WANTED, mac="x"),))
