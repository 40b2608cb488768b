"""Whether the flows are those that OVN computes now. Pure.

ovn-controller never reads the switch's table back, so flows that it does not have stay: those of
a port that is gone, and all of them when ovn-controller itself is gone.

Source: ovn-controller(8); ovn-sb(5), `nb_cfg` of SB_Global; OpenFlow 1.3, section 7.2.1 (reserved
port numbers).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Final

from hypercobalt.adapters.ovs.rows import BridgeRow, Database
from hypercobalt.api.ovsnode import IssueSeverity
from hypercobalt.api.ovsnode_reasons import IssueCode
from hypercobalt.ovs_agent.facts import SwitchFacts, bridge_named, interfaces_of
from hypercobalt.ovs_agent.flow_scan import MOST, RESERVED, ForeignFlow
from hypercobalt.ovs_agent.rules.findings import Assessed, Finding

CODES: Final = frozenset(
    {
        IssueCode.FLOWS_LAGGING,
        IssueCode.FLOWS_FROZEN,
        IssueCode.STALE_FLOW_IN_PORT,
        IssueCode.STALE_FLOW_OUTPUT,
        IssueCode.STALE_FLOW_COOKIE,
        IssueCode.FOREIGN_FLOW,
        IssueCode.NO_FLOWS,
    }
)
LAG_GRACE: Final = timedelta(seconds=60)
"""How long ovn-controller may take to put a generation of the configuration into effect."""

STALE_GRACE: Final = timedelta(seconds=60)
NO_FLOWS_GRACE: Final = timedelta(seconds=30)
"""How long ovn-controller may take to write its flows after a start of ovs-vswitchd."""

_SHOWN: Final = 5
_OF_SCANS: Final = (
    IssueCode.STALE_FLOW_OUTPUT,
    IssueCode.STALE_FLOW_COOKIE,
    IssueCode.FOREIGN_FLOW,
)
_LONGEST_NUMBER: Final = 19  # digits of 64 bits


def assess_flows(facts: SwitchFacts) -> Assessed[None]:
    """Find flows that are late, frozen, stale or missing."""
    database = facts.effective
    if database is None:
        return Assessed(None, unmeasured=CODES)
    bridge = integration_bridge(facts, database)
    if bridge is None:
        return Assessed(None)
    checks = (
        _frozen(facts, bridge),
        _lagging(facts, bridge),
        _stale(facts, database, bridge),
        _of_scans(facts, database, bridge),
        _none(facts, database, bridge),
    )
    return Assessed(
        None,
        tuple(finding for check in checks for finding in check.findings),
        frozenset(code for check in checks for code in check.unmeasured),
    )


def integration_bridge(facts: SwitchFacts, database: Database) -> BridgeRow | None:
    """The bridge that ovn-controller writes to; None without it, and without OVN."""
    settings = facts.ovn
    return bridge_named(database, settings.bridge) if settings.is_configured else None


def too_large(facts: SwitchFacts, bridge: BridgeRow) -> tuple[int, ...]:
    """Tables of a bridge whose flows are too many to be looked through, by number."""
    reading = facts.flows.get(bridge.name)
    counts = facts.of_vswitchd(reading) if reading else None
    if counts is None:
        return ()
    return tuple(sorted(table for table, count in counts.tables.items() if count > MOST))


def generation_of(bridge: BridgeRow) -> int | None:
    """The generation of OVN's configuration that is in effect on the integration bridge."""
    text = bridge.external_ids.get("ovn-nb-cfg", "")
    return int(text) if text.isdecimal() and len(text) <= _LONGEST_NUMBER else None


def _unknown(code: IssueCode) -> Assessed[None]:
    return Assessed(None, unmeasured=frozenset({code}))


def _frozen(facts: SwitchFacts, bridge: BridgeRow) -> Assessed[None]:
    """Flows that no process updates, because ovn-controller is away, hangs or is paused."""
    code = IssueCode.FLOWS_FROZEN
    counts = facts.of_vswitchd(facts.flows[bridge.name]) if bridge.name in facts.flows else None
    daemon, state = facts.ovn_controller, facts.controller.proven
    paused = state is not None and state.paused
    if daemon.is_down or paused:
        if counts is None:
            return _unknown(code)
        if counts.total:
            why = "is paused" if paused and not daemon.is_down else "does not answer"
            since = f" since {daemon.since:%Y-%m-%dT%H:%M:%SZ}" if daemon.since else ""
            message = (
                f"Flows of bridge {bridge.name} are frozen: ovn-controller {why}{since}; traffic "
                "continues, changes wait"
            )
            return Assessed(None, (_finding(code, bridge.name, message),))
        return Assessed(None)
    return Assessed(None) if daemon.value is not None else _unknown(code)


def _lagging(facts: SwitchFacts, bridge: BridgeRow) -> Assessed[None]:
    """A generation of the configuration that the database has, and the switch has not."""
    code, answer = IssueCode.FLOWS_LAGGING, facts.southbound.proven
    here = generation_of(bridge)
    if answer is None:
        return _unknown(code)
    if here is None:  # the first generation is 1; an old ovn-controller records none
        return _unknown(code) if answer.nb_cfg else Assessed(None)
    if answer.nb_cfg <= here:
        return Assessed(None)
    message = (
        f"Flows of bridge {bridge.name} are behind the southbound database for more than "
        f"{LAG_GRACE.seconds} s: see `ovn-appctl -t ovn-controller inc-engine/show-stats`"
    )
    return Assessed(None, (_finding(code, bridge.name, message, LAG_GRACE),))


