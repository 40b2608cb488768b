"""The bridges: what they are, and whether they do what OVN needs of them. Pure.

Source: ovs-vswitchd.conf.db(5), tables Bridge and Interface; ovn-controller(8), `ovn-bridge` and
`ovn-bridge-mappings`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from hypercobalt.adapters.ovs.rows import BridgeRow, Database, InterfaceRow
from hypercobalt.api.ovsnode import Bridge, BridgeStatus, IssueSeverity
from hypercobalt.api.ovsnode_reasons import IssueCode
from hypercobalt.ovs_agent.facts import SwitchFacts, bridge_named, interfaces_of
from hypercobalt.ovs_agent.ovn_settings import OvnSettings
from hypercobalt.ovs_agent.rules.findings import Assessed, Finding
from hypercobalt.ovs_agent.rules.issues import Tracked

CODES: Final = frozenset(
    {
        IssueCode.BRIDGE_MISSING,
        IssueCode.BRIDGE_DOWN,
        IssueCode.DATAPATH_MISMATCH,
        IssueCode.PATCH_PEER_MISSING,
    }
)
SETTLE: Final = timedelta(seconds=5)
"""How long a bridge or a patch may take from its row to the datapath."""


def assess_bridges(facts: SwitchFacts) -> Assessed[tuple[Bridge, ...]]:
    """Return every bridge by name, and what is wrong with one."""
    remembered = facts.database.value
    if remembered is None:
        return Assessed(_of_vswitchd(facts), unmeasured=CODES)
    rows = sorted(remembered.bridges.values(), key=lambda one: one.name)
    database = facts.effective
    if database is None:
        return Assessed(tuple(_unproven(facts, row) for row in rows), unmeasured=CODES)
    running = facts.of_vswitchd(facts.running)
    settings = facts.ovn
    findings = [*_missing(database, settings), *_mismatches(database, settings)]
    by_name = {one.name: one for one in database.interfaces.values()}
    bridges: list[Bridge] = []
    for row in rows:
        down = _down(row, running)
        patches = tuple(_patches(database, row, by_name))
        status = _status(database, row, down, running, bool(patches))
        findings += patches
        if down:
            findings.append(_finding(IssueCode.BRIDGE_DOWN, row.name, down, SETTLE))
        bridges.append(
            Bridge(
                name=row.name,
                ports=len(row.ports),
                flows=flows_of(facts, row.name),
                datapathType=row.datapath_type or "system",
                status=status,
            )
        )
    unmeasured = () if running is not None else (IssueCode.BRIDGE_DOWN,)
    return Assessed(tuple(bridges), tuple(findings), frozenset(unmeasured))


def flows_of(facts: SwitchFacts, bridge: str) -> int | None:
    """Number of flows of a bridge, while ovs-vswitchd answers."""
    reading = facts.flows.get(bridge)
    counts = facts.of_vswitchd(reading) if reading is not None else None
    return counts.total if counts is not None else None


def with_issues(
    bridges: tuple[Bridge, ...], issues: Iterable[Tracked], facts: SwitchFacts
) -> tuple[Bridge, ...]:
    """Show bridges Down by issues: without flows, and those that OVN names and that do not exist.

    The reason of `AllBridgesHealthy` names one fault; each bridge has to show its own.

    Args:
        bridges: by name, as assessed.
        issues: of now.
        facts: of now; without both daemons an issue proves nothing.
    """
    if facts.effective is None:
        return bridges
    found = {(one.finding.code, one.finding.object) for one in issues}
    shown = {
        one.name: replace(one, status=BridgeStatus.DOWN)
        if (IssueCode.NO_FLOWS, one.name) in found
        else one
        for one in bridges
    }
    for code, name in found:
        if code is IssueCode.BRIDGE_MISSING:
            shown.setdefault(name, Bridge(name=name, status=BridgeStatus.DOWN))
    return tuple(shown[name] for name in sorted(shown))


def _of_vswitchd(facts: SwitchFacts) -> tuple[Bridge, ...]:
    """Bridges as ovs-vswitchd names them, where ovsdb-server has never answered."""
    names = (facts.running.proven if facts.vswitchd.proven else None) or frozenset()
    return tuple(
        Bridge(name=name, flows=flows_of(facts, name), status=BridgeStatus.UNKNOWN)
        for name in sorted(names)
    )


def _unproven(facts: SwitchFacts, row: BridgeRow) -> Bridge:
    """A bridge of which the name is known: the configuration with ovsdb-server, flows without."""
    known = facts.rows is not None
    return Bridge(
        name=row.name,
        ports=len(row.ports) if known else None,
        flows=flows_of(facts, row.name),
        datapathType=(row.datapath_type or "system") if known else None,
        status=BridgeStatus.UNKNOWN,
    )


def _down(row: BridgeRow, running: frozenset[str] | None) -> str:
    """Why a bridge does not run; "" when it does, or when that is not known."""
    if row.datapath_id is None:
        return f"Bridge {row.name} has no datapath: ovs-vswitchd could not make it; see its log"
    if running is not None and row.name not in running:
        return f"Bridge {row.name} is configured, but ovs-vswitchd does not run it; see its log"
    return ""


def _status(
    database: Database,
    row: BridgeRow,
    down: str,
    running: frozenset[str] | None,
    patches_broken: bool,
) -> BridgeStatus:
    if down:
        return BridgeStatus.DOWN
    if running is None:
        return BridgeStatus.UNKNOWN
    is_degraded = patches_broken or any(_ports_broken(database, row))
    return BridgeStatus.DEGRADED if is_degraded else BridgeStatus.ACTIVE


def _ports_broken(database: Database, row: BridgeRow) -> Iterator[bool]:
    """Whether each port that is no guest's cannot work: not made, or a bond without a member."""
    for uuid in row.ports:
        port = database.ports.get(uuid)
        if port is None:
            continue
        rows = [database.interfaces[one] for one in port.interfaces if one in database.interfaces]
        if len(port.interfaces) > 1:
            yield not any(
                (one.ofport or 0) > 0 and one.link_up and one.lacp_current is not False
                for one in rows
            )
        else:
            yield any(one.ofport == -1 and not one.external_ids.get("iface-id") for one in rows)


