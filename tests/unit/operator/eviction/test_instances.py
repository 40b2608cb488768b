"""Which instances an Eviction is about."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from tests.unit.operator.eviction.made import (
    BEGAN,
    POLICY,
    assessed,
    entry,
    eviction,
    facts,
    move,
    server,
)

from hypercobalt.api.eviction import EvictionInstance, EvictionStatus
from hypercobalt.compute.model import Move, Server
from hypercobalt.operator.eviction.assess import assess
from hypercobalt.operator.eviction.plan import still_counted
from hypercobalt.operator.eviction.states import (
    Arrived,
    Departed,
    State,
    Stranded,
    Unaffected,
    phase_of,
)

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
        pytest.param((), (), (cold(created=BEFORE),), (), [], id="somebody's earlier cold move"),
        pytest.param((), (), (cold("confirmed"),), (), [], id="a cold move that is over"),
        pytest.param((), (), (move("completed"),), (), [], id="a live move that is over"),
    ],
)
def test_phases(
    known: tuple[EvictionInstance, ...],
    here: tuple[Server, ...],
    records: tuple[Move, ...],
    named: tuple[str, ...],
    found: list[str],
) -> None:
    about = eviction(EvictionStatus(instances=known), instances=named)
    made = assess(facts(about, servers=here, moves=records), {}, POLICY)
    assert [str(phase_of(one.state)) for one in made] == found
    confirmed = [one for one in made if isinstance(one.state, Arrived) and one.state.due]
    assert len(confirmed) == found.count("Confirming")


@pytest.mark.parametrize(
    ("state", "named", "counted"),
    [
        pytest.param(Departed(""), (), {"a"}, id="it has left, and is here again"),
        pytest.param(Stranded(""), (), set[str](), id="it is known to stay"),
        pytest.param(Unaffected(""), (), {"a"}, id="it was on no host, and is here now"),
        pytest.param(Departed(""), ("b",), set[str](), id="another is named"),
    ],
)
def test_what_is_left_by_the_hosts_own_count(
    state: State, named: tuple[str, ...], counted: set[str]
) -> None:
    assert still_counted(named, ["a"], [assessed(server(), state)]) == counted
