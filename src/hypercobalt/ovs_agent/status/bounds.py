"""A status that the API server takes, whatever the switch's database has. Pure.

Names and external IDs may be of any length, have any characters, and be of any number. A status
that is too large is refused as a whole, and the one before, which may be green, stays. So texts are
cut and lists end where their share is used up; numbers stay within 64 bits.

Source: etcd, `--max-request-bytes` (1.5 MiB); Kubernetes, list types (keys of a list are unique).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from hypercobalt.api.meta import Struct
from hypercobalt.api.ovsnode import (
    Bond,
    Bridge,
    BridgeMapping,
    BridgeStatus,
    OVNController,
    OVSNodeStatus,
    PhysicalInterface,
)
from hypercobalt.ovs_agent.rules.findings import plain

S = TypeVar("S", bound=Struct)

LONGEST: Final = 256
"""Characters of a text; names of devices have 15, a southbound database of five servers 150."""

SHARE: Final = 64 * 1024
"""Bytes of one list: 700 bridges with names as they are in practice."""

MOST: Final = 256
"""Entries of one list."""

_INT64: Final = 2**63 - 1
_WORKING: Final = frozenset({BridgeStatus.ACTIVE, "Up"})


def within_bounds(status: OVSNodeStatus) -> OVSNodeStatus:
    """The status with its texts, lists and numbers in bounds; the same if they are.

    Of a list that is too long the last of those that work are left out.
    """
    links, ovn, metrics = status.interfaces, status.ovnController, status.metrics
    return replace(
        _short(status),
        bridges=_listed(status.bridges, _name_of_bridge),
        interfaces=None
        if links is None
        else replace(
            links,
            physical=_listed(links.physical, _name_of_link),
            bonds=_listed(links.bonds, _name_of_bond),
        ),
        ovnController=None if ovn is None else _controller(ovn),
        metrics=None if metrics is None else _counted(metrics),
    )


def _controller(ovn: OVNController) -> OVNController:
    tunnels = ovn.tunnels
    if tunnels is not None:
        broken = dict.fromkeys(plain(one, LONGEST) for one in tunnels.broken)
        tunnels = replace(tunnels, broken=tuple(broken))
    mappings = _listed(ovn.bridgeMappings, _network_of)
    return replace(_short(ovn), bridgeMappings=mappings, tunnels=tunnels)


def _name_of_bridge(bridge: Bridge) -> str:
    return bridge.name


def _name_of_link(link: PhysicalInterface) -> str:
    return link.name


def _name_of_bond(bond: Bond) -> str:
    return bond.name


def _network_of(mapping: BridgeMapping) -> str:
    return mapping.network


def _listed(entries: Iterable[S], key: Callable[[S], str]) -> tuple[S, ...]:
    """Entries with short texts, one for each key, as many as have room; those at fault first."""
    short: dict[str, S] = {}
    for entry in map(_short, entries):
        short.setdefault(key(entry), entry)
    left = SHARE
    kept: set[str] = set()
    for name, entry in sorted(short.items(), key=lambda pair: _works(pair[1])):
        left -= len(msgspec.json.encode(entry))
        if left < 0 or len(kept) == MOST:
            break
        kept.add(name)
    return tuple(entry for name, entry in short.items() if name in kept)


def _works(entry: Struct) -> bool:
    return getattr(entry, "status", "") in _WORKING


def _short(struct: S) -> S:
    """The struct with its own texts cut."""
    texts = {
        name: plain(text, LONGEST)
        for name in struct.__struct_fields__
        if isinstance(text := getattr(struct, name), str)
    }
    changed = {name: text for name, text in texts.items() if text != getattr(struct, name)}
    return replace(struct, **changed) if changed else struct


def _counted(struct: S) -> S:
    """The struct with numbers that the API has room for."""
    large = {
        name: _INT64
        for name in struct.__struct_fields__
        if isinstance(number := getattr(struct, name), int) and number > _INT64
    }
    return replace(struct, **large) if large else struct
