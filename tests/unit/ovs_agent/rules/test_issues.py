"""Issues over time: identity, grace, first sight, order, and what comes back after a restart."""

from __future__ import annotations

from datetime import timedelta

from tests.unit.ovs_agent.switches import NOW, later

from hypercobalt.api.ovsnode import Issue, IssueSeverity
from hypercobalt.api.ovsnode_reasons import IssueCode
from hypercobalt.ovs_agent.rules.findings import Finding
from hypercobalt.ovs_agent.rules.issues import (
    Ledger,
    adopt,
    changes,
    due_in,
    follow,
    issues_of,
    listed,
)

MINUTE = timedelta(seconds=60)


def finding(
    object_: str = "tap1",
    code: IssueCode = IssueCode.PORT_ERROR,
    *,
    grace: timedelta = timedelta(),
    severity: IssueSeverity = IssueSeverity.WARNING,
    message: str = "broken",
) -> Finding:
    return Finding(code, object_, severity, message, grace)


def look(
    ledger: Ledger, *findings: Finding, at: float = 0.0, unmeasured: tuple[IssueCode, ...] = ()
) -> Ledger:
    return follow(ledger, findings, unmeasured, now=later(at), monotonic=at)


def objects(ledger: Ledger) -> list[str]:
    return [one.finding.object for one in issues_of(ledger)]


def test_finding_without_grace_is_an_issue_at_once() -> None:
    assert objects(look({}, finding())) == ["tap1"]


def test_finding_with_grace_is_an_issue_once_it_has_lasted() -> None:
    one = finding(grace=MINUTE)
    ledger = look({}, one, at=0)
    assert objects(ledger) == []
    ledger = look(ledger, one, at=59)
    assert objects(ledger) == []
    ledger = look(ledger, one, at=60)
    assert objects(ledger) == ["tap1"]
    assert listed(ledger)[0][0].detectedAt == NOW


def test_next_look_is_due_when_the_first_finding_has_lasted() -> None:
    assert due_in({}, 0.0) == float("inf")
    ledger = look({}, finding(grace=MINUTE), finding("tap2", grace=10 * MINUTE), at=0)
    assert due_in(ledger, 20.0) == 40.0
    assert due_in(ledger, 90.0) == 0.0
    found = look(ledger, finding(grace=MINUTE), finding("tap2", grace=10 * MINUTE), at=60)
    assert (objects(found), due_in(found, 60.0)) == (["tap1"], 540.0)


def test_one_look_is_not_enough_however_long_ago_the_last_was() -> None:
    one = finding(grace=MINUTE)
    assert objects(look(look({}, at=0), one, at=600)) == []


def test_finding_that_comes_and_goes_starts_again() -> None:
    one = finding(grace=MINUTE)
    ledger = look(look(look({}, one, at=0), at=30), one, at=31)
    assert objects(look(ledger, one, at=61)) == []


def test_issue_keeps_when_it_was_first_found_though_its_message_changes() -> None:
    ledger = look(look({}, finding(), at=0), finding(message="worse"), at=100)
    ((issue,), total) = listed(ledger)
    assert (issue.message, issue.detectedAt, total) == ("worse", NOW, 1)


def test_issue_is_over_at_the_first_look_without_it() -> None:
    assert look(look({}, finding()), at=1) == {}


def test_issue_that_cannot_be_measured_stays_as_it_is() -> None:
    ledger = look({}, finding())
    ledger = look(ledger, at=500, unmeasured=(IssueCode.PORT_ERROR,))
    assert listed(ledger)[0][0].detectedAt == NOW


def test_finding_within_its_grace_does_not_ripen_unmeasured() -> None:
    ledger = look({}, finding(grace=MINUTE))
    ledger = look(ledger, at=30, unmeasured=(IssueCode.PORT_ERROR,))
    assert objects(look(ledger, finding(grace=MINUTE), at=61)) == []


def test_stored_issue_keeps_its_first_sight_over_a_restart() -> None:
    before = look({}, finding(grace=MINUTE), at=0)
    stored = listed(look(before, finding(grace=MINUTE), at=70))[0]
    ledger = adopt(look({}, finding(grace=MINUTE), at=200), stored, now=later(200))
    ledger = look(ledger, finding(grace=MINUTE), at=201)
    ((issue,), _) = listed(ledger)
    assert issue.detectedAt == NOW


def test_stored_issue_stays_until_it_is_measured_and_then_goes_with_news() -> None:
    stored = (Issue(severity="Warning", message="m", detectedAt=NOW, code="PortError", object="a"),)
    ledger = adopt({}, stored, now=later(5))
    waiting = look(ledger, unmeasured=(IssueCode.PORT_ERROR,), at=6)
    assert objects(waiting) == ["a"]
    gone = look(waiting, at=7)
    appeared, disappeared = changes(waiting, gone)
    assert (len(appeared), [one.finding.object for one in disappeared]) == (0, ["a"])


def test_stored_issues_of_another_version_are_dropped() -> None:
    stored = (
        Issue(severity="Warning", message="m"),
        Issue(severity="Odd", message="m", code="FromTheFuture", object="x"),
    )
    assert adopt({}, stored, now=NOW) == {}


def test_changes_name_what_appeared_and_what_disappeared() -> None:
    before = look({}, finding("a"), finding("b"))
    after = look(before, finding("b"), finding("c"), finding("d", grace=MINUTE))
    appeared, disappeared = changes(before, after)
    assert [one.finding.object for one in appeared] == ["c"]
    assert [one.finding.object for one in disappeared] == ["a"]


def test_issues_are_sorted_by_severity_then_age() -> None:
    ledger = look({}, finding("old"), at=0)
    ledger = look(
        ledger,
        finding("old"),
        finding("info", severity=IssueSeverity.INFO),
        finding("bad", severity=IssueSeverity.CRITICAL),
        finding("new"),
        at=10,
    )
    assert objects(ledger) == ["bad", "old", "new", "info"]


def test_status_has_room_for_fifty_and_the_number_of_all() -> None:
    ledger = look({}, *(finding(f"tap{number}") for number in range(60)))
    shown, total = listed(ledger)
    assert (len(shown), total) == (50, 60)


def test_two_findings_of_one_identity_are_one_issue() -> None:
    (issue,), total = listed(look({}, finding(message="first"), finding(message="second")))
    assert (issue.message, total) == ("first", 1)
