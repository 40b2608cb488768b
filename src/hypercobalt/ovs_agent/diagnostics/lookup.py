"""Finds the port that a person means, by name, number, `iface-id`, instance or chassis. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from hypercobalt.adapters.ovs.rows import BridgeRow, Database, InterfaceRow, PortRow
from hypercobalt.agent.diagnostics.use import RefusedUseError
from hypercobalt.ovs_agent.rules.findings import plain

TUNNELS: Final = frozenset({"geneve", "vxlan", "stt", "gre"})
_SHOWN: Final = 10  # names in a message
_LONGEST: Final = 80  # characters of a name in a message
_LONGEST_NUMBER: Final = 5  # digits of a port's


@dataclass(frozen=True, slots=True)
class InterfacePlace:
    """An interface where it is.

    Args:
        bridge: that it is on.
        port: that it belongs to.
        row: of the interface.
    """

    bridge: BridgeRow
    port: PortRow
    row: InterfaceRow

    @property
    def is_bonded(self) -> bool:
        """Whether it is one member of several."""
        return len(self.port.interfaces) > 1


def places(database: Database) -> Iterator[InterfacePlace]:
    """Every interface of every bridge, by bridge and name."""
    for bridge in sorted(database.bridges.values(), key=lambda one: one.name):
        found = [
            InterfacePlace(bridge, port, row)
            for uuid in bridge.ports
            if (port := database.ports.get(uuid)) is not None
            for member in port.interfaces
            if (row := database.interfaces.get(member)) is not None
        ]
        yield from sorted(found, key=lambda one: one.row.name)


def chassis_of(place: InterfacePlace) -> tuple[str, str]:
    """Chassis and address at the far end of a tunnel of OVN; "" for what is unknown."""
    chassis, _, address = place.port.external_ids.get("ovn-chassis-id", "").partition("@")
    return chassis, address or place.row.options.get("remote_ip", "")


def find_port(
    database: Database, word: str, bridge: str = "", parameter: str = "from"
) -> InterfacePlace:
    """The one port that is meant.

    Args:
        database: rows.
        word: name of an interface, number, `iface-id`, UUID of an instance with one port, or the
            chassis that a tunnel leads to.
        bridge: that it must be on; "" for any.
        parameter: that has the word, for messages.

    Raises:
        RefusedUseError: there is none, or there are several; the message names them.
    """
    known = [one for one in places(database) if bridge in {"", one.bridge.name}]
    found = matching(known, word)
    if len(found) == 1:
        return found[0]
    shown = plain(word, _LONGEST)
    if found:
        raise RefusedUseError(
            f"{parameter} {shown!r} means several ports, of which one is needed: {_names(found)}"
        )
    where = f"bridge {plain(bridge, _LONGEST)}" if bridge else "this host"
    have = _names(one for one in known if one.row.type != "patch")
    raise RefusedUseError(
        f"{parameter} {shown!r} is not a port of {where}, by name, number, iface-id or instance; "
        f"there are: {have or 'none'}"
    )


def matching(known: Iterable[InterfacePlace], word: str) -> list[InterfacePlace]:
    """Ports that a word may mean; a name goes before all else."""
    known = list(known)
    lower = word.lower()
    number = int(word) if word.isascii() and word.isdigit() and len(word) <= _LONGEST_NUMBER else 0
    ways: tuple[Callable[[InterfacePlace], bool], ...] = (
        lambda one: one.row.name == word,
        lambda one: one.row.external_ids.get("iface-id", "").lower() == lower,
        lambda one: one.row.instance.lower() == lower,
        lambda one: one.port.name == word,
        lambda one: one.row.ofport == number,
        lambda one: one.row.type in TUNNELS and chassis_of(one)[0] == word,
    )
    for is_meant in ways:
        found = [one for one in known if word and is_meant(one)]
        if found:
            return found
    return []


def ofport_of(place: InterfacePlace) -> int:
    """The port's number.

    Raises:
        RefusedUseError: ovs-vswitchd has not made the port.
    """
    if place.row.ofport is not None and place.row.ofport > 0:
        return place.row.ofport
    cause = plain(place.row.error or "see its log", _LONGEST)
    raise RefusedUseError(f"from {place.row.name}: ovs-vswitchd could not make this port: {cause}")


def _names(found: Iterable[InterfacePlace]) -> str:
    names = [plain(one.row.name, _LONGEST) for one in found]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
