"""How long moves have taken."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.unit.operator.eviction.made import BEGAN, NOW, READY, assessed, entry, move, server

from hypercobalt.api.eviction import EvictionInstance, EvictionStatus
from hypercobalt.compute.model import Move, Server
from hypercobalt.operator.eviction.model.states import (
    Arrived,
    Assessment,
    Departed,
    Moment,
    Moving,
    Observed,
    State,
    Stranded,
)
from hypercobalt.operator.eviction.planning.estimate import Sample, Timings


def after(seconds: float) -> Moment:
    return Moment(NOW.now + timedelta(seconds=seconds), NOW.at + seconds)


def recorded(seconds: float) -> Move:
    return move("completed", created=BEGAN, updated=BEGAN + timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("record", "seconds"),
    [
        pytest.param(recorded(2), 2, id="seen-late"),
        pytest.param(recorded(1), 1, id="short"),
        pytest.param(recorded(0), 5, id="record-in-whole-seconds"),
        pytest.param(recorded(60), 5, id="queued-before-it-was-seen"),
        pytest.param(None, 5, id="no-record"),
    ],
)
def test_move_lasted_as_long_as_in_its_record(record: Move | None, seconds: float) -> None:
    timings, given = Timings(), assessed(server(), Moving())
    timings.observe([given], NOW)
    seen = replace(given.observed, moves=(record,) if record else ())
    timings.observe([replace(given, observed=seen, state=Departed(""))], after(5))
    assert [one.seconds for one in timings.ended] == [seconds]


@pytest.mark.parametrize(
    ("begins", "end", "ended"),
    [
        pytest.param(server(), Departed(), [Sample(1024, 5)], id="live"),
        pytest.param(server(), Arrived(due=True, message=""), [Sample(1024, 5)], id="cold"),
        pytest.param(None, Departed(), [Sample(0, 5)], id="never seen on its host"),
        pytest.param(server(), READY, [], id="it failed, and begins again"),
        pytest.param(server(), Stranded(), [], id="it failed, and is given up"),
        pytest.param(server(), Moving(), [], id="it is under way"),
    ],
)
def test_moves_count_from_when_they_were_first_seen_until_they_have_arrived(
    begins: Server | None, end: State, ended: list[Sample]
) -> None:
    timings = Timings()
    under_way = Assessment(Observed(entry(), begins), Moving())
    for seconds in (0, 2):
        timings.observe([under_way], after(seconds))
    timings.observe([Assessment(Observed(entry(), None), end)], after(5))
    assert timings.ended == ended


def test_instance_that_has_left_unseen_is_no_move() -> None:
    timings = Timings()
    timings.observe([Assessment(Observed(entry(), None), Departed())], NOW)
    assert timings.ended == []


def written(**fields: object) -> EvictionInstance:
    moved: dict[str, object] = {
        "mode": "live",
        "attempts": 1,
        "startedAt": BEGAN,
        "finishedAt": BEGAN + timedelta(seconds=7),
    }
    return entry(**{"phase": "Succeeded", **moved, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("known", "seconds"),
    [
        pytest.param(written(), [7], id="moved"),
        pytest.param(written(mode="evacuate"), [7], id="evacuated"),
        pytest.param(written(finishedAt=BEGAN), [0.5], id="within the same second"),
        pytest.param(written(mode="restart"), [], id="restarted where it was"),
        pytest.param(written(phase="Failed"), [], id="not moved"),
        pytest.param(written(phase="Migrating", finishedAt=None), [], id="under way"),
        pytest.param(written(attempts=None), [], id="left without a move"),
        pytest.param(written(startedAt=None), [], id="when it began is not known"),
        pytest.param(written(finishedAt=None), [], id="when it ended is not known"),
    ],
)
def test_process_that_begins_takes_the_pace_from_what_is_written(
    known: EvictionInstance, seconds: list[float]
) -> None:
    timings = Timings()
    timings.recall(EvictionStatus(instances=(known,)))
    assert timings.ended == [Sample(0, each) for each in seconds]


LINE = [Sample(mib, 2 + mib / 1024) for mib in (1024, 2048, 4096, 8192)]
"""Moves take two seconds, and one for each GiB."""


@pytest.mark.parametrize(
    ("ended", "sizes", "seconds"),
    [
        pytest.param([], [1024], None, id="none has ended"),
        pytest.param(LINE, [2048], 4.0, id="of one instance"),
        pytest.param(LINE, [1024, 3072], 4.0, id="of two sizes"),
        pytest.param(LINE, [], 2.0, id="no instance was seen"),
    ],
)
def test_typical_move_is_that_of_an_instance_of_mean_size(
    ended: list[Sample], sizes: list[int], seconds: float | None
) -> None:
    timings = Timings({str(n): mib for n, mib in enumerate(sizes)}, {}, ended)
    assert timings.typical(NOW.at) == (pytest.approx(seconds) if seconds else None)


BEGUN = {"small": NOW.at - 1, "large": NOW.at - 3}


@pytest.mark.parametrize(
    ("ended", "ids", "seconds"),
    [
        pytest.param([], ["small"], 0, id="none has ended"),
        pytest.param(LINE, [], 0, id="none is under way"),
        pytest.param(LINE, ["small"], 2, id="small"),
        pytest.param(LINE, ["large"], 7, id="large"),
        pytest.param(LINE, ["large", "small"], 2, id="the first of both"),
        pytest.param(LINE, ["small", "new"], 2, id="one that was begun just now"),
        pytest.param(LINE, ["new"], 4, id="that one alone"),
    ],
)
def test_first_move_should_end_by_its_size_and_its_begin(
    ended: list[Sample], ids: list[str], seconds: float
) -> None:
    timings = Timings({"small": 1024, "large": 8192, "new": 2048}, BEGUN, ended)
    assert timings.next_ends(ids, 0, NOW.at) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("within", "seconds"), [(0, 2), (4, 2), (5, 7), (9, 7)], ids=["0", "4", "5", "9"]
)
def test_moves_that_should_end_at_about_the_same_time_count_as_one_end(
    within: float, seconds: float
) -> None:
    timings = Timings({"small": 1024, "large": 8192}, BEGUN, LINE)
    assert timings.next_ends(["large", "small"], within, NOW.at) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("ended", "share"),
    [
        pytest.param([10.0], 0.7, id="one shows nothing of the next"),
        pytest.param([10.0, 10.0], 1.0, id="they last equally long"),
        pytest.param([9.0, 11.0], 0.9, id="the shortest is a tenth shorter"),
        pytest.param([2.0, 18.0], 0.7, id="they stray"),
    ],
)
def test_move_is_expected_as_early_as_the_shortest_has_ended(
    ended: list[float], share: float
) -> None:
    timings = Timings({"a": 1024}, {"a": NOW.at}, [Sample(1024, each) for each in ended])
    assert timings.next_ends(["a"], 0, NOW.at) == pytest.approx(10 * share)


def test_time_left_counts_moves_under_way_from_their_begin() -> None:
    timings = Timings({"large": 8192}, {"large": NOW.at - 3}, LINE)
    assert timings.seconds_left([2048], 1, NOW.at) == pytest.approx(7 + 4)
