"""Messages of the conditions about the instances."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from tests.unit.operator.eviction.made import BEGAN, NOW, entry, move

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.eviction import EvictionInstance, EvictionStatus
from hypercobalt.operator.eviction.model.claims import Claim
from hypercobalt.operator.eviction.recording.status import (
    Conditions,
    ended_text,
    listed,
    set_claimed,
    set_migrating,
    set_running,
)

LEFT = entry("left", "Succeeded", mode="live", target="there")
DELETED = entry("deleted", "Succeeded")
AGAIN = entry("again", "Succeeded", mode="restart")
BROUGHT_UP = entry("up", "Succeeded", mode="restart", target="there")
GOING = entry("going", "Migrating")
GONE = entry("gone", "Skipped")
BAD = entry("bad", "Failed", mode="live", message="no place")
OFF = entry("off", "Failed", mode="restart", message="does not run")


def status(*entries: EvictionInstance) -> EvictionStatus:
    return EvictionStatus(instances=entries)


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        pytest.param((), "0 of 0 instances have left here, 0 migrating", id="nothing there"),
        pytest.param(
            (LEFT, GOING, entry()), "1 of 3 instances have left here, 1 migrating", id="moves"
        ),
        pytest.param(
            (GOING, GONE), "0 of 1 instance have left here, 1 migrating", id="one is gone"
        ),
        pytest.param(
            (LEFT, entry("x", "Evacuating")),
            "1 of 2 instances have left here, 0 migrating, 1 evacuating",
            id="evacuates",
        ),
        pytest.param(
            (LEFT, AGAIN, entry("x", "Restarting", mode="restart")),
            "2 of 3 instances run again or have left here, 1 of 2 restarting",
            id="restarts",
        ),
    ],
)
def test_running_message_counts_instances_that_left_and_moves_under_way(
    entries: tuple[EvictionInstance, ...], text: str
) -> None:
    conditions = Conditions((), 1, NOW.now)
    set_running(conditions, status(*entries), "here")
    (found,) = conditions.value
    assert found.message == f"Running: {text}"


def test_running_message_names_the_migrations_that_are_waited_for() -> None:
    conditions = Conditions((), 1, NOW.now)
    coming = [move("running", f"i{number}", source="there") for number in range(6)]
    set_running(conditions, status(), "here", coming)
    (found,) = conditions.value
    named = ", ".join(f"i{number} from there" for number in range(5))
    text = f"waiting for 6 incoming migrations: {named} …"
    assert found.message == f"Running: 0 of 0 instances have left here, 0 migrating; {text}"


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        pytest.param((), "completed successfully: 0 instances left here", id="nothing there"),
        pytest.param((LEFT, GONE), "completed successfully: 1 instance left here", id="moved"),
        pytest.param((DELETED,), "completed successfully: 1 instance left here", id="deleted"),
        pytest.param(
            (AGAIN,), "completed successfully: 1 instance restarted on here", id="restarted"
        ),
        pytest.param(
            (LEFT, AGAIN, BROUGHT_UP),
            "completed successfully: 2 instances left here, 1 instance restarted on here",
            id="moved, restarted, and restarted where it has come to",
        ),
        pytest.param(
            (BAD,),
            "failed: 1 instance could not be moved away from here, 0 moved: bad: no place",
            id="not moved",
        ),
        pytest.param(
            (OFF, LEFT),
            "failed: 1 instance could not be restarted on here, 1 moved: off: does not run",
            id="not restarted",
        ),
        pytest.param(
            (OFF, BAD, AGAIN),
            "failed: 2 instances could not be moved away from here, 0 moved, "
            "1 instance restarted on here: off: does not run; bad: no place",
            id="neither",
        ),
    ],
)
def test_final_message_counts_done_instances_and_names_the_others(
    entries: tuple[EvictionInstance, ...], text: str
) -> None:
    assert ended_text(status(*entries), "here") == f"eviction {text}"


def moved(id_: str, seconds: int | None, message: str | None = "moved") -> EvictionInstance:
    at = None if seconds is None else BEGAN + timedelta(seconds=seconds)
    return entry(id_, "Succeeded", finishedAt=at, message=message)


@pytest.mark.parametrize(
    ("entries", "state", "text"),
    [
        pytest.param((GOING, GONE), "", "", id="none is done"),
        pytest.param((moved("a", 1), GOING), "Succeeded", "Instance a finished: moved", id="one"),
        pytest.param(
            (moved("a", 2), moved("b", 1)), "Succeeded", "Instance a finished: moved", id="the last"
        ),
        pytest.param(
            (moved("a", 2, None),), "Succeeded", "Instance a finished: has left", id="no words"
        ),
        pytest.param((moved("a", 1), BAD), "Failed", "bad: no place", id="a failed one"),
    ],
)
def test_migrating_instance_is_a_failed_one_or_the_last_that_was_moved(
    entries: tuple[EvictionInstance, ...], state: str, text: str
) -> None:
    conditions = Conditions((), 1, NOW.now)
    set_migrating(conditions, status(*entries))
    found = get_condition(conditions.value, "MigratingInstance")
    assert (found.reason, found.message) == (state, text) if found else not state


CLAIM = Claim("kvm-9", "a", "Instance a of here waits: it runs on host kvm-9")
OTHER = Claim("kvm-8", "b", "Instance b of here waits: its disk is that of x on kvm-8, too")


def claimed(
    conditions: Conditions, found: tuple[Claim, ...], *entries: EvictionInstance
) -> tuple[str, str, str] | None:
    set_claimed(conditions, found, status(*entries))
    now = get_condition(conditions.value, "InstanceClaimed")
    return (now.status, now.reason, now.message) if now else None


def test_claim_shows_until_its_instance_has_left() -> None:
    conditions = Conditions((), 1, NOW.now)
    assert claimed(conditions, (), entry("a")) is None
    both = claimed(conditions, (CLAIM, OTHER), entry("a"), entry("b"))
    assert both == ("True", "Claimed", f"{CLAIM.text}; {OTHER.text}")
    assert claimed(conditions, (), entry("a"), entry("b")) == both, "by an operator before"
    assert claimed(conditions, (), entry("a", "Failed"), entry("b", "Succeeded")) == both
    left = entry("a", "Succeeded")
    assert claimed(conditions, (CLAIM, OTHER), left, entry("b")) == ("True", "Claimed", OTHER.text)
    settled = claimed(conditions, (CLAIM, OTHER), left, entry("b", "Skipped"))
    assert settled == ("False", "Settled", "No instance is claimed by another host any more")
    assert claimed(conditions, (), left) == settled


def test_five_claims_are_named_at_most() -> None:
    ids = [str(uuid.uuid5(uuid.NAMESPACE_DNS, str(n))) for n in range(7)]
    found = tuple(Claim("kvm-9", one, f"Instance {one} waits") for one in ids)
    named = claimed(Conditions((), 1, NOW.now), found, *map(entry, ids))
    assert named is not None
    assert named[2].endswith(f"Instance {ids[4]} waits; and 2 more")


@pytest.mark.parametrize(
    ("number", "rest"), [(20, ""), (21, "; and 1 more"), (30, "; and 10 more")]
)
def test_twenty_instances_are_named_at_most(number: int, rest: str) -> None:
    found = listed([entry(str(n), "Failed") for n in range(number)])
    assert found == "; ".join(f"{n}: Failed" for n in range(20)) + rest
