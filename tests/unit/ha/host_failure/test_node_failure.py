"""The verdict on a host, by the reports about it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hypercobalt.ha.host_failure.node_failure import (
    AgentLiveness,
    Alive,
    Contradicted,
    Dead,
    HostVerdict,
    PeerAnswer,
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
REQUESTED = Question(NOW - timedelta(minutes=1))
B0, B1 = frozenset({"b0"}), frozenset({"b1"})
SILENT = Signs(
    "Unknown", "b1", "b1", AgentLiveness.SILENT, False, unhealthy_since=LONG_AGO, question=REQUESTED
)
MUTE = PeerAnswer("p1", True)
WELL = Signs("True", "b1", "b1", AgentLiveness.ALIVE, True)


def probed(*answers: bool, of: int = 0, ago: timedelta = timedelta(seconds=1)) -> Question:
    peers = tuple(f"p{number}" for number in range(of or len(answers)))
    found = zip(peers, answers, strict=False)
    return Question(NOW - ago, peers, tuple(PeerAnswer(*one, "libvirt") for one in found))


@pytest.mark.parametrize(
    ("signs", "verdict"),
    [
        pytest.param(WELL, Well, id="ready"),
        pytest.param(replace(WELL, agent=AgentLiveness.SILENT), Well, id="ready without an agent"),
        pytest.param(replace(SILENT, ready=""), Well, id="no kubelet has ever reported"),
        pytest.param(replace(SILENT, ready="False"), Alive, id="a living kubelet reports False"),
        pytest.param(
            replace(SILENT, agent=AgentLiveness.ALIVE), Alive, id="unknown with a fresh Lease"
        ),
        pytest.param(replace(SILENT, compute=True), Alive, id="unknown, libvirt answers"),
        pytest.param(replace(SILENT, question=probed(True, True)), Alive, id="both peers reach it"),
        pytest.param(
            replace(SILENT, question=probed(False, True, True)), Alive, id="most peers reach it"
        ),
        pytest.param(
            replace(SILENT, question=probed(True, True, of=3, ago=WAITS.peers)),
            Alive,
            id="two reach it, one is late",
        ),
        pytest.param(
            replace(SILENT, question=probed(True, False)), Dead, id="one of two peers reaches it"
        ),
        pytest.param(
            replace(SILENT, question=probed(True, False, False)), Dead, id="one of three reaches it"
        ),
        pytest.param(
            replace(SILENT, question=probed(True, True, False, False)), Dead, id="two of four do"
        ),
        pytest.param(
            replace(SILENT, question=probed(True, of=2, ago=timedelta(seconds=1))),
            Suspected,
            id="the first answer decides nothing",
        ),
        pytest.param(
            replace(SILENT, agent=AgentLiveness.ALIVE, question=probed(False, False, False)),
            Alive,
            id="no peer reaches a host whose agent lives",
        ),
        pytest.param(
            replace(SILENT, compute=True, question=probed(False, False, False)),
            Alive,
            id="no peer reaches a host whose compute service answers",
        ),
        pytest.param(
            replace(SILENT, ready="False", question=probed(False, False, False)),
            Alive,
            id="no peer reaches a host whose kubelet reports",
        ),
        pytest.param(replace(SILENT, question=None), Suspected, id="no probe was requested yet"),
        pytest.param(replace(SILENT, compute=None), Suspected, id="compute service not read"),
        pytest.param(
            replace(SILENT, agent=AgentLiveness.UNKNOWN),
            Suspected,
            id="Lease not watched for long enough",
        ),
        pytest.param(
            replace(SILENT, unhealthy_since=NOW - timedelta(seconds=59)), Suspected, id="too soon"
        ),
        pytest.param(
            replace(SILENT, leaving=True, unhealthy_since=NOW + timedelta(hours=1)),
            Suspected,
            id="the clock went back",
        ),
        pytest.param(
            replace(SILENT, question=probed(False, of=2)), Suspected, id="a peer has not answered"
        ),
        pytest.param(
            replace(SILENT, question=probed(False, of=2, ago=WAITS.peers)),
            Dead,
            id="a peer has not answered in time",
        ),
        pytest.param(replace(SILENT, question=probed(False, False)), Dead, id="no peer reaches it"),
        pytest.param(SILENT, Dead, id="silent all round"),
        pytest.param(
            replace(SILENT, leaving=True, unhealthy_since=NOW - timedelta(minutes=9)),
            RebootGrace,
            id="it was shutting down",
        ),
        pytest.param(replace(SILENT, leaving=True), Dead, id="it has not come back in time"),
        pytest.param(
            replace(SILENT, leaving=True, unhealthy_since=NOW - timedelta(minutes=10)),
            Dead,
            id="nor by the last second",
        ),
        pytest.param(
            replace(SILENT, unhealthy_since=NOW - timedelta(minutes=9)),
            Dead,
            id="it was not shutting down",
        ),
        pytest.param(
            replace(SILENT, unhealthy_since=None), Suspected, id="it falls silent just now"
        ),
        pytest.param(
            replace(SILENT, unhealthy_since=NOW - timedelta(seconds=60)), Dead, id="long enough"
        ),
        pytest.param(
            replace(SILENT, agent=AgentLiveness.RELEASED), Dead, id="a released Lease is no life"
        ),
        pytest.param(replace(SILENT, fenced=B1), Dead, id="fenced, and silent"),
        pytest.param(replace(WELL, fenced=B0), Returned, id="back with another boot"),
        pytest.param(
            replace(WELL, fenced=B0, agent=AgentLiveness.SILENT),
            Well,
            id="back, agent not yet",
        ),
        pytest.param(replace(WELL, fenced=B1), Contradicted, id="the fenced boot is Ready"),
        pytest.param(
            replace(SILENT, fenced=B1, agent=AgentLiveness.ALIVE),
            Contradicted,
            id="the fenced boot's agent renews its Lease",
        ),
        pytest.param(
            replace(WELL, fenced=B1, node_boot="b2"),
            Well,
            id="the agent of another boot has its Lease and has not reported yet",
        ),
        pytest.param(
            replace(SILENT, fenced=B0, agent=AgentLiveness.ALIVE, node_boot=""),
            Alive,
            id="the agent of another boot renews its Lease",
        ),
        pytest.param(
            replace(SILENT, fenced=B1, agent=AgentLiveness.ALIVE, node_boot="b2"),
            Alive,
            id="the kubelet reports another boot",
        ),
        pytest.param(
            Signs("True", "", "", AgentLiveness.ALIVE, True), Well, id="ready, and no boot is known"
        ),
    ],
)
def test_verdict_follows_from_the_reports_of_a_host(
    signs: Signs, verdict: type[HostVerdict]
) -> None:
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
    found = judge(replace(SILENT, agent=AgentLiveness.ALIVE, compute=compute), WAITS, NOW)
    assert isinstance(found, Alive)
    assert (found.until, found.movable) == (None, movable)


@pytest.mark.parametrize(
    ("change", "wait"),
    [
        pytest.param({}, timedelta(seconds=70), id="its word alone may be of a dead host"),
        pytest.param(
            {"agent": AgentLiveness.ALIVE}, timedelta(seconds=45), id="the agent lives, too"
        ),
        pytest.param({"ready": "False"}, timedelta(seconds=45), id="the kubelet lives, too"),
        pytest.param({"silence": timedelta(0)}, timedelta(seconds=45), id="it asks the host"),
        pytest.param({"silence": timedelta(seconds=30)}, timedelta(seconds=45), id="it is soon"),
    ],
)
def test_instances_of_a_host_that_only_the_compute_service_shows_as_up_wait_until_that_is_news(
    change: dict[str, Any], wait: timedelta
) -> None:
    given = replace(SILENT, compute=True, silence=timedelta(seconds=70), unhealthy_since=NOW)
    found = judge(replace(given, **change), replace(WAITS, live=timedelta(seconds=45)), NOW)
    assert isinstance(found, Alive)
    assert found.until == NOW + wait


def test_evidence_names_each_silent_component() -> None:
    found = judge(replace(SILENT, question=probed(False, False)), WAITS, NOW)
    assert isinstance(found, Dead)
    assert found.evidence == (
        "the Node is Ready Unknown",
        "the node agent does not renew its Lease",
        "its compute service does not answer",
        "2 of 2 peers have tried and not reached it",
    )


def test_peers_probe_once_the_host_is_silent() -> None:
    found = judge(replace(SILENT, question=None), WAITS, NOW)
    assert isinstance(found, Suspected)
    assert (found.probe, found.until) == (True, None)
    waiting = judge(replace(SILENT, question=probed(False, of=2)), WAITS, NOW)
    assert isinstance(waiting, Suspected)
    assert (waiting.probe, waiting.until) == (False, NOW + timedelta(seconds=9))


def test_host_that_was_shutting_down_has_ten_minutes_from_its_silence() -> None:
    since = NOW - timedelta(minutes=9)
    found = judge(replace(SILENT, leaving=True, unhealthy_since=since), WAITS, NOW)
    assert isinstance(found, RebootGrace)
    assert found.until == NOW + timedelta(minutes=1)


@pytest.mark.parametrize(("minutes", "left"), [(0, 5), (4, 1), (5, None), (6, None)])
def test_living_host_is_waited_for_from_when_it_fell_ill(minutes: int, left: int | None) -> None:
    since = NOW - timedelta(minutes=minutes)
    found = judge(replace(SILENT, ready="False", unhealthy_since=since), WAITS, NOW)
    assert isinstance(found, Alive)
    assert found.until == (NOW + timedelta(minutes=left) if left else None)
    first = judge(replace(SILENT, ready="False", unhealthy_since=None), WAITS, NOW)
    assert isinstance(first, Alive)
    assert first.until == NOW + timedelta(minutes=5)


@pytest.mark.parametrize(
    ("signs", "evidence"),
    [
        (
            replace(WELL, fenced=B1),
            (
                "the kubelet of boot b1 reports Ready",
                "the node agent of boot b1 renews its Lease",
            ),
        ),
        (
            replace(WELL, fenced=B1, agent=AgentLiveness.SILENT),
            ("the kubelet of boot b1 reports Ready",),
        ),
        (
            replace(WELL, fenced=B1, boot="b2"),
            ("the kubelet of boot b1 reports Ready",),
        ),
        (
            replace(SILENT, fenced=B1, agent=AgentLiveness.ALIVE, node_boot=""),
            ("the node agent of boot b1 renews its Lease",),
        ),
    ],
)
def test_wrong_proof_names_what_shows_that_the_boot_lives(
    signs: Signs, evidence: tuple[str, ...]
) -> None:
    assert judge(signs, WAITS, NOW) == Contradicted(evidence)


def test_report_of_a_peer_is_evidence_of_life() -> None:
    question = replace(probed(True, True), answers=(PeerAnswer("p0", True, "libvirt"), MUTE))
    found = judge(replace(SILENT, question=question), WAITS, NOW)
    assert isinstance(found, Alive)
    assert found.evidence == (
        "a peer reaches it: p0 (libvirt)",
        "a peer reaches it: p1 (a program answers)",
    )


@pytest.mark.parametrize(
    ("question", "reached_by", "evidence"),
    [
        pytest.param(
            probed(True, False),
            "",
            (
                "1 of 2 peers have tried and not reached it",
                "p0 (libvirt) alone reports that it answers, which does not count",
            ),
            id="contradicted",
        ),
        pytest.param(
            probed(True),
            "p0",
            ("p0 (libvirt) reports that it answers, and no other peer could check that",),
            id="the only peer",
        ),
        pytest.param(
            probed(True, of=3, ago=WAITS.peers),
            "p0",
            ("p0 (libvirt) reports that it answers, and no other peer could check that",),
            id="the only one in time",
        ),
        pytest.param(
            probed(False), "", ("1 of 1 peers have tried and not reached it",), id="not reached"
        ),
    ],
)
def test_single_peer_that_reaches_a_host_is_named(
    question: Question, reached_by: str, evidence: tuple[str, ...]
) -> None:
    found = judge(replace(SILENT, question=question), WAITS, NOW)
    assert isinstance(found, Dead)
    assert (found.reached_by, found.evidence[3:]) == (reached_by, evidence)


@pytest.mark.parametrize("lie", [True, False, None])
@pytest.mark.parametrize("honest", [1, 2])
def test_one_lying_peer_of_a_frozen_host_changes_nothing(honest: int, lie: bool | None) -> None:
    """None: it does not answer."""
    said = (*(False,) * honest, *(() if lie is None else (lie,)))
    question = probed(*said, of=honest + 1, ago=WAITS.peers)
    found = judge(replace(SILENT, question=question), WAITS, NOW)
    assert isinstance(found, Dead)
    assert not found.reached_by


@pytest.mark.parametrize("lie", [True, False, None])
def test_one_lying_peer_of_a_host_that_two_others_reach_changes_nothing(lie: bool | None) -> None:
    said = (True, True) if lie is None else (True, True, lie)
    question = probed(*said, of=3, ago=WAITS.peers)
    assert isinstance(judge(replace(SILENT, question=question), WAITS, NOW), Alive)


def test_text_of_a_peer_is_bounded() -> None:
    assert len(str(PeerAnswer("p0", True, "x" * 10_000))) < 200


def test_waits_are_those_of_the_page() -> None:
    minute = timedelta(minutes=1)
    assert Waits(minute, 5 * minute, 10 * minute, minute / 6, 2 * minute) == WAITS


@pytest.mark.parametrize(
    ("since", "verdict"),
    [
        (None, Dead),
        (NOW, RebootGrace),
        (NOW - WAITS.reboot + timedelta(seconds=1), RebootGrace),
        (NOW - WAITS.reboot, Dead),
        (NOW + timedelta(hours=1), RebootGrace),
    ],
)
def test_host_that_was_switched_on_has_its_grace_to_report(
    since: datetime | None, verdict: type[object]
) -> None:
    found = judge(replace(SILENT, powered_since=since), WAITS, NOW)
    assert isinstance(found, verdict)
    if isinstance(found, RebootGrace):
        assert found.until <= NOW + WAITS.reboot, "no longer for a clock that has gone back"


def test_host_in_a_crash_loop_is_not_waited_for() -> None:
    """Its peers and its agent are waited for; only the wait for a single failure is left out."""
    lately = replace(SILENT, unhealthy_since=NOW - timedelta(seconds=1))
    assert isinstance(judge(lately, WAITS, NOW), Suspected)
    assert isinstance(judge(replace(lately, loops=True), WAITS, NOW), Dead)
    assert isinstance(judge(replace(lately, loops=True, question=None), WAITS, NOW), Suspected)
    unknown = replace(lately, loops=True, agent=AgentLiveness.UNKNOWN)
    assert isinstance(judge(unknown, WAITS, NOW), Suspected)
    leaving = judge(replace(lately, loops=True, leaving=True), WAITS, NOW)
    assert isinstance(leaving, RebootGrace), "a reboot in good order is waited for"
