"""Bonds, from what is configured and what carries. Pure.

Which bonds there are, and of how many members, is read from their rows. ovs-vswitchd drops a bond
of which it could open fewer than two members from bond/show, and attaches the survivor as a plain
port: a bond that is missing there is broken, not gone. A member that the row shows without a link
carries nothing, whatever an older answer of bond/show has.

Source: ovs-vswitchd.conf.db(5), "Bonding Configuration"; ovs-vswitchd(8), bond/show; the kernel's
Documentation/networking/bonding.rst.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from hypercobalt.adapters.ovs.links import KernelBond
from hypercobalt.adapters.ovs.model import BondState, LacpStatus
from hypercobalt.adapters.ovs.rows import Database, InterfaceRow, PortRow
from hypercobalt.api.ovsnode import Bond, BridgeStatus, IssueSeverity
from hypercobalt.api.ovsnode_reasons import IssueCode
from hypercobalt.ovs_agent.facts import SwitchFacts
from hypercobalt.ovs_agent.rules.findings import Assessed, Finding

CODES: Final = frozenset(
    {
        IssueCode.BOND_DOWN,
        IssueCode.LACP_NOT_NEGOTIATED,
        IssueCode.MEMBER_MISSING,
        IssueCode.MEMBER_DOWN,
    }
)
DEFAULT_MODE: Final = "active-backup"

LACP_GRACE: Final = timedelta(seconds=35)
"""How long a partner may be silent: a slow one sends every 30 s, and negotiation begins again when
ovs-vswitchd starts."""

SETTLE: Final = timedelta(seconds=5)
"""How long ovs-vswitchd may take from a link that is up to a member that is enabled."""
_NO_PARTNER: Final = "00:00:00:00:00:00"

One = tuple[Bond, tuple[Finding, ...]]


def assess_bonds(facts: SwitchFacts) -> Assessed[tuple[Bond, ...]]:
    """Return every bond of Open vSwitch and of the kernel, by name, and what is wrong with them."""
    shown = facts.of_vswitchd(facts.bonds)
    states = {bond.name: bond for bond in shown or ()}
    database, remembered = facts.effective, facts.database.value
    found: list[One] = []
    measured = True
    if database is not None and shown is not None:
        found += [_of_switch(database, port, states) for port in _bonded(database)]
    else:
        found += [_unproven(name, states.get(name)) for name in _names(remembered, states)]
        measured = False
    if remembered is not None:
        kernel = facts.kernel_bonds.proven
        interfaces = {one.name for one in remembered.interfaces.values()}
        found += [_of_kernel(bond) for bond in kernel or () if bond.name in interfaces]
        measured = measured and kernel is not None
    bonds = {bond.name: (bond, findings) for bond, findings in found}
    return Assessed(
        tuple(bonds[name][0] for name in sorted(bonds)),
        tuple(finding for name in sorted(bonds) for finding in bonds[name][1]),
        frozenset() if measured else CODES,
    )


def _bonded(database: Database) -> list[PortRow]:
    return [port for port in database.ports.values() if len(port.interfaces) > 1]


def _names(remembered: Database | None, states: dict[str, BondState]) -> set[str]:
    return {port.name for port in _bonded(remembered)} if remembered else set(states)


def _unproven(name: str, state: BondState | None) -> One:
    """A bond without its rows: what bond/show proves is shown, and no more."""
    if state is None:
        return Bond(name=name, status=BridgeStatus.UNKNOWN), ()
    enabled = [member.enabled for member in state.members]
    if all(enabled):  # there may be members that could not be opened
        status = BridgeStatus.UNKNOWN
    else:
        status = BridgeStatus.DEGRADED if any(enabled) else BridgeStatus.DOWN
    return Bond(name=name, mode=state.mode, status=status, activeMembers=sum(enabled)), ()


def _of_switch(database: Database, port: PortRow, states: dict[str, BondState]) -> One:
    rows = _rows(database, port)
    state = states.get(port.name)
    active = [row for row in rows if _carries(row, state)]
    silent = _is_silent(port, state, rows)
    fallback = state is not None and state.fallback and silent
    count = len(port.interfaces)
    bond = Bond(
        name=port.name,
        mode=state.mode if state else port.bond_mode or DEFAULT_MODE,
        status=_status(len(active), count, silent),
        members=count,
        activeMembers=len(active),
    )
    return bond, tuple(_findings(port, rows, active, silent=silent, fallback=fallback))


def _rows(database: Database, port: PortRow) -> list[InterfaceRow]:
    return [database.interfaces[one] for one in port.interfaces if one in database.interfaces]


def _carries(row: InterfaceRow, state: BondState | None) -> bool:
    """Whether a member may carry traffic."""
    if (row.ofport or 0) <= 0 or not row.link_up or not row.admin_up:
        return False
    if state is None:  # the survivor of a bond that ovs-vswitchd dropped is a plain port
        return True
    return any(member.name == row.name and member.enabled for member in state.members)


def has_member_coming(facts: SwitchFacts) -> bool:
    """Whether bond/show has a member disabled whose rows show nothing that keeps it so.

    ovs-vswitchd enables a member a moment after it has written that its link is up and its partner
    speaks LACP; nothing is written then.
    """
    database, shown = facts.effective, facts.of_vswitchd(facts.bonds)
    if database is None or shown is None:
        return False
    disabled = {one.name for bond in shown for one in bond.members if not one.enabled}
    return any(
        row.name in disabled and row.link_up and (row.lacp_current or not wants_lacp(port))
        for port in _bonded(database)
        for row in _rows(database, port)
    )


def wants_lacp(port: PortRow) -> bool:
    """Whether a bond is to negotiate by LACP."""
    return port.lacp in ("active", "passive")


def _is_silent(port: PortRow, state: BondState | None, rows: list[InterfaceRow]) -> bool:
    """Whether LACP is wanted, links are up, and the partner sends nothing."""
    linked = [row for row in rows if row.link_up]
    if not wants_lacp(port) or not linked or state is None:
        return False
    return not _is_negotiated(state, rows)


def _is_negotiated(state: BondState | None, rows: list[InterfaceRow]) -> bool:
    # ovs-vswitchd shows `negotiated` before the first packet of the partner, too.
    received = any(row.lacp_current for row in rows if row.link_up)
    return received and state is not None and state.lacp is LacpStatus.NEGOTIATED


def lacp_negotiated(facts: SwitchFacts) -> dict[str, bool]:
    """Whether the partner answers, by name of each bond with LACP; without proof, none."""
    database, shown = facts.effective, facts.of_vswitchd(facts.bonds)
    if database is None or shown is None:
        return {}
    states = {bond.name: bond for bond in shown}
    found = {
        port.name: _is_negotiated(states.get(port.name), _rows(database, port))
        for port in _bonded(database)
        if wants_lacp(port)
    }
    names = {one.name for one in database.interfaces.values()}
    for bond in facts.kernel_bonds.proven or ():
        if bond.name in names and bond.partner is not None:
            found[bond.name] = bond.partner != _NO_PARTNER
    return found


def _status(active: int, count: int, silent: bool) -> BridgeStatus:
    if not active:
        return BridgeStatus.DOWN
    return BridgeStatus.DEGRADED if active < count or silent else BridgeStatus.ACTIVE


def _findings(
    port: PortRow,
    rows: list[InterfaceRow],
    active: list[InterfaceRow],
    *,
    silent: bool,
    fallback: bool,
) -> Iterator[Finding]:
    bond, names = port.name, {row.name for row in active}
    for row in rows:
        object_ = f"{bond}/{row.name}"
        if (row.ofport or 0) <= 0:
            cause = row.error or "ovs-vswitchd could not open its device"
            message = f"Member {row.name} of bond {bond} is missing: {cause}"
            yield _finding(IssueCode.MEMBER_MISSING, object_, message, bool(active))
        elif row.name not in names and not silent:
            cause = "no link" if not row.link_up else "disabled by ovs-vswitchd"
            message = f"Member {row.name} of bond {bond} carries nothing: {cause}"
            grace = SETTLE if row.link_up else timedelta()
            yield _finding(IssueCode.MEMBER_DOWN, object_, message, bool(active), grace)
    if silent:
        effect = "it runs as active-backup" if fallback else "it carries nothing"
        if active and not fallback:
            effect = "some of its members carry nothing"
        message = f"Bond {bond} has no LACP partner: {effect}; check the switch at the other end"
        yield _finding(IssueCode.LACP_NOT_NEGOTIATED, bond, message, bool(active), LACP_GRACE)
    elif not active:
        message = f"Bond {bond} is down: none of its {len(port.interfaces)} members carries traffic"
        grace = SETTLE if any(row.link_up for row in rows) else timedelta()
        yield _finding(IssueCode.BOND_DOWN, bond, message, False, grace)


def _of_kernel(bond: KernelBond) -> One:
    silent = bond.partner == _NO_PARTNER and any(member.up for member in bond.members)
    active = [
        member
        for member in bond.members
        if member.up and (bond.aggregator is None or member.aggregator == bond.aggregator)
    ]
    if silent:  # each member is an aggregate of its own then, and one of them carries
        active = active[:1]
    names = {member.name for member in active}
    findings = [
        _finding(
            IssueCode.MEMBER_DOWN,
            f"{bond.name}/{member.name}",
            f"Member {member.name} of bond {bond.name} carries nothing: "
            + ("not in the active aggregate" if member.up else "no link"),
            bool(active),
            SETTLE if member.up else timedelta(),
        )
        for member in bond.members
        if member.name not in names and not silent
    ]
    if silent:
        message = f"Bond {bond.name} has no LACP partner: one member carries at most"
        code = IssueCode.LACP_NOT_NEGOTIATED
        findings.append(_finding(code, bond.name, message, bool(active), LACP_GRACE))
    elif not active:
        message = f"Bond {bond.name} is down: none of its {len(bond.members)} members is up"
        findings.append(_finding(IssueCode.BOND_DOWN, bond.name, message, False))
    shown = Bond(
        name=bond.name,
        mode=bond.mode,
        status=_status(len(active), len(bond.members), silent),
        members=len(bond.members),
        activeMembers=len(active),
    )
    return shown, tuple(findings)


def _finding(
    code: IssueCode, object_: str, message: str, carries: bool, grace: timedelta = timedelta()
) -> Finding:
    severity = IssueSeverity.WARNING if carries else IssueSeverity.CRITICAL
    return Finding(code, object_, severity, message, grace)