def _stale(facts: SwitchFacts, database: Database, bridge: BridgeRow) -> Assessed[None]:
    """Flows of table 0 that match ports which the bridge does not have."""
    code, flows = IssueCode.STALE_FLOW_IN_PORT, facts.of_vswitchd(facts.classifier)
    if flows is None:
        return _unknown(code)
    ports = {one.ofport for one in interfaces_of(database, bridge)}
    stale = {
        flow.in_port
        for flow in flows
        if flow.in_port is not None and flow.in_port < RESERVED and flow.in_port not in ports
    }
    if not stale:
        return Assessed(None)
    shown = _listed([str(number) for number in sorted(stale)])
    message = f"Table 0 of bridge {bridge.name} has flows of ports that are gone: in_port {shown}"
    return Assessed(None, (_finding(code, bridge.name, message, STALE_GRACE),))


def _of_scans(facts: SwitchFacts, database: Database, bridge: BridgeRow) -> Assessed[None]:
    """Flows to ports that the bridge does not have, and flows that are not OVN's."""
    if facts.vswitchd.proven is None or not facts.scans:
        return Assessed(None, (), frozenset(_OF_SCANS))
    ports = {one.ofport for one in interfaces_of(database, bridge)}
    outputs = {port: table for table, scan in facts.scans.items() for port in scan.lasting_outputs}
    gone = {port: table for port, table in outputs.items() if port not in ports}
    foreign = {
        cookie: table for table, scan in facts.scans.items() for cookie in scan.lasting_cookies
    }
    findings: list[Finding] = []
    if gone:
        shown = _listed([f"{port} (table {table})" for port, table in sorted(gone.items())])
        message = f"Flows of bridge {bridge.name} lead to ports that are gone: output {shown}"
        findings.append(_finding(IssueCode.STALE_FLOW_OUTPUT, bridge.name, message))
    if foreign:
        shown = _listed([f"{one:#x} (table {table})" for one, table in sorted(foreign.items())])
        message = f"Bridge {bridge.name} has flows that ovn-controller did not make: cookie {shown}"
        findings.append(_finding(IssueCode.STALE_FLOW_COOKIE, bridge.name, message))
    findings += _foreign(facts, database, bridge)
    return Assessed(None, tuple(findings))


def _foreign(facts: SwitchFacts, database: Database, bridge: BridgeRow) -> Iterator[Finding]:
    """Flows whose shape is not OVN's; one that drops, above OVN's own, cuts instances off."""
    found = sorted(
        {flow for scan in facts.scans.values() for flow in scan.lasting_foreign},
        key=lambda one: (-one.priority, one),
    )
    if not found:
        return
    names = {one.ofport: one.name for one in interfaces_of(database, bridge)}
    shown = _listed([_words(flow, names) for flow in found])
    message = (
        f"Bridge {bridge.name} has flows that OVN does not make: {shown}; trace a packet with "
        f"`cobalt trace`, and see `ovs-ofctl dump-flows {shlex.quote(bridge.name)}`"
    )
    drops = any(flow.drops for flow in found)
    severity = IssueSeverity.CRITICAL if drops else IssueSeverity.WARNING
    message += _traced(facts, database, bridge)
    yield Finding(IssueCode.FOREIGN_FLOW, bridge.name, severity, message)


def _traced(facts: SwitchFacts, database: Database, bridge: BridgeRow) -> str:
    """What becomes of a broadcast from the port that is suspected first; "" if none was traced."""
    names = {one.uuid: one.name for one in interfaces_of(database, bridge)}
    for uuid, trace in facts.traces.items():
        if uuid in names:
            return f"; a broadcast from {names[uuid]}, traced, is {trace.text}"
    return ""


def _words(flow: ForeignFlow, names: Mapping[int | None, str]) -> str:
    of = "any port" if flow.in_port < 0 else f"port {names.get(flow.in_port, flow.in_port)}"
    does = "drops" if flow.drops else "takes"
    where = f"table {flow.table} priority {flow.priority} cookie {flow.cookie:#x}"
    return f"{where} {does} packets of {of}"


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (" …" if len(names) > _SHOWN else "")


def _none(facts: SwitchFacts, database: Database, bridge: BridgeRow) -> Assessed[None]:
    """No flow at all on the integration bridge, though instances are connected to it."""
    code = IssueCode.NO_FLOWS
    bound = [
        one
        for one in interfaces_of(database, bridge)
        if one.external_ids.get("iface-id") and (one.ofport or 0) > 0
    ]
    if not bound:
        return Assessed(None)
    counts = facts.of_vswitchd(facts.flows[bridge.name]) if bridge.name in facts.flows else None
    if counts is None:
        return _unknown(code)
    if counts.total:
        return Assessed(None)
    message = f"Bridge {bridge.name} has no flows: {len(bound)} ports of instances are cut off"
    found = Finding(code, bridge.name, IssueSeverity.CRITICAL, message, NO_FLOWS_GRACE)
    return Assessed(None, (found,))


def _finding(
    code: IssueCode, object_: str, message: str, grace: timedelta = timedelta()
) -> Finding:
    return Finding(code, object_, IssueSeverity.WARNING, message, grace)
