"""A guest with the address and the MAC address of its pod. Pure.

The pod's NIC gives both up and becomes a port of a bridge beside the guest's tap. What it had is
recorded first, as the NIC's alias, which lives as long as the NIC: whatever is killed in between
goes on from there. A bridge without ports takes its name and address, so that the pod still shows
them; the kernel of a host need not have dummy links, which KubeVirt uses.

Source: KubeVirt, pkg/network/setup/netpod (bridge binding); ip-sysctl of the
kernel's documentation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Final

from hypercobalt.adapters.network.addressing import local_mac
from hypercobalt.adapters.network.changes import link_changes
from hypercobalt.adapters.network.guest_links import BRIDGE, ETH0, KERNEL, TAP
from hypercobalt.adapters.network.model import (
    LONGEST_ALIAS,
    KernelRoute,
    Link,
    NetworkError,
    WantedLink,
)
from hypercobalt.adapters.network.port import GuestNic, WantedNic

NIC: Final = f"{ETH0}-nic"
SERVER: Final = IPv4Interface("169.254.75.10/32")
"""KubeVirt's, of the first NIC."""

SETTINGS: Final[Mapping[str, int]] = {
    **KERNEL,
    # Else the pod answers on the bridge for the address that is the guest's.
    "net.ipv4.conf.all.arp_ignore": 1,
}
_ALIAS: Final = re.compile(r"guest=([^,]+),([0-9a-f:]+),(\d+),([^,]*)((?:,[^,]+>[^,]+)*)", re.ASCII)
_ON_LINK: Final = IPv4Address(0)
_ALL: Final = IPv4Network("0.0.0.0/0")


@dataclass(frozen=True, slots=True)
class PodIdentity:
    """What the pod's NIC had, which is the guest's now.

    Args:
        address: with the length of its network.
        mac: in lower case.
        mtu: bytes.
        gateway: of the default route; None for none.
        routes: further ones; the gateway 0.0.0.0 means on the link.
    """

    address: IPv4Interface
    mac: str
    mtu: int
    gateway: IPv4Address | None = None
    routes: tuple[tuple[IPv4Network, IPv4Address], ...] = ()

    def encode(self) -> str:
        """The alias that records it.

        Raises:
            NetworkError: the kernel takes no alias of that length.
        """
        routes = "".join(f",{to}>{by}" for to, by in self.routes)
        gateway = self.gateway or ""
        text = f"guest={self.address},{self.mac},{self.mtu},{gateway}{routes}"
        if len(text) > LONGEST_ALIAS:
            raise NetworkError(f"link {ETH0}: has too many routes to hand them to a guest: {text}")
        return text


def decode_identity(alias: str) -> PodIdentity | None:
    """Read an alias; None for one that is no record."""
    found = _ALIAS.fullmatch(alias)
    if found is None:
        return None
    address, mac, mtu, gateway, routes = found.groups()
    pairs = (one.split(">") for one in routes.split(",")[1:])
    try:
        return PodIdentity(
            IPv4Interface(address),
            mac,
            int(mtu),
            IPv4Address(gateway) if gateway else None,
            tuple((IPv4Network(to), IPv4Address(by)) for to, by in pairs),
        )
    except ValueError:
        return None


def identity(found: Mapping[str, Link], routes: Sequence[KernelRoute]) -> PodIdentity:
    """What the pod's NIC had before it was changed, or has.

    Raises:
        NetworkError: there is no NIC with an address.
    """
    eth0 = found.get(NIC) or found.get(ETH0)
    if eth0 and (known := decode_identity(eth0.alias)):
        return known
    if eth0 is None or eth0.name == NIC or not eth0.addresses or not eth0.is_up:
        raise NetworkError(f"link {ETH0}: the pod has none with an address of IPv4")
    own = [route for route in routes if route.device == ETH0]
    gateways = [route.gateway for route in own if route.to == _ALL]
    return PodIdentity(
        eth0.addresses[0],
        eth0.mac,
        eth0.mtu,
        gateways[0] if gateways else None,
        tuple((route.to, route.gateway or _ON_LINK) for route in own if route.to != _ALL),
    )


def changes(found: Mapping[str, Link], pod: PodIdentity, wanted: WantedNic) -> Iterator[str]:
    """Commands that connect the guest, in an order in which each cut can be mended."""
    bridge = WantedLink(name=BRIDGE, kind="bridge", mtu=pod.mtu, addresses=(SERVER,))
    yield from link_changes(found, (bridge,))
    nic, shown = found.get(NIC), found.get(ETH0)
    if nic is None:
        eth0 = found[ETH0]
        if eth0.alias != pod.encode():
            yield f"link set dev {ETH0} alias {pod.encode()}"
        yield f"link set dev {ETH0} down"
        yield f"link set dev {ETH0} name {NIC}"
        # Its routes are gone with its being up.
        nic, shown = Link(name=NIC, mac=eth0.mac, mtu=eth0.mtu, addresses=eth0.addresses), None
    port = WantedLink(name=NIC, mac=local_mac(pod.mac), mtu=pod.mtu, master=BRIDGE)
    yield from link_changes({NIC: nic}, (port,))
    # What comes from outside must not move the guest's MAC address there.
    yield f"link set dev {NIC} type bridge_slave learning off"
    tap = WantedLink(name=TAP, kind="tap", mtu=pod.mtu, master=BRIDGE, owner=wanted.owner)
    place = WantedLink(name=ETH0, kind="bridge", mac=pod.mac, mtu=pod.mtu, addresses=(pod.address,))
    there = {name: link for name, link in ((TAP, found.get(TAP)), (ETH0, shown)) if link}
    yield from link_changes(there, (tap, place))


def guest_nic(pod: PodIdentity) -> GuestNic:
    """What the guest gets."""
    return GuestNic(
        tap=TAP,
        bridge=BRIDGE,
        mac=pod.mac,
        mtu=pod.mtu,
        address=pod.address,
        server=SERVER.ip,
        gateway=pod.gateway,
        routes=pod.routes,
    )
