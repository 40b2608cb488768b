"""Which filters of a person reach tcpdump, and which names count as devices."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.adapters.capture.filters import LONGEST, FilterError, check_filter, is_device

ID = re.compile(r"[A-Za-z0-9][-_.A-Za-z0-9]*[.A-Za-z0-9]|[A-Za-z0-9]")
"""What libpcap's scanner takes for a name when it is no keyword: scanner.l, the rule of ID."""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "icmp",
        "host 10.0.0.1 and not port 22",
        "net 10.0.0.0/8 or net 10.0",
        "ether host 02:00:00:00:00:01",
        "ip6 and host fe80::1",
        "net 2001:db8::/32",
        "tcp portrange 100-200",
        "tcp[tcpflags] & (tcp-syn|tcp-ack) != 0",
        "ip[2:2] - ((ip[0]&0xf)<<2) > 40",
        "ip[2:2]-40 > 3",
        r"ether proto \ip",
        "udp port 67 or udp port 68",
        "vlan 100 && arp",
        "greater 1000",
    ],
)
def test_a_filter_of_the_manual_is_taken(text: str) -> None:
    check_filter(text)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("host db.example.org", "'db.example.org'"),
        ("host beef.de", "'beef.de'"),
        ("host beef.de:1", "'beef.de:1'"),
        ("host face", "'face'"),
        ("host 1abc", "'1abc'"),
        ("host 1.2.3.4-5", "'1.2.3.4-5'"),
        (r"host \secret", r"secret'"),
        ("port domain", "'domain'"),
        ("ip protochain 6", "'protochain'"),
        ("-F /etc/shadow", "dash"),
        ("  -w x", "dash"),
        ("icmp; id", "'icmp;'"),
        ("$(id)", "'$'"),
        ("`id`", "'`id`'"),
        ("icmp\nicmp", "printable"),
        ("icmp\0", "printable"),
        ("\u0131cmp", "printable"),
        ("a" * (LONGEST + 1), f"at most {LONGEST}"),
    ],
)
def test_any_other_word_is_refused_by_name(text: str, named: str) -> None:
    with pytest.raises(FilterError, match=re.escape(named)):
        check_filter(text)


@given(
    st.text(st.sampled_from("abcdefxip6tcp0123456789.:-_/\\[]()&|<>=!* \t"), max_size=60)
    | st.lists(
        st.sampled_from(["host", "beef", "de", ".", "-", ":", "1", "ip", "tcp-syn", " ", "0x1"])
    ).map("".join)
)
def test_no_filter_that_is_taken_has_a_name_to_resolve(text: str) -> None:
    try:
        check_filter(text)
    except FilterError:
        return
    assert not text.lstrip().startswith("-")
    for name in ID.findall(text):
        # No domain consists of numbers; words alone are keywords of libpcap.
        is_name = "." in name and re.search("[A-Za-z]", name)
        assert not is_name, name


@pytest.mark.parametrize("name", ["tap0a1b2c3d-4e", "vnet0", "eth0", "br-int", "qvo1", "p0.100"])
def test_names_of_network_devices_are_devices(name: str) -> None:
    assert is_device(name)


@pytest.mark.parametrize(
    "name",
    [
        *("", "-i", "--help", "5", "any", "any0", "nflog:5", "nfqueue", "usbmon0", "bluetooth0"),
        *("dbus-system", "netmap:eth0", "rdma", "a/b", "..", "a b", "tap\n", "t" * 16, "täp"),
    ],
)
def test_names_that_mean_something_else_to_tcpdump_are_none(name: str) -> None:
    assert not is_device(name)
