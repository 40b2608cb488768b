"""How long an eviction still takes, judged after a third of it."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from hypercobalt.operator.eviction.planning.estimate import Sample, fit, seconds_left

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


def test_no_estimate_is_reported_before_a_move_has_ended() -> None:
    assert seconds_left([], [Sample(1024, 5)], [1024], 2) is None


def test_eviction_with_nothing_left_takes_no_time() -> None:
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


def test_pace_of_moves_on_a_line_is_that_line() -> None:
    ended = [Sample(mib, 2 + mib / 1024) for mib in SIZES]
    pace = fit(ended, [])
    assert pace is not None
    assert pace.fixed == pytest.approx(2)
    assert pace.per_mib == pytest.approx(1 / 1024)
    assert pace.seconds(3072) == pytest.approx(5)


def test_pace_is_flat_while_memory_does_not_matter() -> None:
    pace = fit(
        [Sample(mib, seconds) for mib, seconds in zip(SIZES, (3, 2, 3, 2, 3), strict=True)], []
    )
    assert pace is not None
    assert pace.fixed == pytest.approx(2.6)
    assert pace.per_mib == 0


def test_pace_of_three_moves_that_lie_about_on_a_line_is_flat() -> None:
    pace = fit([Sample(1000, 10), Sample(2000, 14), Sample(3000, 15)], [])
    assert pace is not None
    assert pace.seconds(64_000) == pytest.approx(13)


def test_moves_of_no_fixed_time_are_in_proportion_to_their_memory() -> None:
    ended = [Sample(mib, mib / 1024 - 0.5) for mib in SIZES]
    pace = fit(ended, [])
    assert pace is not None
    assert pace.fixed == 0
    mean = sum(one.seconds for one in ended) / len(ended)
    assert pace.seconds(sum(SIZES) // 5) == pytest.approx(mean, rel=0.001)


def test_a_move_under_way_for_longer_than_the_others_took_slows_the_pace() -> None:
    ended = [Sample(1024, 2.0)] * 3
    slow = fit(ended, [Sample(1024, 10.0)])
    quick = fit(ended, [Sample(1024, 1.0)])
    assert slow is not None
    assert quick is not None
    assert quick.seconds(1024) == pytest.approx(2)
    assert slow.seconds(1024) == pytest.approx(4)


@pytest.mark.parametrize(
    ("running", "waiting", "places", "seconds"),
    [
        pytest.param([], [], 2, 0, id="nothing left"),
        pytest.param([0.5], [], 2, 1.5, id="one under way"),
        pytest.param([], [1024], 2, 2, id="one waits"),
        pytest.param([0.5], [1024], 2, 2, id="a place is free for it"),
        pytest.param([0.5], [1024], 1, 3.5, id="it waits for the place"),
        pytest.param([], [1024] * 5, 2, 6, id="five in two places"),
        pytest.param([5.0], [], 1, 0.5, id="later than any before: a tenth more"),
        pytest.param([2.0], [], 1, 0.2, id="as late as the latest before: a tenth more"),
    ],
)
def test_remaining_instances_are_spread_over_the_places(
    running: list[float], waiting: list[int], places: int, seconds: float
) -> None:
    ended = [Sample(1024, 2.0)] * 20
    under_way = [Sample(1024, taken) for taken in running]
    found = seconds_left(ended, under_way, waiting, places)
    assert found == pytest.approx(seconds, rel=0.05)


def test_last_instance_takes_what_moves_took_on_the_whole() -> None:
    ended = [Sample(1024, seconds) for seconds in (1.0, 2.0, 3.0, 4.0, 10.0)]
    assert seconds_left(ended, [], [1024], 1) == pytest.approx(4)


def test_moves_of_less_than_a_second_are_estimated_as_such() -> None:
    assert seconds_left([Sample(1024, 0.5)] * 5, [], [1024] * 4, 1) == pytest.approx(2)


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
