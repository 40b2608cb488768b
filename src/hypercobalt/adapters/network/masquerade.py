"""A guest behind its pod's address, with a private one that is the same in each pod. Pure.

What comes in on eth0 is the guest's, but for connections that the pod itself has begun. What the
guest sends has the pod's address outside; packets under an address that is not its own end here.

Source: KubeVirt, pkg/network/setup/netpod/masquerade; nft(8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Interface
from typing import Final

from hypercobalt.adapters.network.guest_links import BRIDGE, ETH0, KERNEL, TAP
from hypercobalt.adapters.network.model import Link, NetworkError, WantedLink
from hypercobalt.adapters.network.port import ForwardedPort, GuestNic, WantedNic

GUEST: Final = IPv4Interface("10.0.2.2/24")
GATEWAY: Final = IPv4Interface("10.0.2.1/24")
BRIDGE_MAC: Final = "02:00:00:00:00:00"

SETTINGS: Final[Mapping[str, int]] = {
    **KERNEL,
    "net.ipv4.ip_forward": 1,
    # What connects to the pod's 127.0.0.1 reaches the guest, as port-forward does.
    f"net.ipv4.conf.{BRIDGE}.route_localnet": 1,
}

_RULESET: Final = """\
add table ip nat
delete table ip nat
table ip nat {{
  chain KUBEVIRT_PREINBOUND {{
{inbound}
  }}
  chain KUBEVIRT_POSTINBOUND {{
    ip saddr 127.0.0.1 counter snat to {gateway}
  }}
  chain prerouting {{
    type nat hook prerouting priority -100;
    iifname "{eth0}" counter jump KUBEVIRT_PREINBOUND
  }}
  chain output {{
    type nat hook output priority -100;
    ip daddr 127.0.0.1 counter jump KUBEVIRT_PREINBOUND
  }}
  chain postrouting {{
    type nat hook postrouting priority 100;
    ip saddr {guest} oifname "{eth0}" counter masquerade
    oifname "{bridge}" counter jump KUBEVIRT_POSTINBOUND
  }}
}}
add table ip hypercobalt
delete table ip hypercobalt
table ip hypercobalt {{
  chain forward {{
    type filter hook forward priority 0;
    iifname "{bridge}" ip saddr != {guest} counter drop
  }}
}}
"""


def ruleset(ports: Sequence[ForwardedPort]) -> str:
    """The rules of nftables in the pod, which replace those of a call before.

    Args:
        ports: that are forwarded; () forwards all.
    """
    to_guest = f"counter dnat to {GUEST.ip}"
    lines = [f"{one.protocol} dport {one.number} {to_guest}" for one in ports] or [to_guest]
    return _RULESET.format(
        inbound="\n".join(f"    {line}" for line in lines),
        gateway=GATEWAY.ip,
        guest=GUEST.ip,
        eth0=ETH0,
        bridge=BRIDGE,
    )


def wanted_links(found: Mapping[str, Link], wanted: WantedNic) -> tuple[WantedLink, ...]:
    """The links that the pod must have.

    Raises:
        NetworkError: it has no eth0 yet.
    """
    mtu = _eth0(found).mtu
    bridge = WantedLink(name=BRIDGE, kind="bridge", mac=BRIDGE_MAC, mtu=mtu, addresses=(GATEWAY,))
    return bridge, WantedLink(name=TAP, kind="tap", mtu=mtu, master=BRIDGE, owner=wanted.owner)


def nic(found: Mapping[str, Link]) -> GuestNic:
    """What the guest gets, whose MAC address is free."""
    return GuestNic(
        tap=TAP,
        bridge=BRIDGE,
        mac="",
        mtu=_eth0(found).mtu,
        address=GUEST,
        server=GATEWAY.ip,
        gateway=GATEWAY.ip,
    )


def _eth0(found: Mapping[str, Link]) -> Link:
    eth0 = found.get(ETH0)
    if eth0 is None or not eth0.addresses:
        raise NetworkError(f"link {ETH0}: the pod has none with an address of IPv4")
    return eth0
