from __future__ import annotations

from hypercobalt.adapters.openstack.breaker import Breaker, Rules


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def made(*, failures: int = 3, longest: float = 8.0) -> tuple[Breaker, Clock]:
    clock = Clock()
    rules = Rules(failures=failures, first=2.0, longest=longest, jitter=lambda seconds: seconds)
    return Breaker(clock, rules), clock


def test_breaker_opens_after_failures_in_a_row() -> None:
    breaker, _ = made(failures=3)
    for _ in range(2):
        breaker.failed("away")
    assert breaker.admit() == 0
    breaker.failed("away")
    assert (breaker.admit(), breaker.open_for, breaker.why) == (2.0, 2.0, "away")


def test_a_success_in_between_starts_the_count_again() -> None:
    breaker, _ = made(failures=2)
    breaker.failed("away")
    breaker.succeeded()
    breaker.failed("away")
    assert breaker.admit() == 0


def test_one_call_probes_a_half_open_breaker_and_the_others_wait() -> None:
    breaker, clock = made(failures=1)
    breaker.failed("away")
    clock.now += 2.0
    assert breaker.admit() == 0
    assert breaker.admit() > 0


def test_good_probe_closes_the_breaker() -> None:
    breaker, clock = made(failures=1)
    breaker.failed("away")
    clock.now += 2.0
    breaker.admit()
    breaker.succeeded()
    assert (breaker.admit(), breaker.why) == (0, "")


def test_failed_probe_opens_the_breaker_for_twice_as_long_up_to_a_limit() -> None:
    breaker, clock = made(failures=1, longest=5.0)
    breaker.failed("away")
    waits = []
    for _ in range(3):
        clock.now += breaker.open_for
        assert breaker.admit() == 0
        breaker.failed("still away")
        waits.append(breaker.open_for)
    assert waits == [4.0, 5.0, 5.0]


def test_a_probe_that_was_cancelled_makes_way_for_the_next() -> None:
    breaker, clock = made(failures=1)
    breaker.failed("away")
    clock.now += 2.0
    breaker.admit()
    breaker.unknown()
    assert breaker.admit() == 0


def test_calls_from_before_the_breaker_opened_do_not_prolong_it() -> None:
    breaker, _ = made(failures=1)
    breaker.failed("away")
    breaker.failed("away, by a slow one")
    assert (breaker.open_for, breaker.why) == (2.0, "away")


def test_some_failures_open_the_breaker_at_once() -> None:
    breaker, _ = made(failures=5)
    breaker.failed("wrong password", at_once=True)
    assert breaker.open_for == 2.0
