"""When a launcher ends its domain and itself, as a table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from hypercobalt.virt.launcher.ending import EndAct, EndFacts, EndStep, after_reading, end_step

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
GRACE, TIMEOUT = timedelta(seconds=45), timedelta(minutes=4)


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def wait(seconds: float | None = None) -> EndStep:
    return EndStep(EndAct.WAIT, None if seconds is None else timedelta(seconds=seconds))


KILL, EXIT, ABORT = EndStep(EndAct.KILL), EndStep(EndAct.EXIT), EndStep(EndAct.ABORT)


def facts(**changed: object) -> EndFacts:
    return EndFacts(BEGAN, **changed)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "now", "step"),
    [
        (facts(), 0, wait(240)),
        (facts(), 239, wait(1)),
        (facts(), 240, ABORT),
        (facts(marked=at(1)), 1, EXIT),
        (facts(recorded=True), 1, EXIT),
        (facts(appeared=True, alive=True), 9999, wait()),
        (facts(appeared=True, alive=True, recorded=True), 9999, wait()),
        (facts(appeared=True, alive=True, marked=at(100)), 100, wait(45)),
        (facts(appeared=True, alive=True, marked=at(100)), 144, wait(1)),
        (facts(appeared=True, alive=True, marked=at(100)), 145, KILL),
        (facts(appeared=True, alive=True, marked=at(100), killed=at(145)), 146, wait(9)),
        (facts(appeared=True, alive=True, marked=at(100), killed=at(145)), 155, EXIT),
        (facts(appeared=True, alive=True, vanished=at(100)), 101, wait(44)),
        (facts(appeared=True, alive=True, vanished=at(100)), 145, ABORT),
        (facts(appeared=True, alive=True, vanished=at(100), marked=at(60)), 106, wait(39)),
        (facts(appeared=True, vanished=at(100), gone=at(110)), 145, wait(265)),
        (facts(appeared=True), 100, wait(300)),
        (facts(appeared=True, gone=at(100)), 100, wait(300)),
        (facts(appeared=True, gone=at(100)), 400, EXIT),
        (facts(appeared=True, gone=at(100), recorded=True), 100, EXIT),
        (facts(appeared=True, gone=at(100), marked=at(90)), 100, wait(15)),
        (facts(appeared=True, gone=at(100), marked=at(90)), 115, EXIT),
        (facts(appeared=True, gone=at(100), marked=at(200)), 200, EXIT),
        (facts(appeared=True, gone=at(100), marked=at(90), killed=at(99)), 101, wait(14)),
    ],
)
def test_end_comes_when_it_is_due(found: EndFacts, now: float, step: EndStep) -> None:
    assert end_step(found, at(now), grace=GRACE, qemu_timeout=TIMEOUT) == step


@pytest.mark.parametrize(
    ("before", "appeared", "alive", "gone"),
    [
        pytest.param(None, False, False, None, id="not-yet"),
        pytest.param(None, True, False, at(9), id="starts-or-has-ended"),
        pytest.param(at(5), True, False, at(5), id="off-since-then"),
        pytest.param(at(5), True, True, None, id="runs"),
        pytest.param(at(5), False, False, None, id="start-was-refused"),
    ],
)
def test_domain_is_gone_since_it_was_started_and_has_no_process(
    before: datetime | None, appeared: bool, alive: bool, gone: datetime | None
) -> None:
    found = after_reading(facts(gone=before), at(9), appeared=appeared, alive=alive, recorded=True)
    assert found == facts(gone=gone, appeared=appeared, alive=alive, recorded=True)


def test_guest_is_never_ended_by_the_launcher_before_the_deadline() -> None:
    for second in range(400):
        found = facts(appeared=True, alive=True, marked=at(100))
        step = end_step(found, at(second), grace=GRACE, qemu_timeout=TIMEOUT)
        assert (step.act is EndAct.KILL) is (second >= 145)
