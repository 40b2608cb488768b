"""The conditions, from the proof of each source and the issues. Pure.

A condition is False while an issue of its codes lasts, Unknown while a source of its values is
away, and True by a measurement alone: what was True before a source went away is Unknown then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from hypercobalt.adapters.ovs.port import ProducerFault
from hypercobalt.api.conditions import AGENT_MESSAGE, ConditionStatus
from hypercobalt.api.ovsnode import IssueSeverity, OVSNodeConditionType
from hypercobalt.api.ovsnode_reasons import (
    BondsReason,
    BridgesReason,
    ControllerReason,
    FlowsReason,
    IssueCode,
    OVSDBReason,
    OVSReadyReason,
    PortsReason,
    UnknownReason,
    VswitchdReason,
)
from hypercobalt.ovs_agent.facts import SwitchFacts, is_unsupported
from hypercobalt.ovs_agent.rules.controller import CODES as CONTROLLER_CODES
from hypercobalt.ovs_agent.rules.controller import uses_ovn
from hypercobalt.ovs_agent.rules.findings import plain
from hypercobalt.ovs_agent.rules.flows import integration_bridge, too_large
from hypercobalt.ovs_agent.rules.issues import Tracked

Type = OVSNodeConditionType

ORDER: Final = (
    Type.OVSDB_CONNECTED,
    Type.VSWITCHD_RESPONDING,
    Type.OVN_CONTROLLER_CONNECTED,
    Type.ALL_BRIDGES_HEALTHY,
    Type.ALL_BONDS_HEALTHY,
    Type.PORTS_HEALTHY,
    Type.FLOWS_IN_SYNC,
)
"""Order of conditions: the first that fails is the reason of `Ready`."""

OWN: Final = (*ORDER, Type.READY)
"""All condition types of an OVSNode; the agent sets each."""

_SHOWN: Final = 3  # issues in the message of a condition

_OVSDB_REASONS: Final = {
    ProducerFault.SOCKET_MISSING: OVSDBReason.SOCKET_MISSING,
    ProducerFault.CONNECTION_REFUSED: OVSDBReason.CONNECTION_REFUSED,
    ProducerFault.CLOSED: OVSDBReason.CONNECTION_REFUSED,
    ProducerFault.NOT_PERMITTED: OVSDBReason.NOT_PERMITTED,
    ProducerFault.TIMEOUT: OVSDBReason.ECHO_TIMEOUT,
    ProducerFault.SCHEMA_UNSUPPORTED: OVSDBReason.SCHEMA_UNSUPPORTED,
}
_VSWITCHD_REASONS: Final = {
    ProducerFault.SOCKET_MISSING: VswitchdReason.SOCKET_MISSING,
    ProducerFault.CONNECTION_REFUSED: VswitchdReason.CONNECTION_REFUSED,
    ProducerFault.NOT_PERMITTED: VswitchdReason.NOT_PERMITTED,
}

_BRIDGES: Final = (
    IssueCode.BRIDGE_MISSING,
    IssueCode.BRIDGE_DOWN,
    IssueCode.DATAPATH_MISMATCH,
    IssueCode.PATCH_PEER_MISSING,
    IssueCode.NO_FLOWS,
)
_BONDS: Final = (
    IssueCode.BOND_DOWN,
    IssueCode.LACP_NOT_NEGOTIATED,
    IssueCode.MEMBER_MISSING,
    IssueCode.MEMBER_DOWN,
)
_PORTS: Final = {
    IssueCode.INSTANCE_PORT_MISSING: PortsReason.INSTANCES_CUT_OFF,
    IssueCode.INSTANCE_DEVICE_LOST: PortsReason.INSTANCES_CUT_OFF,
    IssueCode.PORT_SILENTLY_DEAD: PortsReason.SILENTLY_DEAD,
    IssueCode.DUPLICATE_IFACE_ID: PortsReason.DUPLICATE_IFACE_ID,
    IssueCode.PORT_ERROR: PortsReason.PORT_ERRORS,
    IssueCode.PORT_PENDING: PortsReason.PORT_ERRORS,
    IssueCode.ORPHAN_PORT_NO_DEVICE: PortsReason.ORPHAN_PORTS,
    IssueCode.ORPHAN_PORT_NO_DOMAIN: PortsReason.ORPHAN_PORTS,
    IssueCode.ORPHAN_PORT_NO_BINDING: PortsReason.ORPHAN_PORTS,
    IssueCode.PORT_NOT_INSTALLED: PortsReason.PORTS_NOT_INSTALLED,
}
_FLOWS: Final = {
    IssueCode.FOREIGN_FLOW: FlowsReason.FOREIGN,
    IssueCode.FLOWS_FROZEN: FlowsReason.FROZEN,
    IssueCode.FLOWS_LAGGING: FlowsReason.LAGGING,
    IssueCode.STALE_FLOW_IN_PORT: FlowsReason.STALE,
    IssueCode.STALE_FLOW_OUTPUT: FlowsReason.STALE,
    IssueCode.STALE_FLOW_COOKIE: FlowsReason.STALE,
}
_CONFIRMED: Final[Mapping[Type, tuple[Collection[IssueCode], str]]] = {
    Type.OVN_CONTROLLER_CONNECTED: (CONTROLLER_CODES, ControllerReason.STARTING),
    Type.ALL_BRIDGES_HEALTHY: (_BRIDGES, UnknownReason.STARTING),
    Type.ALL_BONDS_HEALTHY: (_BONDS, UnknownReason.STARTING),
    Type.FLOWS_IN_SYNC: (_FLOWS, FlowsReason.NOT_MEASURABLE),
}
"""Codes that must have no finding, however young, before the condition becomes True; and its reason
until then. Codes of ports are left out: on a busy host, a port is being plugged at any time."""

_IN_SYNC: Final = (IssueCode.FLOWS_FROZEN, IssueCode.FLOWS_LAGGING)
"""Codes without which nothing shows whether the switch has OVN's flows."""


