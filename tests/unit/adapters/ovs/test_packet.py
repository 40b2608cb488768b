"""Packets are read field by field and rewritten; nothing else reaches ovs-vswitchd."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.adapters.ovs.packet import (
    ALIASES,
    FIELDS,
    MOST_STATES,
    InvalidPacketError,
    parse_packet,
    parse_states,
)

MACS = {"eth_src": "FA:16:3E:00:00:01", "eth_dst": "fa:16:3e:00:00:02"}
V4 = {"ip_src": "10.0.0.1", "ip_dst": "10.0.0.2"}
V6 = {"ip_src": "fd00::1", "ip_dst": "FD00:0::2"}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "in_port=7"),
        (MACS, "in_port=7,dl_src=fa:16:3e:00:00:01,dl_dst=fa:16:3e:00:00:02"),
        ({"vlan": "12"}, "in_port=7,dl_vlan=12"),
        (V4, "in_port=7,ip,nw_src=10.0.0.1,nw_dst=10.0.0.2,nw_ttl=64"),
        (V6, "in_port=7,ipv6,ipv6_src=fd00::1,ipv6_dst=fd00::2,nw_ttl=64"),
        ({"ttl": "1", "dscp": "46"}, "in_port=7,ip,nw_ttl=1,ip_dscp=46"),
        (
            {"proto": "tcp", **V4, "dst_port": "80"},
            "in_port=7,tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,nw_ttl=64,tcp_dst=80",
        ),
        (
            {"proto": "udp", **V6, "src_port": "0", "dst_port": "53"},
            "in_port=7,udp6,ipv6_src=fd00::1,ipv6_dst=fd00::2,nw_ttl=64,udp_src=0,udp_dst=53",
        ),
        ({"proto": "sctp", "dst_port": "9"}, "in_port=7,sctp,nw_ttl=64,sctp_dst=9"),
        ({"proto": "icmp"}, "in_port=7,icmp,nw_ttl=64,icmp_type=8,icmp_code=0"),
        (
            {"icmp_type": "3", "icmp_code": "4", "ip_dst": "::1"},
            "in_port=7,icmp6,ipv6_dst=::1,nw_ttl=64,icmpv6_type=3,icmpv6_code=4",
        ),
        ({"proto": "arp"}, "in_port=7,arp,arp_op=1"),
        (
            {"tun_id": "0", "tun_metadata0": "007"},
            "in_port=7,tun_id=0x0,tun_metadata0=0x7",
        ),
        (
            {"tun_id": "2", "tun_metadata0": "0x20004", "ip_dst": "10.0.0.2"},
            "in_port=7,tun_id=0x2,tun_metadata0=0x20004,ip,nw_dst=10.0.0.2,nw_ttl=64",
        ),
        (
            {"arp_op": "reply", "arp_spa": "10.0.0.1", "arp_sha": "fa:16:3e:00:00:01"},
            "in_port=7,arp,arp_op=2,arp_spa=10.0.0.1,arp_sha=fa:16:3e:00:00:01",
        ),
    ],
)
def test_a_packet_is_written_as_ovs_vswitchd_reads_it(fields: dict[str, str], text: str) -> None:
    assert parse_packet(fields).text(7) == text


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"in_port": "1"}, "in_port"),
        ({"reg0": "1"}, "reg0"),
        ({"--generate": ""}, "--generate"),
        ({"eth_src": "fa:16:3e:00:00:1"}, "MAC address"),
        ({"eth_src": "fa:16:3e:00:00:01/ff:00:00:00:00:00"}, "MAC address"),
        ({"vlan": "0"}, "1 to 4094"),
        ({"vlan": "4095"}, "1 to 4094"),
        ({"vlan": "٣"}, "1 to 4094"),
        ({"proto": "gre"}, "one of eth, arp"),
        ({"ip_src": "10.0.0.0/8"}, "IPv4 or IPv6"),
        ({"ip_src": "10.0.0.1,tcp"}, "IPv4 or IPv6"),
        ({"ip_src": "fe80::1%eth0,actions=drop"}, "IPv4 or IPv6"),
        ({"ip_src": "10.0.0.1", "ip_dst": "fd00::1"}, "both must be IPv4 or both IPv6"),
        ({"ttl": "0"}, "1 to 255"),
        ({"dscp": "64"}, "0 to 63"),
        ({"dst_port": "80"}, "need a proto"),
        ({"proto": "tcp", "dst_port": "65536"}, "0 to 65535"),
        ({"proto": "tcp", "dst_port": "8" * 5000}, "0 to 65535"),
        ({"proto": "icmp", "dst_port": "80"}, "is not valid with proto icmp"),
        ({"proto": "tcp", "icmp_type": "8"}, "is not valid with proto tcp"),
        ({"proto": "arp", "ip_src": "10.0.0.1"}, "is not valid with proto arp"),
        ({"proto": "tcp", "arp_op": "request"}, "is not valid with proto tcp"),
        ({"arp_spa": "fd00::1"}, "IPv4 address"),
        ({"arp_op": "3"}, "request or reply"),
        ({"tun_id": "0x1000000"}, "0 to 0xffffff"),
        ({"tun_id": "2/0xff"}, "0 to 0xffffff"),
        ({"tun_id": "-1"}, "0 to 0xffffff"),
        ({"tun_id": "0x_2"}, "0 to 0xffffff"),
        ({"tun_id": "0" * 5000}, "0 to 0xffffff"),
        ({"tun_metadata0": "0x100000000"}, "0 to 0xffffffff"),
    ],
)
def test_a_field_that_cannot_be_is_refused_by_name_and_rule(
    fields: dict[str, str], named: str
) -> None:
    with pytest.raises(InvalidPacketError, match=re.escape(named)) as refused:
        parse_packet(fields)
    assert len(str(refused.value)) < 400


def test_states_of_connection_tracking_are_those_that_there_are() -> None:
    assert parse_states("") == ()
    assert parse_states("est  trk,new,rpl") == ("est,trk", "new,rpl,trk")
    for wrong in ("zz", "new,--generate", "+est", " ".join(["new"] * (MOST_STATES + 1))):
        with pytest.raises(InvalidPacketError, match="ct_next"):
            parse_states(wrong)


def test_other_names_of_open_vswitch_lead_to_fields_that_there_are() -> None:
    assert set(ALIASES.values()) <= FIELDS.keys()
    assert not ALIASES.keys() & FIELDS.keys()


SAFE = re.compile(r"in_port=7(,[a-z0-9_]+(=(0x)?[0-9a-f.:]+)?)*")
VALUES = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["fa:16:3e:00:00:01", "10.0.0.1", "fd00::1", "::1%a,b=c", "80", "0x2", "tcp", "arp"]
    ),
)


@given(st.dictionaries(st.sampled_from(sorted(FIELDS)), VALUES, max_size=6))
def test_whatever_is_given_is_refused_or_becomes_fields_alone(fields: dict[str, str]) -> None:
    with suppress(InvalidPacketError):
        assert SAFE.fullmatch(parse_packet(fields).text(7))


@given(st.text(max_size=30))
def test_whatever_is_given_as_states_is_refused_or_becomes_flags_alone(given: str) -> None:
    with suppress(InvalidPacketError):
        assert all(re.fullmatch(r"[a-z,]+", one) for one in parse_states(given))
