"""Whether ovsdb-server and ovs-vswitchd answer, what they are, and who manages them. Pure.

A manager that ovsdb-server is to connect to should be connected. One that it listens for (`ptcp:`,
`pssl:`, `punix:`) has no connection while no client connects.

Source: Open vSwitch, ovs-vswitchd.conf.db(5), `cur_cfg`, `next_cfg` and table Manager.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from hypercobalt.adapters.ovs.rows import Database
from hypercobalt.api.ovsnode import IssueSeverity
from hypercobalt.api.ovsnode_reasons import IssueCode
from hypercobalt.ovs_agent.facts import SwitchFacts
from hypercobalt.ovs_agent.rules.findings import Assessed, Finding

LAG_GRACE: Final = timedelta(seconds=30)
"""How long ovs-vswitchd may take to put a configuration into effect."""


MANAGER_GRACE: Final = timedelta(seconds=60)
"""How long a manager may be without a connection; ovsdb-server tries again each 8 s."""

_ACTIVE: Final = ("ssl:", "tcp:")


def assess_daemons(facts: SwitchFacts) -> Assessed[None]:
    """Find daemons that do not answer, that lag, are of another version, or lost their manager."""
    findings: list[Finding] = []
    unmeasured: set[IssueCode] = set()
    if facts.database.is_down:
        message = f"ovsdb-server does not answer: {facts.database.message}{_effect(facts)}"
        findings.append(_critical(IssueCode.OVSDB_DISCONNECTED, "ovsdb-server", message))
    elif facts.database.value is None:
        unmeasured.add(IssueCode.OVSDB_DISCONNECTED)
    if facts.vswitchd.is_down:
        message = f"ovs-vswitchd does not answer: {facts.vswitchd.message}"
        findings.append(_critical(IssueCode.VSWITCHD_NOT_RESPONDING, "ovs-vswitchd", message))
    elif facts.vswitchd.value is None:
        unmeasured.add(IssueCode.VSWITCHD_NOT_RESPONDING)
    if facts.rows is None:
        unmeasured.add(IssueCode.MANAGER_DISCONNECTED)
    else:
        findings += _managers(facts.rows)
    database, daemon = facts.effective, facts.vswitchd.proven
    if database is None or daemon is None:
        unmeasured |= {IssueCode.CONFIG_LAG, IssueCode.VERSION_SKEW}
        return Assessed(None, tuple(findings), frozenset(unmeasured))
    switch = database.switch
    if switch.cur_cfg < switch.next_cfg:
        message = (
            f"ovs-vswitchd has not put the configuration into effect for "
            f"{LAG_GRACE.seconds} s: cur_cfg is behind next_cfg"
        )
        findings.append(_critical(IssueCode.CONFIG_LAG, "ovs-vswitchd", message, LAG_GRACE))
    if switch.ovs_version and daemon.version and switch.ovs_version != daemon.version:
        message = (
            f"ovs-vswitchd {daemon.version} runs, {switch.ovs_version} is installed; restart "
            "ovs-vswitchd"
        )
        findings.append(
            Finding(IssueCode.VERSION_SKEW, "ovs-vswitchd", IssueSeverity.WARNING, message)
        )
    return Assessed(None, tuple(findings), frozenset(unmeasured))


def _effect(facts: SwitchFacts) -> str:
    """What ovs-vswitchd does not do while ovsdb-server does not run."""
    if not facts.is_idle or facts.vswitchd.proven is None:
        return ""
    return "; until ovsdb-server runs, ovs-vswitchd takes no flow and no bond fails over"


def _managers(database: Database) -> Iterator[Finding]:
    """Managers that ovsdb-server has no connection to."""
    for row in sorted(database.managers.values(), key=lambda one: one.target):
        if row.target.startswith(_ACTIVE) and not row.is_connected:
            message = (
                f"ovsdb-server is not connected to its manager {row.target}; check the manager, or "
                "remove it with `ovs-vsctl del-manager`"
            )
            yield Finding(
                IssueCode.MANAGER_DISCONNECTED,
                row.target,
                IssueSeverity.WARNING,
                message,
                MANAGER_GRACE,
            )


def _critical(
    code: IssueCode, object_: str, message: str, grace: timedelta = timedelta()
) -> Finding:
    return Finding(code, object_, IssueSeverity.CRITICAL, message, grace)
