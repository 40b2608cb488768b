"""Which filters and names of devices reach tcpdump. Pure.

A filter is words of pcap-filter(7), numbers and addresses. Names are refused: tcpdump would resolve
them, which lets whoever writes a filter send queries to name servers from the host. Whether the
words make sense is for tcpdump's compiler.

Source: pcap-filter(7); libpcap 1.10, scanner.l.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv6Address
from typing import Final

from hypercobalt.errors import HypercobaltError

LONGEST: Final = 512
"""Characters of a filter."""

_VOCABULARY: Final = """
src dst and or not host net mask port portrange proto gateway less greater len inbound outbound
broadcast multicast byte ether link arp rarp ip ip6 tcp udp icmp icmp6 igmp igrp pim sctp vrrp
carp ah esp vlan mpls pppoed pppoes geneve stp ipx atalk aarp decnet lat moprc mopdl iso llc
tcpflags tcp-fin tcp-syn tcp-rst tcp-push tcp-ack tcp-urg tcp-ece tcp-cwr
icmptype icmpcode icmp-echoreply icmp-unreach icmp-sourcequench icmp-redirect icmp-echo
icmp-routeradvert icmp-routersolicit icmp-timxceed icmp-paramprob icmp-tstamp icmp-tstampreply
icmp-ireq icmp-ireqreply icmp-maskreq icmp-maskreply
icmp6type icmp6code icmp6-destinationunreach icmp6-packettoobig icmp6-timeexceeded
icmp6-parameterproblem icmp6-echo icmp6-echoreply icmp6-routersolicit icmp6-routeradvert
icmp6-neighborsolicit icmp6-neighboradvert icmp6-redirect
"""
_WORDS: Final = frozenset(_VOCABULARY.split())
"""Without `protochain`, whose program the kernel cannot run."""

_SEPARATORS: Final = re.compile(r"[ \t()\[\]!&|=<>+*/%^,]+")
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+){0,3}|-?0[xX][0-9a-fA-F]+")
_PAIR: Final = re.compile(r"[0-9]+[-:][0-9]+")  # ports, or a slice of a packet
_MAC: Final = re.compile(r"([0-9a-fA-F]{1,2}:){5}[0-9a-fA-F]{1,2}")

_DEVICE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,14}")
_SPECIAL: Final = (
    "any",
    "nflog",
    "nfqueue",
    "usbmon",
    "bluetooth",
    "dbus",
    "dag",
    "netmap",
    "rdma",
)
"""Names that libpcap takes for something else than the network device of that name."""


class FilterError(HypercobaltError):
    """A filter cannot be used; the message has the reason."""


def check_filter(text: str) -> None:
    """Refuse what is not made of words of a filter, numbers and addresses.

    Raises:
        FilterError: the reason names the word.
    """
    if len(text) > LONGEST:
        raise FilterError(f"filter: {len(text)} characters; at most {LONGEST}")
    if not (text.isascii() and all(one.isprintable() or one == "\t" for one in text)):
        raise FilterError(f"filter {text!a}: must be printable ASCII characters")
    if text.lstrip().startswith("-"):
        raise FilterError(f"filter {text!r}: must not start with a dash")
    for word in filter(None, _SEPARATORS.split(text)):
        if not _known(word):
            raise FilterError(
                f"filter {text!r}: {word!r} is not a word of pcap-filter(7), a number or an "
                "address; names of hosts, networks and services are not resolved"
            )


def is_device(name: str) -> bool:
    """Whether tcpdump takes a name for the network device of that name, and nothing else.

    A number would be an index, a dash an option, and some names are sources of other packets.
    """
    return bool(_DEVICE.fullmatch(name)) and not name.startswith(_SPECIAL)


def _known(word: str) -> bool:
    if word == "-" or word.removeprefix("\\") in _WORDS:
        return True
    return any(one.fullmatch(word) for one in (_NUMBER, _PAIR, _MAC)) or _is_ipv6(word)


def _is_ipv6(word: str) -> bool:
    try:
        IPv6Address(word)
    except AddressValueError:
        return False
    return True
