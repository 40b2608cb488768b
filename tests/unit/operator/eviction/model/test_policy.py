"""Waits and limits that follow from the settings of a site."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.unit.operator.eviction.made import eviction

from hypercobalt.operator.eviction.model.policy import Doubt, Order, Policy, order_of

WAITS = tuple(timedelta(seconds=each) for each in (10, 30, 120))


@pytest.mark.parametrize(("attempts", "seconds"), [(1, 10), (2, 30), (3, 120), (4, 120), (9, 120)])
def test_restarts_wait_longer_until_the_waits_are_used_up(attempts: int, seconds: float) -> None:
    assert Policy(restart_waits=WAITS).restart_wait(attempts) == seconds


@pytest.mark.parametrize(
    ("attempts", "seconds"), [(0, 5), (1, 5), (2, 10), (3, 20), (4, 40), (5, 60), (50, 60)]
)
def test_moves_wait_twice_as_long_each_time_up_to_a_limit(attempts: int, seconds: float) -> None:
    policy = Policy(retry_after=timedelta(seconds=5), longest_retry=timedelta(seconds=60))
    assert policy.retry_wait(attempts) == seconds


@pytest.mark.parametrize(("evacuates", "attempts"), [(False, 3), (True, 12)])
def test_evacuations_are_begun_more_often(attempts: int, *, evacuates: bool) -> None:
    assert Policy(attempts=3, evacuation_attempts=12).most_attempts(evacuates=evacuates) == attempts


def test_evacuation_has_limits_of_its_own_and_does_not_wait_for_what_cannot_go() -> None:
    policy = Policy(per_source=1, per_possible_target=1, evacuations=20, doubt=Doubt.STOP)
    found = policy.for_evacuation
    assert (found.per_source, found.per_possible_target, found.doubt) == (20, 20, Doubt.WARN)


@pytest.mark.parametrize(
    ("trigger", "order"),
    [
        ("HostShutdown", Order.URGENT),
        ("NodeFailure", Order.URGENT),
        ("Maintenance", Order.SMALLEST),
        (None, Order.SMALLEST),
    ],
)
def test_running_instances_go_first_when_it_is_urgent(trigger: str | None, order: Order) -> None:
    assert order_of(eviction(trigger=trigger), Policy(order=Order.SMALLEST)) is order
