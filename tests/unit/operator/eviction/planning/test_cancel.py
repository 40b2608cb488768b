"""What a deleted Eviction still does."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec.structs import replace as with_fields
from tests.unit.operator.eviction.made import (
    NOW,
    POLICY,
    assessed,
    entry,
    eviction,
    facts,
    move,
    server,
    situation,
)

from hypercobalt.api.conditions import set_condition
from hypercobalt.api.eviction import (
    FINALIZER,
    Eviction,
    EvictionInstance,
    EvictionMode,
    EvictionStatus,
)
from hypercobalt.compute.errors import UnreachableError
from hypercobalt.compute.model import Host, Move
from hypercobalt.operator.eviction.assess import assess_one
from hypercobalt.operator.eviction.assessing.case import About
from hypercobalt.operator.eviction.model.actions import (
    Abort,
    Accepted,
    Action,
    CallOutcome,
    Confirm,
    Recover,
    Refused,
)
from hypercobalt.operator.eviction.model.decision import EvictionPlan
from hypercobalt.operator.eviction.model.states import (
    Arrived,
    Assessment,
    Crashed,
    Damaged,
    Evacuating,
    Moving,
    Observed,
    Restarting,
    Stranded,
    Stuck,
    Unaffected,
)
from hypercobalt.operator.eviction.model.tracks import FRESH, Recorded, Track
from hypercobalt.operator.eviction.planning.calls import with_outcomes
from hypercobalt.operator.eviction.planning.cancel import (
    LONGEST,
    cancel,
    left_behind,
    since_deletion,
)
from hypercobalt.operator.eviction.planning.settled import settled
from hypercobalt.operator.eviction.recording.status import status_of

HERE = server(status="ERROR", running=True)
EVACUATE, RESTART = EvictionMode.EVACUATE, EvictionMode.RESTART


def deleted(
    status: EvictionStatus | None = None, *, ago: timedelta = timedelta(0), held: bool = True
) -> Eviction:
    made = eviction(status)
    finalizers = (FINALIZER,) if held else ()
    meta = with_fields(made.metadata, deletionTimestamp=NOW.now - ago, finalizers=finalizers)
    return with_fields(made, metadata=meta)


def cancelled(*instances: Assessment, ago: timedelta = timedelta(0)) -> EvictionPlan:
    return cancel(situation(facts(deleted(ago=ago))), instances)


def moving(*records: Move, attempts: int = 1) -> Assessment:
    track = Track(Recorded(records[0].id, records[0].status)) if records else FRESH
    seen = Observed(entry("a", "Migrating"), server(), records)
    return Assessment(seen, Moving(), track, attempts)


@pytest.mark.parametrize(
    ("of", "action", "left"),
    [
        pytest.param(moving(move()), Abort, True, id="a live move is aborted"),
        pytest.param(moving(move("queued")), Abort, True, id="one in a queue too"),
        pytest.param(
            replace(moving(move()), state=Stuck(move(), force=True, message="")),
            Abort,
            True,
            id="one that is stuck is aborted, not forced",
        ),
        pytest.param(
            replace(moving(move()), state=Stranded("cannot be stopped")),
            Abort,
            True,
            id="one that was given up is aborted too",
        ),
        pytest.param(moving(move(kind="migration")), None, True, id="a cold one comes to its end"),
        pytest.param(moving(), None, True, id="one that was just begun shows itself first"),
        pytest.param(moving(move(), attempts=0), None, False, id="others' moves are left alone"),
        pytest.param(
            replace(moving(), state=Arrived(due=True, message="")),
            Confirm,
            True,
            id="a cold one at its end is confirmed",
        ),
        pytest.param(
            replace(moving(), state=Arrived(due=False, message="")),
            None,
            True,
            id="and waited for until it may be",
        ),
        pytest.param(
            assessed(HERE, Damaged(HERE, due=True, message="")),
            Recover,
            True,
            id="one in ERROR by its move is taken out of it",
        ),
        pytest.param(
            assessed(HERE, Damaged(HERE, due=False, message="")),
            None,
            True,
            id="and waited for until it may be",
        ),
        pytest.param(assessed(server()), None, False, id="nothing is begun"),
        pytest.param(
            replace(moving(move(kind="evacuation")), state=Evacuating(), mode=EVACUATE),
            None,
            False,
            id="an evacuation goes on",
        ),
        pytest.param(
            replace(moving(move(kind="evacuation")), state=Stranded(""), mode=EVACUATE),
            None,
            False,
            id="nor is one waited for that was given up",
        ),
        pytest.param(
            replace(moving(), state=Restarting(), mode=RESTART),
            None,
            False,
            id="a restart too",
        ),
        pytest.param(
            replace(moving(), state=Crashed(server()), mode=RESTART),
            None,
            False,
            id="nothing is restarted",
        ),
    ],
)
def test_cancelled_eviction_aborts_or_finishes_moves_under_way(
    of: Assessment, action: type[Action] | None, *, left: bool
) -> None:
    found = cancelled(of)
    assert [type(each) for each in found.actions.values()] == ([action] if action else [])
    assert found.release is not left


@pytest.mark.parametrize(
    ("outcome", "later", "again"),
    [
        pytest.param(Accepted(), 60, False, id="accepted"),
        pytest.param(Refused("no"), 1, False, id="refused just now"),
        pytest.param(Refused("no"), 5, True, id="refused some time ago"),
    ],
)
def test_a_move_is_aborted_once_unless_that_is_refused(
    outcome: CallOutcome, later: float, *, again: bool
) -> None:
    plan = cancelled(moving(move()))
    assert plan.instances is not None
    (one,) = with_outcomes(plan.instances, plan.actions, {"a": outcome}, POLICY, NOW)
    later_on = replace(NOW, at=NOW.at + later)
    leaving = server(task_state="migrating")
    seen = Observed(entry("a", "Migrating", attempts=1), leaving, (move(),))
    began = eviction().metadata.creationTimestamp
    assert began is not None
    next_ = assess_one(seen, one.track, About(began, began), POLICY, later_on)
    found = cancel(situation(replace(facts(deleted()), moment=later_on)), [next_])
    assert bool(found.actions) is again
    assert not found.release


def test_the_wait_after_refused_aborts_doubles() -> None:
    one = moving(move())
    waits: list[float] = []
    for _ in range(3):
        plan = cancelled(replace(one, track=replace(one.track, not_before=NOW.at)))
        assert plan.instances is not None
        (one,) = with_outcomes(plan.instances, plan.actions, {"a": Refused("no")}, POLICY, NOW)
        waits.append(one.track.not_before - NOW.at)
    assert waits == [5, 10, 20]


def test_restart_that_was_due_is_skipped() -> None:
    crashed = assessed(server(), Crashed(server()))
    plan = cancelled(crashed)
    assert plan.instances is not None
    assert isinstance(plan.instances[0].state, Unaffected)


def test_cancelled_eviction_shows_in_the_status() -> None:
    plan = cancelled(assessed(server("b")), moving(move()))
    found = status_of(facts(deleted()), plan, POLICY.order, None)
    (evicting,) = found.conditions
    assert (evicting.type, evicting.status, evicting.reason) == ("Evicting", "False", "Cancelled")
    assert "1 move under way" in evicting.message
    assert {one.id: one.phase for one in found.instances} == {"a": "Migrating", "b": "Skipped"}


COLD = move(kind="migration")


@pytest.mark.parametrize(
    ("of", "ago", "released"),
    [
        pytest.param(moving(move()), LONGEST, False, id="live, not long"),
        pytest.param(moving(move()), LONGEST + timedelta(seconds=1), True, id="live, too long"),
        pytest.param(moving(COLD), POLICY.longest, False, id="cold, not long"),
        pytest.param(
            moving(COLD), POLICY.longest + timedelta(seconds=1), True, id="cold, too long"
        ),
    ],
)
def test_deleted_eviction_is_released_in_time(
    of: Assessment, ago: timedelta, *, released: bool
) -> None:
    found = cancelled(of, ago=ago)
    assert found.release is released
    assert bool(found.left_behind) is released
    assert not (released and found.actions)


def test_the_longest_of_its_moves_sets_the_limit() -> None:
    late = LONGEST + timedelta(seconds=1)
    assert not cancelled(moving(move()), moving(COLD), ago=late).release


def test_eviction_with_nothing_left_is_released_without_a_message() -> None:
    found = cancelled(assessed(server()), ago=POLICY.longest * 2)
    assert found.release
    assert not found.left_behind


@pytest.mark.parametrize(
    ("of", "left"),
    [
        pytest.param(replace(moving(move()), track=FRESH), True, id="not followed yet"),
        pytest.param(
            replace(moving(move("completed")), state=Stranded("")), False, id="its move has ended"
        ),
        pytest.param(replace(moving(), state=Stranded("")), False, id="given up without a move"),
    ],
)
def test_only_moves_of_the_eviction_are_aborted(of: Assessment, *, left: bool) -> None:
    found = cancelled(of)
    assert not found.actions
    assert found.release is not left


def test_a_clock_that_is_behind_has_waited_for_nothing() -> None:
    assert since_deletion(facts(deleted(ago=-LONGEST))) == timedelta(0)
    assert since_deletion(facts()) == timedelta(0)
    assert since_deletion(facts(deleted(ago=LONGEST))) == LONGEST


@pytest.mark.parametrize(
    ("entries", "limit", "words", "confirm"),
    [
        pytest.param((entry("a", name="vm"),), LONGEST, "1 move .* of vm .a.$", False, id="live"),
        pytest.param((entry("a"), entry("b")), LONGEST * 9, "2 moves .* of a, b;", True, id="cold"),
        pytest.param((), LONGEST, "cannot be read", False, id="not known"),
        pytest.param([entry(str(n)) for n in range(20)], LONGEST, "18, 19$", False, id="20"),
        pytest.param([entry(str(n)) for n in range(25)], LONGEST, "18, 19, …$", False, id="many"),
    ],
)
def test_moves_left_behind_are_named(
    entries: tuple[EvictionInstance, ...], limit: timedelta, words: str, *, confirm: bool
) -> None:
    text = left_behind(tuple(entries), limit)
    assert re.search(words, text), text
    assert ("resize confirm" in text) is confirm


def status(reason: str = "", *phases: str) -> EvictionStatus:
    conditions = set_condition((), "Evicting", "False", reason, "", now=NOW.now) if reason else ()
    entries = tuple(entry(str(n), phase) for n, phase in enumerate(phases))
    return EvictionStatus(instances=entries, conditions=conditions)


AWAY = UnreachableError("503")
HOST = Host("here", "h", "s", enabled=False)
LONG = LONGEST + timedelta(seconds=1)


@pytest.mark.parametrize(
    ("of", "read", "plan"),
    [
        pytest.param(deleted(held=False), {}, "nothing", id="nothing was begun"),
        pytest.param(deleted(status("Succeeded")), {}, "released", id="it had ended"),
        pytest.param(deleted(status("Cancelled")), {}, "goes on", id="it is being cancelled"),
        pytest.param(deleted(), {}, "goes on", id="the host is not read yet"),
        pytest.param(deleted(), {"looked": True, "host": HOST}, "goes on", id="the host is read"),
        pytest.param(deleted(), {"looked": True}, "released", id="no host, and nothing begun"),
        pytest.param(
            deleted(status("", "Migrating")),
            {"looked": True},
            "waits: deleted.*has no host here",
            id="no host, for the moment",
        ),
        pytest.param(deleted(), {"trouble": AWAY}, "waits: .*until 00:12:00Z .*: 503", id="away"),
        pytest.param(
            deleted(status("", "Confirming")),
            {"trouble": AWAY},
            "waits: .*until 01:10:00Z",
            id="away, and a move may be a cold one",
        ),
        pytest.param(
            deleted(status("Cancelled")), {"trouble": AWAY}, "waits: $", id="away meanwhile"
        ),
        pytest.param(
            deleted(ago=LONGEST), {"trouble": AWAY}, "waits: .*until 00:10:00Z", id="away for long"
        ),
        pytest.param(deleted(ago=LONG), {"trouble": AWAY}, "given up", id="away for too long"),
        pytest.param(
            deleted(status("", "Migrating"), ago=LONG),
            {"trouble": AWAY},
            "waits",
            id="away, but not for as long as a cold move may take",
        ),
    ],
)
def test_deletion_is_settled_by_what_was_read(
    of: Eviction, read: dict[str, object], plan: str
) -> None:
    found = settled(facts(of, **read), POLICY)
    match found:
        case None:
            outcome = "goes on"
        case EvictionPlan(release=True):
            outcome = "given up" if found.left_behind else "released"
        case EvictionPlan(look_again=None):
            outcome = "nothing"
        case _:
            outcome = f"waits: {found.wait.message if found.wait else ''}"
    assert re.match(plan, outcome), outcome