@dataclass(frozen=True, slots=True)
class Stated:
    """Status, reason and message that a condition should have."""

    status: ConditionStatus
    reason: str
    message: str = ""


def conditions(
    facts: SwitchFacts,
    issues: Iterable[Tracked],
    unmeasured: Collection[IssueCode],
    *,
    has_bonds: bool,
    young: Iterable[Tracked] = (),
    before: Mapping[Type, Stated] = MappingProxyType({}),
) -> dict[Type, Stated]:
    """Return every condition, by type.

    Args:
        facts: the present ones.
        issues: the present ones, the worst first.
        unmeasured: codes that no rule could decide.
        has_bonds: whether there is a bond.
        young: findings that have not lasted long enough to be issues.
        before: the conditions as they were last; none for the first time.
    """
    found = tuple(issues)
    bonds = BondsReason.ALL_ACTIVE if has_bonds else BondsReason.NO_BONDS
    ports = _failing(found, _PORTS)
    stated = {
        Type.OVSDB_CONNECTED: _ovsdb(facts),
        Type.VSWITCHD_RESPONDING: _vswitchd(facts, found),
        Type.OVN_CONTROLLER_CONNECTED: _controller(facts, found, unmeasured),
        Type.ALL_BRIDGES_HEALTHY: _failing(found, {code: code for code in _BRIDGES})
        or _known(facts, BridgesReason.ALL_ACTIVE, _BRIDGES, unmeasured),
        Type.ALL_BONDS_HEALTHY: _failing(found, {code: code for code in _BONDS})
        or _known(facts, bonds, _BONDS, unmeasured),
        Type.PORTS_HEALTHY: ports or _ports(facts, unmeasured),
        Type.FLOWS_IN_SYNC: _flows(facts, found, unmeasured),
    }
    for type_ in ORDER[3:6]:  # an issue that cannot be measured now is no proof either
        if _away(facts) is not None and stated[type_].status is ConditionStatus.FALSE:
            stated[type_] = _away(facts) or stated[type_]
    stated |= _unconfirmed(stated, before, tuple(young))
    stated[Type.READY] = _ready(stated)
    return {
        type_: replace(one, message=plain(one.message, AGENT_MESSAGE))
        for type_, one in stated.items()
    }


def _unconfirmed(
    stated: Mapping[Type, Stated], before: Mapping[Type, Stated], young: tuple[Tracked, ...]
) -> dict[Type, Stated]:
    """Conditions that would become True although a fault of theirs has been found."""
    found: dict[Type, Stated] = {}
    for type_, (codes, reason) in _CONFIRMED.items():
        was = before.get(type_)
        is_new = was is None or was.status is not ConditionStatus.TRUE
        faults = [one.finding.message for one in young if one.finding.code in codes]
        if faults and is_new and stated[type_].status is ConditionStatus.TRUE:
            message = f"Not confirmed yet: {'; '.join(sorted(faults)[:_SHOWN])}"
            found[type_] = Stated(ConditionStatus.UNKNOWN, reason, message)
    return found


