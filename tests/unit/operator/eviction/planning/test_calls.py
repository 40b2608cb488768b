"""The record of a call before it is made, and the effect of its outcome."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.operator.eviction.made import NOW, POLICY, assessed, entry, move, server

from hypercobalt.api.eviction import EvictionMode
from hypercobalt.operator.eviction.model.actions import (
    Abort,
    Accepted,
    Action,
    CallOutcome,
    Confirm,
    Force,
    Needless,
    NotYet,
    Outdated,
    Recover,
    Refused,
    Start,
    Unanswered,
)
from hypercobalt.operator.eviction.model.states import (
    Arrived,
    Assessment,
    Damaged,
    Departed,
    Evacuating,
    Mode,
    Moving,
    Observed,
    State,
    Stranded,
    Stuck,
    Waiting,
)
from hypercobalt.operator.eviction.model.tracks import Begun, Recorded, Track, Unrecoverable
from hypercobalt.operator.eviction.planning.calls import once_accepted, remedy, with_outcomes

START = Start(server(), Mode.LIVE, "x")
SEEN = Observed(entry(), server(), (move(),))
FOLLOWED = Track(Recorded("1", "running"), since=900.0)
ERROR = server(status="ERROR", running=True)


def called(of: Assessment, action: Action, outcome: CallOutcome) -> Assessment:
    expected = once_accepted(of, action, POLICY, NOW)
    (found,) = with_outcomes((expected,), {"a": action}, {"a": outcome}, POLICY, NOW)
    return found


@pytest.mark.parametrize(
    ("outcome", "attempts", "state"),
    [
        pytest.param(Accepted(), 1, Moving(), id="accepted"),
        pytest.param(Unanswered("no answer"), 0, Moving("no answer"), id="not known"),
        pytest.param(Refused("no"), 1, Waiting("no"), id="refused"),
        pytest.param(Outdated("busy"), 1, Waiting("busy"), id="outdated"),
        pytest.param(NotYet("unsafe"), 0, Waiting("unsafe"), id="it may run elsewhere"),
    ],
)
def test_outcome_of_a_call_decides_the_state_of_its_move(
    outcome: CallOutcome, attempts: int, state: State
) -> None:
    found = called(assessed(server()), START, outcome)
    assert (found.attempts, found.state) == (attempts, state)


def test_a_refused_target_is_avoided_and_the_next_attempt_waits() -> None:
    found = called(assessed(server(), attempts=1), START, Refused("no"))
    assert found.track.refused == {"x"}
    assert found.track.not_before == NOW.at + 10  # the second attempt: twice retry_after
    assert found.observed.entry.target is None


def test_the_last_refusal_gives_up() -> None:
    found = called(assessed(server(), attempts=2), START, Refused("no"))
    assert found.state == Stranded("no; given up after 3 attempts")


@pytest.mark.parametrize(
    ("before", "state", "wait"),
    [
        (2, Waiting("no"), 20),
        (10, Waiting("no"), 60),
        (11, Stranded("no; given up after 12 attempts"), 60),
    ],
)
def test_an_evacuation_is_tried_for_ten_minutes(before: int, state: State, wait: float) -> None:
    start = Start(server(), Mode.EVACUATE, "x")
    found = called(assessed(server(), attempts=before), start, Refused("no"))
    assert (found.state, found.track.not_before) == (state, NOW.at + wait)


def test_move_is_recorded_before_the_call_that_begins_it() -> None:
    found = once_accepted(Assessment(SEEN, Waiting()), START, POLICY, NOW)
    assert found.track.follows == Begun("1")
    assert found.track.not_before == NOW.at + POLICY.unsure.total_seconds()
    assert found.observed.entry.target == "x"


@pytest.mark.parametrize(
    ("action", "record", "since"),
    [
        pytest.param(Force(move()), Recorded("1", "running", helped=True), NOW.at, id="force"),
        pytest.param(Abort(move()), Recorded("1", "running", aborts=1), NOW.at, id="abort"),
    ],
)
def test_force_or_abort_is_recorded_before_the_call(
    action: Action, record: Recorded, since: float
) -> None:
    stuck = Assessment(SEEN, Stuck(move(), force=True, message=""), FOLLOWED)
    found = once_accepted(stuck, action, POLICY, NOW).track
    assert (found.follows, found.since) == (record, since)


def test_a_second_abort_does_not_restart_the_wait() -> None:
    track = replace(FOLLOWED, follows=Recorded("1", "running", aborts=1, refused=True))
    found = once_accepted(Assessment(SEEN, Moving(), track), Abort(move()), POLICY, NOW).track
    assert (found.follows, found.since) == (Recorded("1", "running", aborts=2), 900.0)


CONFIRM, RECOVER = Confirm(), Recover(ERROR)
ARRIVED = Arrived(due=True, message="is there")
DAMAGED = Damaged(ERROR, due=True, message="in ERROR")
STUCK = Stuck(move(), force=True, message="stuck")


@pytest.mark.parametrize(
    ("state", "action", "outcome", "then"),
    [
        pytest.param(ARRIVED, CONFIRM, Accepted(), ARRIVED, id="confirmed"),
        pytest.param(ARRIVED, CONFIRM, Needless(), Departed("moved to there"), id="by others"),
        pytest.param(
            ARRIVED, CONFIRM, Refused("no"), replace(ARRIVED, message="is there; no"), id="refused"
        ),
        pytest.param(
            DAMAGED,
            RECOVER,
            Refused("not there"),
            Stranded("is in ERROR after its move; not there"),
            id="not recovered",
        ),
        pytest.param(
            DAMAGED,
            RECOVER,
            Outdated("busy"),
            replace(DAMAGED, message="in ERROR; busy"),
            id="recovered later",
        ),
        pytest.param(
            DAMAGED,
            RECOVER,
            Unanswered("503"),
            replace(DAMAGED, message="in ERROR; 503"),
            id="perhaps recovered",
        ),
        pytest.param(
            STUCK,
            Force(move()),
            Refused("no"),
            replace(STUCK, message="stuck; no"),
            id="not forced",
        ),
    ],
)
def test_outcome_of_any_other_call_decides_the_state(
    state: State, action: Action, outcome: CallOutcome, then: State
) -> None:
    found = called(Assessment(SEEN, state, FOLLOWED), action, outcome)
    assert found.state == then
    again = outcome in (Refused("no"), Outdated("busy"), Unanswered("503"))
    assert found.track.not_before == (NOW.at + POLICY.retry_after.total_seconds() if again else 0)
    assert (found.track.follows == Unrecoverable("1")) is isinstance(then, Stranded)


@pytest.mark.parametrize(
    ("aborts", "wait"), [(1, 1), (2, 2), (3, 4)], ids=["first", "second", "third"]
)
def test_abort_that_is_refused_waits_twice_as_long_each_time(aborts: int, wait: int) -> None:
    track = replace(FOLLOWED, follows=Recorded("1", "running", aborts=aborts - 1))
    state = Stuck(move(), force=False, message="stuck")
    found = called(Assessment(SEEN, state, track), Abort(move()), Refused("no"))
    assert found.track.follows == Recorded("1", "running", aborts=aborts, refused=True)
    assert found.track.not_before == NOW.at + wait * POLICY.retry_after.total_seconds()
    assert found.state == replace(state, message="stuck; no")


@pytest.mark.parametrize(
    ("state", "action"),
    [
        pytest.param(Stuck(move(), force=True, message=""), Force(move()), id="to be forced"),
        pytest.param(Stuck(move(), force=False, message=""), Abort(move()), id="to be stopped"),
        pytest.param(ARRIVED, CONFIRM, id="to be confirmed"),
        pytest.param(replace(ARRIVED, due=False), None, id="not yet"),
        pytest.param(DAMAGED, RECOVER, id="to be recovered"),
        pytest.param(replace(DAMAGED, due=False), None, id="not yet either"),
        pytest.param(Moving(), None, id="on its way"),
    ],
)
def test_state_requires_its_call(state: State, action: Action | None) -> None:
    assert remedy(Assessment(SEEN, state)) == action


@pytest.mark.parametrize(
    ("mode", "target", "state"),
    [
        (Mode.EVACUATE, "x", Evacuating()),
        (Mode.COLD, "", Moving()),
    ],
)
def test_begun_move_is_of_its_mode_and_target(mode: Mode, target: str, state: State) -> None:
    found = once_accepted(Assessment(SEEN, Waiting()), Start(server(), mode, target), POLICY, NOW)
    assert (found.state, found.mode) == (state, EvictionMode(mode))
    assert found.observed.entry.target == (target or None)


def test_call_is_repeated_after_the_service_refused_its_own_target() -> None:
    found = called(assessed(server()), Start(server(), Mode.LIVE), Refused("no"))
    assert found.track.refused == frozenset()


def test_call_that_was_needless_needs_no_record() -> None:
    unseen = Assessment(Observed(entry(), None), ARRIVED)
    assert called(unseen, CONFIRM, Needless()).state == Departed("")


def test_server_whose_move_has_no_record_is_recovered_later() -> None:
    unseen = Assessment(Observed(entry(), server()), DAMAGED)
    found = called(unseen, RECOVER, Refused("no"))
    assert found.state == replace(DAMAGED, message="in ERROR; no")


def test_instance_without_a_call_stays_as_it_is() -> None:
    one, other = assessed(server("a"), Moving()), assessed(server("b"), Waiting("busy"))
    found = with_outcomes((one, other), {"a": CONFIRM}, {"a": Accepted()}, POLICY, NOW)
    assert found == (one, other)
