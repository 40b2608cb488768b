"""Issues: findings that have lasted, under a stable identity, with when they began. Pure.

An issue is the same as long as its code and object are. One that cannot be measured now stays as it
is: ovs-vswitchd's restart is no cure. After a restart of the agent the stored ones are taken over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Final

from hypercobalt.api.ovsnode import MOST_ISSUES, Issue, IssueSeverity
from hypercobalt.api.ovsnode_reasons import IssueCode
from hypercobalt.ovs_agent.rules.evidence import proven_until
from hypercobalt.ovs_agent.rules.findings import Finding, bounded

OBSERVATIONS: Final = 2
"""How often a finding with a grace must be found."""

Identity = tuple[IssueCode, str]

_RANK: Final = {IssueSeverity.CRITICAL: 0, IssueSeverity.WARNING: 1, IssueSeverity.INFO: 2}


@dataclass(frozen=True, slots=True)
class Tracked:
    """A finding over time.

    Args:
        finding: as last found.
        detected_at: when it was first found, UTC.
        first: the same in seconds of the monotonic clock.
        count: how often it was found in a row.
        is_issue: whether it has lasted for its grace.
    """

    finding: Finding
    detected_at: datetime
    first: float
    count: int = 1
    is_issue: bool = False


Ledger = Mapping[Identity, Tracked]


def follow(
    ledger: Ledger,
    findings: Iterable[Finding],
    unmeasured: Collection[IssueCode],
    *,
    now: datetime,
    monotonic: float,
    read_at: Mapping[str, float] = MappingProxyType({}),
) -> Ledger:
    """The ledger after one more look.

    Args:
        ledger: before.
        findings: of this look; of two with one identity the first counts.
        unmeasured: codes that this pass could not observe.
        now: wall clock, UTC.
        monotonic: seconds.
        read_at: when the last answer of each probe was begun, by its name.
    """
    found = {
        identity: tracked
        for identity, tracked in ledger.items()
        if identity[0] in unmeasured and tracked.is_issue
    }
    seen: set[Identity] = set()
    for finding in map(bounded, findings):
        identity = (finding.code, finding.object)
        if identity in seen:
            continue
        seen.add(identity)
        known = ledger.get(identity)
        if known is None:
            known = Tracked(finding, now, monotonic, 0)
        proven = proven_until(finding.code, read_at, monotonic)
        found[identity] = _again(replace(known, finding=finding), proven)
    return found


def _again(tracked: Tracked, proven: float) -> Tracked:
    grace = tracked.finding.grace.total_seconds()
    count = min(tracked.count + 1, OBSERVATIONS)
    lasted = not grace or (count >= OBSERVATIONS and proven - tracked.first >= grace)
    return replace(tracked, count=count, is_issue=tracked.is_issue or lasted)


def adopt(ledger: Ledger, stored: Iterable[Issue], *, now: datetime) -> Ledger:
    """The ledger with the issues of the stored status, which were issues before this process."""
    known_codes = {code.value: code for code in IssueCode}
    found = dict(ledger)
    for issue in stored:
        code = known_codes.get(issue.code or "")
        if code is None:
            continue
        identity = (code, issue.object or "")
        detected_at = issue.detectedAt or now
        mine = found.get(identity)
        if mine is None:
            finding = Finding(code, issue.object or "", _severity(issue.severity), issue.message)
            found[identity] = Tracked(finding, detected_at, float("-inf"), is_issue=True)
        else:
            detected_at = min(detected_at, mine.detected_at)
            found[identity] = replace(mine, detected_at=detected_at, is_issue=True)
    return found


def issues_of(ledger: Ledger) -> tuple[Tracked, ...]:
    """What is an issue: the worst first, then the oldest."""
    found = [tracked for tracked in ledger.values() if tracked.is_issue]
    return tuple(sorted(found, key=_order))


def young(ledger: Ledger) -> tuple[Tracked, ...]:
    """What has been found and is no issue yet."""
    return tuple(tracked for tracked in ledger.values() if not tracked.is_issue)


def due_in(ledger: Ledger, monotonic: float) -> float:
    """Seconds until the first young finding may have lasted; infinite without any."""
    waits = (one.first + one.finding.grace.total_seconds() - monotonic for one in young(ledger))
    return max(0.0, min(waits, default=float("inf")))


def listed(ledger: Ledger) -> tuple[tuple[Issue, ...], int]:
    """Issues for the status, as many as it has room for, and how many there are."""
    found = issues_of(ledger)
    return tuple(_issue(tracked) for tracked in found[:MOST_ISSUES]), len(found)


def changes(before: Ledger, after: Ledger) -> tuple[tuple[Tracked, ...], tuple[Tracked, ...]]:
    """The issues that have appeared, and those that have disappeared."""
    old = {identity for identity, tracked in before.items() if tracked.is_issue}
    new = {identity for identity, tracked in after.items() if tracked.is_issue}
    return (
        tuple(tracked for tracked in issues_of(after) if _identity(tracked) in new - old),
        tuple(tracked for tracked in issues_of(before) if _identity(tracked) in old - new),
    )


def _identity(tracked: Tracked) -> Identity:
    return (tracked.finding.code, tracked.finding.object)


def _order(tracked: Tracked) -> tuple[int, datetime, str, str]:
    finding = tracked.finding
    return (_RANK[finding.severity], tracked.detected_at, finding.code, finding.object)


def _issue(tracked: Tracked) -> Issue:
    finding = tracked.finding
    return Issue(
        severity=finding.severity,
        message=finding.message,
        detectedAt=tracked.detected_at,
        code=finding.code,
        object=finding.object,
    )


def _severity(text: str) -> IssueSeverity:
    return next((one for one in IssueSeverity if one == text), IssueSeverity.WARNING)