def _ovsdb(facts: SwitchFacts) -> Stated:
    reading = facts.database
    if reading.is_down:
        fault = reading.fault or ProducerFault.MONITOR_FAILED
        reason = _OVSDB_REASONS.get(fault, OVSDBReason.MONITOR_FAILED)
        return Stated(ConditionStatus.FALSE, reason, f"ovsdb-server: {reading.message}")
    if reading.value is None:
        return Stated(ConditionStatus.UNKNOWN, OVSDBReason.STARTING)
    return Stated(ConditionStatus.TRUE, OVSDBReason.CONNECTED)


def _vswitchd(facts: SwitchFacts, issues: tuple[Tracked, ...]) -> Stated:
    reading = facts.vswitchd
    if reading.is_down:
        fault = reading.fault or ProducerFault.TIMEOUT
        reason = _VSWITCHD_REASONS.get(fault, VswitchdReason.TIMEOUT)
        return Stated(ConditionStatus.FALSE, reason, f"ovs-vswitchd: {reading.message}")
    if reading.value is None:
        return Stated(ConditionStatus.UNKNOWN, VswitchdReason.STARTING)
    lag = _failing(issues, {IssueCode.CONFIG_LAG: VswitchdReason.CONFIG_LAG})
    return lag or Stated(ConditionStatus.TRUE, VswitchdReason.RESPONDING)


def _controller(
    facts: SwitchFacts, issues: tuple[Tracked, ...], unmeasured: Collection[IssueCode]
) -> Stated:
    if facts.rows is None and not facts.ovn_controller.is_down:
        reason = (
            UnknownReason.OVSDB_UNAVAILABLE if facts.database.is_down else UnknownReason.STARTING
        )
        return Stated(ConditionStatus.UNKNOWN, reason, "OVN's settings cannot be read")
    failing = _failing(issues, {code: code for code in CONTROLLER_CODES}, in_order=True)
    if failing is not None:
        return failing
    if not uses_ovn(facts):
        message = "The host does not use OVN: neither settings, nor ports, nor ovn-controller"
        return Stated(ConditionStatus.TRUE, ControllerReason.NOT_USED, message)
    if facts.ovn_controller.is_down:  # without rows it is not known whether OVN is wanted
        message = f"ovn-controller: {facts.ovn_controller.message}"
        return Stated(ConditionStatus.FALSE, ControllerReason.NOT_RUNNING, message)
    if facts.controller.proven is None or facts.ovn_controller.proven is None:
        return Stated(ConditionStatus.UNKNOWN, ControllerReason.STARTING)
    if facts.vswitchd.is_down:
        message = "Connected to the southbound database; ovs-vswitchd does not answer"
        return Stated(ConditionStatus.UNKNOWN, UnknownReason.VSWITCHD_UNAVAILABLE, message)
    if IssueCode.OPENFLOW_DISCONNECTED in unmeasured:
        message = "ovn-controller's OpenFlow connection to the integration bridge is not read"
        if facts.openflow_peers.is_down:
            message = f"{message}: {facts.openflow_peers.message}"
            return Stated(ConditionStatus.UNKNOWN, UnknownReason.NOT_READABLE, message)
        return Stated(ConditionStatus.UNKNOWN, ControllerReason.STARTING, message)
    if facts.probes_southbound and facts.southbound.answers is None:
        message = "The southbound database has not answered the agent yet"
        return Stated(ConditionStatus.UNKNOWN, ControllerReason.STARTING, message)
    if is_unsupported(facts.southbound):
        message = f"A hung southbound database would go undetected: {facts.southbound.message}"
        return Stated(ConditionStatus.UNKNOWN, ControllerReason.SB_NOT_PROBED, message)
    return Stated(ConditionStatus.TRUE, ControllerReason.CONNECTED)


def _ports(facts: SwitchFacts, unmeasured: Collection[IssueCode]) -> Stated:
    """True by the rows; the message names what no witness shows, such as libvirt's instances."""
    found = _known(facts, PortsReason.NO_ISSUES, (IssueCode.PORT_ERROR,), unmeasured)
    rows = facts.rows
    if found.status is not ConditionStatus.TRUE or rows is None:
        return found
    missing = [code for code in _PORTS if code in unmeasured]
    if not missing or not any(one.external_ids.get("iface-id") for one in rows.interfaces.values()):
        return found
    return replace(found, message=f"Not measured: {', '.join(missing)}")


