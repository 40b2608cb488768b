"""Moves of a real Nova, replayed against the rules: the states of an instance, in order."""

from __future__ import annotations

from typing import Final

import pytest
from tests.traces.moves_trace import FOLDER, Look, load
from tests.unit.operator.eviction.made import situation

from hypercobalt.api.eviction import Eviction, EvictionInstance, EvictionSpec, EvictionStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.operator.eviction.assess import assess
from hypercobalt.operator.eviction.model.facts import Facts
from hypercobalt.operator.eviction.model.states import Moment, State
from hypercobalt.operator.eviction.model.tracks import FRESH


def replayed(looks: tuple[Look, ...]) -> list[State]:
    """The state at each look, with what is remembered from the ones before."""
    first = looks[0]
    assert first.server is not None
    id_ = first.server.id
    eviction = Eviction(
        metadata=ObjectMeta(name="here", creationTimestamp=first.at),
        spec=EvictionSpec(hypervisor="here", reason="test"),
    )
    status = EvictionStatus(instances=(EvictionInstance(id=id_, phase="Pending"),))
    found, track = list[State](), FRESH
    for look in looks:
        moment = Moment(look.at, (look.at - first.at).total_seconds())
        servers = (look.server,) if look.server is not None else ()
        facts = Facts(
            eviction=eviction, status=status, moment=moment, servers=servers, moves=look.moves
        )
        (one,) = assess(situation(facts), {id_: track})
        found.append(one.state)
        track = one.track
    return found


def names(states: list[State]) -> list[str]:
    """Names of the states' types, each once in a row."""
    every = [type(state).__name__ for state in states]
    return [name for name, before in zip(every, ["", *every], strict=False) if name != before]


ENDS: Final = {
    "live": ["Ready", "Moving", "Departed"],
    "cold": ["Ready", "Waiting", "Ready", "Moving", "Arrived", "Moving", "Departed"],
    "no_valid_host": ["Ready", "Moving", "Waiting"],
    "aborted": ["Ready", "Moving", "Damaged"],
}
"""In `cold` the server is stopped first, and its record shows `confirming` before the end; in
`aborted` Nova 34 takes its own abort for a failure."""


@pytest.mark.parametrize(("name", "expected"), ENDS.items(), ids=ENDS)
def test_move_of_a_real_nova_is_followed_to_its_end(name: str, expected: list[str]) -> None:
    assert names(replayed(load(name).looks)) == expected


def test_every_trace_is_replayed() -> None:
    assert sorted(file.stem for file in FOLDER.glob("*.json")) == sorted(ENDS)
