"""A move without progress, by its record or by what the host's node agent sees."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from tests.unit.operator.eviction.made import (
    AGES_AGO,
    BEGAN,
    NOW,
    POLICY,
    move,
    seen,
    server,
)

from hypercobalt.operator.eviction.assess import assess_one
from hypercobalt.operator.eviction.assessing.case import About
from hypercobalt.operator.eviction.model.policy import Policy, StuckHelp
from hypercobalt.operator.eviction.model.states import (
    Assessment,
    Moving,
    Observed,
    Ready,
    Stranded,
    Stuck,
    Waiting,
    phase_of,
)
from hypercobalt.operator.eviction.model.tracks import (
    FRESH,
    Failed,
    HostView,
    Job,
    Left,
    Recorded,
    Track,
)

LEAVING = server(task_state="migrating")
IN_ERROR = server(status="ERROR", running=True, fault="canceled by client")


def assessed(of: Observed, track: Track = FRESH, policy: Policy = POLICY) -> Assessment:
    return assess_one(of, track, About(BEGAN, BEGAN), policy, NOW)


NOTHING = Left()


def tracked(
    status: str = "running", lowest: Left = NOTHING, *, since: float = 800.0, **fields: int
) -> Track:
    return Track(Recorded("1", status, lowest, **fields), since=since)  # type: ignore[arg-type]


STALLED = tracked(lowest=Left(500))  # 200 s ago


@pytest.mark.parametrize(
    ("of", "track", "help_"),
    [
        pytest.param(seen(LEAVING, move()), STALLED, "forced", id="stalled: helped"),
        pytest.param(
            seen(LEAVING, move()),
            tracked("running", Left(500), since=800.0, helped=True),
            "aborted",
            id="help did not help: aborted",
        ),
        pytest.param(seen(LEAVING, move(remaining=400)), STALLED, "", id="it goes on"),
        pytest.param(seen(LEAVING, move("post-migrating")), STALLED, "", id="a new state"),
        pytest.param(
            seen(LEAVING, move(remaining=600)),
            STALLED,
            "forced",
            id="dirtied faster than sent is no progress",
        ),
        pytest.param(
            seen(LEAVING, move(), job=Job(None, Left(400))),
            replace(STALLED, view=HostView(None, Left(500), 800.0)),
            "",
            id="the node agent sees it go on",
        ),
        pytest.param(
            seen(LEAVING, move(remaining=400), job=Job(None, Left(500))),
            replace(STALLED, view=HostView(None, Left(500), 800.0)),
            "",
            id="the node agent does not, but its record does",
        ),
        pytest.param(
            seen(LEAVING, move(), job=Job(None, Left(500))),
            replace(STALLED, view=HostView(None, Left(500), 800.0)),
            "forced",
            id="neither sees it go on",
        ),
        pytest.param(
            seen(LEAVING, move(), job=Job(AGES_AGO, Left(1))),
            STALLED,
            "forced",
            id="the node agent reports an earlier one",
        ),
        pytest.param(
            seen(LEAVING, move(), job=Job(None, ended="failed")),
            STALLED,
            "aborted",
            id="the node agent has seen it fail: there is nothing to help",
        ),
        pytest.param(
            seen(LEAVING, move(remaining=0, total=0, disk_remaining=400)),
            tracked("running", Left(disk=500), since=-4000.0),
            "",
            id="its disk is copied, for hours",
        ),
        pytest.param(
            seen(LEAVING, move(remaining=0, total=0, disk_remaining=500)),
            tracked("running", Left(disk=500), since=800.0),
            "",
            id="its disk is written to as fast as it is copied, for minutes",
        ),
        pytest.param(
            seen(LEAVING, move(remaining=0, total=0, disk_remaining=500)),
            tracked("running", Left(disk=500), since=-4000.0),
            "aborted",
            id="for hours: the guest would be paused until its disk is copied, so no help",
        ),
        pytest.param(
            seen(LEAVING, move(remaining=9000, disk_remaining=10)),
            tracked("running", Left(disk=20), since=800.0),
            "",
            id="after the disk comes the memory, which is more",
        ),
        pytest.param(
            seen(LEAVING, move(remaining=9000, disk_remaining=10)),
            tracked("running", Left(9000, 10), since=800.0),
            "forced",
            id="the memory is stuck; a disk is never copied to the last byte before the end",
        ),
        pytest.param(
            seen(LEAVING, move("queued", remaining=0, total=0)),
            tracked("queued", since=800.0),
            "",
            id="in a queue is not stalled",
        ),
        pytest.param(
            seen(LEAVING, move("queued", remaining=0, total=0)),
            tracked("queued", since=-4000.0),
            "aborted",
            id="in a queue for more than an hour is",
        ),
    ],
)
def test_move_without_progress_is_forced_or_aborted(of: Observed, track: Track, help_: str) -> None:
    found = assessed(of, track)
    match found.state:
        case Stuck(force=force):
            assert help_ == ("forced" if force else "aborted")
        case state:
            assert isinstance(state, Moving)
            assert not help_
    assert found.occupies


def test_move_is_aborted_at_once_where_the_site_forbids_help() -> None:
    policy = Policy(stuck_help=StuckHelp.NONE)
    found = assessed(seen(LEAVING, move()), STALLED, policy).state
    assert isinstance(found, Stuck)
    assert not found.force


def test_a_move_that_cannot_be_stopped_frees_its_place_for_others() -> None:
    hopeless = tracked(lowest=Left(500), helped=True, aborts=1)
    found = assessed(seen(LEAVING, move()), hopeless)
    assert isinstance(found.state, Stranded)
    assert not found.occupies
    assert "abort failed as well" in found.state.message


@pytest.mark.parametrize(
    ("of", "track", "phase", "message"),
    [
        pytest.param(
            seen(LEAVING, move(), job=Job(None, Left(400))),
            replace(STALLED, view=HostView(None, Left(500), 800.0)),
            "Migrating",
            "running; libvirt reports progress, the compute service none; treated as progressing",
            id="the record stands still",
        ),
        pytest.param(
            seen(LEAVING, move(remaining=400), job=Job(None, Left(400))),
            replace(STALLED, view=HostView(None, Left(500), 800.0)),
            "Migrating",
            "running",
            id="both see it go on",
        ),
        pytest.param(
            seen(LEAVING, move(), job=Job(None, ended="failed")),
            tracked("running", Left(500), since=990.0),
            "Migrating",
            "running",
            id="the record may follow yet",
        ),
        pytest.param(
            seen(LEAVING, move(), job=Job(None, ended="failed")),
            tracked("running", Left(500), since=980.0),
            "Migrating",
            "running; libvirt reports that the migration ended (failed), the compute service does "
            "not",
            id="the record runs on",
        ),
        pytest.param(
            seen(LEAVING, move(), job=Job(None, ended="failed")),
            tracked("running", Left(500), since=995.0),
            "Migrating",
            "running",
            id="the record will follow",
        ),
        pytest.param(
            seen(LEAVING, move("post-migrating"), job=Job(None, ended="completed")),
            tracked("post-migrating", Left(500), since=900.0),
            "Migrating",
            "post-migrating",
            id="after the memory there is more to do",
        ),
        pytest.param(
            seen(server(), move("error"), job=Job(None, Left(400))),
            Track(Failed("1"), view=HostView(None, Left(500), 800.0)),
            "Migrating",
            "libvirt reports a migration, the compute service does not; waiting",
            id="the record has ended too early",
        ),
        pytest.param(
            seen(IN_ERROR, move("error"), job=Job(None, Left(400))),
            tracked(),
            "Migrating",
            "libvirt reports a migration, the compute service does not; waiting",
            id="and its server is in ERROR",
        ),
        pytest.param(
            seen(server(), job=Job(None, Left(400))),
            Track(),
            "Migrating",
            "libvirt reports a migration, the compute service does not; waiting",
            id="a libvirt client migrates it without Nova",
        ),
        pytest.param(
            seen(server(), job=Job(None, Left(500))),
            Track(view=HostView(None, Left(500), 800.0)),
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
            "migration record 1 was left running",
            id="the record was left open",
        ),
    ],
)
def test_phase_follows_from_nova_record_and_node_agent_that_disagree(
    of: Observed, track: Track, phase: str, message: str
) -> None:
    found = assessed(of, track)
    assert (phase_of(found.state), found.state.message) == (phase, message)
    assert found.occupies == (phase == "Migrating")


def test_a_job_that_stands_still_is_not_waited_for_again_and_again() -> None:
    of = seen(server(), move("error"), job=Job(AGES_AGO, Left(500)))
    first = assessed(of, Track(Failed("1")))
    assert isinstance(first.state, Moving)
    assert first.track.view is not None
    old = replace(first.track, view=replace(first.track.view, since=800.0))
    for _ in range(2):
        found = assessed(of, old)
        assert isinstance(found.state, Ready | Waiting)
        old = found.track


@pytest.mark.parametrize(
    ("started", "before"),
    [(NOW.now + timedelta(seconds=1), True), (NOW.now, False), (None, False)],
    ids=["earlier", "the same", "not known"],
)
def test_the_job_that_began_first_is_the_earlier_one(
    started: datetime | None, *, before: bool
) -> None:
    assert Job(NOW.now).is_before(Job(started)) is before
    assert not Job(started).is_before(Job(NOW.now))


@pytest.mark.parametrize(
    ("kind", "seconds", "same"),
    [
        pytest.param("live-migration", 30, True, id="later by the host's clock"),
        pytest.param("live-migration", -30, True, id="earlier: the clocks differ"),
        pytest.param("live-migration", -60, True, id="by as much as they may"),
        pytest.param("live-migration", -90, False, id="too early: an attempt before"),
        pytest.param("migration", 30, False, id="a cold move has no job"),
    ],
)
def test_a_job_belongs_to_a_record_within_what_clocks_differ(
    kind: str, seconds: int, *, same: bool
) -> None:
    record = move(kind=kind)
    assert Job(record.created + timedelta(seconds=seconds)).is_of(record) is same


def test_progress_is_timed_by_what_has_become_less() -> None:
    track, _ = FRESH.reading(move(remaining=500), 10.0)
    assert track.since == 10
    for remaining, at, since in ((500, 20.0, 10.0), (600, 30.0, 10.0), (499, 40.0, 40.0)):
        track, record = track.reading(move(remaining=remaining), at)
        assert track.since == since
    assert record.lowest == Left(499)
    again, _ = track.reading(move("post-migrating", remaining=499), 50.0)
    assert again.since == 50
    other, record = track.reading(move(id="2", remaining=700), 60.0)
    assert (other.since, record.lowest) == (60, Left(700))


@pytest.mark.parametrize(
    ("still", "force"),
    [(POLICY.stall.total_seconds(), None), (POLICY.stall.total_seconds() + 0.1, True)],
    ids=["not yet", "now"],
)
def test_a_move_is_stuck_after_the_stall_and_not_before(still: float, force: bool | None) -> None:
    found = assessed(seen(LEAVING, move()), tracked(lowest=Left(500), since=NOW.at - still)).state
    assert (found.force if isinstance(found, Stuck) else None) is force


@pytest.mark.parametrize(
    ("now", "lowest", "less", "least"),
    [
        pytest.param(Left(5, 5), Left(5, 5), False, Left(5, 5), id="the same"),
        pytest.param(Left(4, 9), Left(5, 5), True, Left(4, 5), id="less memory"),
        pytest.param(Left(9, 4), Left(5, 5), True, Left(5, 4), id="less of a disk"),
        pytest.param(Left(9, 9), Left(5, 5), False, Left(5, 5), id="more"),
        pytest.param(Left(9, 0), Left(0, 5), True, Left(9, 5), id="memory for the first time"),
        pytest.param(Left(0, 9), Left(5, 0), True, Left(5, 9), id="a disk for the first time"),
        pytest.param(Left(0, 0), Left(5, 5), False, Left(5, 5), id="nothing is known any more"),
    ],
)
def test_lowest_remaining_amount_is_kept(
    now: Left, lowest: Left, *, less: bool, least: Left
) -> None:
    assert now.is_less(lowest) is less
    assert now.least(lowest) == least


def test_another_job_restarts_the_wait() -> None:
    known = replace(FRESH, view=HostView(BEGAN, Left(400), 10.0))
    assert known.seeing(Job(BEGAN, Left(500)), 20.0) == known
    assert known.seeing(Job(NOW.now, Left(500)), 20.0).view == HostView(NOW.now, Left(500), 20.0)
    assert known.seeing(Job(BEGAN, Left(300)), 20.0).view == HostView(BEGAN, Left(300), 20.0)
    assert known.seeing(Job(NOW.now, ended="failed"), 20.0) == known


@pytest.mark.parametrize(
    ("record", "at", "due"),
    [
        pytest.param(Recorded("1", "running"), 0, True, id="never requested"),
        pytest.param(Recorded("1", "running", aborts=1), 99, False, id="accepted"),
        pytest.param(Recorded("1", "running", aborts=1, refused=True), 9.9, False, id="refused"),
        pytest.param(Recorded("1", "running", aborts=1, refused=True), 10, True, id="and waited"),
    ],
)
def test_move_may_be_aborted_when_its_wait_is_over(
    record: Recorded, at: float, *, due: bool
) -> None:
    assert Track(record, not_before=10.0).may_abort(record, at) is due


def test_memory_that_only_the_host_reports_counts_as_measured() -> None:
    silent = move(remaining=0, total=0)
    track = replace(tracked(), view=HostView(None, Left(500), 800.0))
    found = assessed(seen(LEAVING, silent, job=Job(None, Left(500))), track).state
    assert isinstance(found, Stuck)
    other = assessed(seen(LEAVING, silent, job=Job(AGES_AGO, Left(500))), track).state
    assert isinstance(other, Moving)
