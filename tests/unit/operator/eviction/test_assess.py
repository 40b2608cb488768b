"""The state of one instance."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

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

from hypercobalt.operator.eviction.assess import assess_one
from hypercobalt.operator.eviction.assessing.case import About
from hypercobalt.operator.eviction.model.policy import Policy
from hypercobalt.operator.eviction.model.states import (
    Arrived,
    Assessment,
    Damaged,
    Departed,
    Mode,
    Moving,
    Observed,
    Ready,
    Stranded,
    Unaffected,
    Waiting,
)
from hypercobalt.operator.eviction.model.tracks import (
    FRESH,
    Begun,
    Left,
    Recorded,
    Track,
    Unrecoverable,
)

LEAVING = server(task_state="migrating")
COLD = {"kind": "migration"}
IN_ERROR = server(status="ERROR", running=True, fault="canceled by client")


def assessed(of: Observed, track: Track = FRESH, policy: Policy = POLICY) -> Assessment:
    return assess_one(of, track, About(BEGAN, BEGAN), policy, NOW)


@pytest.mark.parametrize(
    ("of", "state"),
    [
        pytest.param(seen(server()), Ready, id="nothing begun"),
        pytest.param(seen(LEAVING, move()), Moving, id="under way: not again"),
        pytest.param(
            seen(server(), move(updated=NOW.now - timedelta(seconds=100))),
            Moving,
            id="let go, but the record is still written",
        ),
        pytest.param(
            seen(LEAVING, move(created=AGES_AGO)),
            Moving,
            id="begun by another client: not again either",
        ),
        pytest.param(seen(server(status="MIGRATING")), Moving, id="accepted, no record yet"),
        pytest.param(
            seen(server(), move("error", created=AGES_AGO)),
            Ready,
            id="failed long ago",
        ),
        pytest.param(seen(server(), move("error")), Waiting, id="failed just now: wait a little"),
        pytest.param(
            seen(server(), *(move("error", id=str(n)) for n in range(3))),
            Stranded,
            id="failed too often",
        ),
        pytest.param(
            seen(server(), known=entry(attempts=3, message="no")),
            Stranded,
            id="refused too often",
        ),
        pytest.param(
            seen(server(), move("reverted", kind="resize", created=AGES_AGO)),
            Ready,
            id="its owner has taken a resize back",
        ),
        pytest.param(
            seen(server(), *(move("reverted", id=str(n), kind="resize") for n in range(3))),
            Ready,
            id="its owner's resizes are no attempts of ours",
        ),
        pytest.param(
            seen(server(), move(created=AGES_AGO, updated=AGES_AGO)),
            Ready,
            id="an old record was left open, and nothing is done to it",
        ),
        pytest.param(
            seen(server(status="SHUTOFF"), move("pre-migrating", updated=AGES_AGO, **COLD)),
            Ready,
            id="nor to one that is off",
        ),
        pytest.param(
            seen(LEAVING, move(created=AGES_AGO, updated=AGES_AGO)),
            Moving,
            id="an old record of one that is on its way",
        ),
        pytest.param(seen(None, move()), Moving, id="arrives, the record counts"),
        pytest.param(seen(None, move("completed")), Departed, id="moved"),
        pytest.param(seen(None), Departed, id="gone"),
        pytest.param(seen(None, move("error")), Moving, id="gone after a failure"),
        pytest.param(seen(None, move("error"), sought=True), Departed, id="and deleted"),
        pytest.param(seen(None, move("finished", **COLD)), Arrived, id="to be confirmed"),
        pytest.param(
            seen(None, move("finished", kind="resize")),
            Departed,
            id="a resize is its owner's to confirm",
        ),
        pytest.param(
            seen(None, move("finished", created=AGES_AGO, **COLD)),
            Departed,
            id="a cold move before the Eviction is for its client to confirm",
        ),
        pytest.param(seen(None, move("confirmed", **COLD)), Departed, id="confirmed"),
        pytest.param(seen(server(status="SUSPENDED")), Stranded, id="cannot be moved"),
        pytest.param(seen(IN_ERROR, move("error")), Damaged, id="in ERROR by its move"),
        pytest.param(
            seen(server(status="ERROR", paused=True), move("error")),
            Damaged,
            id="in ERROR by its move, and paused",
        ),
        pytest.param(
            seen(server(paused=True, running=False), move("error")),
            Damaged,
            id="out of ERROR, and not yet PAUSED as its guest is",
        ),
        pytest.param(
            seen(server(paused=True, running=False)),
            Ready,
            id="paused by another client, in whatever way",
        ),
        pytest.param(
            seen(server(status="PAUSED", paused=True), move("error")),
            Waiting,
            id="paused as before: it is tried again",
        ),
        pytest.param(seen(IN_ERROR), Stranded, id="in ERROR by itself"),
        pytest.param(
            seen(IN_ERROR, move("error", created=AGES_AGO)),
            Stranded,
            id="in ERROR by another client's move",
        ),
        pytest.param(seen(IN_ERROR, move("error", **COLD)), Stranded, id="in ERROR by a cold move"),
        pytest.param(
            seen(server(status="ERROR", running=False), move("error")),
            Stranded,
            id="in ERROR by its move, and off",
        ),
        pytest.param(
            seen(server(), move("cancelled", updated=NOW.now - timedelta(seconds=1))),
            Moving,
            id="called off just now: it settles",
        ),
        pytest.param(seen(server(status="BUILD")), Waiting, id="cannot be moved yet"),
        pytest.param(seen(server(status="SHELVED_OFFLOADED")), Unaffected, id="on no host"),
    ],
)
def test_state_follows_from_server_moves_and_jobs(of: Observed, state: type) -> None:
    assert isinstance(assessed(of).state, state)


def test_calls_for_an_instance_wait_until_they_are_due() -> None:
    later = Track(not_before=NOW.at + 1)
    assert isinstance(assessed(seen(server()), later).state, Waiting)
    damaged = assessed(seen(IN_ERROR, move("error")), later).state
    assert isinstance(damaged, Damaged)
    assert not damaged.due
    arrived = assessed(seen(None, move("finished", **COLD))).state
    assert isinstance(arrived, Arrived)
    assert arrived.due


def test_an_instance_in_transition_is_waited_for_only_so_long() -> None:
    building = seen(server(status="BUILD"))
    waiting = assessed(building)
    assert isinstance(waiting.state, Waiting)
    patience = POLICY.patience.total_seconds()
    old = replace(waiting.track, since=NOW.at - patience)
    assert isinstance(assessed(building, old).state, Waiting)
    older = replace(waiting.track, since=NOW.at - patience - 1)
    assert isinstance(assessed(building, older).state, Stranded)


def test_a_call_is_not_repeated_before_it_had_time_to_show() -> None:
    just_now = Track(Begun(""), since=995.0, not_before=1005.0)
    assert isinstance(assessed(seen(server()), just_now).state, Moving)
    long_ago = Track(Begun(""), since=900.0, not_before=910.0)
    assert isinstance(assessed(seen(server()), long_ago).state, Ready)


def test_hosts_where_it_failed_are_avoided() -> None:
    failed = (move("error", id="1", target="x"), move("cancelled", id="2", target="y"))
    found = assessed(seen(server(), *failed), Track(refused=frozenset({"z"})))
    assert isinstance(found.state, Waiting)
    again = assessed(seen(server(), *failed), replace(found.track, not_before=NOW.at)).state
    assert isinstance(again, Ready)
    assert again.avoid == {"x", "y", "z"}
    assert found.attempts == 2


@pytest.mark.parametrize(
    ("message", "target", "text"),
    [
        ("no route", "x", "migration to x: error; no route"),
        ("", "", "migration to an unnamed host: error; the compute service gives no reason"),
    ],
)
def test_failure_is_named_with_its_target_and_reason(message: str, target: str, text: str) -> None:
    found = assessed(seen(server(), move("error", target=target, message=message)))
    assert found.state == Waiting(text)


def test_move_that_failed_before_another_way_was_taken_is_not_the_reason() -> None:
    """The newest record is the owner's: the failure before it is no longer waited for."""
    owners = move("reverted", id="2", kind="resize")
    found = assessed(seen(server(), owners, move("error", id="1", target="x")))
    assert found.state == Ready(Mode.LIVE, "", frozenset({"x"}), latest="x")


