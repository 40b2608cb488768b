"""What a host's signs mean."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from hypercobalt.api.incident import PeerReport
from hypercobalt.ha.node_failure import (
    Agent,
    Alive,
    Contradicted,
    Dead,
    HostVerdict,
    Question,
    RebootGrace,
    Returned,
    Signs,
    Suspected,
    Waits,
    Well,
    judge,
)

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
WAITS = Waits()
LONG_AGO = NOW - timedelta(hours=1)
ASKED = Question(NOW - timedelta(minutes=1))
SILENT = Signs("Unknown", "b1", "b1", Agent.SILENT, False, unhealthy_since=LONG_AGO, question=ASKED)
WELL = Signs("True", "b1", "b1", Agent.ALIVE, True)


def asked(*answers: bool, of: int = 0, ago: timedelta = timedelta(seconds=1)) -> Question:
    peers = tuple(f"p{number}" for number in range(of or len(answers)))
    reports = tuple(
        PeerReport(host="kvm-a", answers=one, evidence="libvirt said 9.0.0") for one in answers
    )
    return Question(NOW - ago, peers, reports)


@pytest.mark.parametrize(
    ("signs", "verdict"),
    [
        pytest.param(WELL, Well, id="ready"),
        pytest.param(replace(WELL, agent=Agent.SILENT), Well, id="ready without an agent"),
        pytest.param(replace(SILENT, ready=""), Well, id="no kubelet has ever reported"),
        pytest.param(replace(SILENT, ready="False"), Alive, id="a living kubelet reports False"),
        pytest.param(replace(SILENT, agent=Agent.ALIVE), Alive, id="unknown with a fresh Lease"),
        pytest.param(replace(SILENT, compute=True), Alive, id="unknown, libvirt answers"),
        pytest.param(
            replace(SILENT, question=asked(False, True)), Alive, id="one peer reaches a program"
        ),
        pytest.param(replace(SILENT, question=None), Suspected, id="peers were not asked yet"),
        pytest.param(replace(SILENT, compute=None), Suspected, id="compute service not read"),
        pytest.param(
            replace(SILENT, agent=Agent.UNKNOWN), Suspected, id="Lease not watched for long enough"
        ),
        pytest.param(
            replace(SILENT, unhealthy_since=NOW - timedelta(seconds=59)), Suspected, id="too soon"
        ),
        pytest.param(
            replace(SILENT, question=asked(False, of=2)), Suspected, id="a peer has not answered"
        ),
        pytest.param(
            replace(SILENT, question=asked(False, of=2, ago=WAITS.peers)),
            Dead,
            id="a peer has not answered in time",
        ),
        pytest.param(replace(SILENT, question=asked(False, False)), Dead, id="no peer reaches it"),
        pytest.param(SILENT, Dead, id="silent all round"),
        pytest.param(
            replace(SILENT, leaving=True, unhealthy_since=NOW - timedelta(minutes=9)),
            RebootGrace,
            id="it was shutting down",
        ),
        pytest.param(replace(SILENT, leaving=True), Dead, id="it has not come back in time"),
        pytest.param(replace(SILENT, agent=Agent.RELEASED), Dead, id="a released Lease is no life"),
        pytest.param(replace(SILENT, fenced="b1"), Dead, id="fenced, and silent"),
        pytest.param(replace(WELL, fenced="b0"), Returned, id="back with another boot"),
        pytest.param(
            replace(WELL, fenced="b0", agent=Agent.SILENT), Well, id="back, agent not yet"
        ),
        pytest.param(replace(WELL, fenced="b1"), Contradicted, id="the fenced boot is Ready"),
        pytest.param(
            replace(SILENT, fenced="b1", agent=Agent.ALIVE),
            Contradicted,
            id="the fenced boot's agent renews its Lease",
        ),
        pytest.param(
            replace(WELL, fenced="b1", node_boot="b2"),
            Well,
            id="the agent of another boot has its Lease and has not reported yet",
        ),
    ],
)
def test_signs_mean(signs: Signs, verdict: type[HostVerdict]) -> None:
    assert type(judge(signs, WAITS, NOW)) is verdict


def test_wait_counts_from_the_stored_time_whatever_the_node_was_in_between() -> None:
    since = NOW - timedelta(seconds=50)
    for ready in ("False", "Unknown"):
        found = judge(replace(SILENT, ready=ready, unhealthy_since=since), WAITS, NOW)
        assert isinstance(found, Alive | Suspected)
        assert found.until == since + (WAITS.live if ready == "False" else WAITS.dead)


@pytest.mark.parametrize(("compute", "movable"), [(True, True), (False, False), (None, False)])
def test_instances_of_a_living_host_are_moved_only_while_its_compute_service_answers(
    compute: bool | None, *, movable: bool
) -> None:
    found = judge(replace(SILENT, agent=Agent.ALIVE, compute=compute), WAITS, NOW)
    assert isinstance(found, Alive)
    assert (found.until, found.movable) == (None, movable)


def test_evidence_names_what_is_silent() -> None:
    found = judge(replace(SILENT, question=asked(False, False)), WAITS, NOW)
    assert isinstance(found, Dead)
    assert found.evidence == (
        "the Node is Ready Unknown",
        "the node agent does not renew its Lease",
        "its compute service does not answer",
        "2 of 2 peers have tried and not reached it",
    )
