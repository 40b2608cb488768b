"""What the rooms above use of the kernel's network: ports with a real class and a fake behind each.

Calls may be repeated, by this process and by one after it; they raise `NetworkError` where the same
call may succeed later.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from pathlib import Path
from typing import Final, Protocol

from hypercobalt.adapters.network.model import NetworkValueError

_LARGEST_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class Attached:
    """A pod's network.

    Args:
        namespace: file of its network namespace.
        ip: address of its eth0.
    """

    namespace: Path
    ip: str


class PodNetworks(Protocol):
    """Networks of the pods of one host: a namespace with eth0 for each."""

    async def attach(self, uid: str) -> Attached:
        """Make the network of a pod, or find it, and complete it.

        Raises:
            NetworkValueError: the UID is none.
            NetworkError: it cannot be made, or no address is free.
        """
        ...

    async def find(self, uid: str) -> Attached | None:
        """The network of a pod; None if it has none, or one that was not completed."""
        ...

    async def detach(self, uid: str) -> None:
        """Remove the network of a pod, or what there is of it."""
        ...

    async def uids(self) -> frozenset[str]:
        """UIDs of the pods of which there is anything."""
        ...


class GuestBinding(StrEnum):
    """How a guest is connected to its pod's eth0."""

    MASQUERADE = "masquerade"  # behind the pod's address, with a private one
    BRIDGE = "bridge"  # with the pod's own address


class PortProtocol(StrEnum):
    """What has ports."""

    TCP = "tcp"
    UDP = "udp"


@dataclass(frozen=True, slots=True)
class ForwardedPort:
    """A port of the pod that is the guest's.

    Args:
        number: 1 to 65535.
        protocol: TCP or UDP.

    Raises:
        NetworkValueError: the number is another one.
    """

    number: int
    protocol: PortProtocol = PortProtocol.TCP

    def __post_init__(self) -> None:
        if not 0 < self.number <= _LARGEST_PORT:
            raise NetworkValueError(f"port {self.number}: must be 1 to {_LARGEST_PORT}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedNic:
    """The connection that a guest's NIC needs.

    Args:
        binding: to the pod's eth0.
        owner: user id of who opens the tap.
        ports: that are forwarded by masquerade; () forwards all.
    """

    binding: GuestBinding
    owner: int
    ports: tuple[ForwardedPort, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestNic:
    """A connected NIC of a guest, and the lease that DHCP gives the guest.

    Args:
        tap: link of the pod that QEMU opens.
        bridge: link of the pod on which the guest asks.
        mac: that the guest must have; "" leaves it free.
        mtu: bytes.
        address: of the guest.
        server: address of the bridge, from which the guest is answered.
        gateway: of the guest; None for none.
        routes: further ones; the gateway 0.0.0.0 means on the link.
    """

    tap: str
    bridge: str
    mac: str
    mtu: int
    address: IPv4Interface
    server: IPv4Address
    gateway: IPv4Address | None
    routes: tuple[tuple[IPv4Network, IPv4Address], ...] = ()


class GuestNics(Protocol):
    """NICs of guests, made in the pods' network namespaces, with which they end."""

    async def connect(self, namespace: Path, wanted: WantedNic) -> GuestNic:
        """Make a guest's NIC, or find it, and complete it.

        Args:
            namespace: file of the pod's network namespace, which has an eth0.
            wanted: the same for as long as the namespace lives.

        Raises:
            NetworkError: it cannot be made now.
        """
        ...
