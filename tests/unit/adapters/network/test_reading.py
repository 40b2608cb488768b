"""What `ip` prints, read."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Interface, IPv4Network

import pytest

from hypercobalt.adapters.network.model import KernelRoute, Link, NetworkError
from hypercobalt.adapters.network.reading import parse_links, parse_routes

LINKS = b"""[{"ifindex":1,"ifname":"lo","flags":["LOOPBACK","UP"],"mtu":65536,
"address":"00:00:00:00:00:00","addr_info":[{"family":"inet","local":"127.0.0.1","prefixlen":8},
{"family":"inet6","local":"::1","prefixlen":128}]},{},
{"ifindex":2,"link_index":5,"ifname":"eth0","flags":["BROADCAST"],"mtu":1400,"master":"b0",
"ifalias":"guest","address":"0a:00:00:00:00:05","linkinfo":{"info_kind":"veth"},"addr_info":[]}]"""

ROUTES = b"""[{"dst":"default","gateway":"10.1.1.1","dev":"eth0","flags":[]},
{"dst":"10.1.1.0/24","dev":"eth0","protocol":"kernel","scope":"link","prefsrc":"10.1.1.5"},
{"dst":"169.254.1.1","dev":"eth0","scope":"link","flags":[]},
{"type":"blackhole","dst":"10.3.0.0/16","flags":[]}]"""


def test_links_are_read() -> None:
    loopback = Link(
        name="lo",
        mac="00:00:00:00:00:00",
        mtu=65536,
        is_up=True,
        addresses=(IPv4Interface("127.0.0.1/8"),),
    )
    eth0 = Link(
        name="eth0", kind="veth", mac="0a:00:00:00:00:05", mtu=1400, master="b0", alias="guest"
    )
    assert parse_links(LINKS) == (loopback, eth0)


def test_routes_are_read_but_for_the_kernels_own_and_those_to_no_link() -> None:
    assert parse_routes(ROUTES) == (
        KernelRoute(IPv4Network("0.0.0.0/0"), IPv4Address("10.1.1.1"), "eth0"),
        KernelRoute(IPv4Network("169.254.1.1/32"), None, "eth0"),
    )


def test_no_answer_is_nothing() -> None:
    assert parse_links(b"") == ()
    assert parse_routes(b"") == ()


@pytest.mark.parametrize(
    "answer",
    [
        b"x",
        b"{}",
        b'[{"ifname":1}]',
        b'[{"ifname":"a","addr_info":[{"family":"inet","local":"x"}]}]',
    ],
)
def test_an_answer_that_cannot_be_read_is_an_error(answer: bytes) -> None:
    with pytest.raises(NetworkError, match="ip address show"):
        parse_links(answer)


@pytest.mark.parametrize("answer", [b"x", b"[{}]", b'[{"dst":"x","dev":"a"}]'])
def test_routes_that_cannot_be_read_are_an_error(answer: bytes) -> None:
    with pytest.raises(NetworkError, match="ip route show"):
        parse_routes(answer)
