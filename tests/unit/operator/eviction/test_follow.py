"""How far one instance is."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.unit.operator.eviction.made import BEGAN, NOW, POLICY, entry, move, server

from hypercobalt.operator.eviction.follow import BEGUN, Seen, Standing, Step, follow
from hypercobalt.operator.eviction.policy import Policy
from hypercobalt.operator.eviction.progress import Track

LEAVING = server(task_state="migrating")
AGES_AGO = BEGAN - timedelta(days=1)
COLD = {"kind": "migration"}
IN_ERROR = server(status="ERROR", running=True, fault="canceled by client")


def seen(of: object = None, *moves: object, known: object = None) -> Seen:
    return Seen(known or entry(), of, moves)  # type: ignore[arg-type]


def followed(of: Seen, track: Track | None = None, policy: Policy = POLICY) -> Standing:
    return follow(of, track or Track(), BEGAN, policy, NOW)


@pytest.mark.parametrize(
    ("of", "phase", "step"),
    [
        pytest.param(seen(server()), "Pending", Step.START, id="nothing begun"),
        pytest.param(seen(LEAVING, move()), "Migrating", Step.NONE, id="under way: not again"),
        pytest.param(
            seen(server(), move(updated=NOW.now - timedelta(seconds=100))),
            "Migrating",
            Step.NONE,
            id="let go, but the record is still written",
        ),
        pytest.param(
            seen(LEAVING, move(created=AGES_AGO)),
            "Migrating",
            Step.NONE,
            id="begun by somebody else: not again either",
        ),
        pytest.param(
            seen(server(status="MIGRATING")), "Migrating", Step.NONE, id="accepted, no record yet"
        ),
        pytest.param(
            seen(server(), move("error", created=AGES_AGO)),
            "Pending",
            Step.START,
            id="failed long ago",
        ),
        pytest.param(
            seen(server(), move("error")), "Pending", Step.NONE, id="failed just now: wait a little"
        ),
        pytest.param(
            seen(server(), *(move("error", id=str(n)) for n in range(3))),
            "Failed",
            Step.NONE,
            id="failed too often",
        ),
        pytest.param(
            seen(server(), known=entry(attempts=3, message="no")),
            "Failed",
            Step.NONE,
            id="refused too often",
        ),
        pytest.param(
            seen(server(), move("reverted", kind="resize", created=AGES_AGO)),
            "Pending",
            Step.START,
            id="its owner has taken a resize back",
        ),
        pytest.param(
            seen(server(), *(move("reverted", id=str(n), kind="resize") for n in range(3))),
            "Pending",
            Step.START,
            id="its owner's resizes are no attempts of ours",
        ),
        pytest.param(
            seen(server(), move(created=AGES_AGO, updated=AGES_AGO)),
            "Pending",
            Step.START,
            id="nobody has ended an old record, and nothing is done to it",
        ),
        pytest.param(
            seen(server(status="SHUTOFF"), move("pre-migrating", updated=AGES_AGO, **COLD)),
            "Pending",
            Step.START,
            id="nor to one that is off",
        ),
        pytest.param(
            seen(LEAVING, move(created=AGES_AGO, updated=AGES_AGO)),
            "Migrating",
            Step.NONE,
            id="an old record of one that is on its way",
        ),
        pytest.param(seen(None, move()), "Migrating", Step.NONE, id="arrives, the record counts"),
        pytest.param(seen(None, move("completed")), "Succeeded", Step.NONE, id="moved"),
        pytest.param(seen(None), "Succeeded", Step.NONE, id="gone"),
        pytest.param(seen(None, move("error")), "Succeeded", Step.NONE, id="gone after a failure"),
        pytest.param(
            seen(None, move("finished", **COLD)), "Confirming", Step.CONFIRM, id="to be confirmed"
        ),
        pytest.param(
            seen(None, move("finished", kind="resize")),
            "Succeeded",
            Step.NONE,
            id="a resize is its owner's to confirm",
        ),
        pytest.param(
            seen(None, move("finished", created=AGES_AGO, **COLD)),
            "Succeeded",
            Step.NONE,
            id="a cold move before the Eviction is somebody else's to confirm",
        ),
        pytest.param(seen(None, move("confirmed", **COLD)), "Succeeded", Step.NONE, id="confirmed"),
        pytest.param(seen(server(status="SUSPENDED")), "Failed", Step.NONE, id="cannot be moved"),
        pytest.param(
            seen(IN_ERROR, move("error")), "Pending", Step.RECOVER, id="in ERROR by its move"
        ),
        pytest.param(
            seen(server(status="ERROR", paused=True), move("error")),
            "Pending",
            Step.RECOVER,
            id="in ERROR by its move, and paused",
        ),
        pytest.param(
            seen(server(paused=True, running=False), move("error")),
            "Pending",
            Step.RECOVER,
            id="out of ERROR, and not yet PAUSED as its guest is",
        ),
        pytest.param(
            seen(server(paused=True, running=False)),
            "Pending",
            Step.START,
            id="paused by somebody else, in whatever way",
        ),
        pytest.param(
            seen(server(status="PAUSED", paused=True), move("error")),
            "Pending",
            Step.NONE,
            id="paused as before: it is tried again",
        ),
        pytest.param(seen(IN_ERROR), "Failed", Step.NONE, id="in ERROR by itself"),
        pytest.param(
            seen(IN_ERROR, move("error", created=AGES_AGO)),
            "Failed",
            Step.NONE,
            id="in ERROR by somebody else's move",
        ),
        pytest.param(
            seen(IN_ERROR, move("error", **COLD)), "Failed", Step.NONE, id="in ERROR by a cold move"
        ),
        pytest.param(
            seen(server(status="ERROR", running=False), move("error")),
            "Failed",
            Step.NONE,
            id="in ERROR by its move, and off",
        ),
        pytest.param(
            seen(server(), move("cancelled", updated=NOW.now - timedelta(seconds=1))),
            "Migrating",
            Step.NONE,
            id="called off just now: it settles",
        ),
        pytest.param(seen(server(status="BUILD")), "Pending", Step.NONE, id="cannot be moved yet"),
        pytest.param(
            seen(server(status="SHELVED_OFFLOADED")), "Skipped", Step.NONE, id="on no host"
        ),
    ],
)
def test_phases(of: Seen, phase: str, step: Step) -> None:
    found = followed(of)
    assert (found.phase, found.step) == (phase, step)


def test_an_instance_in_transition_is_waited_for_only_so_long() -> None:
    building = seen(server(status="BUILD"))
    waiting = followed(building)
    assert waiting.phase == "Pending"
    old = Track(waiting.track.move, since=NOW.at - 601)
    assert followed(building, old).phase == "Failed"


def test_a_call_is_not_repeated_before_it_had_time_to_show() -> None:
    just_now = Track(BEGUN, "", since=995.0, not_before=1005.0)
    found = followed(seen(server()), just_now)
    assert (found.phase, found.step, found.occupies) == ("Migrating", Step.NONE, True)
    long_ago = Track(BEGUN, "", since=900.0, not_before=910.0)
    assert followed(seen(server()), long_ago).step is Step.START


def test_hosts_where_it_failed_are_avoided() -> None:
    failed = (move("error", id="1", target="x"), move("cancelled", id="2", target="y"))
    found = followed(seen(server(), *failed), Track(refused=frozenset({"z"})))
    assert found.avoid == {"x", "y", "z"}
    assert found.attempts == 2


def test_the_reason_of_the_last_failure_is_kept() -> None:
    found = followed(seen(server(), move("error", target="x", message="no route")))
    assert "x" in found.message
    assert "no route" in found.message


def test_one_whose_guest_is_not_known_to_run_is_not_asked_about_again() -> None:
    found = followed(seen(IN_ERROR, move("error")), Track("lost:1"))
    assert (found.phase, found.step) == ("Failed", Step.NONE)
    assert "canceled by client" in found.message


def test_one_that_comes_into_error_again_and_again_is_given_up() -> None:
    track = followed(seen(IN_ERROR, move("error"))).track
    old = replace(track, since=NOW.at - POLICY.patience.total_seconds() - 1)
    found = followed(seen(IN_ERROR, move("error")), old)
    assert (found.phase, found.step) == ("Failed", Step.NONE)
