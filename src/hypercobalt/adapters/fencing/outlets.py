"""Whether two devices are one: the same connection, and the same outlet behind it. Pure.

Compared are spellings, so one address by two names is not seen here; the UUID of the system shows
that (`identity`). What only one of the two names, an outlet or a port, may be the other's as well:
in doubt they are one.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from hypercobalt.adapters.fencing.devices import Device

_STANDARD: Final = frozenset({"80", "443", "623"})
"""Ports of HTTP, Redfish and IPMI: written or not, and a BMC serves several of them."""

_DIGITS: Final = re.compile(r"[0-9]{1,18}")
_PART: Final = r"(0[xX][0-9a-fA-F]{1,16}|[0-9]{1,16})"
_NUMBER: Final = re.compile(rf"{_PART}(\.{_PART}){{0,3}}")


def is_same(one: Device, other: Device) -> bool:
    """Whether two devices may switch the same outlet."""
    mine, others = one.parameters, other.parameters
    if "ip" not in mine or "ip" not in others:
        where = one.agent == other.agent and "ip" not in mine and "ip" not in others
    else:
        where = address(mine["ip"]) == address(others["ip"]) and port(mine) == port(others)
    return where and all(
        _meet(form(mine.get(name, "")), form(others.get(name, "")))
        for name, form in _OUTLET.items()
    )


def described(device: Device) -> str:
    """Which device it is, in one form: name, address, port and outlet."""
    outlet = (
        f"{name} {','.join(sorted(found))}"
        for name, form in _OUTLET.items()
        if (found := form(device.parameters.get(name, "")))
    )
    return " ".join((device.name, connection(device).rstrip(), *outlet))


def connection(device: Device) -> str:
    """What two devices that are one have in common; to look for them."""
    given = device.parameters.get("ip")
    return f"{address(given)} {port(device.parameters)}" if given is not None else device.agent


def address(text: str) -> str:
    """An address, or the name of a host, in its one form.

    Source: RFC 4291, 2.5.5.2; inet_aton(3): `10.1` and `0x0a000001` are addresses, too.
    """
    bare = text.strip().strip("[]").rstrip(".").lower()
    try:
        found: IPv4Address | IPv6Address = ip_address(bare)
    except ValueError:
        if not _NUMBER.fullmatch(bare):
            return bare
        try:
            found = IPv4Address(socket.inet_aton(bare))
        except OSError:
            return bare
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped or found)


def port(parameters: Mapping[str, str]) -> str:
    """The port of a connection; "" for a standard one."""
    given = parameters.get("ipport", "").strip()
    number = str(int(given)) if _DIGITS.fullmatch(given) else given
    return "" if number in _STANDARD else number


def _meet(one: frozenset[str], other: frozenset[str]) -> bool:
    return not one or not other or bool(one & other)


def _plugs(text: str) -> frozenset[str]:
    parts = (part.strip().casefold() for part in text.split(","))
    return frozenset(str(int(part)) if _DIGITS.fullmatch(part) else part for part in parts if part)


def _path(text: str) -> frozenset[str]:
    parts = [part.casefold() for part in text.strip().split("/") if part]
    return frozenset({"/".join(parts)} if parts else ())


_OUTLET: Final[Mapping[str, Callable[[str], frozenset[str]]]] = {
    "plug": _plugs,
    "switch": _plugs,
    "systems_uri": _path,
    "uuid": _plugs,
    "namespace": _plugs,
}
"""Options that name an outlet behind a connection. Of others it is not known, so they name none."""
