"""What the kernel shows of the host's network devices, converted once.

Source: the kernel's Documentation/ABI/testing/sysfs-class-net and its bonding driver.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Link:
    """A network device of this network namespace.

    Args:
        name: of the device.
        ifindex: of the device; a device that was made again has another.
        admin_up: whether it is switched on.
        carrier: whether there is a link; None when the device is off or has none to show.
        is_tap: whether it is a tap or tun device.
        master: name of the bond or bridge that it belongs to.
        speed: bit/s; None when unknown.
        mtu: bytes.
    """

    name: str
    ifindex: int
    admin_up: bool
    carrier: bool | None = None
    is_tap: bool = False
    master: str | None = None
    speed: int | None = None
    mtu: int | None = None


@dataclass(frozen=True, slots=True)
class KernelBondMember:
    """A member of a bond of the kernel.

    Args:
        name: of the device.
        up: its MII status.
        aggregator: LACP's aggregator that it is in; None without LACP.
    """

    name: str
    up: bool
    aggregator: int | None = None


@dataclass(frozen=True, slots=True)
class KernelBond:
    """A bond of the kernel, out of `/proc/net/bonding`.

    Args:
        name: of the device.
        mode: as the kernel names it: `802.3ad`, `active-backup` …
        up: its MII status.
        members: configured ones.
        active: name of the active member, in the modes that have one.
        aggregator: LACP's active aggregator; None without LACP.
        partner: MAC address of LACP's partner; None without LACP, zeros when it is silent.
    """

    name: str
    mode: str
    up: bool
    members: tuple[KernelBondMember, ...] = ()
    active: str | None = None
    aggregator: int | None = None
    partner: str | None = None
