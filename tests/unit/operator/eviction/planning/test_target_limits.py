"""How many moves at once a target bears, by how those to it have ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.operator.eviction.made import POLICY

from hypercobalt.compute.model import MoveKind
from hypercobalt.operator.eviction.model.policy import Policy
from hypercobalt.operator.eviction.planning.target_limits import (
    KEPT,
    Bearing,
    EndedMove,
    limit_of,
    with_end,
)

LOWEST, HIGHEST = POLICY.per_possible_target, POLICY.most_per_possible_target


def ended(
    seconds: float = 60.0, begun: float = 0.0, *, memory: int = 1024, failed: bool = False
) -> EndedMove:
    return EndedMove("x", MoveKind.LIVE, memory, seconds, begun, failed)


def after(bearing: Bearing | None, *moves: EndedMove, policy: Policy = POLICY) -> Bearing:
    """The target once these have ended, each when it did."""
    for one in moves:
        bearing = with_end(bearing, one, policy, one.begun + one.seconds)
    assert bearing is not None
    return bearing


def waves(*lengths: float, policy: Policy = POLICY, failed: Iterable[int] = ()) -> list[int]:
    """The limit after each wave of as many moves at once as it allows, of these lengths."""
    bearing: Bearing | None = None
    at, found, bad = 0.0, list[int](), set(failed)
    for number, seconds in enumerate(lengths):
        count = limit_of(bearing, policy, at)
        wave = [ended(seconds, at, failed=number in bad) for _ in range(count)]
        bearing, at = after(bearing, *wave, policy=policy), at + seconds
        found.append(limit_of(bearing, policy, at))
    return found


@pytest.mark.parametrize(
    ("lengths", "limits"),
    [
        pytest.param((60, 60, 60, 60), [4, 8, 10, 10], id="they keep their speed"),
        pytest.param((60, 70, 75, 75), [4, 8, 10, 10], id="they take a little longer"),
        pytest.param((60, 80, 85, 80), [4, 4, 4, 4], id="they take longer: no more at once"),
        pytest.param((60, 90, 90), [4, 4, 4], id="half as long again is not much longer"),
        pytest.param((60, 120, 60), [4, 2, 3], id="the link is full: back, then one by one"),
        pytest.param((60, 60, 150, 60, 60), [4, 8, 4, 5, 6], id="eight are too many"),
        pytest.param((2, 3, 3, 3), [4, 8, 10, 10], id="a second is no measure"),
        pytest.param((2, 6), [4, 2], id="short ones that take much longer"),
    ],
)
def test_limit_follows_the_speed_of_the_moves(
    lengths: tuple[float, ...], limits: list[int]
) -> None:
    assert waves(*lengths) == limits


def test_limit_falls_when_a_move_fails() -> None:
    assert waves(60, 60, 60, 60, failed=[2]) == [4, 8, 4, 5]
    assert waves(60, 60, failed=[0]) == [2, 4], "what was there at first stays"
    assert waves(60, 60, 60, 60, failed=[1, 2]) == [4, 2, 2, 3], "once fallen, it rises by one"


ONE, TWO = ended(), ended(60, 60)


@pytest.mark.parametrize(
    ("moves", "limit"),
    [
        pytest.param([], 2, id="none"),
        pytest.param([ONE], 2, id="one"),
        pytest.param([ONE, ONE], 4, id="as many as are allowed"),
        pytest.param([ONE, TWO], 2, id="one after the other: two at once are not shown"),
        pytest.param([ONE, ended(60, 30)], 4, id="one began while the other went"),
        pytest.param([ONE, ended(failed=True), ONE], 2, id="one of them has failed"),
        pytest.param([ONE, ended(memory=64)], 4, id="of any size at first"),
    ],
)
def test_limit_rises_once_as_many_moves_as_it_allows_went_well_at_once(
    moves: list[EndedMove], limit: int
) -> None:
    bearing = after(Bearing(LOWEST), *moves)
    assert limit_of(bearing, POLICY, bearing.seen_at if moves else 0) == limit


RISEN = after(None, ONE, ONE)
"""Bears four since 60."""


@pytest.mark.parametrize(
    ("moves", "limit"),
    [
        pytest.param([ended(200, 0)] * 4, 4, id="begun under the earlier limit"),
        pytest.param([ended(600, 60, memory=99_999)] * 4, 4, id="of instances of another size"),
        pytest.param([ended(1, 60, memory=99)] * 4, 4, id="of much smaller ones"),
        pytest.param([replace(ended(600, 60), kind=MoveKind.COLD)] * 4, 4, id="in another way"),
        pytest.param([ended(60, 60, memory=2048)] * 4, 8, id="of about the same size"),
        pytest.param([ended(60, 60, memory=512)] * 4, 8, id="of half the size"),
        pytest.param([ended(60, 60)] * 3, 4, id="fewer than a round"),
        pytest.param([ended(60, 60)] * 3 + [ended(60, 130)], 8, id="three of four at once"),
        pytest.param([ended(60, 60)] * 2 + [ended(60, 130)] * 2, 4, id="two of four at once"),
        pytest.param([ended(60, 60)] * 3 + [ended(90, 60)], 8, id="one of four is slower"),
        pytest.param([ended(60, 60)] * 2 + [ended(300, 60)] * 2, 2, id="half of them are"),
        pytest.param([ended(90, 60, failed=True), ended(200, 61)], 2, id="it falls once a round"),
    ],
)
def test_only_comparable_moves_under_the_present_limit_count(
    moves: list[EndedMove], limit: int
) -> None:
    bearing = after(RISEN, *moves)
    assert limit_of(bearing, POLICY, bearing.seen_at) == limit


def test_target_without_moves_begins_again_after_a_time() -> None:
    assert limit_of(RISEN, POLICY, RISEN.seen_at + KEPT) == 4
    assert limit_of(RISEN, POLICY, RISEN.seen_at + KEPT + 1) == LOWEST
    last = RISEN.seen_at + KEPT
    assert with_end(RISEN, ended(60, last - 60), POLICY, last).limit == 4
    late = RISEN.seen_at + KEPT + 1
    assert after(RISEN, ended(200, late)).first == (ended(200, late),)


def test_no_number_is_exceeded_where_the_policy_is_narrower() -> None:
    narrow = Policy(per_possible_target=2, most_per_possible_target=3)
    assert waves(60, 60, 60, policy=narrow) == [3, 3, 3]
    fixed = POLICY.for_evacuation
    assert waves(60, 600, 60, policy=fixed, failed=[2]) == [20, 20, 20]


MOVES = st.builds(
    ended,
    st.floats(0, 600),
    st.just(0.0),
    memory=st.sampled_from([0, 512, 1024, 65_536]),
    failed=st.booleans(),
)


@given(st.lists(st.tuples(MOVES, st.floats(0, 1000)), max_size=80), st.integers(1, 20))
def test_limit_stays_between_where_it_begins_and_what_the_policy_allows(
    history: list[tuple[EndedMove, float]], most: int
) -> None:
    policy = Policy(per_possible_target=2, most_per_possible_target=most)
    bearing, at = None, 0.0
    for move, pause in history:
        before, at = limit_of(bearing, policy, at), at + pause
        bearing = with_end(bearing, replace(move, begun=at - move.seconds), policy, at)
        now = limit_of(bearing, policy, at)
        assert 2 <= now <= max(most, 2)
        assert now <= 2 * before
        if move.failed:
            assert now <= before


def emptied(count: int, seconds: Callable[[int], float]) -> float:
    """How long a host with one target takes, whose moves last by how many go at once."""
    bearing: Bearing | None = None
    at = 0.0
    while count > 0:
        wave = min(limit_of(bearing, POLICY, at), count)
        lasts = seconds(wave)
        bearing = after(bearing, *(ended(lasts, at) for _ in range(wave)))
        count, at = count - wave, at + lasts
    return at


@given(st.integers(1, 200), st.floats(5, 600), st.integers(1, 20))
def test_host_with_one_target_is_never_emptied_much_later_than_with_two_at_once(
    count: int, alone: float, borne: int
) -> None:
    """Up to so many moves at once keep their speed; more share what these get."""

    def seconds(wave: int) -> float:
        return alone * max(1.0, wave / borne)

    two = sum(seconds(min(2, count - done)) for done in range(0, count, 2))
    assert emptied(count, seconds) <= two * 1.01 + 2 * alone


def test_target_that_bears_ten_is_used_by_ten() -> None:
    assert emptied(20, lambda _: 60.0) == 4 * 60
    assert emptied(100, lambda _: 60.0) == (3 + 9) * 60
    assert POLICY.per_source == HIGHEST
