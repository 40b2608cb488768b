"""Finds the host that receives a traced packet through a tunnel of OVN. Pure.

OVN sends the network and the logical ports of origin and destination in Geneve's header: here they
are `metadata`, `reg14` and `reg15`. With them the next host's switch continues where this one has
ended. The header of VXLAN has no place for the port of origin.

Source: ovn-architecture(7), "Tunnel Encapsulations"; OVN, controller/physical.c.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from hypercobalt.adapters.ovn.logical import Explained
from hypercobalt.adapters.ovs.packet import canonical
from hypercobalt.adapters.ovs.rows import Database
from hypercobalt.adapters.ovs.traced import Pass, Trace
from hypercobalt.ovs_agent.diagnostics.lookup import InterfacePlace, chassis_of, places
from hypercobalt.ovs_agent.diagnostics.report import Onward
from hypercobalt.ovs_agent.diagnostics.verdict import OUTPUT

_CHANGED: Final[tuple[str, ...]] = ("eth_src", "eth_dst", "ip_src", "ip_dst", "ttl")
"""What OVN may change of a packet on its way."""

_NETWORK_BITS, _PORT_BITS = 24, 16
_LONGEST: Final = 18  # characters of a register or of metadata, `0x` included


def onward(
    trace: Trace, database: Database, explained: Explained, fields: Mapping[str, str], chassis: str
) -> Onward | None:
    """The host that gets a packet, and what it is to trace.

    Args:
        trace: of this host.
        database: rows.
        explained: names that the southbound database has.
        fields: of the packet as it came in.
        chassis: of this host.

    Returns:
        None for a packet that leaves by no tunnel, by several, or by one that is not followed.
    """
    known = {place.row.name: place for place in places(database)}
    leaving = [(one, place) for one in trace.passes for place in _tunnels(one, known)]
    if len(leaving) != 1 or not chassis:
        return None
    ((last, place),) = leaving
    flow: dict[str, str] = {}
    for part in last.final_flow.split(","):
        name, _, value = part.partition("=")
        flow[canonical(name)] = value
    network, source, target = (_number(flow.get(key)) for key in ("metadata", "reg14", "reg15"))
    to = chassis_of(place)[0]
    if place.row.type != "geneve" or not (to and network and source and target):
        return None
    changed = {name: flow[name] for name in _CHANGED if name in flow}
    of_tunnel = {
        "tun_id": hex(network % (1 << _NETWORK_BITS)),
        "tun_metadata0": hex(source << _PORT_BITS | target),
    }
    parameters = {"from": chassis, **fields, **changed, **of_tunnel}
    return Onward(to, explained.hosts.get(to) or to, parameters)


def _tunnels(one: Pass, known: Mapping[str, InterfacePlace]) -> Iterator[InterfacePlace]:
    """Tunnels of OVN that a packet leaves by."""
    for step in one.steps:
        for action in step.actions:
            found = OUTPUT.match(action.text)
            place = known.get(found[1]) if found and not action.errors else None
            if place is not None and "ovn-chassis-id" in place.port.external_ids:
                yield place


def _number(text: str | None) -> int | None:
    """A number as the switch writes it; None for anything else."""
    is_hexadecimal = text is not None and text.startswith("0x") and len(text) <= _LONGEST
    try:
        return int(text, 16) if text and is_hexadecimal else None
    except ValueError:
        return None
