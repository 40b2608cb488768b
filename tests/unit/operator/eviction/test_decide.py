"""What is written, when, and when to look again."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec.structs import replace as with_fields
from tests.unit.operator.eviction.made import NOW, POLICY, entry, eviction, move, server, standing

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.eviction import EvictionCheck, EvictionStatus, InstancePhase
from hypercobalt.compute.model import Size
from hypercobalt.operator.eviction.decide import (
    Outcome,
    Settled,
    after,
    is_quiet,
    order_of,
    poll_after,
    settle,
    write_after,
)
from hypercobalt.operator.eviction.follow import Seen, Standing, Step
from hypercobalt.operator.eviction.plan import Start
from hypercobalt.operator.eviction.policy import Order
from hypercobalt.operator.eviction.preflight import Preflight
from hypercobalt.operator.eviction.progress import Track

GOOD = Preflight(())
BAD = Preflight((EvictionCheck(name="HostDisabled", result="Failed", message="not disabled"),))


def gone(id_: str, phase: str = "Succeeded", message: str = "moved to x") -> Standing:
    found = Seen(entry(id_, "Migrating", name=f"vm-{id_}"), None, ())
    return Standing(found, InstancePhase(phase), Track(), message=message)


def failed(id_: str) -> Standing:
    return standing(server(id_), Step.NONE, phase="Failed", message="no")


def settled(
    *standings: Standing,
    found: Preflight = GOOD,
    verified: bool = True,
    before: EvictionStatus | None = None,
) -> Settled:
    return settle(
        eviction(),
        before or EvictionStatus(),
        standings,
        found,
        policy=POLICY,
        moment=NOW,
        seconds_left=30.0,
        verified=verified,
    )


def said(of: Settled, type_: str) -> str:
    found = get_condition(of.status.conditions, type_)
    return f"{found.status}/{found.reason}" if found else ""


@pytest.mark.parametrize(
    ("of", "evicting", "migrating", "preflight"),
    [
        pytest.param(settled(), "False/Succeeded", "", "True/Succeeded", id="nothing there"),
        pytest.param(
            settled(gone("a")),
            "False/Succeeded",
            "False/Succeeded",
            "True/Succeeded",
            id="all left",
        ),
        pytest.param(
            settled(gone("a"), verified=False),
            "True/Running",
            "False/Succeeded",
            "True/Succeeded",
            id="all left, but not verified",
        ),
        pytest.param(
            settled(gone("a"), standing(server("b"))),
            "True/Running",
            "False/Succeeded",
            "True/Succeeded",
            id="one left",
        ),
        pytest.param(
            settled(gone("a"), failed("b"), standing(server("c"))),
            "True/Running",
            "False/Failed",
            "True/Succeeded",
            id="a failure stays in sight while others go on",
        ),
        pytest.param(
            settled(gone("a"), failed("b")),
            "False/Failed",
            "False/Failed",
            "True/Succeeded",
            id="one could not be moved: failed is not success",
        ),
        pytest.param(
            settled(found=BAD), "True/Running", "", "False/Failed", id="stopped by a check"
        ),
        pytest.param(
            settled(gone("a", "Skipped")),
            "False/Succeeded",
            "",
            "True/Succeeded",
            id="none to move",
        ),
    ],
)
def test_conditions(of: Settled, evicting: str, migrating: str, preflight: str) -> None:
    assert said(of, "Evicting") == evicting
    assert said(of, "MigratingInstance") == migrating
    assert said(of, "PreflightChecksSucceeded") == preflight
    assert of.ended == evicting.startswith("False")


def test_the_next_instance_is_last_and_a_failed_one_first() -> None:
    small, large = server("small", size=Size(1, 1)), server("large", size=Size(1, 9))
    moving = standing(server("moving"), Step.NONE, phase="Migrating", occupies=True)
    found = settled(moving, standing(large), failed("bad"), standing(small)).status
    assert found.outstandingInstances == ("bad", "small", "large", "moving")
    assert found.outstandingRamMb == 1024 + 1024 + 1 + 9


def test_progress() -> None:
    found = settled(gone("a"), failed("b"), standing(server("c")), gone("d", "Skipped")).status
    progress = found.progress
    assert progress is not None
    assert (progress.total, progress.done, progress.failed, progress.percent) == (3, 1, 1, 33)
    assert progress.estimatedCompletion == NOW.now + timedelta(seconds=30)


def test_events_come_once() -> None:
    first = settled(gone("a"), failed("b"), standing(server("c")))
    assert [note.reason for note in first.notes] == ["EvictionStarted", "InstanceNotMoved"]
    again = settled(gone("a"), failed("b"), standing(server("c")), before=first.status)
    assert again.notes == ()
    end = settled(gone("a"), failed("b"), gone("c"), before=first.status)
    assert [note.reason for note in end.notes] == ["EvictionFailed"]


START = Start(server(), live=True, target="x")


@pytest.mark.parametrize(
    ("outcome", "attempts", "phase", "occupies"),
    [
        pytest.param(Outcome(Step.START, START), 1, "Migrating", True, id="taken on"),
        pytest.param(
            Outcome(Step.START, START, "no answer", unknown=True),
            0,
            "Migrating",
            True,
            id="unknown",
        ),
        pytest.param(Outcome(Step.START, START, "no"), 1, "Pending", False, id="refused"),
    ],
)
def test_how_a_call_ends(outcome: Outcome, attempts: int, phase: str, occupies: bool) -> None:
    (found,) = after((standing(server()),), {"a": outcome}, POLICY, NOW)
    assert (found.attempts, found.phase, found.occupies) == (attempts, phase, occupies)


def test_a_refused_target_is_avoided_and_the_last_refusal_gives_up() -> None:
    before = standing(server(), attempts=2)
    (found,) = after((before,), {"a": Outcome(Step.START, START, "no")}, POLICY, NOW)
    assert found.phase == "Failed"
    assert found.track.refused == {"x"}
    assert found.track.not_before > NOW.at


def test_a_cold_move_with_nothing_to_confirm_is_done() -> None:
    before = replace(gone("a", "Confirming"), step=Step.CONFIRM)
    (found,) = after((before,), {"a": Outcome(Step.CONFIRM, needless=True)}, POLICY, NOW)
    assert found.phase == "Succeeded"


RUNNING = settled(gone("a"), standing(server("b"))).status
ENDED = settled(gone("a"), gone("b")).status
LATER = with_fields(
    RUNNING,
    progress=with_fields(RUNNING.progress, estimatedCompletion=NOW.now),  # type: ignore[type-var]
)


@pytest.mark.parametrize(
    ("written", "now", "since", "wait"),
    [
        pytest.param(RUNNING, RUNNING, 100, None, id="nothing new"),
        pytest.param(RUNNING, ENDED, 0, 0, id="the end, at once"),
        pytest.param(EvictionStatus(), RUNNING, 0, 0, id="the start, at once"),
        pytest.param(
            settled(standing(server("a")), standing(server("b")), before=RUNNING).status,
            RUNNING,
            0.25,
            0.75,
            id="an instance more, once a second",
        ),
        pytest.param(RUNNING, LATER, 4, 6, id="the estimate alone, every ten seconds"),
        pytest.param(RUNNING, LATER, float("inf"), 0, id="the first write of this process"),
    ],
)
def test_when_to_write(
    written: EvictionStatus, now: EvictionStatus, since: float, wait: float | None
) -> None:
    found = write_after(written, now, since)
    assert found == (None if wait is None else timedelta(seconds=wait))


def busy(seconds: float) -> Standing:
    return standing(server(), Step.NONE, occupies=True, track=Track("1", since=NOW.at - seconds))


@pytest.mark.parametrize(
    ("of", "found", "typical", "seconds"),
    [
        pytest.param((busy(0.1),), GOOD, None, 0.5, id="just begun"),
        pytest.param((busy(10),), GOOD, None, 1.0, id="nothing has ended in ten seconds"),
        pytest.param((busy(1),), GOOD, 2.0, 0.2, id="short moves"),
        pytest.param((busy(1),), GOOD, 60.0, 2.0, id="long moves"),
        pytest.param((), BAD, None, 10.0, id="waits for somebody"),
        pytest.param(
            (standing(server(), track=Track(not_before=NOW.at + 0.7)),),
            GOOD,
            None,
            0.7,
            id="waits for another attempt",
        ),
        pytest.param((standing(server()),), GOOD, None, 2.0, id="waits for an instance"),
    ],
)
def test_when_to_look_again(
    of: tuple[Standing, ...], found: Preflight, typical: float | None, seconds: float
) -> None:
    assert poll_after(of, found, NOW, typical).total_seconds() == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("soonest", "seconds"),
    [(1.8, 1.26), (0.5, 0.35), (0.1, 0.2), (-3.0, 0.2), (60.0, 2.0)],
    ids=["just begun", "soon", "now", "late", "long"],
)
def test_moves_are_looked_at_shortly_before_the_first_should_end(
    soonest: float, seconds: float
) -> None:
    found = poll_after((busy(1),), GOOD, NOW, 2.0, soonest)
    assert found.total_seconds() == pytest.approx(seconds)


WAITING = standing(server("w"))
UNRECORDED = standing(server("u"), Step.NONE, phase="Migrating", occupies=True)
UNDER_WAY = replace(UNRECORDED, seen=replace(UNRECORDED.seen, moves=(move("running", "u"),)))
ARRIVED = replace(UNRECORDED, seen=replace(UNRECORDED.seen, moves=(move("completed", "u"),)))


@pytest.mark.parametrize(
    ("of", "quiet"),
    [
        pytest.param((UNDER_WAY, WAITING), True, id="one goes, one waits for a place"),
        pytest.param((WAITING,), False, id="nothing goes"),
        pytest.param((UNRECORDED, WAITING), False, id="begun, without a record yet"),
        pytest.param((ARRIVED, WAITING), False, id="one has arrived"),
        pytest.param((), False, id="nothing is left"),
    ],
)
def test_servers_are_listed_again_unless_only_the_end_of_a_move_matters(
    of: tuple[Standing, ...], *, quiet: bool
) -> None:
    assert is_quiet(of) is quiet


def test_a_shutdown_is_urgent() -> None:
    assert order_of(eviction(trigger="HostShutdown"), POLICY) is Order.URGENT
    assert order_of(eviction(), POLICY) is Order.LARGEST
