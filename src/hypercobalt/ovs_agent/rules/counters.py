"""Numbers of the status: flows and traffic. Pure.

The total of the flows is the sum over the bridges and the sum over the tables. Where one bridge
cannot be counted, or counts no tables, what would break that rule is left out.

Source: OpenFlow 1.3, section 7.3.5.3; ovs-vswitchd.conf.db(5), `statistics` of Interface.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from hypercobalt.api.ovsnode import FlowStats, Metrics, TableFlows
from hypercobalt.ovs_agent.facts import SwitchFacts
from hypercobalt.ovs_agent.rules.uplinks import carries, uplinks


def flow_stats(facts: SwitchFacts) -> FlowStats | None:
    """Flows over all bridges; None when a bridge has not been counted."""
    running = facts.of_vswitchd(facts.running)
    if running is None:
        return None
    total, tables = 0, Counter[int]()
    for bridge in running:
        reading = facts.flows.get(bridge)
        counts = facts.of_vswitchd(reading) if reading else None
        if counts is None:
            return None
        total += counts.total
        tables.update(counts.tables)
    shown = sorted((table, flows) for table, flows in tables.items() if flows)
    return FlowStats(
        totalFlows=total,
        flowsPerTable=tuple(TableFlows(table=table, flows=flows) for table, flows in shown),
    )


def traffic(facts: SwitchFacts) -> Metrics | None:
    """Traffic of the uplinks, drops and errors of all interfaces; None without both daemons.

    Packets of all interfaces together would count each packet twice. None also while an uplink that
    carries has no counters: after a start of ovsdb-server, ovs-vswitchd writes links at once and
    counters up to 5 s later.
    """
    database, statistics = facts.effective, facts.statistics.proven
    if database is None or statistics is None:
        return None
    rows = uplinks(database, facts.links.proven)
    if any(carries(row) and not statistics.get(row.uuid) for row in rows):
        return None
    ups = [row.uuid for row in rows]
    known = [uuid for uuid in database.interfaces if uuid in statistics]

    def total(uuids: Iterable[str], *keys: str) -> int:
        return sum(_of(statistics, uuid, key) for uuid in uuids for key in keys)

    return Metrics(
        packetsReceived=total(ups, "rx_packets"),
        packetsSent=total(ups, "tx_packets"),
        bytesReceived=total(ups, "rx_bytes"),
        bytesSent=total(ups, "tx_bytes"),
        drops=total(known, "rx_dropped", "tx_dropped"),
        errors=total(known, "rx_errors", "tx_errors"),
    )


def _of(statistics: Mapping[str, Mapping[str, int]], uuid: str, key: str) -> int:
    return max(0, statistics.get(uuid, {}).get(key, 0))
