"""When to look at an Eviction again."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.unit.operator.eviction.made import NOW, assessed, move, server

from hypercobalt.api.eviction import EvictionCheck
from hypercobalt.operator.eviction.model.decision import Preflight
from hypercobalt.operator.eviction.model.states import Assessment, Moving, Stranded, Waiting
from hypercobalt.operator.eviction.model.tracks import Begun, Track
from hypercobalt.operator.eviction.planning.estimate import Sample, Timings
from hypercobalt.operator.eviction.planning.polling import is_quiet, poll_after, poll_deletion

GOOD = Preflight(())
BAD = Preflight((EvictionCheck(name="HostDisabled", result="Failed", message="not disabled"),))


def busy(seconds: float) -> Assessment:
    return assessed(server(), Moving(), track=Track(since=NOW.at - seconds))


def due(seconds: float) -> Assessment:
    return assessed(server(), Waiting(), track=Track(not_before=NOW.at + seconds))


def timings(typical: float | None, soonest: float = 0.0) -> Timings:
    """Timings: seconds that a move takes, and seconds until the move under way may end."""
    found = Timings(sizes={"a": 0})
    if typical is not None:
        found.ended.append(Sample(0, typical))
        found.begun["a"] = NOW.at - typical + soonest
    return found


@pytest.mark.parametrize(
    ("of", "found", "typical", "seconds"),
    [
        pytest.param((busy(0.1),), GOOD, None, 0.5, id="just begun"),
        pytest.param((busy(10),), GOOD, None, 1.0, id="nothing has ended in ten seconds"),
        pytest.param((busy(0.5),), GOOD, None, 0.2, id="nothing has ended in half a second"),
        pytest.param((busy(10), busy(4)), GOOD, None, 0.4, id="by the one that was begun last"),
        pytest.param((assessed(server(), Moving()),), GOOD, None, 0.5, id="when is not known"),
        pytest.param((busy(1),), GOOD, 2.0, 0.2, id="short moves"),
        pytest.param((busy(0.1),), GOOD, 0.4, 0.2, id="very short moves"),
        pytest.param((busy(1),), GOOD, 60.0, 2.0, id="long moves"),
        pytest.param((), BAD, None, 10.0, id="waits for a person"),
        pytest.param((due(0.7),), GOOD, None, 0.7, id="waits for another attempt"),
        pytest.param((due(5), due(0.7)), GOOD, None, 0.7, id="two wait for another attempt"),
        pytest.param((due(0),), GOOD, None, 2.0, id="its wait is over"),
        pytest.param((assessed(server()),), GOOD, None, 2.0, id="waits for an instance"),
    ],
)
def test_next_poll_follows_from_what_is_under_way(
    of: tuple[Assessment, ...], found: Preflight, typical: float | None, seconds: float
) -> None:
    after = poll_after(of, found, timings(typical), NOW)
    assert after.total_seconds() == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("soonest", "seconds"),
    [(1.8, 1.36), (0.5, 0.45), (0.1, 0.2)],
    ids=["just begun", "soon", "now"],
)
def test_moves_are_looked_at_when_the_first_should_end(soonest: float, seconds: float) -> None:
    found = poll_after((busy(1),), GOOD, timings(2.0, soonest), NOW)
    assert found.total_seconds() == pytest.approx(seconds)


WAITING = assessed(server("w"))
UNRECORDED = assessed(server("u"), Moving())
SEEN = UNRECORDED.observed
BEGUN = replace(UNRECORDED, track=Track(Begun("")))
UNDER_WAY = replace(UNRECORDED, observed=replace(SEEN, moves=(move("running", "u"),)))
FAILED = assessed(server("f"), Stranded())
ARRIVED = replace(UNRECORDED, observed=replace(SEEN, moves=(move("completed", "u"),)))


@pytest.mark.parametrize(
    ("of", "quiet"),
    [
        pytest.param((UNDER_WAY, WAITING), True, id="one goes, one waits for a place"),
        pytest.param((WAITING,), False, id="nothing goes"),
        pytest.param((UNRECORDED, WAITING), False, id="others move it, without a record yet"),
        pytest.param((BEGUN, WAITING), True, id="begun, without a record yet"),
        pytest.param((ARRIVED, WAITING), False, id="one has arrived"),
        pytest.param((UNDER_WAY, due(5)), False, id="one waits for another attempt"),
        pytest.param((UNDER_WAY, replace(UNDER_WAY, state=Waiting())), False, id="a record of it"),
        pytest.param((UNDER_WAY, FAILED), True, id="one goes, one has failed"),
        pytest.param((), False, id="nothing is left"),
    ],
)
def test_servers_are_listed_again_unless_only_the_end_of_a_move_matters(
    of: tuple[Assessment, ...], *, quiet: bool
) -> None:
    assert is_quiet(of) is quiet


@pytest.mark.parametrize(("waited", "seconds"), [(0, 0.5), (20, 2), (600, 5)])
def test_a_deletion_is_polled_less_often_the_longer_it_lasts(waited: float, seconds: float) -> None:
    assert poll_deletion(timedelta(seconds=waited)) == timedelta(seconds=seconds)
