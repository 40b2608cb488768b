"""When an assertion that a host is dead counts, and what disproves it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from hypercobalt.api.fencing import ASSERTED_DEAD, OUT_OF_SERVICE, Assertion
from hypercobalt.ha.host_failure.assertions import LastReports, counts, is_removable, recorded

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
LATER = NOW + timedelta(seconds=10)
BY = f"{ASSERTED_DEAD}=b1"
FIRST, NOTHING = LastReports("12:00", NOW), LastReports("", None)
SEEN = Assertion(by=BY, seenAt=NOW, leaseRenewedAt="12:00", nodeReportedAt=NOW)


def test_assertion_is_recorded_with_the_last_reports_of_the_host() -> None:
    at = NOW + timedelta(microseconds=5)
    assert recorded(None, BY, FIRST, at) == SEEN
    assert recorded(SEEN, BY, FIRST, LATER) == SEEN
    assert recorded(SEEN, "", FIRST, LATER) is None


@pytest.mark.parametrize(
    ("before", "now", "disproved"),
    [
        pytest.param(FIRST, FIRST, False, id="nothing since"),
        pytest.param(FIRST, LastReports("12:10", NOW), True, id="the agent renewed its Lease"),
        pytest.param(FIRST, LastReports("12:00", LATER), True, id="the kubelet reported"),
        pytest.param(NOTHING, NOTHING, False, id="nothing ever"),
        pytest.param(NOTHING, LastReports("12:00", None), True, id="the first renewal"),
        pytest.param(NOTHING, LastReports("", NOW), True, id="the first report"),
        pytest.param(FIRST, LastReports("", NOW), False, id="its Lease was deleted"),
        pytest.param(FIRST, LastReports(None, NOW), False, id="its Lease is not known any more"),
        pytest.param(FIRST, LastReports("12:00", None), False, id="its Node is Unknown"),
        pytest.param(LastReports(None, NOW), FIRST, False, id="its Lease was not known yet"),
    ],
)
def test_later_report_disproves_an_assertion(
    before: LastReports, now: LastReports, disproved: bool
) -> None:
    record = recorded(recorded(None, BY, before, NOW), BY, now, LATER)
    assert record is not None
    assert bool(record.disproved) is disproved
    assert recorded(record, BY, before, LATER) == record, "whatever the host reports later"


def test_lease_that_becomes_known_is_compared_from_then_on() -> None:
    record = recorded(recorded(None, BY, LastReports(None, NOW), NOW), BY, FIRST, LATER)
    assert record == SEEN
    renewed = recorded(record, BY, LastReports("12:10", NOW), LATER)
    assert renewed is not None
    assert renewed.disproved


def test_another_assertion_replaces_the_record() -> None:
    wrong = replace(SEEN, disproved=True)
    found = recorded(wrong, f"{ASSERTED_DEAD}=b2", FIRST, NOW)
    assert found == replace(SEEN, by=f"{ASSERTED_DEAD}=b2")


@pytest.mark.parametrize(
    ("stored", "present", "expected"),
    [
        pytest.param(SEEN, SEEN, True, id="recorded"),
        pytest.param(None, SEEN, False, id="not recorded yet"),
        pytest.param(SEEN, None, False, id="taken away"),
        pytest.param(SEEN, replace(SEEN, by="another"), False, id="another one is recorded"),
        pytest.param(SEEN, replace(SEEN, disproved=True), False, id="disproved"),
    ],
)
def test_assertion_counts_once_it_is_recorded_and_until_it_is_disproved(
    stored: Assertion | None, present: Assertion | None, *, expected: bool
) -> None:
    assert counts(stored, present) is expected


def test_operator_removes_its_annotation_and_not_a_taint() -> None:
    assert is_removable(SEEN)
    assert not is_removable(Assertion(by=f"{OUT_OF_SERVICE}=nodeshutdown:NoExecute"))
