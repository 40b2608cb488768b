"""Reads the links and routes of a network namespace.

Source: `ip -json -details`, iproute2 6.1.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from hypercobalt.adapters.network.commands import read_ip
from hypercobalt.adapters.network.model import KernelRoute, Link, NetworkError

_EVERYWHERE: Final = "default"
_T = TypeVar("_T")


class _Kind(msgspec.Struct, frozen=True):
    info_kind: str = ""


class _Address(msgspec.Struct, frozen=True):
    family: str = ""
    local: str = ""
    prefixlen: int = 0


class _Link(msgspec.Struct):
    ifname: str = ""  # `ip` prints {} for what a filter leaves out
    mtu: int = 0
    address: str = ""
    flags: tuple[str, ...] = ()
    master: str = ""
    ifalias: str = ""
    linkinfo: _Kind = _Kind()
    addr_info: tuple[_Address, ...] = ()


class _Route(msgspec.Struct):
    dst: str
    gateway: str = ""
    dev: str = ""
    protocol: str = ""


_links: Final = msgspec.json.Decoder(tuple[_Link, ...])
_routes: Final = msgspec.json.Decoder(tuple[_Route, ...])


async def read_links(namespace: Path | None) -> dict[str, Link]:
    """Every link, by name, with its addresses of IPv4.

    Args:
        namespace: file of a network namespace; None: that of this process.

    Raises:
        NetworkError: they cannot be read.
    """
    answer = await read_ip(namespace, "-details", "address", "show")
    return {one.name: one for one in parse_links(answer)}


async def read_routes(namespace: Path | None) -> tuple[KernelRoute, ...]:
    """Routes of the main table that the kernel has not made itself.

    Raises:
        NetworkError: they cannot be read.
    """
    return parse_routes(await read_ip(namespace, "-4", "route", "show", "table", "main"))


def parse_links(answer: bytes) -> tuple[Link, ...]:
    """Read the answer of `ip -json -details address show`.

    Raises:
        NetworkError: it is none.
    """
    try:
        return tuple(_link(one) for one in _links.decode(answer or b"[]") if one.ifname)
    except (msgspec.DecodeError, ValueError) as error:
        raise NetworkError(f"ip address show: an answer that cannot be read: {error}") from error


def parse_routes(answer: bytes) -> tuple[KernelRoute, ...]:
    """Read the answer of `ip -json -4 route show`.

    Raises:
        NetworkError: it is none.
    """
    try:
        rows = (one for one in _routes.decode(answer or b"[]") if one.protocol != "kernel")
        return tuple(_route(one) for one in rows if one.dev)
    except (msgspec.DecodeError, ValueError) as error:
        raise NetworkError(f"ip route show: an answer that cannot be read: {error}") from error


def _link(one: _Link) -> Link:
    return Link(
        name=one.ifname,
        kind=one.linkinfo.info_kind,
        mac=one.address,
        mtu=one.mtu,
        is_up="UP" in one.flags,
        master=one.master,
        alias=one.ifalias,
        addresses=tuple(
            IPv4Interface(f"{address.local}/{address.prefixlen}")
            for address in one.addr_info
            if address.family == "inet"
        ),
    )


def _route(one: _Route) -> KernelRoute:
    to = IPv4Network("0.0.0.0/0" if one.dst == _EVERYWHERE else one.dst)
    return KernelRoute(to, IPv4Address(one.gateway) if one.gateway else None, one.dev)
