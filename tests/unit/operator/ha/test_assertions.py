"""Which signs of life disprove an assertion that a host is dead."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from hypercobalt.api.core import Node, NodeCondition, NodeStatus
from hypercobalt.operator.ha.assertions import Assertions, Heard, heartbeat

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
LATER = NOW + timedelta(seconds=10)
FIRST = Heard("12:00", NOW)
NOTHING = Heard("", None)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        pytest.param(FIRST, FIRST, "", id="nothing since"),
        pytest.param(
            FIRST, Heard("12:10", NOW), "the node agent renewed its Lease at 12:10", id="agent"
        ),
        pytest.param(
            FIRST, Heard("12:00", LATER), "the kubelet reported at 12:00:10Z", id="kubelet"
        ),
        pytest.param(NOTHING, NOTHING, "", id="nothing ever"),
        pytest.param(
            NOTHING,
            Heard("12:00", None),
            "the node agent renewed its Lease at 12:00",
            id="its first renewal",
        ),
        pytest.param(
            NOTHING, Heard("", NOW), "the kubelet reported at 12:00:00Z", id="its first report"
        ),
        pytest.param(FIRST, Heard("", NOW), "", id="its Lease was deleted"),
        pytest.param(FIRST, Heard(None, NOW), "", id="its Lease is not known any more"),
        pytest.param(FIRST, Heard("12:00", None), "", id="its Node is Unknown"),
        pytest.param(Heard(None, NOW), FIRST, "", id="its Lease was not known yet"),
    ],
)
def test_what_is_sent_after_an_assertion_disproves_it(
    before: Heard, now: Heard, expected: str
) -> None:
    seen = Assertions()
    assert seen.disproof("kvm-a", "asserted", before) == ""
    assert seen.disproof("kvm-b", "asserted", FIRST) == "", "of another host"
    assert seen.disproof("kvm-a", "asserted", now) == expected
    assert seen.disproof("kvm-a", "asserted", now) == expected, "until it was removed"


def test_lease_that_becomes_known_is_compared_from_then_on() -> None:
    seen = Assertions()
    assert not seen.disproof("kvm-a", "asserted", Heard(None, NOW))
    assert not seen.disproof("kvm-a", "asserted", FIRST)
    assert seen.disproof("kvm-a", "asserted", Heard("12:10", NOW))


def test_assertion_that_is_made_again_is_new() -> None:
    seen = Assertions()
    seen.disproof("kvm-a", "asserted", FIRST)
    since = Heard("12:10", LATER)
    assert seen.disproof("kvm-a", "asserted", since)
    assert not seen.disproof("kvm-a", "asserted of another boot", since)
    assert not seen.disproof("kvm-a", "", since)
    assert not seen.disproof("kvm-a", "asserted of another boot", Heard("12:20", LATER))


@pytest.mark.parametrize(("status", "expected"), [("True", NOW), ("False", NOW), ("Unknown", None)])
def test_unknown_is_not_what_the_kubelet_reports(status: str, expected: datetime | None) -> None:
    other = NodeCondition("DiskPressure", "False", lastHeartbeatTime=LATER)
    ready = NodeCondition("Ready", status, lastHeartbeatTime=NOW)
    assert heartbeat(Node(status=NodeStatus(conditions=(other, ready)))) == expected
    assert heartbeat(Node()) is None
