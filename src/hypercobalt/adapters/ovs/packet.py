"""An imaginary packet for a trace, out of field names and values that a person gives.

Every value is read into its type and written from that, so nothing that was given reaches
ovs-vswitchd as text: neither a further option, nor `--generate`, which would execute the trace.

Source: ovs-fields(7) for names, types and what each field needs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from hypercobalt.errors import HypercobaltError

TTL: Final = 64
"""Hops of a packet without `ttl`: with 0, as ovs-vswitchd takes it, a router drops it."""

ARP_OPERATIONS: Final = {"request": 1, "reply": 2}
PROTOCOLS: Final = ("eth", "arp", "ip", "icmp", "tcp", "udp", "sctp")
WITH_PORTS: Final = ("tcp", "udp", "sctp")
FIELDS: Final = {
    "eth_src": "MAC address",
    "eth_dst": "MAC address",
    "vlan": "VLAN of the frame, 1 to 4094",
    "proto": "one of eth, arp, ip, icmp, tcp, udp, sctp",
    "ip_src": "IPv4 or IPv6 address",
    "ip_dst": "IPv4 or IPv6 address",
    "ttl": "1 to 255",
    "dscp": "0 to 63",
    "src_port": "port, 0 to 65535",
    "dst_port": "port, 0 to 65535",
    "icmp_type": "0 to 255",
    "icmp_code": "0 to 255",
    "arp_op": "request or reply",
    "arp_spa": "IPv4 address",
    "arp_tpa": "IPv4 address",
    "arp_sha": "MAC address",
    "arp_tha": "MAC address",
    "tun_id": "0 to 0xffffff",
    "tun_metadata0": "0 to 0xffffffff",
}
"""What a packet may have, and what each is."""

ALIASES: Final = {
    "dl_src": "eth_src",
    "dl_dst": "eth_dst",
    "dl_vlan": "vlan",
    "vlan_vid": "vlan",
    **{f"{prefix}_src": "ip_src" for prefix in ("nw", "ipv4", "ipv6")},
    **{f"{prefix}_dst": "ip_dst" for prefix in ("nw", "ipv4", "ipv6")},
    "nw_ttl": "ttl",
    "ip_ttl": "ttl",
    "ip_dscp": "dscp",
    "tp_src": "src_port",
    "tp_dst": "dst_port",
    **{f"icmpv{version}_{part}": f"icmp_{part}" for version in "46" for part in ("type", "code")},
}
"""Other names of Open vSwitch, with the fields that they mean."""

FLAGS: Final = ("new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat")
"""States that connection tracking can give a packet."""

MOST_STATES: Final = 16
_HEXADECIMAL: Final = re.compile(r"(?:0x[0-9a-fA-F]{1,8}|[0-9]{1,10})", re.ASCII)
_MAC: Final = re.compile(r"[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5}")
_LONGEST: Final = 80  # characters of a value that a message repeats
_LARGEST_PORT: Final = 65535


class InvalidPacketError(HypercobaltError):
    """A field is unknown, has an invalid value, or conflicts with another."""


@dataclass(frozen=True, slots=True)
class Packet:
    """An imaginary packet; empty addresses count as zeros.

    Args:
        proto: one of PROTOCOLS; `icmp` is ICMPv6 with addresses of IPv6.
        eth_src: MAC address.
        eth_dst: MAC address.
        vlan: of the frame; None for an untagged one.
        ip_src: of the same version as `ip_dst`.
        ip_dst: None for a packet without IP.
        ttl: remaining hops.
        dscp: class of service.
        src_port: of TCP, UDP or SCTP.
        dst_port: of TCP, UDP or SCTP.
        icmp_type: of ICMP; None for an echo request.
        icmp_code: of ICMP.
        arp_op: 1 request, 2 reply.
        arp_spa: of ARP, sender's IPv4 address.
        arp_tpa: target's.
        arp_sha: sender's MAC address.
        arp_tha: target's.
        tun_id: key of the tunnel that it comes in by: of OVN's, its network; None without one.
        tun_metadata0: first option of Geneve's header: of OVN's, its logical ports.
    """

    proto: str = "eth"
    _: KW_ONLY
    eth_src: str = ""
    eth_dst: str = ""
    vlan: int | None = None
    ip_src: IPv4Address | IPv6Address | None = None
    ip_dst: IPv4Address | IPv6Address | None = None
    ttl: int = TTL
    dscp: int = 0
    src_port: int | None = None
    dst_port: int | None = None
    icmp_type: int | None = None
    icmp_code: int = 0
    arp_op: int = 1
    arp_spa: IPv4Address | None = None
    arp_tpa: IPv4Address | None = None
    arp_sha: str = ""
    arp_tha: str = ""
    tun_id: int | None = None
    tun_metadata0: int | None = None

    @property
    def is_ipv6(self) -> bool:
        """Whether its addresses are of IPv6; without any it is of IPv4."""
        return isinstance(self.ip_src or self.ip_dst, IPv6Address)

    def text(self, in_port: int) -> str:
        """The flow that ovs-vswitchd reads.

        Args:
            in_port: OpenFlow number of the port that it comes in by.
        """
        found: dict[str, object] = {"dl_src": self.eth_src, "dl_dst": self.eth_dst}
        if self.vlan is not None:
            found["dl_vlan"] = self.vlan
        if self.proto == "arp":
            found |= {"arp_op": self.arp_op, "arp_spa": self.arp_spa, "arp_tpa": self.arp_tpa}
            found |= {"arp_sha": self.arp_sha, "arp_tha": self.arp_tha}
        elif self.proto != "eth":
            found |= self._internet()
        pairs = [f"{name}={value}" for name, value in found.items() if value not in {None, ""}]
        keyword = [] if self.proto == "eth" else [self._keyword()]
        return ",".join([f"in_port={in_port}", *self._tunnel(), *keyword, *pairs])

    def _tunnel(self) -> list[str]:
        found = {"tun_id": self.tun_id, "tun_metadata0": self.tun_metadata0}
        return [f"{name}={value:#x}" for name, value in found.items() if value is not None]

    def _keyword(self) -> str:
        if self.proto == "arp" or not self.is_ipv6:
            return self.proto
        return "ipv6" if self.proto == "ip" else f"{self.proto}6"

    def _internet(self) -> dict[str, object]:
        names = ("ipv6_src", "ipv6_dst") if self.is_ipv6 else ("nw_src", "nw_dst")
        found: dict[str, object] = {names[0]: self.ip_src, names[1]: self.ip_dst}
        found |= {"nw_ttl": self.ttl, "ip_dscp": self.dscp or None}
        if self.proto in WITH_PORTS:
            found |= {f"{self.proto}_src": self.src_port, f"{self.proto}_dst": self.dst_port}
        elif self.proto == "icmp":
            echo, prefix = (128, "icmpv6") if self.is_ipv6 else (8, "icmp")
            found[f"{prefix}_type"] = echo if self.icmp_type is None else self.icmp_type
            found[f"{prefix}_code"] = self.icmp_code
        return found


def canonical(name: str) -> str:
    """The name of a field that FIELDS has, for any name that Open vSwitch has for it."""
    return ALIASES.get(name, name)


def parse_packet(given: Mapping[str, str]) -> Packet:
    """Read a packet.

    Args:
        given: values by name in FIELDS.

    Raises:
        InvalidPacketError: see there.
    """
    for name in given:
        if name not in FIELDS:
            raise InvalidPacketError(
                f"field {name[:_LONGEST]!r} is unknown; there are: {', '.join(FIELDS)}"
            )
    proto = _proto(given)
    _check_fits(given, proto)
    source, target = _address("ip_src", given), _address("ip_dst", given)
    if source is not None and target is not None and source.version != target.version:
        raise InvalidPacketError(
            f"ip_src {source} and ip_dst {target}: both must be IPv4 or both IPv6"
        )
    return Packet(
        proto,
        eth_src=_mac("eth_src", given),
        eth_dst=_mac("eth_dst", given),
        vlan=_number("vlan", given, 1, 4094),
        ip_src=source,
        ip_dst=target,
        ttl=_or(_number("ttl", given, 1, 255), TTL),
        dscp=_or(_number("dscp", given, 0, 63), 0),
        src_port=_number("src_port", given, 0, _LARGEST_PORT),
        dst_port=_number("dst_port", given, 0, _LARGEST_PORT),
        icmp_type=_number("icmp_type", given, 0, 255),
        icmp_code=_or(_number("icmp_code", given, 0, 255), 0),
        arp_op=_operation(given),
        arp_spa=_address_4("arp_spa", given),
        arp_tpa=_address_4("arp_tpa", given),
        arp_sha=_mac("arp_sha", given),
        arp_tha=_mac("arp_tha", given),
        tun_id=_hexadecimal("tun_id", given, 0xFFFFFF),
        tun_metadata0=_hexadecimal("tun_metadata0", given, 0xFFFFFFFF),
    )


def parse_states(given: str) -> tuple[str, ...]:
    """Read what connection tracking is to answer, each time a packet goes through it.

    Args:
        given: states with commas, words with spaces: `trk,est trk,new`. `trk` is added.

    Raises:
        InvalidPacketError: a state is unknown, or there are too many.
    """
    words = given.split()
    if len(words) > MOST_STATES:
        raise InvalidPacketError(f"ct_next: {len(words)} answers; at most {MOST_STATES}")
    return tuple(_states(word) for word in words)


def _states(word: str) -> str:
    flags = word.split(",")
    for flag in flags:
        if flag not in FLAGS:
            raise InvalidPacketError(
                f"ct_next {flag[:_LONGEST]!r} is not a state of connection tracking; there are: "
                f"{', '.join(FLAGS)}"
            )
    return ",".join(flag for flag in FLAGS if flag == "trk" or flag in flags)


def _proto(given: Mapping[str, str]) -> str:
    """The protocol, or the least that the other fields need."""
    if (proto := given.get("proto")) is not None:
        if proto not in PROTOCOLS:
            raise _refused("proto", proto)
        return proto
    if any(name.startswith("arp_") for name in given):
        return "arp"
    if "icmp_type" in given or "icmp_code" in given:
        return "icmp"
    if "src_port" in given or "dst_port" in given:
        raise InvalidPacketError("src_port and dst_port need a proto: tcp, udp or sctp")
    is_ip = {"ip_src", "ip_dst", "ttl", "dscp"} & given.keys()
    return "ip" if is_ip else "eth"


def _check_fits(given: Mapping[str, str], proto: str) -> None:
    """Refuse fields that a packet of this protocol does not have."""
    own = {
        "arp_": ("arp",),
        "icmp_": ("icmp",),
        "src_port": WITH_PORTS,
        "dst_port": WITH_PORTS,
        **dict.fromkeys(("ip_", "ttl", "dscp"), ("ip", "icmp", *WITH_PORTS)),
    }
    for name in given:
        for begin, protocols in own.items():
            if name.startswith(begin) and proto not in protocols:
                raise InvalidPacketError(
                    f"{name} is not valid with proto {proto}; it needs {' or '.join(protocols)}"
                )


def _refused(name: str, value: str) -> InvalidPacketError:
    return InvalidPacketError(f"{name} {value[:_LONGEST]!r}: must be: {FIELDS[name]}")


def _mac(name: str, given: Mapping[str, str]) -> str:
    value = given.get(name)
    if value is None:
        return ""
    if _MAC.fullmatch(value) is None:
        raise _refused(name, value)
    return value.lower()


def _address(name: str, given: Mapping[str, str]) -> IPv4Address | IPv6Address | None:
    value = given.get(name)
    if value is None:
        return None
    try:
        found = ip_address(value)
    except ValueError:
        raise _refused(name, value) from None
    if isinstance(found, IPv6Address) and found.scope_id:  # free text, which is no part of a packet
        raise _refused(name, value)
    return found


def _address_4(name: str, given: Mapping[str, str]) -> IPv4Address | None:
    found = _address(name, given)
    if isinstance(found, IPv6Address):
        raise _refused(name, given[name])
    return found


def _number(name: str, given: Mapping[str, str], least: int, most: int) -> int | None:
    value = given.get(name)
    if value is None:
        return None
    plain = value.isascii() and value.isdigit() and len(value) <= len(str(most))
    if not plain or not least <= int(value) <= most:
        raise _refused(name, value)
    return int(value)


def _hexadecimal(name: str, given: Mapping[str, str], most: int) -> int | None:
    value = given.get(name)
    if value is None:
        return None
    found = None
    if _HEXADECIMAL.fullmatch(value):
        found = int(value, 16 if value.startswith("0x") else 10)
    if found is None or found > most:
        raise _refused(name, value)
    return found


def _operation(given: Mapping[str, str]) -> int:
    value = given.get("arp_op", "request")
    if value not in ARP_OPERATIONS:
        raise _refused("arp_op", value)
    return ARP_OPERATIONS[value]


def _or(value: int | None, default: int) -> int:
    return default if value is None else value
