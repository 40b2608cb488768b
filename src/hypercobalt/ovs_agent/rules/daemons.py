"""Whether ovsdb-server and ovs-vswitchd answer, and what they are. Pure.

Source: Open vSwitch, ovs-vswitchd.conf.db(5), `cur_cfg` and `next_cfg`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from hypercobalt.api.ovsnode import IssueSeverity
from hypercobalt.api.ovsnode_reasons import IssueCode
from hypercobalt.ovs_agent.facts import Facts
from hypercobalt.ovs_agent.rules.findings import Assessed, Finding

LAG_GRACE: Final = timedelta(seconds=30)
"""How long ovs-vswitchd may take to put a configuration into effect."""


def assess_daemons(facts: Facts) -> Assessed[None]:
    """Find daemons that do not answer, that lag, or that are of another version."""
    findings: list[Finding] = []
    unmeasured: set[IssueCode] = set()
    if facts.database.is_down:
        message = f"ovsdb-server does not answer: {facts.database.message}"
        findings.append(_critical(IssueCode.OVSDB_DISCONNECTED, "ovsdb-server", message))
    elif facts.database.value is None:
        unmeasured.add(IssueCode.OVSDB_DISCONNECTED)
    if facts.vswitchd.is_down:
        message = f"ovs-vswitchd does not answer: {facts.vswitchd.message}"
        findings.append(_critical(IssueCode.VSWITCHD_NOT_RESPONDING, "ovs-vswitchd", message))
    elif facts.vswitchd.value is None:
        unmeasured.add(IssueCode.VSWITCHD_NOT_RESPONDING)
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


def _critical(
    code: IssueCode, object_: str, message: str, grace: timedelta = timedelta()
) -> Finding:
    return Finding(code, object_, IssueSeverity.CRITICAL, message, grace)
