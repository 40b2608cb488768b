"""Which instances an Eviction is about."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from tests.unit.operator.eviction.made import (
    BEGAN,
    assessed,
    entry,
    eviction,
    facts,
    move,
    server,
    situation,
)

from hypercobalt.api.eviction import Eviction, EvictionInstance, EvictionStatus
from hypercobalt.compute.model import Move, Server
from hypercobalt.operator.eviction.assess import assess
from hypercobalt.operator.eviction.assessing.case import CLOCK_SKEW
from hypercobalt.operator.eviction.model.states import (
    Arrived,
    Crashed,
    Departed,
    Mode,
    Moving,
    Ready,
    Restarted,
    State,
    Stranded,
    Unaffected,
    Waiting,
    phase_of,
)
from hypercobalt.operator.eviction.planning.ending import still_counted

BEFORE = BEGAN - timedelta(hours=1)


def cold(status: str = "finished", created: datetime = BEGAN) -> Move:
    return move(status, kind="migration", created=created)


@pytest.mark.parametrize(
    ("known", "here", "records", "named", "found"),
    [
        pytest.param((), (server(),), (), (), ["Pending"], id="on the host"),
        pytest.param((), (), (), (), [], id="nothing is there"),
        pytest.param((), (), (), ("a",), ["Skipped"], id="named, and not there"),
        pytest.param((entry(),), (), (), (), ["Succeeded"], id="was there"),
        pytest.param((), (), (cold(),), (), ["Confirming"], id="a dead process's cold move"),
        pytest.param((), (), (cold(),), ("a",), ["Confirming"], id="and it is named"),
        pytest.param((), (), (cold(),), ("b",), ["Skipped"], id="and another is named"),
        pytest.param((), (), (cold(created=BEFORE),), (), [], id="a client's earlier cold move"),
        pytest.param(
            (), (), (cold(created=BEGAN - CLOCK_SKEW),), (), ["Confirming"], id="by another clock"
        ),
        pytest.param((), (), (move(),), ("a",), ["Migrating"], id="named, and about to arrive"),
        pytest.param((), (), (move("completed"),), ("a",), ["Skipped"], id="named, and has left"),
        pytest.param((), (), (cold("confirmed"),), (), [], id="a cold move that is over"),
        pytest.param((), (), (move("completed"),), (), [], id="a live move that is over"),
    ],
)
def test_phase_follows_from_entry_server_and_records(
    known: tuple[EvictionInstance, ...],
    here: tuple[Server, ...],
    records: tuple[Move, ...],
    named: tuple[str, ...],
    found: list[str],
) -> None:
    about = eviction(EvictionStatus(instances=known), instances=named)
    made = assess(situation(facts(about, servers=here, moves=records)), {})
    assert [str(phase_of(one.state)) for one in made] == found
    confirmed = [one for one in made if isinstance(one.state, Arrived) and one.state.due]
    assert len(confirmed) == found.count("Confirming")


@pytest.mark.parametrize(
    ("known", "here", "mode", "state", "attempts"),
    [
        pytest.param(
            entry(phase="Succeeded", message="moved", attempts=2), (), None, Departed("moved"), 2,
            id="has left",
        ),
        pytest.param(entry(phase="Succeeded"), (), None, Departed(""), 0, id="at once"),
        pytest.param(
            entry(phase="Skipped", message="gone"), (), None, Unaffected("gone"), 0, id="was gone"
        ),
        pytest.param(
            entry(phase="Succeeded", message="restarted", attempts=1), (server(),), "restart",
            Restarted("restarted"), 1, id="runs again",
        ),
        pytest.param(
            entry(phase="Skipped", message="planned"), (server(),), "restart",
            Unaffected("planned", stays=True), 0, id="was left to its owner",
        ),
        pytest.param(
            entry(phase="Succeeded"), (server(),), None, Ready(Mode.LIVE), 0, id="is here again"
        ),
    ],
)  # fmt: skip
def test_instance_that_is_done_stays_done_unless_it_returns_to_a_drained_host(
    known: EvictionInstance,
    here: tuple[Server, ...],
    mode: str | None,
    state: State,
    attempts: int,
) -> None:
    about = eviction(EvictionStatus(instances=(known,)), mode=mode)
    (found,) = assess(situation(facts(about, servers=here)), {})
    assert (found.state, found.attempts) == (state, attempts)


@pytest.mark.parametrize(
    ("state", "named", "counted"),
    [
        pytest.param(Departed(""), (), {"a"}, id="it has left, and is here again"),
        pytest.param(Stranded(""), (), set[str](), id="it is known to stay"),
        pytest.param(Unaffected(""), (), {"a"}, id="it was on no host, and is here now"),
        pytest.param(Departed(""), ("b",), set[str](), id="another is named"),
        pytest.param(Departed(""), ("a",), {"a"}, id="it is named"),
    ],
)
def test_instance_that_the_host_still_counts_is_named(
    state: State, named: tuple[str, ...], counted: set[str]
) -> None:
    assert still_counted(named, ["a"], [assessed(server(), state)]) == counted


@pytest.mark.parametrize(
    ("about", "here", "state"),
    [
        pytest.param(eviction(), server(), Waiting, id="ready to leave"),
        pytest.param(eviction(mode="restart"), server(status="SHUTOFF"), Waiting, id="crashed"),
        pytest.param(eviction(), server(status="MIGRATING"), Moving, id="on its way"),
    ],
)
def test_instance_of_another_eviction_is_left_to_it_and_followed(
    about: Eviction, here: Server, state: type
) -> None:
    (found,) = assess(situation(facts(about, servers=(here,), held={"a": "other"})), {})
    assert isinstance(found.state, state)
    assert (found.state.message == "Eviction other has this instance; waiting for its end") is (
        state is Waiting
    )


@pytest.mark.parametrize(
    ("trigger", "state"), [("InstanceCrash", Unaffected), ("Manual", Crashed), (None, Crashed)]
)
def test_recovery_that_an_owner_has_turned_off_is_made_by_hand_only(
    trigger: str | None, state: type
) -> None:
    about = eviction(mode="restart", trigger=trigger)
    off = server(status="SHUTOFF", recovers=False)
    (found,) = assess(situation(facts(about, servers=(off,))), {})
    assert isinstance(found.state, state)