def test_call_that_was_made_after_a_failed_move_is_not_repeated() -> None:
    failed = move("error", id="7", target="x")
    begun = Track(Begun("7"), since=995.0, not_before=1005.0)
    assert isinstance(assessed(seen(server(), failed), begun).state, Moving)


@pytest.mark.parametrize(
    ("status", "attempts", "state"),
    [("running", 1, Moving), ("completed", 1, Ready), ("error", 1, Waiting)],
)
def test_only_moves_that_failed_count_as_failed(status: str, attempts: int, state: type) -> None:
    found = assessed(seen(LEAVING if status == "running" else server(), move(status)))
    assert (found.attempts, type(found.state)) == (attempts, state)
    if state is Ready:
        assert found.state == Ready(Mode.LIVE)


def test_instance_that_others_have_moved_in_vain_again_and_again_is_given_up() -> None:
    records = (move("error", id=str(n)) for n in range(60))
    found = assessed(seen(server(), *records))
    assert isinstance(found.state, Stranded)
    assert found.state.message.endswith("given up after 60 attempts")


def test_record_without_an_end_is_an_attempt() -> None:
    left = move(id="9", updated=AGES_AGO)
    found = assessed(seen(server(), left))
    assert found.attempts == 1
    assert found.state == Ready(Mode.LIVE, "migration record 9 was left running")


def test_move_that_began_with_the_eviction_is_its_own() -> None:
    assert assessed(seen(server(), move("error", created=BEGAN))).attempts == 1
    assert assessed(seen(server())).attempts == 0


