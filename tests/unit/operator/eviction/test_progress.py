"""A move without progress, by its record or by what the host's node agent sees."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.unit.operator.eviction.made import BEGAN, NOW, POLICY, entry, move, server

from hypercobalt.operator.eviction.follow import Seen, Standing, Step, follow
from hypercobalt.operator.eviction.policy import Policy, StuckHelp
from hypercobalt.operator.eviction.progress import Job, Left, Sight, Track

AGES_AGO = BEGAN - timedelta(days=1)
LEAVING = server(task_state="migrating")
IN_ERROR = server(status="ERROR", running=True, fault="canceled by client")
STALLED = Track("1", "running", Left(500), since=800.0)  # 200 s ago


def seen(of: object = None, *moves: object, job: Job | None = None) -> Seen:
    return Seen(entry(), of, moves, job)  # type: ignore[arg-type]


def followed(of: Seen, track: Track | None = None, policy: Policy = POLICY) -> Standing:
    return follow(of, track or Track(), BEGAN, policy, NOW)


@pytest.mark.parametrize(
    ("of", "track", "policy", "step"),
    [
        pytest.param(seen(LEAVING, move()), STALLED, POLICY, Step.FORCE, id="stalled: helped"),
        pytest.param(
            seen(LEAVING, move()),
            STALLED,
            Policy(stuck_help=StuckHelp.NONE),
            Step.ABORT,
            id="stalled, no help wanted: aborted",
        ),
        pytest.param(
            seen(LEAVING, move()),
            Track("1", "running", Left(500), since=800.0, helped=True),
            POLICY,
            Step.ABORT,
            id="help did not help: aborted",
        ),
        pytest.param(
            seen(LEAVING, move(remaining=400)), STALLED, POLICY, Step.NONE, id="it goes on"
        ),
        pytest.param(
            seen(LEAVING, move("post-migrating")), STALLED, POLICY, Step.NONE, id="a new state"
        ),
        pytest.param(
            seen(LEAVING, move(remaining=600)),
            STALLED,
            POLICY,
            Step.FORCE,
            id="dirtied faster than sent is no progress",
        ),
        pytest.param(
            seen(LEAVING, move(), job=Job(None, Left(400))),
            replace(STALLED, sight=Sight(None, Left(500), 800.0)),
            POLICY,
            Step.NONE,
            id="the node agent sees it go on",
        ),
        pytest.param(
            seen(LEAVING, move(remaining=400), job=Job(None, Left(500))),
            replace(STALLED, sight=Sight(None, Left(500), 800.0)),
            POLICY,
            Step.NONE,
            id="the node agent does not, but its record does",
        ),
        pytest.param(
            seen(LEAVING, move(), job=Job(None, Left(500))),
            replace(STALLED, sight=Sight(None, Left(500), 800.0)),
            POLICY,
            Step.FORCE,
            id="neither sees it go on",
        ),
        pytest.param(
            seen(LEAVING, move(), job=Job(AGES_AGO, Left(1))),
            STALLED,
            POLICY,
            Step.FORCE,
            id="the node agent tells of an earlier one",
        ),
        pytest.param(
            seen(LEAVING, move(), job=Job(None, ended="failed")),
            STALLED,
            POLICY,
            Step.ABORT,
            id="the node agent has seen it fail: there is nothing to help",
        ),
        pytest.param(
            seen(LEAVING, move(remaining=0, total=0, disk_remaining=400)),
            Track("1", "running", Left(disk=500), since=-4000.0),
            POLICY,
            Step.NONE,
            id="its disk is copied, for hours",
        ),
        pytest.param(
            seen(LEAVING, move(remaining=0, total=0, disk_remaining=500)),
            Track("1", "running", Left(disk=500), since=800.0),
            POLICY,
            Step.NONE,
            id="its disk is written to as fast as it is copied, for minutes",
        ),
        pytest.param(
            seen(LEAVING, move(remaining=0, total=0, disk_remaining=500)),
            Track("1", "running", Left(disk=500), since=-4000.0),
            POLICY,
            Step.ABORT,
            id="for hours: the guest would be paused until its disk is copied, so no help",
        ),
        pytest.param(
            seen(LEAVING, move(remaining=9000, disk_remaining=10)),
            Track("1", "running", Left(disk=20), since=800.0),
            POLICY,
            Step.NONE,
            id="after the disk comes the memory, which is more",
        ),
        pytest.param(
            seen(LEAVING, move(remaining=9000, disk_remaining=10)),
            Track("1", "running", Left(9000, 10), since=800.0),
            POLICY,
            Step.FORCE,
            id="the memory is stuck; a disk is never copied to the last byte before the end",
        ),
        pytest.param(
            seen(LEAVING, move("queued", remaining=0, total=0)),
            Track("1", "queued", since=800.0),
            POLICY,
            Step.NONE,
            id="in a queue is not stalled",
        ),
        pytest.param(
            seen(LEAVING, move("queued", remaining=0, total=0)),
            Track("1", "queued", since=-4000.0),
            POLICY,
            Step.ABORT,
            id="in a queue for more than an hour is",
        ),
    ],
)
def test_a_move_without_progress(of: Seen, track: Track, policy: Policy, step: Step) -> None:
    found = followed(of, track, policy)
    assert (found.phase, found.step) == ("Migrating", step)
    assert found.occupies


def test_a_move_that_cannot_be_stopped_frees_its_place_for_others() -> None:
    hopeless = Track("1", "running", Left(500), since=800.0, helped=True, aborted=True)
    found = followed(seen(LEAVING, move()), hopeless)
    assert (found.phase, found.step, found.occupies) == ("Failed", Step.NONE, False)
    assert "abort failed as well" in found.message


@pytest.mark.parametrize(
    ("of", "track", "phase", "said"),
    [
        pytest.param(
            seen(LEAVING, move(), job=Job(None, Left(400))),
            replace(STALLED, sight=Sight(None, Left(500), 800.0)),
            "Migrating",
            "running; libvirt reports progress, the compute service none; treated as progressing",
            id="the record stands still",
        ),
        pytest.param(
            seen(LEAVING, move(), job=Job(None, ended="failed")),
            Track("1", "running", Left(500), since=980.0),
            "Migrating",
            "running; its host has seen the migration end (failed), the compute service has not",
            id="the record runs on",
        ),
        pytest.param(
            seen(LEAVING, move(), job=Job(None, ended="failed")),
            Track("1", "running", Left(500), since=995.0),
            "Migrating",
            "running",
            id="the record will follow",
        ),
        pytest.param(
            seen(LEAVING, move("post-migrating"), job=Job(None, ended="completed")),
            Track("1", "post-migrating", Left(500), since=900.0),
            "Migrating",
            "post-migrating",
            id="after the memory there is more to do",
        ),
        pytest.param(
            seen(server(), move("error"), job=Job(None, Left(400))),
            Track("failed:1", sight=Sight(None, Left(500), 800.0)),
            "Migrating",
            "its host sees it move, the compute service does not: that is waited for",
            id="the record has ended too early",
        ),
        pytest.param(
            seen(IN_ERROR, move("error"), job=Job(None, Left(400))),
            Track("1"),
            "Migrating",
            "its host sees it move, the compute service does not: that is waited for",
            id="and its server is in ERROR",
        ),
        pytest.param(
            seen(server(), job=Job(None, Left(400))),
            Track(),
            "Migrating",
            "its host sees it move, the compute service does not: that is waited for",
            id="somebody moves it behind the compute service's back",
        ),
        pytest.param(
            seen(server(), job=Job(None, Left(500))),
            Track(sight=Sight(None, Left(500), 800.0)),
            "Pending",
            "",
            id="a migration that stands still, as of an agent that has died",
        ),
        pytest.param(
            seen(server(), job=Job(None, ended="cancelled")),
            Track(),
            "Pending",
            "",
            id="it is over",
        ),
        pytest.param(
            seen(server(), move(updated=AGES_AGO)),
            Track(),
            "Pending",
            "its record 1 of a move is left running",
            id="nobody has ended the record",
        ),
    ],
)
def test_a_record_and_a_node_agent_that_disagree(
    of: Seen, track: Track, phase: str, said: str
) -> None:
    found = followed(of, track)
    assert (found.phase, found.message) == (phase, said)
    assert found.occupies == (phase == "Migrating")


def test_a_job_that_stands_still_is_not_waited_for_again_and_again() -> None:
    of = seen(server(), move("error"), job=Job(AGES_AGO, Left(500)))
    first = followed(of, Track("failed:1"))
    assert first.phase == "Migrating"
    assert first.track.sight is not None
    old = replace(first.track, sight=replace(first.track.sight, since=800.0))
    for _ in range(2):
        found = followed(of, old)
        assert found.phase == "Pending"
        old = found.track
