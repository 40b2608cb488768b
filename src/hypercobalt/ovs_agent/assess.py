"""One judgement of the switch out of the facts: its status, issues and conditions. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

from hypercobalt.api.ovsnode import (
    Interfaces,
    OVSNodeConditionType,
    OVSNodeStatus,
)
from hypercobalt.ovs_agent.facts import SwitchFacts
from hypercobalt.ovs_agent.rules import issues
from hypercobalt.ovs_agent.rules.bonds import assess_bonds
from hypercobalt.ovs_agent.rules.bridges import assess_bridges, with_issues
from hypercobalt.ovs_agent.rules.conditions import Stated, conditions
from hypercobalt.ovs_agent.rules.controller import assess_controller, connected
from hypercobalt.ovs_agent.rules.counters import flow_stats, traffic
from hypercobalt.ovs_agent.rules.daemons import assess_daemons
from hypercobalt.ovs_agent.rules.findings import codes
from hypercobalt.ovs_agent.rules.flows import assess_flows
from hypercobalt.ovs_agent.rules.issues import Ledger
from hypercobalt.ovs_agent.rules.mirrors import assess_mirrors
from hypercobalt.ovs_agent.rules.ports import assess_ports, of_ports_there
from hypercobalt.ovs_agent.rules.uplinks import physical_interfaces
from hypercobalt.ovs_agent.rules.versions import versions_of
from hypercobalt.ovs_agent.status.bounds import within_bounds


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the facts mean.

    Args:
        status: all fields, counters as they are now, but for the conditions.
        ledger: findings over time, of which some are issues.
        conditions: by type.
    """

    status: OVSNodeStatus
    ledger: Ledger
    conditions: dict[OVSNodeConditionType, Stated]


def judge(
    facts: SwitchFacts,
    ledger: Ledger,
    *,
    now: datetime,
    monotonic: float,
    before: Mapping[OVSNodeConditionType, Stated] = MappingProxyType({}),
    read_at: Mapping[str, float] = MappingProxyType({}),
) -> Judgement:
    """Judge the switch.

    Args:
        facts: of now.
        ledger: of the last judgement; {} for the first.
        now: wall clock, UTC.
        monotonic: seconds.
        before: conditions of the last judgement; none for the first.
        read_at: when the last answer of each probe was begun, by its name.
    """
    bridges, bonds = assess_bridges(facts), assess_bonds(facts)
    controller, daemons = assess_controller(facts), assess_daemons(facts)
    of_bridges = (bridges, assess_mirrors(facts, now))
    parts = (daemons, controller, *of_bridges, bonds, assess_ports(facts), assess_flows(facts))
    unmeasured = codes(*(part.unmeasured for part in parts))
    found = [finding for part in parts for finding in part.findings]
    ledger = issues.follow(ledger, found, unmeasured, now=now, monotonic=monotonic, read_at=read_at)
    ledger = of_ports_there(ledger, facts)
    lasting = issues.issues_of(ledger)
    shown, total = issues.listed(ledger)
    versions = versions_of(facts)
    stated = conditions(
        facts,
        lasting,
        unmeasured,
        has_bonds=bool(bonds.value),
        young=issues.young(ledger),
        before=before,
    )
    ovn = stated[OVSNodeConditionType.OVN_CONTROLLER_CONNECTED]
    status = OVSNodeStatus(
        ovsVersion=versions.ovs,
        ovsdVersion=versions.ovsdb_server,
        dpdkEnabled=versions.dpdk_enabled,
        dpdkVersion=versions.dpdk,
        bridges=with_issues(bridges.value, lasting, facts),
        interfaces=Interfaces(physical=physical_interfaces(facts), bonds=bonds.value),
        ovnController=connected(controller.value, ovn.status, ovn.reason),
        flowStats=flow_stats(facts),
        metrics=traffic(facts),
        issues=shown,
        issuesTotal=total,
        lastProbeTime=now,
    )
    return Judgement(within_bounds(status), ledger, stated)
