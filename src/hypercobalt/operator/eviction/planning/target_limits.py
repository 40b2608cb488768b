"""Limits the moves at once to each target, by the outcome of earlier moves to it. Pure.

A target begins with what every host bears. Each round, which is as many moves as its limit, all
begun since it was set, shows more: where they took about as long as moves did at first, the limit
is doubled; where they took much longer, or one has failed, it is halved. After a first fall it
rises by one a round. It never goes below where it began, nor above what the policy allows.

A move is compared with moves of instances of about its size only; others show nothing. This
knowledge is lost with the process, and outdated after some time without moves: then a target begins
again.

Source: docs/decisions/0052-targets-bear-what-they-show.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from hypercobalt.operator.eviction.model.policy import Policy

KEPT: Final = 600.0
"""Seconds after the last move to a target during which its limit stays valid."""

_UNCHANGED: Final = 1.25  # times as long as at first that moves may take where the limit rises
_SLOWER: Final = 1.5  # likewise, from where it falls
_GRAIN: Final = 1.0  # seconds: records of moves have whole ones
_ALIKE: Final = 2.0  # times as much memory that a comparable instance may have
_USED: Final = 0.75  # of the limit that moves must have used at once, to show that it is borne
_SAMPLES: Final = 32  # of a target, at first


@dataclass(frozen=True, slots=True)
class EndedMove:
    """A move that has ended.

    Args:
        target: where it went.
        kind: live or cold.
        memory_mib: of its instance.
        seconds: that it took.
        begun: when, by the clock that never steps.
        failed: it has not arrived.
    """

    target: str
    kind: str
    memory_mib: int
    seconds: float
    begun: float
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Bearing:
    """Record of a target.

    Args:
        limit: moves to it at once; 0 before the first has ended.
        since: when the limit was set.
        first: the moves that arrived while the limit was where it began.
        round: those that were begun and arrived since, as far as they are comparable.
        fallen: the limit has been too high once.
        seen_at: when a move to it ended last.
    """

    limit: int = 0
    since: float = 0.0
    first: tuple[EndedMove, ...] = ()
    round: tuple[EndedMove, ...] = ()
    fallen: bool = False
    seen_at: float = float("-inf")


def limit_of(bearing: Bearing | None, policy: Policy, at: float) -> int:
    """Return the moves at once to a target for which the site has set no limit."""
    lowest = policy.per_possible_target
    if bearing is None or at - bearing.seen_at > KEPT:
        return lowest
    return max(min(bearing.limit, policy.most_per_possible_target), lowest)


def with_end(bearing: Bearing | None, ended: EndedMove, policy: Policy, at: float) -> Bearing:
    """Record how a move to a target has ended."""
    known = replace(_current(bearing, policy, at), seen_at=at)
    if ended.begun < known.since:
        return known  # an earlier limit led to this result
    if ended.failed:
        return _fallen(known, policy, at)
    if known.limit <= policy.per_possible_target:
        known = replace(known, first=(*known.first, ended)[-_SAMPLES:])
    if _slower(ended, known.first) is None:
        return known
    known = replace(known, round=(*known.round, ended))
    return _after_round(known, policy, at) if len(known.round) >= known.limit else known


def _current(bearing: Bearing | None, policy: Policy, at: float) -> Bearing:
    if bearing is not None and at - bearing.seen_at <= KEPT:
        return replace(bearing, limit=limit_of(bearing, policy, at))
    return Bearing(policy.per_possible_target)


def _after_round(known: Bearing, policy: Policy, at: float) -> Bearing:
    ratios = [_slower(move, known.first) for move in known.round]
    slower = [ratio for ratio in ratios if ratio is not None]
    mean = sum(slower) / len(slower)
    if mean > _SLOWER:
        return _fallen(known, policy, at)
    if mean > _UNCHANGED or _at_once(known.round) < _USED * known.limit:
        return replace(known, round=())
    higher = known.limit + 1 if known.fallen else 2 * known.limit
    return _set(known, min(higher, max(policy.most_per_possible_target, known.limit)), at)


def _fallen(known: Bearing, policy: Policy, at: float) -> Bearing:
    lower = max(known.limit // 2, policy.per_possible_target)
    fallen = known.fallen or lower < known.limit
    return replace(_set(known, lower, at), fallen=fallen)


def _set(known: Bearing, limit: int, at: float) -> Bearing:
    return replace(known, limit=limit, since=at, round=())


def _at_once(moves: Sequence[EndedMove]) -> int:
    """Return how many of these moves were under way at the same time."""
    return max(
        sum(other.begun <= each.begun < other.begun + other.seconds for other in moves)
        for each in moves
    )


def _slower(ended: EndedMove, first: Sequence[EndedMove]) -> float | None:
    """Return the ratio of a move's time to that of first moves; None if none is comparable."""
    memory = ended.memory_mib
    alike = [
        earlier.seconds
        for earlier in first
        if earlier.kind == ended.kind
        and earlier.memory_mib <= _ALIKE * memory
        and memory <= _ALIKE * earlier.memory_mib
    ]
    if not alike:
        return None
    expected = sum(alike) / len(alike)
    if ended.seconds <= expected + _GRAIN:
        return 1.0
    return ended.seconds / max(expected, _GRAIN)
