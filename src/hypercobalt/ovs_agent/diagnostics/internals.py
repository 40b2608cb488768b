"""What the daemons show of a bridge and of OVN, for a person: read on request, nothing is changed.

What cannot be read is a note; the rest is shown all the same.

Source: `adapters.ovs.internals`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Final, TypeVar

from hypercobalt.adapters.ovs.internals import BridgeOfDatapath, MacEntry, MacTable
from hypercobalt.adapters.ovs.port import Switch, SwitchError
from hypercobalt.adapters.ovs.rows import BridgeRow, Database
from hypercobalt.agent.diagnostics.use import RefusedUseError
from hypercobalt.ovs_agent.diagnostics.report import (
    BoundPort,
    BridgePort,
    BridgeReport,
    ControllerReport,
    EnginePart,
    LearnedMac,
)
from hypercobalt.ovs_agent.diagnostics.tracing import rows_of
from hypercobalt.ovs_agent.facts import SwitchFacts, bridge_named, interfaces_of
from hypercobalt.ovs_agent.rules.findings import plain

PARAMETERS: Final = frozenset({"bridge"})
MOST_MACS: Final = 1_000
"""MAC addresses that are listed; a table has 8,192 unless it was made larger."""

_SHOWN: Final = 80  # characters of a name in a message

T = TypeVar("T")


async def bridge(switch: Switch, facts: SwitchFacts, parameters: Mapping[str, str]) -> BridgeReport:
    """Read one bridge.

    Args:
        switch: of this host.
        facts: of now.
        parameters: `bridge`, its name.

    Raises:
        RefusedUseError: there is no such bridge.
        SwitchError: ovsdb-server or ovs-vswitchd does not answer.
    """
    database = rows_of(facts)
    row = _row(database, parameters.get("bridge", ""))
    notes: list[str] = []
    table = await _read("MAC addresses", switch.macs(row.name), notes) or MacTable()
    running = await _read("ports of the datapath", switch.datapath_bridges(), notes) or ()
    known = {one.name: one for one in running}.get(row.name)
    names = {one.ofport: one.name for one in interfaces_of(database, row)}
    macs = sorted(table.entries, key=lambda one: (one.vlan, one.mac))
    return BridgeReport(
        name=row.name,
        datapath=known.datapath if known else "",
        hits=known.hits if known else None,
        missed=known.missed if known else None,
        ports=_ports(known),
        macs=tuple(_mac(one, names) for one in macs[:MOST_MACS]),
        macs_total=len(macs),
        mac_counters=dict(table.counters),
        notes=tuple(notes),
    )


async def controller(switch: Switch) -> ControllerReport:
    """Read what ovn-controller shows of itself; without an answer, notes alone."""
    notes: list[str] = []
    state = await _read("state", switch.controller(), notes)
    bindings = await _read("bindings", switch.local_bindings(), notes) or ()
    zones = await _read("zones of connection tracking", switch.zones(), notes) or {}
    engine = await _read("parts of its work", switch.engine(), notes) or ()
    cache = await _read("cache of logical flows", switch.lflow_cache(), notes) or {}
    most_first = sorted(engine, key=lambda one: (-one.recompute, one.name))
    return ControllerReport(
        connected=state.connected if state else None,
        paused=state.paused if state else None,
        bindings=tuple(BoundPort(one.iface_id, one.interface, one.ports) for one in bindings),
        zones=dict(zones),
        engine=tuple(
            EnginePart(one.name, one.recompute, one.compute, one.abort) for one in most_first
        ),
        cache=dict(cache),
        notes=tuple(notes),
    )


async def _read(what: str, answer: Awaitable[T], notes: list[str]) -> T | None:
    try:
        return await answer
    except SwitchError as error:
        notes.append(f"{what}: not read: {error}")
        return None


def _row(database: Database, name: str) -> BridgeRow:
    if (found := bridge_named(database, name)) is not None:
        return found
    there = ", ".join(sorted(plain(one.name, _SHOWN) for one in database.bridges.values()))
    shown = plain(name, _SHOWN)
    raise RefusedUseError(f"bridge {shown!r} is not a bridge of this host; there are {there}")


def _ports(bridge: BridgeOfDatapath | None) -> tuple[BridgePort, ...]:
    ports = sorted(bridge.ports, key=lambda one: one.name) if bridge else ()
    return tuple(
        BridgePort(one.name, one.ofport, one.type, one.number, one.options) for one in ports
    )


def _mac(entry: MacEntry, names: Mapping[int | None, str]) -> LearnedMac:
    port = names.get(entry.ofport, str(entry.ofport))
    return LearnedMac(entry.mac, entry.vlan, port, entry.age)
