"""When the last instance should have left, judging by the pace so far. Pure.

A move takes a fixed time and a time for its memory; both are fitted to the moves that have ended.
Those under way count too, as lasting at least as long as they do already: else the short ones,
which end first, would make it look too good. What is left is then put into the places for moves,
in its order.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

_ROUNDS = 4  # of filling in what the moves under way will take; it settles quickly


@dataclass(frozen=True, slots=True)
class Sample:
    """A move.

    Args:
        memory_mib: of the instance.
        seconds: that it took, or has taken so far.
    """

    memory_mib: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Pace:
    """How long moves take.

    Args:
        fixed: seconds for any.
        per_mib: seconds for each MiB of memory.
    """

    fixed: float
    per_mib: float

    def seconds(self, memory_mib: int) -> float:
        """For one instance."""
        return self.fixed + self.per_mib * memory_mib


def seconds_left(
    ended: Sequence[Sample], running: Sequence[Sample], waiting: Sequence[int], places: int
) -> float | None:
    """Seconds until the last instance should have left; None while no move has ended.

    Args:
        ended: moves that have ended.
        running: those under way, with what they have taken so far.
        waiting: memory of those not begun, in MiB, in their order.
        places: moves at once.
    """
    pace = fit(ended, running)
    if pace is None:
        return None
    free = [
        max(pace.seconds(move.memory_mib) - move.seconds, 0.0) or pace.fixed / 10
        for move in running
    ]
    free += [0.0] * max(places - len(free), 0)
    heapq.heapify(free)
    last = max(free, default=0.0)
    for memory_mib in waiting:
        end = heapq.heappop(free) + pace.seconds(memory_mib)
        heapq.heappush(free, end)
        last = max(last, end)
    return last


def fit(ended: Sequence[Sample], running: Sequence[Sample]) -> Pace | None:
    """The pace by the moves that have ended and those under way; None while none has ended."""
    if not ended:
        return None
    pace = _line(ended)
    for _ in range(_ROUNDS):
        filled = [
            Sample(move.memory_mib, max(move.seconds, pace.seconds(move.memory_mib)))
            for move in running
        ]
        pace = _line([*ended, *filled])
    return pace


def _line(samples: Sequence[Sample]) -> Pace:
    """Least squares, neither part below zero."""
    count = len(samples)
    memory = sum(s.memory_mib for s in samples) / count
    seconds = sum(s.seconds for s in samples) / count
    spread = sum((s.memory_mib - memory) ** 2 for s in samples)
    if not spread:
        return Pace(seconds, 0.0)
    slope = sum((s.memory_mib - memory) * (s.seconds - seconds) for s in samples) / spread
    if slope <= 0:
        return Pace(seconds, 0.0)
    fixed = seconds - slope * memory
    if fixed >= 0:
        return Pace(fixed, slope)
    return Pace(0.0, seconds / memory)
