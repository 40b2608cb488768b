"""What is seen of an instance that has left decides whether it counts as moved."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.operator.eviction.made import (
    BEGAN,
    NOW,
    POLICY,
    entry,
    eviction,
    facts,
    move,
    server,
    situation,
)

from hypercobalt.api.eviction import EvictionInstance
from hypercobalt.compute.model import Move, Server, ServerAction
from hypercobalt.operator.eviction.assessing.arrivals import as_seen
from hypercobalt.operator.eviction.model.states import (
    Arrived,
    Assessment,
    Departed,
    Observed,
    State,
    Stranded,
)
from hypercobalt.operator.eviction.model.tracks import FRESH, Blocking, Track
from hypercobalt.operator.eviction.model.whereabouts import Whereabouts

MOVED = Departed("moved to there")
UNNOTICED = Departed("left the host", unnoticed=True)
DONE = move("completed")
COLD = move("confirmed", kind="migration")
STOP = ServerAction("stop", BEGAN, user="its owner")
SYNC = ServerAction("stop", BEGAN)
DOWN = "moved to there, and its guest does not run there although it ran: it is {}"


def there(status: str = "ACTIVE", **fields: object) -> Server:
    return server("a", status, **{"host": "there", **fields})


def seen(
    found: Whereabouts,
    *moves: Move,
    by: State = MOVED,
    known: EvictionInstance | None = None,
    keeps: bool = True,
    track: Track = FRESH,
) -> Assessment:
    of = facts(eviction(), left={"a": found}, keeps_servers=keeps)
    instance = Assessment(Observed(known or entry(), None, moves), by, track)
    return as_seen(situation(of), instance)


@pytest.mark.parametrize(
    ("found", "state"),
    [
        pytest.param(Whereabouts(there()), MOVED, id="it runs"),
        pytest.param(Whereabouts(runs_on="there"), MOVED, id="its agent reports that it runs"),
        pytest.param(Whereabouts(there("PAUSED", paused=True)), MOVED, id="it is paused"),
        pytest.param(Whereabouts(there("SUSPENDED")), MOVED, id="its owner has suspended it"),
        pytest.param(
            Whereabouts(there("SHUTOFF"), requests=(STOP,)),
            Departed("moved to there; stopped there by its owner"),
            id="its owner has stopped it",
        ),
        pytest.param(
            Whereabouts(there("SHUTOFF")),
            Arrived(due=False, message=DOWN.format("SHUTOFF")),
            id="it is off",
        ),
        pytest.param(
            Whereabouts(there("SHUTOFF", died=False)),
            Arrived(due=False, message=DOWN.format("SHUTOFF")),
            id="it is off, and Nova does not know why",
        ),
        pytest.param(
            Whereabouts(there("SHUTOFF"), requests=(SYNC,)),
            Arrived(due=False, message=DOWN.format("SHUTOFF")),
            id="Nova has stopped it since its guest is gone",
        ),
        pytest.param(
            Whereabouts(there(running=False)),
            Arrived(due=False, message=DOWN.format("ACTIVE")),
            id="it is active by its record alone",
        ),
        pytest.param(
            Whereabouts(there(running=False, task_state="powering-on")),
            Arrived(due=False, message=DOWN.format("powering-on")),
            id="it is being started",
        ),
        pytest.param(
            Whereabouts(there("ERROR", fault="no port")),
            Stranded("has left the host, and it is in ERROR on there: no port"),
            id="it is in error",
        ),
        pytest.param(Whereabouts(), Departed("moved to there; deleted since"), id="it is deleted"),
    ],
)
def test_instance_that_was_moved_live_counts_as_it_is_seen(
    found: Whereabouts, state: State
) -> None:
    assert seen(found, DONE).state == state


@pytest.mark.parametrize(
    ("found", "moves", "by", "state"),
    [
        pytest.param(
            Whereabouts(there("SHUTOFF", died=False)),
            (DONE,),
            MOVED,
            Departed("moved to there; stopped there by its owner"),
            id="ended by its owner",
        ),
        pytest.param(
            Whereabouts(there("SHUTOFF", died=True)),
            (DONE,),
            MOVED,
            Arrived(due=False, message=DOWN.format("SHUTOFF")),
            id="its guest has died",
        ),
        pytest.param(
            Whereabouts(),
            (DONE,),
            MOVED,
            Stranded("moved to there, and no host has it"),
            id="lost after its move",
        ),
        pytest.param(Whereabouts(), (), UNNOTICED, Departed("deleted"), id="deleted before one"),
        pytest.param(
            Whereabouts(unread="host there: no answer"),
            (DONE,),
            MOVED,
            Arrived(due=False, message="moved to there; cannot read it: host there: no answer"),
            id="its host does not answer",
        ),
    ],
)
def test_instance_counts_as_the_hosts_show_it_where_they_keep_the_servers(
    found: Whereabouts, moves: tuple[Move, ...], by: State, state: State
) -> None:
    assert seen(found, *moves, by=by, keeps=False).state == state


def test_instance_that_was_off_before_its_move_may_be_off_afterwards() -> None:
    assert seen(Whereabouts(there("SHUTOFF")), COLD).state == MOVED


def test_instance_that_ran_has_to_run_after_a_cold_move() -> None:
    found = seen(Whereabouts(there("SHUTOFF")), COLD, known=entry(ran=True, mode="cold"))
    assert found.state == Arrived(due=False, message=DOWN.format("SHUTOFF"))


def test_crashed_instance_that_was_moved_cold_is_left_to_its_recovery() -> None:
    """What ran and is off there is started by the rules of its own course."""
    of = facts(eviction(trigger="InstanceCrash"), left={"a": Whereabouts(there("SHUTOFF"))})
    instance = Assessment(Observed(entry(ran=True, mode="cold"), None, (COLD,)), MOVED)
    assert as_seen(situation(of), instance) == instance


def test_instance_in_error_without_a_fault_is_named_with_its_host() -> None:
    text = "has left the host, and it is in ERROR on there: the compute service gives no reason"
    assert seen(Whereabouts(there("ERROR")), DONE).state == Stranded(text)


def test_instance_whose_move_was_forgotten_is_named_as_lost() -> None:
    """The records of moves between hosts end with the operator; its attempts are in the status."""
    of = facts(eviction(), left={"a": Whereabouts()}, keeps_servers=False)
    instance = Assessment(Observed(entry(), None), UNNOTICED, attempts=1)
    assert as_seen(situation(of), instance).state == Stranded(
        "has left the host, and no host has it"
    )


def test_instance_that_left_without_a_move_is_named_with_what_is_seen_of_it() -> None:
    assert seen(Whereabouts(), by=UNNOTICED).state == Departed("deleted")
    elsewhere = Departed("moved to there outside this Eviction")
    assert seen(Whereabouts(there()), by=UNNOTICED).state == elsewhere


def test_instance_that_stays_down_is_given_up_with_the_way_out() -> None:
    first = seen(Whereabouts(there("SHUTOFF")), DONE)
    assert first.track.follows == Blocking(DOWN.format("SHUTOFF"))
    assert first.track.since == NOW.at
    patience = POLICY.patience.total_seconds()
    just = seen(
        Whereabouts(there("SHUTOFF")), DONE, track=replace(first.track, since=NOW.at - patience)
    )
    assert isinstance(just.state, Arrived)
    long_ago = replace(first.track, since=NOW.at - POLICY.patience.total_seconds() - 1)
    last = seen(Whereabouts(there("SHUTOFF")), DONE, track=long_ago)
    assert last.state == Stranded(f"{DOWN.format('SHUTOFF')}: start it")


def test_instance_that_has_not_left_keeps_its_state() -> None:
    stays = Stranded("no")
    assert seen(Whereabouts(there("SHUTOFF")), DONE, by=stays).state == stays


def test_instance_whose_whereabouts_were_not_read_keeps_its_state() -> None:
    instance = Assessment(Observed(entry("b"), None, (DONE,)), MOVED)
    assert as_seen(situation(facts(left={"a": Whereabouts()})), instance) == instance
