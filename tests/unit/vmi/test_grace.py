"""Grace arithmetic: who ends a guest, and when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from hypercobalt.vmi.grace import (
    StopCall,
    StopStep,
    grace_period,
    launcher_grace,
    launcher_wait,
    pod_grace,
    stop_step,
)

T0 = datetime(2026, 11, 29, 12, tzinfo=UTC)


def s(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("given", "handler", "launcher", "pod"),
    [
        (None, 30, 45, 60),
        (0, 0, 15, 30),
        (1, 1, 16, 31),
        (180, 180, 195, 210),
        (-5, 0, 15, 30),
    ],
)
def test_each_party_gives_up_15_seconds_after_the_one_before(
    given: int | None, handler: int, launcher: int, pod: int
) -> None:
    grace = grace_period(given)
    assert (grace, launcher_grace(grace), pod_grace(grace)) == (s(handler), s(launcher), s(pod))


@pytest.mark.parametrize("given", [2**31 - 1, 2**31, 2**63 - 1, 10**30])
def test_no_grace_period_is_too_long_to_be_added_to_a_time(given: int) -> None:
    step = stop_step(grace_period(given), T0, T0, T0 + s(10), can_ask=True)
    assert step.call is StopCall.SHUTDOWN
    assert launcher_wait(grace_period(given), T0, T0) == s(2**31 - 1 + 15)


@dataclass(frozen=True)
class At:
    """A shutdown, by the seconds that its begin and the last request lie back."""

    grace: float
    began: float | None = None
    asked: float | None = None


@pytest.mark.parametrize(
    ("at", "call", "again"),
    [
        pytest.param(At(30), "Shutdown", 5, id="first-request"),
        pytest.param(At(3), "Shutdown", 3, id="grace-shorter-than-a-resend"),
        pytest.param(At(0), "Kill", None, id="no-grace-kills-at-once"),
        pytest.param(At(30, 1, 1), "Wait", 4, id="waits-for-the-resend"),
        pytest.param(At(30, 5, 5), "Shutdown", 5, id="asks-again-after-5-s"),
        pytest.param(At(30, 27, 22), "Shutdown", 3, id="last-request-before-the-end"),
        pytest.param(At(30, 28, 2), "Wait", 2, id="waits-for-the-end"),
        pytest.param(At(30, 29.5, 1), "Wait", 0.5, id="just-before-the-end"),
        pytest.param(At(30, 30, 29), "Kill", None, id="grace-is-over"),
        pytest.param(At(30, 3000), "Kill", None, id="handler-was-away-beyond-the-grace"),
        pytest.param(At(30, 10), "Shutdown", 5, id="handler-restarted-asks-again"),
    ],
)
def test_step_of_a_shutdown(at: At, call: str, again: float | None) -> None:
    began = None if at.began is None else T0 - s(at.began)
    asked = None if at.asked is None else T0 - s(at.asked)
    step = stop_step(s(at.grace), began, asked, T0, can_ask=True)
    first = call == "Shutdown" and at.began is None
    assert step == StopStep(StopCall(call), None if again is None else s(again), first)


@pytest.mark.parametrize("began", [None, T0])
def test_guest_that_cannot_be_asked_is_ended_at_once(began: datetime | None) -> None:
    assert stop_step(s(30), began, None, T0, can_ask=False) == StopStep(StopCall.KILL)


@pytest.mark.parametrize(("after", "left"), [(0, 45), (44, 1), (45, 0), (300, 0)])
def test_launcher_ends_the_domain_itself_after_its_own_grace(after: int, left: int) -> None:
    assert launcher_wait(s(30), T0, T0 + s(after)) == s(left)
