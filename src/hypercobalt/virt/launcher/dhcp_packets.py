"""Messages of DHCP: what a client asks, and what its one server answers. Pure.

A guest writes what it likes: whatever is no request of the one client is not answered.

Source: RFC 2131, 2132 and 3442.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Final

LEASE_SECONDS: Final = 999 * 86400
"""KubeVirt's: for as long as any guest runs."""

_HEAD: Final = struct.Struct(">BBBBIHH4s4s4s4s16s")
_NAMES: Final = bytes(64 + 128)  # server's name and boot file, unused
_COOKIE: Final = bytes((99, 130, 83, 99))
_OPTIONS_AT: Final = _HEAD.size + len(_NAMES) + len(_COOKIE)
_REQUEST, _REPLY, _ETHERNET, _MAC_BYTES = 1, 2, 1, 6
_PAD, _END = 0, 255
_SHORTEST: Final = 300  # of BOOTP; some clients drop what is shorter
_LONGEST_OPTION: Final = 255
_ADDRESS_BYTES: Final = 4


class DhcpType(IntEnum):
    """Values of option 53 that are read or written."""

    DISCOVER = 1
    OFFER = 2
    REQUEST = 3
    ACK = 5
    NAK = 6
    INFORM = 8


class _Option(IntEnum):
    MASK = 1
    ROUTER = 3
    DNS = 6
    HOST_NAME = 12
    DOMAIN = 15
    MTU = 26
    REQUESTED = 50
    LEASE = 51
    TYPE = 53
    SERVER = 54
    ROUTES = 121


@dataclass(frozen=True, slots=True)
class DhcpRequest:
    """What a client asks for.

    Args:
        type: of the message.
        transaction: repeated by the answer.
        flags: repeated by the answer.
        mac: of the client.
        address: that it wants to have or has; None if it names none.
        server: that it has chosen; None if it names none.
    """

    type: int
    transaction: int
    flags: int
    mac: bytes
    address: bytes | None = None
    server: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DhcpLease:
    """What the one client gets.

    Args:
        mac: of the client.
        address: with the length of its network.
        server: who answers.
        gateway: of the client; None leaves it without one.
        dns: servers of names.
        host_name: "" leaves it to the guest.
        domain: that names are looked up in; "" for none.
        mtu: bytes; None leaves it to the driver.
        routes: further ones, each with its gateway.
    """

    mac: bytes
    address: IPv4Interface
    server: IPv4Address
    gateway: IPv4Address | None = None
    dns: tuple[IPv4Address, ...] = ()
    host_name: str = ""
    domain: str = ""
    mtu: int | None = None
    routes: tuple[tuple[IPv4Network, IPv4Address], ...] = ()


def read_request(data: bytes) -> DhcpRequest | None:
    """Read a client's message; None if it is none."""
    if data[_OPTIONS_AT - len(_COOKIE) : _OPTIONS_AT] != _COOKIE:  # nor is one that is shorter
        return None
    op, hardware, length, _, transaction, _, flags, own, _, _, _, mac = _HEAD.unpack_from(data)
    options = dict(_options(data[_OPTIONS_AT:]))
    kind = options.get(_Option.TYPE, b"")
    if (op, hardware, length, len(kind)) != (_REQUEST, _ETHERNET, _MAC_BYTES, 1):
        return None
    address = options.get(_Option.REQUESTED) or (own if any(own) else None)
    server = options.get(_Option.SERVER)
    return DhcpRequest(kind[0], transaction, flags, mac[:_MAC_BYTES], address, server)


def answer(request: DhcpRequest, lease: DhcpLease) -> bytes | None:
    """The answer to a message; None where there is none."""
    if request.mac != lease.mac or request.server not in {None, lease.server.packed}:
        return None
    match request.type:
        case DhcpType.DISCOVER:
            return _message(request, lease, DhcpType.OFFER)
        case DhcpType.REQUEST if request.address in {None, lease.address.ip.packed}:
            return _message(request, lease, DhcpType.ACK)
        case DhcpType.REQUEST:
            return _message(request, lease, DhcpType.NAK)
        case DhcpType.INFORM:
            return _message(request, lease, DhcpType.ACK, leased=False)
        case _:
            return None


def _message(
    request: DhcpRequest, lease: DhcpLease, kind: DhcpType, *, leased: bool = True
) -> bytes:
    refused = kind is DhcpType.NAK
    none, address = bytes(_ADDRESS_BYTES), lease.address.ip.packed
    head = _HEAD.pack(
        *(_REPLY, _ETHERNET, _MAC_BYTES, 0, request.transaction, 0, request.flags),
        *(none, none if refused or not leased else address, lease.server.packed, none),
        request.mac,
    )
    options = {_Option.TYPE: bytes((kind,)), _Option.SERVER: lease.server.packed}
    if leased and not refused:
        options[_Option.LEASE] = struct.pack(">I", LEASE_SECONDS)
    if not refused:
        options |= _configuration(lease)
    packed = b"".join(
        bytes((code, len(value))) + value
        for code, value in options.items()
        if 0 < len(value) <= _LONGEST_OPTION
    )
    whole = head + _NAMES + _COOKIE + packed + bytes((_END,))
    return whole.ljust(_SHORTEST, bytes((_PAD,)))


def _configuration(lease: DhcpLease) -> dict[_Option, bytes]:
    routes = list(lease.routes)
    if routes and lease.gateway:  # a client that reads routes does not read its router
        routes.append((IPv4Network("0.0.0.0/0"), lease.gateway))
    return {
        _Option.MASK: lease.address.netmask.packed,
        _Option.ROUTER: lease.gateway.packed if lease.gateway else b"",
        _Option.DNS: b"".join(one.packed for one in lease.dns),
        _Option.HOST_NAME: lease.host_name.encode(errors="replace"),
        _Option.DOMAIN: lease.domain.encode(errors="replace"),
        _Option.MTU: struct.pack(">H", lease.mtu) if lease.mtu else b"",
        _Option.ROUTES: b"".join(_route(*one) for one in routes),
    }


def _route(network: IPv4Network, gateway: IPv4Address) -> bytes:
    """A route with as many bytes of its network as count."""
    length = network.prefixlen
    return bytes((length,)) + network.network_address.packed[: -(-length // 8)] + gateway.packed


def _options(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Options until their end; one that is cut ends them, too."""
    at = 0
    while at + 1 < len(data) and data[at] != _END:
        if data[at] == _PAD:
            at += 1
            continue
        length = data[at + 1]
        value = data[at + 2 : at + 2 + length]
        if len(value) < length:
            return
        yield data[at], value
        at += 2 + length
