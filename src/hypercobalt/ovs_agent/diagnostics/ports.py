"""Ports of a host's bridges with all that is known of each, counters and flows of now.

Source: ovs-vswitchd.conf.db(5), table Interface.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from hypercobalt.adapters.ovs.model import Flow
from hypercobalt.adapters.ovs.port import Switch, SwitchError
from hypercobalt.adapters.ovs.rows import Database
from hypercobalt.ovs_agent.diagnostics.lookup import InterfacePlace, find_port, matching, places
from hypercobalt.ovs_agent.diagnostics.report import PortFlow, PortReport, PortsReport
from hypercobalt.ovs_agent.diagnostics.tracing import rows_of
from hypercobalt.ovs_agent.facts import SwitchFacts
from hypercobalt.ovs_agent.probes import MOST_FLOWS
from hypercobalt.ovs_agent.rules.findings import LONGEST_OBJECT, plain
from hypercobalt.ovs_agent.rules.flows import integration_bridge
from hypercobalt.ovs_agent.rules.issues import Tracked

PARAMETERS: Final = frozenset({"port"})

Counters = Mapping[str, Mapping[str, int]]
Flows = Mapping[int, list[Flow]]


async def ports(
    switch: Switch, facts: SwitchFacts, issues: Iterable[Tracked], parameters: Mapping[str, str]
) -> PortsReport:
    """Read the ports.

    Args:
        switch: of this host.
        facts: of now.
        issues: that last.
        parameters: `port` for those that one word means; without it all.

    Raises:
        RefusedUseError: there is no such port.
        SwitchError: ovsdb-server or ovs-vswitchd does not answer.
    """
    database = rows_of(facts)
    chosen = list(places(database))
    if (word := parameters.get("port", "")) and not (chosen := matching(chosen, word)):
        find_port(database, word, parameter="port")  # raises, and names those that there are
    notes: list[str] = []
    counters = await _counters(switch, notes)
    bridge, flows = await _flows(switch, facts, database, notes)
    codes = _codes(issues)
    return PortsReport(
        tuple(
            _report(
                one,
                counters,
                flows if one.bridge.name == bridge else None,
                codes,
                mirrored_to(database, one),
            )
            for one in chosen
        ),
        tuple(notes),
    )


async def _counters(switch: Switch, notes: list[str]) -> Counters:
    try:
        return await switch.statistics()
    except SwitchError as error:
        notes.append(f"counters are missing: {error}")
        return {}


async def _flows(
    switch: Switch, facts: SwitchFacts, database: Database, notes: list[str]
) -> tuple[str, Flows | None]:
    """Flows of table 0 of OVN's bridge, by port; on other bridges they do not belong to a port."""
    bridge = integration_bridge(facts, database)
    if bridge is None:
        return "", None
    try:
        found = await switch.flows(bridge.name, 0, limit=MOST_FLOWS)
    except SwitchError as error:
        notes.append(f"flows of table 0 are missing: {error}")
        return bridge.name, None
    by_port: dict[int, list[Flow]] = defaultdict(list)
    for flow in found:
        if flow.in_port is not None:
            by_port[flow.in_port].append(flow)
    return bridge.name, by_port


def _codes(issues: Iterable[Tracked]) -> dict[str, list[str]]:
    """Codes by what an issue is about: a port, a bond's member, an `iface-id`."""
    found: dict[str, list[str]] = defaultdict(list)
    for one in issues:
        found[one.finding.object].append(one.finding.code.value)
    return found


def _report(
    place: InterfacePlace,
    counters: Counters,
    flows: Flows | None,
    codes: Mapping[str, list[str]],
    mirrored: tuple[str, ...],
) -> PortReport:
    row, ids = place.row, place.row.external_ids
    objects = [row.name, *([f"{place.port.name}/{row.name}"] if place.is_bonded else [])]
    objects += [ids["iface-id"]] if ids.get("iface-id") else []
    remote = row.options.get("peer" if row.type == "patch" else "remote_ip", "")
    return PortReport(
        name=row.name,
        bridge=place.bridge.name,
        bond=place.port.name if place.is_bonded else "",
        type=row.type or "system",
        ofport=row.ofport,
        error=row.error or "",
        admin_up=row.admin_up,
        link_up=row.link_up,
        mtu=row.mtu,
        mac=row.mac_in_use or "",
        tag=place.port.tag,
        iface_id=ids.get("iface-id", ""),
        instance=row.instance,
        installed=ids.get("ovn-installed") == "true" if ids.get("iface-id") else None,
        remote=remote,
        counters=dict(counters.get(row.uuid, {})),
        flows=_of_port(row.ofport, flows),
        issues=tuple(code for one in objects for code in codes.get(plain(one, LONGEST_OBJECT), ())),
        mirrored_to=mirrored,
        status=dict(row.status),
    )


def mirrored_to(database: Database, place: InterfacePlace) -> tuple[str, ...]:
    """Where mirrors of its bridge copy a port's packets to, by name of the port, or its VLAN."""
    found: list[str] = []
    for uuid in place.bridge.mirrors:
        mirror = database.mirrors.get(uuid)
        if mirror is None or not mirror.selects(place.port.uuid):
            continue
        output = database.ports.get(mirror.output_port or "")
        if output is not None:
            found.append(output.name)
        elif mirror.output_vlan is not None:
            found.append(f"VLAN {mirror.output_vlan}")
    return tuple(sorted(found))


def _of_port(ofport: int | None, flows: Flows | None) -> tuple[PortFlow, ...] | None:
    if flows is None or ofport is None:
        return None
    found = sorted(flows.get(ofport, ()), key=lambda one: -one.priority)
    return tuple(PortFlow(one.priority, f"{one.cookie:#x}", one.packets) for one in found)
