"""Mirrors without a reader. Pure.

A tool that captures by a mirror and is killed leaves it. What shows that: the ports that it copies,
or the one that it copies to, are removed; or the time is over that a capture of an agent had. The
agent of the host removes the latter by itself, unless another Node's name made it.

Source: ovs-vswitchd.conf.db(5), table Mirror.
"""

from __future__ import annotations

import shlex
from datetime import datetime, timedelta
from typing import Final

from hypercobalt.adapters.ovs.mirror_tags import expiry_of
from hypercobalt.adapters.ovs.rows import MirrorRow
from hypercobalt.api.ovsnode import IssueSeverity
from hypercobalt.api.ovsnode_reasons import IssueCode
from hypercobalt.ovs_agent.facts import SwitchFacts
from hypercobalt.ovs_agent.rules.findings import Assessed, Finding

GRACE: Final = timedelta(seconds=60)
"""How long a mirror may be without its ports, or beyond its time."""


def assess_mirrors(facts: SwitchFacts, now: datetime) -> Assessed[None]:
    """Find mirrors that are left over.

    Args:
        facts: of now; rows alone show a mirror.
        now: wall clock, UTC.
    """
    rows = facts.rows
    if rows is None:
        return Assessed(None, unmeasured=frozenset({IssueCode.MIRROR_LEFT_OVER}))
    findings = [
        _finding(mirror, bridge.name, cause)
        for bridge in sorted(rows.bridges.values(), key=lambda one: one.name)
        for uuid in bridge.mirrors
        if (mirror := rows.mirrors.get(uuid)) is not None and (cause := _cause(mirror, now))
    ]
    return Assessed(None, tuple(findings))


def _cause(mirror: MirrorRow, now: datetime) -> str:
    """Why a mirror is left over; "" if nothing shows that it is."""
    if mirror.output_port is None and mirror.output_vlan is None:
        return "no port that it copies to is there"
    if not (mirror.select_all or mirror.select_src_port or mirror.select_dst_port):
        return "no port that it copies is there"
    expires = expiry_of(mirror.external_ids)
    if expires is not None and expires < now.timestamp():
        return "it still copies packets, and the time of its capture is over"
    return ""


def _finding(mirror: MirrorRow, bridge: str, cause: str) -> Finding:
    message = (
        f"Mirror {mirror.name} of bridge {bridge} is left over: {cause}; remove it with "
        f"`ovs-vsctl remove bridge {shlex.quote(bridge)} mirrors {mirror.uuid}`"
    )
    return Finding(IssueCode.MIRROR_LEFT_OVER, mirror.name, IssueSeverity.WARNING, message, GRACE)
