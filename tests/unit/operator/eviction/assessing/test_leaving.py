"""The state of an instance that leaves a living host."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from tests.unit.operator.eviction.made import (
    AGES_AGO,
    BEGAN,
    NOW,
    POLICY,
    entry,
    move,
    seen,
    server,
)

from hypercobalt.api.eviction import EvictionInstance
from hypercobalt.compute.model import Move, Server
from hypercobalt.operator.eviction.assess import assess_one
from hypercobalt.operator.eviction.assessing.case import CLOCK_SKEW, About
from hypercobalt.operator.eviction.assessing.course import Course
from hypercobalt.operator.eviction.model.states import (
    Arrived,
    Assessment,
    Damaged,
    Departed,
    Mode,
    Moving,
    Observed,
    Ready,
    Sighting,
    State,
    Stranded,
    Stuck,
    Unaffected,
    Waiting,
)
from hypercobalt.operator.eviction.model.tracks import (
    FRESH,
    HostView,
    Job,
    Left,
    Recorded,
    Track,
    Unrecoverable,
)

OFF = server(status="SHUTOFF")
LEAVING = server(task_state="migrating")
IN_ERROR = server(status="ERROR", running=True)
GONE = "left the host: deleted, or moved outside this Eviction"
STILL = NOW.at - POLICY.stall.total_seconds() - 50


def leaves(
    of: Observed, track: Track = FRESH, course: Course = Course.LEAVE, *, recovers: bool = False
) -> Assessment:
    about = About(BEGAN, BEGAN, course, recovers=recovers)
    return assess_one(of, track, about, POLICY, NOW)


@pytest.mark.parametrize(
    ("of", "course", "state"),
    [
        pytest.param(server(), Course.LEAVE, Ready(Mode.LIVE), id="a running one live"),
        pytest.param(OFF, Course.LEAVE, Ready(Mode.COLD), id="the others cold"),
        pytest.param(
            OFF,
            Course.LIVE,
            Unaffected("is off: the Eviction moves running instances only", stays=True),
            id="or not at all, where only running ones are wanted",
        ),
        pytest.param(server(), Course.LIVE, Ready(Mode.LIVE), id="though running ones are"),
        pytest.param(server(), Course.COLD, Ready(Mode.COLD), id="all cold, where that is wanted"),
        pytest.param(server(), Course.RECOVER, Ready(Mode.LIVE), id="a running one is not stopped"),
        pytest.param(
            server(paused=True, running=False), Course.RECOVER, Ready(Mode.LIVE), id="nor a paused"
        ),
        pytest.param(
            server(running=False), Course.RECOVER, Ready(Mode.COLD), id="one that only seems active"
        ),
        pytest.param(
            server(running=False), Course.LEAVE, Ready(Mode.LIVE), id="as Nova has it otherwise"
        ),
    ],
)
def test_mode_of_leaving_follows_from_the_state_of_a_server(
    of: Server, course: Course, state: State
) -> None:
    assert leaves(seen(of, known=entry(mode="live")), course=course).state == state


@pytest.mark.parametrize(
    ("record", "known", "state"),
    [
        pytest.param(None, entry(), Departed(GONE, unnoticed=True), id="without a record"),
        pytest.param(
            None, entry(message="has left"), Departed("has left", unnoticed=True), id="known before"
        ),
        pytest.param(move("completed"), entry(), Departed("moved to there"), id="by a move"),
        pytest.param(
            move("error", created=AGES_AGO),
            entry(),
            Departed(GONE, unnoticed=True),
            id="not by a failed old move",
        ),
        pytest.param(
            move("completed", created=AGES_AGO),
            entry(),
            Departed(GONE, unnoticed=True),
            id="not by an old move",
        ),
        pytest.param(
            move("completed", created=AGES_AGO),
            entry(attempts=1),
            Departed("moved to there"),
            id="by our move, whatever its time",
        ),
        pytest.param(
            move("completed", created=BEGAN - CLOCK_SKEW),
            entry(),
            Departed("moved to there"),
            id="by a move with the Eviction, as another clock has it",
        ),
    ],
)
def test_state_of_an_instance_that_is_gone_follows_from_its_last_record(
    record: Move | None, known: EvictionInstance, state: State
) -> None:
    assert leaves(seen(None, *([record] if record else []), known=known)).state == state


LEFT_BY = "has left the host; its migration to there ended as error"
RAN = entry(ran=True)


@pytest.mark.parametrize(
    ("of", "state"),
    [
        pytest.param(seen(None, move("error")), Moving(LEFT_BY), id="not looked for yet"),
        pytest.param(
            seen(None, move("error"), sought=True),
            Departed("deleted; its migration to there ended as error"),
            id="on no host",
        ),
        pytest.param(
            seen(None, move("error"), sought=True, elsewhere=server(host="there")),
            Departed("moved to there; its migration record ended as error"),
            id="well there",
        ),
        pytest.param(
            seen(
                None,
                move("error"),
                sought=True,
                elsewhere=server(status="ERROR", host="there", fault="no port"),
            ),
            Stranded(f"{LEFT_BY}, and it is in ERROR on there: no port"),
            id="in ERROR there",
        ),
        pytest.param(
            seen(
                None,
                move("failed", kind="migration"),
                sought=True,
                elsewhere=server(status="ERROR", host="there"),
            ),
            Stranded(
                "has left the host; its migration to there ended as failed, and it is in ERROR on "
                "there: the compute service gives no reason"
            ),
            id="in ERROR there by a cold move",
        ),
        pytest.param(
            seen(
                None,
                move("error"),
                known=RAN,
                sought=True,
                elsewhere=server(status="SHUTOFF", host="there"),
            ),
            Stranded(f"{LEFT_BY}, and it is SHUTOFF on there: start it"),
            id="off there, though it ran",
        ),
        pytest.param(
            seen(
                None,
                move("error"),
                known=RAN,
                sought=True,
                elsewhere=server(status="PAUSED", host="there", paused=True),
            ),
            Departed("moved to there; its migration record ended as error"),
            id="paused there",
        ),
        pytest.param(
            seen(None, move("error"), sought=True, elsewhere=server(host="here")),
            Moving(LEFT_BY),
            id="its host differs from one answer to the next",
        ),
        pytest.param(
            seen(
                None,
                move("error"),
                sought=True,
                elsewhere=server(host="there", task_state="migrating"),
            ),
            Moving(LEFT_BY),
            id="on its way there",
        ),
    ],
)
def test_instance_whose_move_has_failed_counts_as_moved_once_it_is_seen_to_be_well(
    of: Observed, state: State
) -> None:
    assert leaves(of).state == state


def test_instance_that_no_host_has_is_not_deleted_where_the_hosts_keep_the_servers() -> None:
    about = About(BEGAN, BEGAN, keeps_servers=False)
    of = seen(None, move("error", message="neither runs it any more"), sought=True)
    assert assess_one(of, FRESH, about, POLICY, NOW).state == Stranded(
        f"{LEFT_BY}, and no host has it: neither runs it any more"
    )


def test_move_whose_record_has_no_end_counts_once_the_instance_is_seen_to_be_well() -> None:
    still = "has left the host; its migration to there still shows running"
    track = followed(lowest=Left(500))
    broken = server(status="ERROR", host="there", fault="no")
    assert leaves(seen(None, move()), track).state == Moving(still)
    found = leaves(seen(None, move(), sought=True, elsewhere=broken), track).state
    assert found == Stranded(f"{still}, and it is in ERROR on there: no")
    found = leaves(seen(None, move(), sought=True, elsewhere=server(host="there")), track).state
    assert found == Departed("moved to there; its migration record still shows running")


def test_move_whose_record_has_no_end_is_given_up_when_the_instance_is_not_seen() -> None:
    long_ago = NOW.at - POLICY.patience.total_seconds() - 1
    track = replace(followed(lowest=Left(500)), since=long_ago)
    found = leaves(seen(None, move()), track).state
    assert isinstance(found, Stranded)
    assert found.message.endswith("still shows running; check there")


@pytest.mark.parametrize(
    ("wait", "due"), [(0, True), (0.1, False)], ids=["the wait is over", "not yet"]
)
def test_arrival_is_confirmed_and_damage_repaired_when_their_wait_is_over(
    wait: float, *, due: bool
) -> None:
    track = Track(not_before=NOW.at + wait)
    confirming = replace(track, follows=Recorded("1", "finished", Left(500)))
    arrived = leaves(seen(None, move("finished", kind="migration")), confirming).state
    damaged = leaves(seen(IN_ERROR, move("error")), track).state
    assert isinstance(arrived, Arrived)
    assert isinstance(damaged, Damaged)
    assert (arrived.due, damaged.due) == (due, due)


NOTHING = Left()


def followed(status: str = "running", lowest: Left = NOTHING, **more: object) -> Track:
    return Track(Recorded("1", status, lowest, **more), since=STILL)  # type: ignore[arg-type]


SILENT = {"remaining": 0, "total": 0}
FAILED = Job(None, ended="failed")


@pytest.mark.parametrize(
    ("record", "track", "job", "outcome"),
    [
        pytest.param(
            move(kind="migration"), followed(lowest=Left(500)), None, Moving, id="a cold move"
        ),
        pytest.param(
            move("post-migrating"),
            followed("post-migrating", Left(500)),
            None,
            Moving,
            id="a move past its memory",
        ),
        pytest.param(move(**SILENT), followed(), None, Moving, id="a move that measures nothing"),
        pytest.param(
            move(**SILENT), followed(), FAILED, "aborted", id="a move that libvirt reports as ended"
        ),
        pytest.param(
            move(**SILENT), followed(helped=True), None, "aborted", id="a move that was forced"
        ),
        pytest.param(
            move(**SILENT),
            followed(helped=True, aborts=1),
            None,
            Stranded,
            id="a move that nothing ends",
        ),
        pytest.param(
            move(**SILENT),
            replace(followed(), since=NOW.at - POLICY.longest.total_seconds() - 1),
            None,
            "forced",
            id="one that measures nothing for an hour",
        ),
        pytest.param(
            move(), followed(lowest=Left(900), aborts=1), None, Moving, id="an abort that goes on"
        ),
        pytest.param(
            move(),
            followed(lowest=Left(900), aborts=1, refused=True),
            None,
            "aborted",
            id="an abort that was refused",
        ),
        pytest.param(
            move(),
            followed(lowest=Left(500), aborts=1),
            None,
            Stranded,
            id="an abort that nothing came of: forced, it could be completed and aborted at once",
        ),
        pytest.param(
            move(),
            followed(lowest=Left(500), aborts=1, refused=True),
            None,
            Stranded,
            id="an abort that was refused to the end",
        ),
    ],
)
def test_move_without_progress_is_forced_or_aborted_after_its_wait(
    record: Move, track: Track, job: Job | None, outcome: type | str
) -> None:
    state = leaves(seen(LEAVING, record, job=job), track).state
    if isinstance(state, Stuck):
        assert outcome == ("forced" if state.force else "aborted")
    else:
        assert type(state) is outcome


@pytest.mark.parametrize(
    ("job", "still", "waits"),
    [
        pytest.param(Job(BEGAN, Left(5)), 150, True, id="it has only just stopped"),
        pytest.param(Job(BEGAN, Left(5)), 150.1, False, id="it stands still"),
        pytest.param(None, 1, False, id="it is reported no longer"),
        pytest.param(Job(BEGAN, ended="cancelled"), 1, False, id="it has ended"),
    ],
)
def test_migration_that_only_libvirt_reports_is_waited_for(
    job: Job | None, still: float, *, waits: bool
) -> None:
    track = Track(view=HostView(BEGAN, Left(5), NOW.at - still))
    assert isinstance(leaves(seen(server(), job=job), track).state, Moving) is waits


@pytest.mark.parametrize(
    ("of", "record", "damaged"),
    [
        pytest.param(IN_ERROR, move("error"), True, id="its move has failed"),
        pytest.param(IN_ERROR, move("completed"), False, id="its move has succeeded"),
        pytest.param(IN_ERROR, move("error", target=""), False, id="there was no target"),
        pytest.param(IN_ERROR, move("error", created=BEGAN), True, id="began with the Eviction"),
        pytest.param(
            server(status="ERROR", running=True, task_state="rebuilding"),
            move("error"),
            False,
            id="something is done about it",
        ),
    ],
)
def test_error_after_a_failed_move_is_repaired(of: Server, record: Move, *, damaged: bool) -> None:
    assert isinstance(leaves(seen(of, record)).state, Damaged) is damaged


def ago(seconds: float) -> datetime:
    return NOW.now - timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("record", "settles"),
    [
        pytest.param(move("error", updated=ago(2.9)), True, id="failed just now"),
        pytest.param(move("error", updated=ago(3)), False, id="failed, and the wait is over"),
        pytest.param(move("completed", updated=ago(1)), False, id="it did not fail"),
    ],
)
def test_server_settles_after_a_move_that_failed(record: Move, *, settles: bool) -> None:
    assert isinstance(leaves(seen(server(), record)).state, Moving) is settles


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (IN_ERROR, "migration to there left it in ERROR although its guest runs here"),
        (
            server(paused=True, running=False),
            "migration to there left it in ACTIVE although its guest is paused here",
        ),
    ],
    ids=["runs", "is paused"],
)
def test_damage_is_named_with_what_the_guest_does(of: Server, text: str) -> None:
    assert leaves(seen(of, move("error"))).state.message == f"{text}; recovering"


def test_damage_that_cannot_be_repaired_keeps_its_name_where_nothing_else_hinders() -> None:
    paused = server(paused=True, running=False)
    state = leaves(seen(paused, move("error")), Track(Unrecoverable("1"))).state
    assert isinstance(state, Stranded)
    assert state.message.startswith("migration to there left it in ACTIVE")


LOST = server(running=False)
"""Its nova-compute was restarted during the move: no guest here by Nova, no move any more."""


@pytest.mark.parametrize("sighting", [Sighting.RUNS, Sighting.RAN])
def test_guest_that_a_failed_move_has_left_on_its_target_is_given_up_with_the_way_out(
    sighting: Sighting,
) -> None:
    of = seen(LOST, move("error"), sightings={"there": sighting})

    found = leaves(of).state

    assert found == Stranded(
        "runs on there, as its node agent reports, though its migration ended as error and the "
        "compute service keeps it on here: end it on there (virsh destroy a; virsh undefine "
        "--keep-nvram a), only then start it on here (openstack server reboot --hard a), and "
        "correct its allocation (nova-manage placement heal_allocations --force --instance a; "
        "nova-manage placement audit --delete)"
    )


@pytest.mark.parametrize(
    ("of", "record", "sighting"),
    [
        pytest.param(server(), move("error"), Sighting.RUNS, id="the guest runs here"),
        pytest.param(LOST, move("error"), Sighting.ABSENT, id="it does not run there"),
        pytest.param(LOST, move("error"), Sighting.SILENT, id="its agent is silent"),
        pytest.param(
            *(LOST, move("error", created=AGES_AGO), Sighting.RUNS), id="the move is an older one"
        ),
    ],
)
def test_failed_move_is_tried_again_unless_its_guest_has_arrived(
    of: Server, record: Move, sighting: Sighting
) -> None:
    found = leaves(seen(of, record, sightings={"there": sighting})).state
    assert isinstance(found, Ready | Waiting)
