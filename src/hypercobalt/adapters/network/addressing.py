"""Names and addresses of pods on their host. Pure.

Both follow from a pod's UID, so that nothing has to be stored. The kernel keeps what was chosen:
the host's end of a pod's veth pair has it as its alias.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Final

from hypercobalt.adapters.network.model import (
    LARGEST_MTU,
    SMALLEST_MTU,
    NetworkError,
    NetworkValueError,
    check_link_name,
)
from hypercobalt.errors import ConfigurationError

NAMESPACES: Final = "pod-"
"""What the names of pods' network namespaces begin with; their UID follows."""

_LINKS: Final = "hcp"
_DIGITS: Final = 12  # and the prefix: what a link's name holds
_UID: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9-]{0,62}", re.ASCII)
_LONGEST_PREFIX: Final = 29  # five pods
_RESERVED: Final = 2  # the network's own address, and the gateway


@dataclass(frozen=True, slots=True)
class PodRange:
    """What the pods of one host get.

    Args:
        network: their addresses; the first is the host's, which is their gateway.
        bridge: link of the host that joins them.
        mtu: bytes, of all their links.

    Raises:
        ConfigurationError: the network is too small or the MTU cannot be.
        NetworkValueError: the bridge's name is none.
    """

    network: IPv4Network
    bridge: str = "hcpods"
    mtu: int = 1500

    def __post_init__(self) -> None:
        check_link_name(self.bridge)
        if self.network.prefixlen > _LONGEST_PREFIX:
            raise ConfigurationError(
                f"pod range {self.network}: must be /{_LONGEST_PREFIX} or wider"
            )
        if not SMALLEST_MTU <= self.mtu <= LARGEST_MTU:
            raise ConfigurationError(
                f"MTU {self.mtu} of pods: must be {SMALLEST_MTU} to {LARGEST_MTU} bytes"
            )

    @property
    def gateway(self) -> IPv4Interface:
        """The host's address."""
        return IPv4Interface(f"{self.network[1]}/{self.network.prefixlen}")

    @property
    def mac(self) -> str:
        """The bridge's address."""
        return local_mac(f"{self.bridge} {self.network}")


@dataclass(frozen=True, slots=True)
class PodRecord:
    """What the alias of the host's end of a pod's veth pair records.

    Args:
        uid: of the pod.
        address: of its eth0.
    """

    uid: str
    address: IPv4Interface

    def encode(self) -> str:
        """The alias."""
        return f"pod={self.uid},address={self.address}"


def decode_record(alias: str) -> PodRecord | None:
    """Read an alias; None for one that is no record."""
    found = re.fullmatch(r"pod=([^,]+),address=([0-9./]+)", alias)
    try:
        return PodRecord(found[1], IPv4Interface(found[2])) if found else None
    except ValueError:
        return None


def check_uid(uid: str) -> None:
    """Refuse what is no UID of a pod: it becomes the name of a file.

    Raises:
        NetworkValueError: it is none.
    """
    if not _UID.fullmatch(uid):
        raise NetworkValueError(f"pod UID {uid[:64]!r}: must be letters, digits and -")


def host_link(uid: str) -> str:
    """Name of the host's end of a pod's veth pair."""
    return _LINKS + sha256(uid.encode()).hexdigest()[:_DIGITS]


def local_mac(seed: str) -> str:
    """A MAC address of the local administration that follows from a text.

    It begins with 06, so that it is none of those that begin with 02, which others give.
    """
    return ":".join(("06", *(f"{byte:02x}" for byte in sha256(seed.encode()).digest()[:5])))


def choose_address(network: IPv4Network, uid: str, taken: Collection[IPv4Address]) -> IPv4Interface:
    """An address for a pod: from a place that its UID gives, the next one that is free.

    So an address is seldom given to two pods one after the other, whose neighbours still know the
    first.

    Raises:
        NetworkError: none is free.
    """
    count = network.num_addresses - _RESERVED - 1  # nor the broadcast address
    first = int.from_bytes(sha256(uid.encode()).digest()[:8])
    for step in range(count):
        address = network[_RESERVED + (first + step) % count]
        if address not in taken:
            return IPv4Interface(f"{address}/{network.prefixlen}")
    raise NetworkError(f"pod range {network}: all {count} addresses are taken; remove pods")
