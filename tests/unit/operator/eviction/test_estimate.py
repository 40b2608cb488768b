"""How long an eviction still takes, judged after a third of it."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from hypercobalt.operator.eviction.estimate import Sample, fit, seconds_left

SIZES = (1024, 2048, 4096, 8192, 16384)


@dataclass(frozen=True)
class Job:
    memory_mib: int
    seconds: float


@dataclass(frozen=True)
class Ran:
    """When a job began and ended."""

    job: Job
    begin: float
    end: float


def run(jobs: list[Job], places: int) -> list[Ran]:
    """Work jobs off in their order, so many at once."""
    free = [0.0] * places
    ran = list[Ran]()
    for job in jobs:
        begin = heapq.heappop(free)
        heapq.heappush(free, begin + job.seconds)
        ran.append(Ran(job, begin, begin + job.seconds))
    return ran


def judged(ran: list[Ran], places: int, share: float) -> tuple[float, float]:
    """What is estimated, and what is true, once that share of the jobs has ended."""
    now = sorted(one.end for one in ran)[int(len(ran) * share) - 1]
    ended = [Sample(one.job.memory_mib, one.job.seconds) for one in ran if one.end <= now]
    running = [
        Sample(one.job.memory_mib, now - one.begin) for one in ran if one.begin <= now < one.end
    ]
    waiting = [one.job.memory_mib for one in ran if one.begin > now]
    found = seconds_left(ended, running, waiting, places)
    assert found is not None
    return found, max(one.end for one in ran) - now


def fixed(rng: random.Random, memory_mib: int) -> float:
    return 2.0


def even(rng: random.Random, memory_mib: int) -> float:
    return rng.uniform(10, 30)


def skewed(rng: random.Random, memory_mib: int) -> float:
    return 20 * rng.lognormvariate(0, 0.4)


def by_memory(rng: random.Random, memory_mib: int) -> float:
    return (3 + memory_mib / 400) * rng.uniform(0.8, 1.2)


@pytest.mark.parametrize("share", [1 / 3, 1 / 2, 2 / 3])
@pytest.mark.parametrize(
    ("count", "places", "least"),
    # With eight moves seen and four waves to come, chance alone is more than a quarter at times.
    [(100, 10, 85), (60, 5, 85), (24, 3, 60)],
)
@pytest.mark.parametrize("lasts", [fixed, even, skewed, by_memory])
def test_the_time_left_is_right_within_a_quarter(
    lasts: Callable[[random.Random, int], float],
    count: int,
    places: int,
    least: int,
    *,
    share: float,
) -> None:
    good = 0
    for seed in range(100):
        rng = random.Random(seed)  # noqa: S311 - no secret
        sizes = sorted((rng.choice(SIZES) for _ in range(count)), reverse=True)
        ran = run([Job(size, lasts(rng, size)) for size in sizes], places)
        estimated, true = judged(ran, places, share)
        good += abs(estimated - true) <= 0.25 * true
    assert good >= least


def test_nothing_is_reported_before_a_move_has_ended() -> None:
    assert seconds_left([], [Sample(1024, 5)], [1024], 2) is None


def test_nothing_left_takes_no_time() -> None:
    assert seconds_left([Sample(1024, 5)], [], [], 2) == 0


def test_a_move_that_takes_longer_than_expected_is_still_waited_for() -> None:
    left = seconds_left([Sample(1024, 5)] * 3, [Sample(1024, 60)], [], 2)
    assert left is not None
    assert left > 0


def test_the_pace_grows_with_memory() -> None:
    pace = fit([Sample(1000, 12), Sample(2000, 22), Sample(4000, 42)], [])
    assert pace is not None
    assert pace.seconds(8000) == pytest.approx(82)


def test_memory_that_makes_no_difference_is_left_out() -> None:
    pace = fit([Sample(1000, 12), Sample(4000, 8)], [])
    assert pace is not None
    assert pace.seconds(64_000) == pytest.approx(10)
