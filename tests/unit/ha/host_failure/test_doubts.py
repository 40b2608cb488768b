"""Later reports of a host that contradict the proof of its death."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from hypercobalt.api.fencing import Fencing, FencingMethod, FencingPhase, is_ordered
from hypercobalt.ha.host_failure.doubts import LatestReports, PowerReport, doubts
from hypercobalt.ha.host_failure.fencing_record import (
    is_overtaken,
    overtaken,
    released,
    reordered,
    void,
)

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
PROOF = Fencing(
    phase=FencingPhase.FENCED, bootID="b1", method=FencingMethod.BMC, device="bmc",
    startedAt=NOW, leaseRenewedAt="12:00", forcedDownAt=NOW,
)  # fmt: skip
BOTH = replace(PROOF, nodeBootID="b2")
BY_STORAGE = replace(PROOF, method=FencingMethod.STORAGE, device="san")
BY_AGENT = replace(PROOF, method=FencingMethod.AGENT)
KNOWN = LatestReports("b1", "12:00", agent=False)


@pytest.mark.parametrize(
    ("proof", "latest", "found"),
    [
        pytest.param(PROOF, KNOWN, (), id="nothing new"),
        pytest.param(PROOF, LatestReports(agent=False), (), id="the Node and the Lease are gone"),
        pytest.param(
            PROOF,
            LatestReports("b2", "12:00"),
            ("the kubelet has reported boot b2",),
            id="another boot",
        ),
        pytest.param(BOTH, LatestReports("b2", "12:00"), (), id="which the proof is about as well"),
        pytest.param(
            BOTH,
            LatestReports("b3", "12:00"),
            ("the kubelet has reported boot b3",),
            id="a third boot",
        ),
        pytest.param(
            PROOF,
            LatestReports("b1", "12:01"),
            ("the node agent renewed its Lease at 12:01",),
            id="a renewed Lease",
        ),
        pytest.param(
            replace(PROOF, leaseRenewedAt=None),
            LatestReports("b1", "12:01"),
            (),
            id="no Lease was read",
        ),
        pytest.param(
            replace(PROOF, leaseRenewedAt=""),
            LatestReports("b1", "12:01"),
            ("the node agent renewed its Lease at 12:01",),
            id="there was no Lease",
        ),
        pytest.param(
            PROOF,
            LatestReports("b1", "12:00", PowerReport.ON),
            ("bmc reports its power as on",),
            id="its power is on",
        ),
        pytest.param(
            PROOF, LatestReports("b1", "12:00", PowerReport.UNKNOWN), (), id="its power is unknown"
        ),
        pytest.param(
            BY_STORAGE,
            LatestReports("b1", "12:00", PowerReport.ON),
            ("san reports that it reaches its storage again",),
            id="it reaches its storage",
        ),
        pytest.param(
            BY_STORAGE,
            LatestReports("b1", "12:01"),
            ("the node agent renewed its Lease at 12:01",),
            id="it lives behind its storage fence",
        ),
        pytest.param(
            BY_AGENT, LatestReports("b1", "12:01"), (), id="the agent that has ended all lives"
        ),
        pytest.param(
            BY_AGENT,
            LatestReports("b1", "12:00", agent=False),
            ("the node agent that has ended every instance no longer renews its Lease",),
            id="or does not",
        ),
    ],
)
def test_later_report_contradicts_a_proof_of_death(
    proof: Fencing, latest: LatestReports, found: tuple[str, ...]
) -> None:
    assert doubts(proof, latest) == found


@pytest.mark.parametrize("later", [timedelta(0), timedelta(hours=-1), timedelta(minutes=1)])
def test_report_of_ended_instances_counts_for_one_order(later: timedelta) -> None:
    """Also when the next one is given within the same second, or after a step of the clock."""
    orders = {PROOF.startedAt}
    record = PROOF
    for _ in range(3):
        record = overtaken(record, ("it lives",), NOW + later)
        orders.add(record.startedAt)
        record = reordered(record, NOW + later)
        orders.add(record.startedAt)
    assert len(orders) == 7


def test_agents_of_both_boots_end_their_instances() -> None:
    ordered = {boot: is_ordered(BOTH, boot) for boot in ("", "b1", "b2", "b3")}
    assert ordered == {"": False, "b1": True, "b2": True, "b3": False}


LIVES = overtaken(PROOF, ("it lives",), NOW)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(PROOF, LIVES, True, id="it lives"),
        pytest.param(PROOF, void(PROOF, ("it lives",), NOW), True, id="void"),
        pytest.param(PROOF, PROOF, False, id="it is dead"),
        pytest.param(LIVES, LIVES, False, id="known"),
        pytest.param(PROOF, released(PROOF, "b2"), False, id="taken back"),
        pytest.param(None, PROOF, False, id="just proven"),
        pytest.param(PROOF, None, False, id="gone"),
    ],
)
def test_proof_is_overtaken_by_a_sign_of_life(
    before: Fencing | None, after: Fencing | None, expected: bool
) -> None:
    assert is_overtaken(before, after) is expected


def test_power_that_is_on_again_is_dated() -> None:
    assert overtaken(PROOF, ("on",), NOW, powered=True).poweredSince == NOW
    assert overtaken(PROOF, ("Ready",), NOW).poweredSince is None
