"""Which Events there are of an Eviction."""

from __future__ import annotations

import pytest
from tests.unit.operator.eviction.made import NOW, entry

from hypercobalt.api.conditions import Condition, set_condition
from hypercobalt.api.eviction import EvictionCheck, EvictionInstance, EvictionStatus
from hypercobalt.operator.eviction.recording.notes import notes


def conditions(**of: str) -> tuple[Condition, ...]:
    """Each as STATUS/REASON/MESSAGE."""
    found: tuple[Condition, ...] = ()
    for type_, text in of.items():
        status, reason, *message = text.split("/")
        found = set_condition(found, type_, status, reason, "".join(message), now=NOW.now)
    return found


def status(*entries: EvictionInstance, checks: str = "", **of: str) -> EvictionStatus:
    results = tuple(EvictionCheck(name=each, result=each) for each in checks.split())
    left = tuple(one.id for one in entries)
    return EvictionStatus(
        conditions=conditions(**of),
        instances=entries,
        outstandingInstances=left,
        checks=results,
    )


def events(before: EvictionStatus, now: EvictionStatus) -> list[tuple[str, str, str]]:
    return [(one.type, one.reason, one.text) for one in notes(before, now, "here")]


NEW, RUNS = EvictionStatus(), status(Evicting="True/Running")
OVER = "False/Succeeded/all left"
STARTED = ("Normal", "EvictionStarted", "0 instances on here to be moved or restarted")


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [
        pytest.param(NEW, RUNS, [STARTED], id="it starts"),
        pytest.param(
            NEW,
            status(entry("a"), entry("b"), Evicting="True/Running"),
            [("Normal", "EvictionStarted", "2 instances on here to be moved or restarted")],
            id="with two instances",
        ),
        pytest.param(NEW, NEW, [], id="nothing is known yet"),
        pytest.param(RUNS, RUNS, [], id="it goes on"),
        pytest.param(
            RUNS, status(Evicting=OVER), [("Normal", "EvictionSucceeded", "all left")], id="it ends"
        ),
        pytest.param(
            RUNS,
            status(Evicting="False/Failed/one stays"),
            [("Warning", "EvictionFailed", "one stays")],
            id="it fails",
        ),
        pytest.param(
            RUNS,
            status(Evicting="False/Cancelled/deleted"),
            [("Normal", "EvictionCancelled", "deleted")],
            id="it is cancelled",
        ),
        pytest.param(
            NEW,
            status(Evicting="False/Failed/refused"),
            [("Warning", "EvictionFailed", "refused")],
            id="it is refused at once",
        ),
        pytest.param(status(Evicting=OVER), status(Evicting=OVER), [], id="it is over"),
    ],
)
def test_start_and_end_are_reported_once(
    before: EvictionStatus, now: EvictionStatus, found: list[tuple[str, str, str]]
) -> None:
    assert events(before, now) == found


FAILS = "False/Failed/not disabled"


def preflight(text: str, checks: str) -> EvictionStatus:
    return status(checks=checks, Evicting="True/Running", PreflightChecksSucceeded=text)


@pytest.mark.parametrize(
    ("before", "now", "reported"),
    [
        pytest.param(RUNS, preflight(FAILS, "Failed"), True, id="a check has failed"),
        pytest.param(RUNS, preflight(FAILS, "Failed Pending"), True, id="and one is awaited"),
        pytest.param(RUNS, preflight(FAILS, "Passed Pending"), False, id="one is awaited alone"),
        pytest.param(RUNS, preflight(FAILS, ""), True, id="no check was made"),
        pytest.param(RUNS, preflight("True/Succeeded/", "Failed"), False, id="they have passed"),
        pytest.param(
            preflight(FAILS, "Failed"), preflight(FAILS, "Failed"), False, id="it is reported"
        ),
        pytest.param(
            preflight("False/Failed/other", "Failed"), preflight(FAILS, "Failed"), True,
            id="another one",
        ),
    ],
)  # fmt: skip
def test_check_that_does_not_pass_by_itself_is_reported_once(
    before: EvictionStatus, now: EvictionStatus, *, reported: bool
) -> None:
    expected = [("Warning", "PreflightFailed", "not disabled")] if reported else []
    assert events(before, now) == expected


def tried(phase: str = "Pending", attempts: int | None = 1, **of: object) -> EvictionInstance:
    return entry("a", phase, **{"name": "vm", "message": "why", "attempts": attempts, **of})


MOVE = [("Warning", "MoveFailed", "Instance vm (a), attempt 1: why")]
RESTART = [("Warning", "RestartFailed", "Instance vm (a), attempt 1: why")]
GIVEN_UP = [("Warning", "InstanceNotMoved", "Instance vm (a): why")]


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        pytest.param(tried("Migrating"), tried(), MOVE, id="move failed"),
        pytest.param(tried("Evacuating"), tried(), MOVE, id="evacuation failed"),
        pytest.param(
            tried("Restarting"), tried(mode="restart"), RESTART, id="restart failed"
        ),
        pytest.param(tried(attempts=None), tried(), MOVE, id="move refused at once"),
        pytest.param(None, tried(), MOVE, id="not known before"),
        pytest.param(tried(), tried(), [], id="waits for the next attempt"),
        pytest.param(tried(attempts=None), tried(attempts=None), [], id="was never begun"),
        pytest.param(None, tried(attempts=None), [], id="was never begun, not known before"),
        pytest.param(tried("Migrating"), tried(message=None), [], id="no reason"),
        pytest.param(tried(), tried("Migrating", 2), [], id="begun again"),
        pytest.param(tried("Migrating"), tried("Succeeded"), [], id="moved"),
        pytest.param(tried("Migrating"), tried("Failed"), GIVEN_UP, id="given up"),
        pytest.param(None, tried("Failed"), GIVEN_UP, id="given up, not known before"),
        pytest.param(tried("Failed"), tried("Failed"), [], id="was given up"),
    ],
)  # fmt: skip
def test_each_failure_of_an_instance_is_reported_once(
    old: EvictionInstance | None, new: EvictionInstance, found: list[tuple[str, str, str]]
) -> None:
    before = status(*([old] if old else []), Evicting="True/Running")
    assert events(before, status(new, Evicting="True/Running")) == found