def test_message_of_an_instance_given_up_in_transition_names_its_wait() -> None:
    patience = POLICY.patience.total_seconds()
    for of, text in (
        (server(task_state="migrating"), "moving without a migration record for"),
        (server(status="BUILD"), "is being built for"),
    ):
        first = assessed(seen(of))
        late = replace(first.track, since=NOW.at - patience - 1)
        state = assessed(seen(of), late).state
        assert isinstance(state, Stranded)
        assert text in state.message


def test_reason_of_an_instance_given_up_stays() -> None:
    known = entry(phase="Failed", attempts=3, message="no host has capacity")
    assert assessed(seen(server(), known=known)).state == Stranded("no host has capacity")
    wordless = entry(phase="Failed", attempts=3)
    assert assessed(seen(server(), known=wordless)).state == Stranded(
        "not moved; given up after 3 attempts"
    )


@pytest.mark.parametrize(("attempts", "state"), [(3, Ready), (11, Ready), (12, Stranded)])
def test_attempts_that_the_end_of_the_operator_cut_off_are_made_again(
    attempts: int, state: type
) -> None:
    """A captured host, or a dead one, as their target keeps each of them from ending."""
    known = entry(phase="Migrating", attempts=attempts)
    assert isinstance(assessed(seen(server(), known=known)).state, state)


def test_the_reason_of_the_last_failure_is_kept() -> None:
    found = assessed(seen(server(), move("error", target="x", message="no route")))
    assert "x" in found.state.message
    assert "no route" in found.state.message


def test_an_instance_whose_guest_is_not_known_to_run_is_not_read_again() -> None:
    found = assessed(seen(IN_ERROR, move("error")), Track(Unrecoverable("1")))
    assert isinstance(found.state, Stranded)
    assert "canceled by client" in found.state.message


def test_instance_that_comes_into_error_again_and_again_is_given_up() -> None:
    track = assessed(seen(IN_ERROR, move("error"))).track
    old = replace(track, since=NOW.at - POLICY.patience.total_seconds() - 1)
    found = assessed(seen(IN_ERROR, move("error")), old)
    assert isinstance(found.state, Stranded)


@pytest.mark.parametrize(
    ("seconds", "state"),
    [(-30, Arrived), (-90, Departed)],
    ids=["the clocks differ", "before the Eviction"],
)
def test_cold_move_counts_as_of_the_eviction_within_the_skew_of_clocks(
    seconds: int, state: type
) -> None:
    created = BEGAN + timedelta(seconds=seconds)
    assert isinstance(assessed(seen(None, move("finished", created=created, **COLD))).state, state)


@pytest.mark.parametrize(
    ("ago", "state"),
    [(2.9, Moving), (-2.9, Moving), (3.1, Waiting), (-3.1, Waiting)],
    ids=["just now", "just now, by a clock ahead", "settled", "a clock far ahead"],
)
def test_server_settles_first_after_a_failed_move(ago: float, state: type) -> None:
    failed = move("error", updated=NOW.now - timedelta(seconds=ago))
    assert isinstance(assessed(seen(server(), failed)).state, state)


@pytest.mark.parametrize(
    ("still", "state"), [(150, Moving), (151, Departed)], ids=["not yet", "now"]
)
def test_a_record_that_is_never_ended_is_left_when_its_server_has_arrived(
    still: float, state: type
) -> None:
    track = Track(Recorded("1", "running", Left(500)), since=NOW.at - still)
    there = server(host="there")
    found = assessed(seen(None, move(), sought=True, elsewhere=there), track)
    assert isinstance(found.state, state)


def test_attempts_wait_twice_as_long_each_time() -> None:
    waits = [
        assessed(seen(server(), *(move("error", id=str(n)) for n in range(tries)))).track.not_before
        for tries in (1, 2)
    ]
    assert [wait - NOW.at for wait in waits] == [5, 10]


@pytest.mark.parametrize(("noted", "tried"), [(None, "live"), ("live", "live"), ("cold", "cold")])
def test_mode_of_an_earlier_move_is_used_again(noted: str | None, tried: str) -> None:
    assert assessed(seen(server(), known=entry(mode=noted))).mode == tried


def test_record_is_believed_until_it_has_been_still_for_long_enough() -> None:
    still = move(updated=NOW.now - POLICY.stall)
    assert isinstance(assessed(seen(server(), still)).state, Moving)


@pytest.mark.parametrize(
    ("task", "kind", "state"),
    [
        pytest.param("", "evacuation", Ready, id="an evacuation that Nova does not continue"),
        pytest.param("rebuild_spawning", "evacuation", Moving, id="an evacuation at work"),
        pytest.param("powering-off", "live-migration", Waiting, id="a task that is no move"),
    ],
)
def test_record_that_is_no_longer_written_is_left_over(task: str, kind: str, state: type) -> None:
    of = seen(server(task_state=task), move(kind=kind, updated=AGES_AGO))
    assert isinstance(assessed(of).state, state)