def _flows(
    facts: SwitchFacts, issues: tuple[Tracked, ...], unmeasured: Collection[IssueCode]
) -> Stated:
    database = facts.effective
    bridge = integration_bridge(facts, database) if database else None
    failing = _failing(issues, _FLOWS) if database else None
    if failing is not None:
        return failing
    missing = [code for code in _IN_SYNC if bridge is None or code in unmeasured]
    if bridge is None or missing:
        message = f"Not measured: {', '.join(missing)}"
        return Stated(ConditionStatus.UNKNOWN, FlowsReason.NOT_MEASURABLE, message)
    unseen = [code for code in _FLOWS if code in unmeasured]
    large = too_large(facts, bridge)
    parts = [f"Not measured: {', '.join(unseen)}"] if unseen else []
    parts += [f"Tables too large to check: {', '.join(map(str, large))}"] if large else []
    return Stated(ConditionStatus.TRUE, FlowsReason.IN_SYNC, ". ".join(parts))


def _known(
    facts: SwitchFacts,
    reason: str,
    needed: Collection[IssueCode],
    unmeasured: Collection[IssueCode],
) -> Stated:
    """True by this reason, or Unknown when one of the needed codes could not be measured."""
    away = _away(facts)
    if away is not None:
        return away
    if any(code in unmeasured for code in needed):
        if causes := _unreadable(facts):
            reason, text = UnknownReason.NOT_READABLE, "; ".join(causes[:_SHOWN])
            return Stated(ConditionStatus.UNKNOWN, reason, text)
        return Stated(
            ConditionStatus.UNKNOWN, UnknownReason.STARTING, "The switch is not read completely yet"
        )
    return Stated(ConditionStatus.TRUE, reason)


def _unreadable(facts: SwitchFacts) -> list[str]:
    """Why sources beside the two daemons do not answer, such as a socket that is hidden."""
    sources = [
        ("bridges", facts.running.is_down, facts.running.message),
        ("bonds", facts.bonds.is_down, facts.bonds.message),
        ("bonds of the kernel", facts.kernel_bonds.is_down, facts.kernel_bonds.message),
        *(
            (f"flows of bridge {name}", one.is_down, one.message)
            for name, one in sorted(facts.flows.items())
        ),
    ]
    return [f"Cannot read {what}: {why}" for what, is_down, why in sources if is_down]


def _away(facts: SwitchFacts) -> Stated | None:
    """Why what both daemons have to prove is Unknown; None when both answer."""
    if facts.vswitchd.is_down:
        message = "ovs-vswitchd does not answer; its state in ovsdb-server may be out of date"
        return Stated(ConditionStatus.UNKNOWN, UnknownReason.VSWITCHD_UNAVAILABLE, message)
    if facts.database.is_down:
        message = "ovsdb-server does not answer"
        return Stated(ConditionStatus.UNKNOWN, UnknownReason.OVSDB_UNAVAILABLE, message)
    if facts.effective is None:
        return Stated(ConditionStatus.UNKNOWN, UnknownReason.STARTING)
    return None


def _failing(
    issues: tuple[Tracked, ...], reasons: Mapping[IssueCode, str], *, in_order: bool = False
) -> Stated | None:
    """False by the worst of these issues; None when there is none.

    Args:
        issues: the worst first.
        reasons: of the codes that count; those of severity Info do not.
        in_order: the reason is the first of `reasons`, rather than the worst issue's.
    """
    mine = [
        one.finding
        for one in issues
        if one.finding.code in reasons and one.finding.severity is not IssueSeverity.INFO
    ]
    if not mine:
        return None
    rank = {code: place for place, code in enumerate(reasons)}
    if in_order:
        mine.sort(key=lambda one: rank[one.code])
    else:  # of equal severity, the first in `reasons`: it explains the others
        mine.sort(key=lambda one: (one.severity is not IssueSeverity.CRITICAL, rank[one.code]))
    shown = "; ".join(one.message for one in mine[:_SHOWN])
    more = f"; and {len(mine) - _SHOWN} more" if len(mine) > _SHOWN else ""
    return Stated(ConditionStatus.FALSE, reasons[mine[0].code], f"{shown}{more}")


def _ready(stated: dict[Type, Stated]) -> Stated:
    """Return Ready: the first False condition decides, then an Unknown one but that of flows."""
    for type_ in ORDER:
        if stated[type_].status is ConditionStatus.FALSE:
            why = stated[type_]
            return Stated(ConditionStatus.FALSE, type_, f"{why.reason}: {why.message}"[:1024])
    for type_ in ORDER[:-1]:
        if stated[type_].status is ConditionStatus.UNKNOWN:
            message = ": ".join(
                part
                for part in (f"{type_} is Unknown", stated[type_].reason, stated[type_].message)
                if part
            )
            return Stated(ConditionStatus.UNKNOWN, OVSReadyReason.STALE, message)
    return Stated(ConditionStatus.TRUE, OVSReadyReason.ALL_PASSED)
