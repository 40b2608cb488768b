"""Links, addresses and routes of a network namespace, as the kernel has them. IPv4 alone.

Source: ip-link(8), ip-address(8), ip-route(8); IFNAMSIZ and IFALIASZ of linux/if.h.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Final

from hypercobalt.errors import HypercobaltError, TransientError

LONGEST_NAME: Final = 15
LONGEST_ALIAS: Final = 255
SMALLEST_MTU: Final = 576  # of IPv4 hosts, RFC 791
LARGEST_MTU: Final = 65521  # of a tap
_NAME: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_-]*", re.ASCII)
_MAC: Final = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", re.ASCII)


class NetworkError(TransientError):
    """The kernel's network cannot be read or changed now."""


class NetworkValueError(HypercobaltError, ValueError):
    """A name, a MAC address or a port that cannot be."""


def check_link_name(name: str) -> None:
    """Refuse what the kernel, `ip` or `nft` would not take as the name of a link.

    Raises:
        NetworkValueError: it is none.
    """
    if len(name) > LONGEST_NAME or not _NAME.fullmatch(name):
        raise NetworkValueError(
            f"link {name[:64]!r}: must be of letters, digits, _ and -, at most {LONGEST_NAME}"
        )


def check_mac(mac: str) -> None:
    """Refuse what is no MAC address of one NIC in lower case.

    Raises:
        NetworkValueError: it is none.
    """
    if not _MAC.fullmatch(mac) or int(mac[:2], 16) & 1:
        raise NetworkValueError(
            f"MAC address {mac[:64]!r}: must be one of a NIC, as 02:00:00:00:00:01"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A network interface.

    Args:
        name: such as `eth0`.
        kind: veth, bridge, tun (a tap as well), …; "" for hardware and the loopback.
        mac: in lower case; "" for what has none.
        mtu: bytes.
        is_up: whether it is switched on, whatever its carrier.
        master: the bridge that it is a port of; "" for none.
        alias: a text that its maker has left; "" for none.
        addresses: of IPv4.
    """

    name: str
    kind: str = ""
    mac: str = ""
    mtu: int = 1500
    is_up: bool = False
    master: str = ""
    alias: str = ""
    addresses: tuple[IPv4Interface, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelRoute:
    """A route of the main table.

    Args:
        to: its destinations; 0.0.0.0/0 is the default route.
        gateway: None: the destinations are on the link.
        device: link that it uses.
    """

    to: IPv4Network
    gateway: IPv4Address | None
    device: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedLink:
    """How a link should be; it is made if it is absent and its kind can be made alone.

    Args:
        name: of the link.
        kind: `bridge` or `tap`; "" for one that must be there.
        mac: "" leaves it as it is.
        mtu: bytes; None leaves it as it is.
        master: "" for none.
        addresses: all that it has.
        owner: user id who may open a tap.
    """

    name: str
    kind: str = ""
    mac: str = ""
    mtu: int | None = None
    master: str = ""
    addresses: tuple[IPv4Interface, ...] = ()
    owner: int = 0
