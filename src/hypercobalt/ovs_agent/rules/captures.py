"""Which port may be captured, where its packets are, and within which limits. Pure.

A port of an instance is one that carries an `iface-id`, or whose device is a tap. Every other
device, an uplink or a bridge's own interface, carries the packets of all instances or of the host
itself, and needs the right for uplinks.

Source: ovs-vswitchd.conf.db(5), table Interface.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from hypercobalt.adapters.capture.filters import LONGEST, is_device
from hypercobalt.adapters.capture.order import DURATION, PACKETS, SNAPLEN, CaptureOrder
from hypercobalt.adapters.capture.order import LONGEST as LONGEST_PACKET
from hypercobalt.adapters.capture.order import SHORTEST as SHORTEST_PACKET
from hypercobalt.adapters.ovs.links import Link
from hypercobalt.adapters.ovs.rows import Database, InterfaceRow
from hypercobalt.errors import HypercobaltError
from hypercobalt.ovs_agent.rules.findings import plain

PARAMETERS: Final = frozenset({"port", "filter", "seconds", "packets", "snaplen"})
_MIRRORED: Final = ("dpdk", "dpdkvhostuser", "dpdkvhostuserclient")
_DEVICES: Final = ("", "system", "internal", "tap")
_LONGEST: Final = 64  # characters of a value in a message
_SHOWN: Final = 20  # names in a message


class CaptureRefusedError(HypercobaltError):
    """A capture is refused; the message names the parameter, the value and the way out."""


@dataclass(frozen=True, slots=True)
class PacketSource:
    """Where a port's packets are.

    Args:
        name: of the interface.
        mirror: UUIDs of the bridge and the port to mirror, for one without a network device.
    """

    name: str
    mirror: tuple[str, str] | None = None


def order_of(parameters: Mapping[str, str]) -> CaptureOrder:
    """The parameters of a request, without its device.

    Raises:
        CaptureRefusedError: a parameter is out of bounds.
    """
    most = int(DURATION.total_seconds())
    expression = parameters.get("filter", "").strip()
    if len(expression) > LONGEST:
        raise CaptureRefusedError(f"filter: {len(expression)} characters; at most {LONGEST}")
    return CaptureOrder(
        "",
        expression,
        timedelta(seconds=_number(parameters, "seconds", 1, most, most)),
        _number(parameters, "packets", 1, PACKETS, PACKETS),
        _number(parameters, "snaplen", SHORTEST_PACKET, LONGEST_PACKET, SNAPLEN),
    )


def source_of(
    database: Database, links: Mapping[str, Link], port: str, *, uplinks: bool, mirrors: bool
) -> PacketSource:
    """Where the packets of a port are.

    Args:
        database: rows.
        links: devices of the kernel.
        port: name of the interface, or its `iface-id`.
        uplinks: whether the requester may capture what is no instance's.
        mirrors: whether ports without a device are mirrored.

    Raises:
        CaptureRefusedError: there is no such port, or it may not be captured.
    """
    row = _named(database, port)
    link = links.get(row.name)
    if row.type not in (*_DEVICES, *_MIRRORED):
        raise CaptureRefusedError(
            f"port {row.name} is of type {row.type} and has no device; capture on an uplink"
        )
    if not (uplinks or _is_of_instance(row, link)):
        raise CaptureRefusedError(
            f"port {row.name} is not an instance's: it carries the packets of all tenants; use "
            "--uplink, which needs the right ovsnodes/capture-uplink"
        )
    if row.type in _MIRRORED:
        return _mirrored(database, row, mirrors=mirrors)
    if link is None:
        raise CaptureRefusedError(f"port {row.name}: its device is gone")
    if not is_device(row.name):
        raise CaptureRefusedError(f"port {row.name!a}: tcpdump accepts no device of such a name")
    return PacketSource(row.name)


def _is_of_instance(row: InterfaceRow, link: Link | None) -> bool:
    if row.external_ids.get("iface-id") or row.type.startswith("dpdkvhostuser"):
        return True
    # In user space, a bridge's own interface is a tap, too.
    return row.type != "internal" and link is not None and link.is_tap


def _named(database: Database, port: str) -> InterfaceRow:
    rows = database.interfaces.values()
    found = [one for one in rows if port and port in {one.name, one.external_ids.get("iface-id")}]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(sorted(one.name for one in found))
        raise CaptureRefusedError(
            f"port {plain(port, _LONGEST)}: several ports carry this iface-id: {names}"
        )
    bond = next((one for one in database.ports.values() if one.name == port), None)
    if bond is not None:
        members = [
            database.interfaces[one] for one in bond.interfaces if one in database.interfaces
        ]
        names = ", ".join(sorted(one.name for one in members))
        raise CaptureRefusedError(f"port {port} is a bond; capture on a member: {names}")
    known = sorted(one.name for one in rows if one.external_ids.get("iface-id"))
    shown = ", ".join(known[:_SHOWN]) + (" …" if len(known) > _SHOWN else "") or "none"
    raise CaptureRefusedError(
        f"port {plain(port, _LONGEST)!r}: this host has no such port; ports of instances: {shown}"
    )


def _mirrored(database: Database, row: InterfaceRow, *, mirrors: bool) -> PacketSource:
    if not mirrors:
        raise CaptureRefusedError(
            f"port {row.name} has no network device; the agent mirrors such ports only with "
            "--capture-by-mirror, which changes the bridge"
        )
    for bridge in database.bridges.values():
        for uuid in bridge.ports:
            port = database.ports.get(uuid)
            if port is not None and row.uuid in port.interfaces:
                return PacketSource(row.name, (bridge.uuid, uuid))
    raise CaptureRefusedError(f"port {row.name} is on no bridge")


def _number(parameters: Mapping[str, str], name: str, least: int, most: int, default: int) -> int:
    text = parameters.get(name, str(default))
    digits = text.isascii() and text.isdigit() and len(text) <= len(str(most))
    if not digits or not least <= int(text) <= most:
        raise CaptureRefusedError(
            f"{name} {plain(text, _LONGEST)!r}: must be a whole number from {least} to {most}"
        )
    return int(text)
