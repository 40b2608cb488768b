"""Which of several running Evictions has an instance."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.unit.operator.eviction.made import (
    BEGAN,
    NOW,
    entry,
    eviction,
    facts,
    hypervisor,
    move,
    server,
    situation,
)

from hypercobalt.api.conditions import set_condition
from hypercobalt.api.eviction import Eviction, EvictionStatus
from hypercobalt.compute.model import Host
from hypercobalt.operator.eviction.assess import assess
from hypercobalt.operator.eviction.assessing.claims import held_by
from hypercobalt.operator.eviction.model.states import Moving, Ready, Waiting

BEFORE, AFTER = BEGAN - timedelta(seconds=1), BEGAN + timedelta(seconds=1)


def other(
    phase: str, *, made: object = BEFORE, passed: bool = True, mode: str = "auto", **meta: object
) -> Eviction:
    conditions = set_condition(
        (), "PreflightChecksSucceeded", str(passed), "Succeeded", "", now=NOW.now
    )
    status = EvictionStatus(instances=(entry("a", phase),), conditions=conditions)
    about = eviction(status, name="other", mode=mode)
    return replace(about, metadata=replace(about.metadata, creationTimestamp=made, **meta))


def ended(of: Eviction) -> Eviction:
    over = set_condition(of.status.conditions, "Evicting", "False", "Failed", "", now=NOW.now)
    return replace(of, status=replace(of.status, conditions=over))


@pytest.mark.parametrize(
    ("of", "held"),
    [
        pytest.param(other("Pending"), True, id="the earlier one has it"),
        pytest.param(other("Pending", mode="live"), True, id="also one that moves live"),
        pytest.param(other("Pending", made=AFTER), False, id="the later one waits"),
        pytest.param(other("Pending", made=BEGAN), False, id="made at once: by their names"),
        pytest.param(other("Pending", passed=False), False, id="one that its checks stop"),
        pytest.param(other("Pending", deletionTimestamp=NOW.now), False, id="one that is deleted"),
        pytest.param(other("Migrating", made=AFTER), True, id="what is begun goes on"),
        pytest.param(other("Restarting", made=AFTER), True, id="restarted"),
        pytest.param(other("Confirming", made=AFTER), True, id="to be confirmed"),
        pytest.param(
            other("Migrating", passed=False, deletionTimestamp=NOW.now), True, id="being stopped"
        ),
        pytest.param(other("Failed"), False, id="given up"),
        pytest.param(other("Succeeded"), False, id="done"),
        pytest.param(other("Skipped"), False, id="skipped"),
        pytest.param(ended(other("Pending")), False, id="one that has ended"),
        pytest.param(replace(other("Migrating"), metadata=eviction().metadata), False, id="itself"),
        pytest.param(other("Pending", made=None), True, id="one without a creation time"),
    ],
)
def test_instance_is_held_by_the_eviction_that_works_on_it(of: Eviction, *, held: bool) -> None:
    assert held_by(situation(), (of,)) == ({"a": "other"} if held else {})


def test_eviction_keeps_an_instance_that_it_has_begun() -> None:
    own = eviction(EvictionStatus(instances=(entry("a", "Restarting"),)))
    assert held_by(situation(facts(own)), (other("Migrating"),)) == {}


@pytest.mark.parametrize(
    ("of", "held"),
    [
        pytest.param(other("Migrating"), False, id="a move that died with the host"),
        pytest.param(other("Restarting"), False, id="a restart that died with it"),
        pytest.param(other("Evacuating", made=AFTER), True, id="another evacuates it"),
        pytest.param(other("Pending"), True, id="another is to evacuate it, and was made first"),
        pytest.param(
            other("Pending", mode="evacuate"), True, id="another is to evacuate it by its mode"
        ),
        pytest.param(other("Pending", mode="live"), False, id="a drain that cannot go on"),
        pytest.param(other("Pending", mode="cold"), False, id="a cold move that cannot go on"),
        pytest.param(other("Pending", mode="restart"), False, id="a restart that cannot go on"),
    ],
)
def test_only_evacuations_count_on_a_dead_host(of: Eviction, *, held: bool) -> None:
    down = Host("here", "h", "s", enabled=False, up=False)
    about = facts(hypervisor=hypervisor("Fenced"), host=down)
    assert held_by(situation(about), (of,)) == ({"a": "other"} if held else {})


def test_instance_that_another_eviction_has_waits_without_a_limit() -> None:
    of = facts(servers=(server(),))
    (free,) = assess(situation(of), {})
    assert isinstance(free.state, Ready)
    (held,) = assess(situation(facts(servers=(server(),), held={"a": "other"})), {})
    assert held.state == Waiting("Eviction other has this instance; waiting for its end")
    assert held.track == free.track


def test_moving_instance_is_followed_whichever_eviction_has_it() -> None:
    leaving = server(task_state="migrating")
    (found,) = assess(
        situation(facts(servers=(leaving,), moves=(move(),), held={"a": "other"})), {}
    )
    assert isinstance(found.state, Moving)
