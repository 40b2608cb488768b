"""Which interfaces lead out of the host, and how they are. Pure.

An uplink is an interface of the system (or of DPDK) that is no tap and carries no `iface-id`. That
its device has a parent in sysfs is no sign: macvlan and veth devices have none. A bond of the
kernel counts by its members.

Source: ovs-vswitchd.conf.db(5), table Interface; the kernel's Documentation/networking/bonding.rst.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hypercobalt.adapters.ovs.links import Link
from hypercobalt.adapters.ovs.rows import Database, InterfaceRow
from hypercobalt.api.ovsnode import LinkStatus, PhysicalInterface
from hypercobalt.ovs_agent.facts import SwitchFacts

_TYPES: Final = frozenset({"", "system", "dpdk"})
_TAPS: Final = ("tap", "vnet", "qvo", "tun")
"""Names of what Nova and libvirt plug; counts where the kernel cannot be read."""


def is_uplink(row: InterfaceRow, links: Mapping[str, Link] | None) -> bool:
    """Whether an interface leads out of the host.

    Args:
        row: of the interface.
        links: devices of the kernel; None when they cannot be read.
    """
    if row.type not in _TYPES or row.external_ids.get("iface-id"):
        return False
    if row.type == "dpdk":
        return True
    link = links.get(row.name) if links else None
    if link is not None:
        return not link.is_tap
    return row.status.get("driver_name") != "tun" and not row.name.startswith(_TAPS)


def uplinks(database: Database, links: Mapping[str, Link] | None) -> tuple[InterfaceRow, ...]:
    """Interfaces that lead out of the host, by name; a bridge's own interface is none."""
    bridges = {bridge.name for bridge in database.bridges.values()}
    rows = (row for row in database.interfaces.values() if row.name not in bridges)
    return tuple(sorted((row for row in rows if is_uplink(row, links)), key=lambda one: one.name))


def physical_interfaces(facts: SwitchFacts) -> tuple[PhysicalInterface, ...]:
    """Uplinks for the status, by name.

    Names stay when ovsdb-server is away; what they are is shown with proof only.
    """
    remembered, links = facts.database.value, facts.links.proven
    if remembered is None:
        return ()
    kernel = {bond.name: bond for bond in facts.kernel_bonds.proven or ()}
    owners = _bonds_of(remembered)
    proven = facts.effective is not None
    found: dict[str, PhysicalInterface] = {}
    for row in uplinks(remembered, links):
        if row.name in kernel:
            for member in kernel[row.name].members:
                link = links.get(member.name) if links else None
                found[member.name] = _of_kernel(member.name, link, row.name)
        else:
            bond = owners.get(row.uuid)
            if bond is None and links and row.name in links:
                bond = links[row.name].master if links[row.name].master in kernel else None
            found[row.name] = _of_switch(row, bond, proven)
    return tuple(found[name] for name in sorted(found))


def _of_switch(row: InterfaceRow, bond: str | None, proven: bool) -> PhysicalInterface:
    if not proven:
        return PhysicalInterface(name=row.name, status=LinkStatus.UNKNOWN, bond=bond)
    return PhysicalInterface(
        name=row.name,
        status=LinkStatus.UP if carries(row) else LinkStatus.DOWN,
        speed=render_speed(row.link_speed),
        bond=bond,
    )


def _of_kernel(name: str, link: Link | None, bond: str) -> PhysicalInterface:
    if link is None:
        return PhysicalInterface(name=name, status=LinkStatus.UNKNOWN, bond=bond)
    up = link.admin_up and bool(link.carrier)
    return PhysicalInterface(
        name=name,
        status=LinkStatus.UP if up else LinkStatus.DOWN,
        speed=render_speed(link.speed),
        bond=bond,
    )


def carries(row: InterfaceRow) -> bool:
    """Whether an interface can carry traffic: made by the switch, switched on, and linked."""
    return (row.ofport or 0) > 0 and bool(row.admin_up) and bool(row.link_up)


def render_speed(bits: int | None) -> str | None:
    """A link's speed as `25Gbps`, `2.5Gbps` or `100Mbps`; None when unknown.

    Args:
        bits: bit/s.
    """
    if not bits or bits < 0:
        return None
    for unit, size in (("Gbps", 10**9), ("Mbps", 10**6), ("Kbps", 10**3)):
        if bits >= size:
            return f"{bits / size:g}{unit}"
    return f"{bits}bps"


def _bonds_of(database: Database) -> dict[str, str]:
    """Name of the bond by UUID of its members."""
    return {
        uuid: port.name
        for port in database.ports.values()
        if len(port.interfaces) > 1
        for uuid in port.interfaces
    }