def _missing(database: Database, settings: OvnSettings) -> Iterator[Finding]:
    """Bridges that OVN's settings name and that are not there."""
    if not settings.is_configured:
        return
    if bridge_named(database, settings.bridge) is None:
        message = (
            f"Integration bridge {settings.bridge} does not exist; ovn-controller creates it when "
            "it starts"
        )
        yield _finding(IssueCode.BRIDGE_MISSING, settings.bridge, message, SETTLE)
    for network, bridge in sorted((settings.mappings or {}).items()):
        if bridge_named(database, bridge) is None:
            message = (
                f"Bridge {bridge} of the physical network {network} does not exist; create it, or "
                "correct ovn-bridge-mappings"
            )
            yield _finding(IssueCode.BRIDGE_MISSING, bridge, message, SETTLE)


def _mismatches(database: Database, settings: OvnSettings) -> Iterator[Finding]:
    """Bridges of another datapath than OVN's setting, or than the integration bridge's."""
    integration = bridge_named(database, settings.bridge)
    if integration is None or not settings.is_configured:
        return
    has = integration.datapath_type or "system"
    if settings.datapath_type and settings.datapath_type != has:
        message = (
            f"Bridge {integration.name} has datapath type {has}, ovn-bridge-datapath-type is "
            f"{settings.datapath_type}"
        )
        yield _finding(IssueCode.DATAPATH_MISMATCH, integration.name, message, SETTLE)
    for name in sorted(set((settings.mappings or {}).values()) - {integration.name}):
        mapped = bridge_named(database, name)
        other = (mapped.datapath_type or "system") if mapped else has
        if other != has:
            message = (
                f"Bridge {name} has datapath type {other}, bridge {integration.name} has {has}: no "
                "patch can join them"
            )
            yield _finding(IssueCode.DATAPATH_MISMATCH, name, message, SETTLE)


def _patches(
    database: Database, row: BridgeRow, by_name: Mapping[str, InterfaceRow]
) -> Iterator[Finding]:
    """Patch interfaces of a bridge whose other end is not there."""
    for one in interfaces_of(database, row):
        if one.type == "patch" and not _joined(one, by_name.get(one.options.get("peer", ""))):
            peer = one.options.get("peer") or "no peer"
            message = f"Patch {one.name} of bridge {row.name} leads nowhere: {peer} is not its peer"
            yield _finding(IssueCode.PATCH_PEER_MISSING, one.name, message, SETTLE)


def _joined(one: InterfaceRow, peer: InterfaceRow | None) -> bool:
    return peer is not None and peer.type == "patch" and peer.options.get("peer") == one.name


def _finding(code: IssueCode, object_: str, message: str, grace: timedelta) -> Finding:
    return Finding(code, object_, IssueSeverity.CRITICAL, message, grace)
