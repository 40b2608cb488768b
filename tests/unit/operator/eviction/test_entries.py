"""Which instances an Eviction is about."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from tests.unit.operator.eviction.made import (
    BEGAN,
    NOW,
    POLICY,
    entry,
    eviction,
    move,
    server,
    standing,
)

from hypercobalt.api.eviction import EvictionInstance, EvictionStatus
from hypercobalt.compute.model import Move, Server
from hypercobalt.operator.eviction.entries import left, standings
from hypercobalt.operator.eviction.follow import Step

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
    made = standings(
        eviction(instances=named),
        EvictionStatus(instances=known),
        here,
        records,
        jobs={},
        tracks={},
        policy=POLICY,
        moment=NOW,
    )
    assert [str(one.phase) for one in made] == found
    confirmed = [one for one in made if one.step is Step.CONFIRM]
    assert len(confirmed) == found.count("Confirming")


@pytest.mark.parametrize(
    ("phase", "attempts", "named", "counted"),
    [
        pytest.param("Succeeded", 1, (), {"a"}, id="it has left, and is here again"),
        pytest.param("Failed", 3, (), set[str](), id="it is known to stay"),
        pytest.param("Skipped", 0, (), {"a"}, id="it was on no host, and is here now"),
        pytest.param("Succeeded", 0, ("b",), set[str](), id="another is named"),
    ],
)
def test_what_is_left_by_the_hosts_own_count(
    phase: str, attempts: int, named: tuple[str, ...], counted: set[str]
) -> None:
    found = standing(server(), Step.NONE, phase=phase, attempts=attempts)
    assert left(eviction(instances=named), ["a"], [found]) == counted
