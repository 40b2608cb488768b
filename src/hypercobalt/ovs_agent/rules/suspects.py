"""Which ports a suspicion is about, so that a packet of theirs is traced. Pure.

A suspicion is less than a finding: flows that were seen once, or a port whose packets no flow
counts. Its trace is there when it is confirmed, and shows whether flows are the cause. A trace
occupies the thread that forwards, so few are made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from hypercobalt.adapters.ovs.rows import BridgeRow, InterfaceRow
from hypercobalt.ovs_agent.facts import SwitchFacts, interfaces_of
from hypercobalt.ovs_agent.rules.flows import integration_bridge
from hypercobalt.ovs_agent.rules.silence import silently_dead

MOST: Final = 2
"""Ports that are traced at a time."""

_MAC: Final = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")


@dataclass(frozen=True, slots=True)
class Suspect:
    """A port of which a broadcast is traced.

    Args:
        uuid: of its Interface.
        bridge: name.
        ofport: number of the port.
        mac: that its instance sends from; "" if it is not known, or is no MAC address.
    """

    uuid: str
    bridge: str
    ofport: int
    mac: str


def suspects(facts: SwitchFacts) -> tuple[Suspect, ...]:
    """The ports to trace now, at most MOST; none without a suspicion."""
    has_foreign = any(scan.foreign for scan in facts.scans.values())
    dead = silently_dead(facts.samples)
    database = facts.effective
    if database is None or not (has_foreign or dead):
        return ()
    bridge = integration_bridge(facts, database)
    if bridge is None:
        return ()
    rows = [row for row in interfaces_of(database, bridge) if (row.ofport or 0) > 0]
    suspected = [*_of_foreign(facts, rows), *(row for row in rows if row.uuid in dead)]
    chosen = {row.uuid: row for row in suspected}
    return tuple(_suspect(row, bridge) for row in list(chosen.values())[:MOST])


def _of_foreign(facts: SwitchFacts, rows: list[InterfaceRow]) -> Iterator[InterfaceRow]:
    """The port of each foreign flow; for one of any port, the first port of an instance."""
    flows = {flow for scan in facts.scans.values() for flow in scan.foreign}
    bound = [row for row in rows if row.external_ids.get("iface-id")]
    for flow in sorted(flows, key=lambda one: (-one.priority, one)):
        wanted = [r for r in rows if r.ofport == flow.in_port] if flow.in_port >= 0 else bound
        yield from wanted[:1]


def _suspect(row: InterfaceRow, bridge: BridgeRow) -> Suspect:
    mac = row.external_ids.get("attached-mac", "").lower()  # any text
    known = mac if _MAC.fullmatch(mac) else ""
    return Suspect(row.uuid, bridge.name, row.ofport or 0, known)
