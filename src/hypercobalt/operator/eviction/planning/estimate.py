"""When the last instance should have left, estimated by the pace so far. Pure.

A move takes a fixed time and a time for its memory, the second only where the moves that have ended
show that it matters. Moves under way count as well, as lasting at least as long as they do already:
else the short moves, which end first, would make the estimate too good. The remaining moves are
then put into the places for moves, in their order, several times over, with lengths that stray from
the pace as much as those seen: the last to leave is a late one.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from hypercobalt.api.eviction import EvictionMode, EvictionStatus, InstancePhase
from hypercobalt.compute.model import MoveKind
from hypercobalt.operator.eviction.model.states import Arrived, Assessment, Departed, Moment
from hypercobalt.operator.eviction.planning.target_limits import EndedMove

_ROUNDS: Final = 3  # of filling in what the moves under way will take; it settles quickly
_DRAWS: Final = 12  # enough for the mean to stray by a few percent
_STRIDE: Final = 7  # through the strayings seen, so that neighbours in time are not neighbours here
_CLEAR: Final = 3.0  # times its own uncertainty that the share of memory must be
_FEW: Final = 2  # moves that have ended, below which their lengths tell nothing of the next ones
_BORNE: Final = frozenset({MoveKind.LIVE, MoveKind.COLD})
"""Kinds of moves that show how much their target bears: an evacuation copies nothing."""
_EARLIEST: Final = 0.7  # of its expected time after which a move may have ended


@dataclass(frozen=True, slots=True)
class Sample:
    """A move.

    Args:
        memory_mib: of the instance.
        seconds: time that it took, or has taken so far.
    """

    memory_mib: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Pace:
    """How long moves take.

    Args:
        fixed: seconds for any move.
        per_mib: seconds for each MiB of memory.
    """

    fixed: float
    per_mib: float

    def seconds(self, memory_mib: int) -> float:
        """Return the expected seconds of a move of one instance."""
        return self.fixed + self.per_mib * memory_mib


def seconds_left(
    ended: Sequence[Sample], running: Sequence[Sample], waiting: Sequence[int], places: int
) -> float | None:
    """Seconds until the last instance should have left; None while no move has ended.

    Args:
        ended: moves that have ended.
        running: those under way, with what they have taken so far.
        waiting: memory of those not begun, in MiB, in their order.
        places: moves at once, one at least.
    """
    pace = fit(ended, running)
    if pace is None:
        return None
    strays = sorted(move.seconds / max(pace.seconds(move.memory_mib), 0.001) for move in ended)
    draws = [
        _last(
            pace,
            [strays[(draw + _STRIDE * i) % len(strays)] for i in range(len(strays))],
            running,
            waiting,
            places,
        )
        for draw in range(min(_DRAWS, len(strays)))
    ]
    return sum(draws) / len(draws)


def _last(
    pace: Pace,
    strays: Sequence[float],
    running: Sequence[Sample],
    waiting: Sequence[int],
    places: int,
) -> float:
    """Return when the last instance leaves if the next moves stray from the pace like these."""
    free: list[float] = []
    for index, move in enumerate(running):
        expected = pace.seconds(move.memory_mib)
        longer = [stray for stray in strays if expected * stray > move.seconds]
        # One that lasts longer than any has done is given a tenth more.
        whole = expected * longer[index % len(longer)] if longer else move.seconds * 1.1
        free.append(whole - move.seconds)
    free += [0.0] * max(places - len(free), 0)
    heapq.heapify(free)
    last = max(free)
    for index, memory_mib in enumerate(waiting):
        end = heapq.heappop(free) + pace.seconds(memory_mib) * strays[index % len(strays)]
        heapq.heappush(free, end)
        last = max(last, end)
    return last


def fit(ended: Sequence[Sample], running: Sequence[Sample]) -> Pace | None:
    """Return the pace from moves that have ended or are under way; None while none has ended."""
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
    """Return the least-squares line, no part below zero; flat unless memory clearly matters."""
    count = len(samples)
    memory = sum(s.memory_mib for s in samples) / count
    seconds = sum(s.seconds for s in samples) / count
    flat = Pace(seconds, 0.0)
    spread = sum((s.memory_mib - memory) ** 2 for s in samples)
    if not spread or count <= 2:  # noqa: PLR2004 - two points always lie on a line
        return flat
    slope = sum((s.memory_mib - memory) * (s.seconds - seconds) for s in samples) / spread
    rest = sum((s.seconds - seconds - slope * (s.memory_mib - memory)) ** 2 for s in samples)
    if slope <= _CLEAR * (rest / (count - 2) / spread) ** 0.5:
        return flat
    fixed = seconds - slope * memory
    if fixed >= 0:
        return Pace(fixed, slope)
    return Pace(0.0, seconds / memory)


@dataclass(slots=True)
class Timings:
    """How long the moves of one Eviction take and have taken.

    Attributes:
        sizes: memory in MiB of every instance that was seen, by UUID.
        begun: when each move under way was first seen, by the clock that never steps.
        ended: how long moves took.
    """

    sizes: dict[str, int] = field(default_factory=dict[str, int])
    begun: dict[str, float] = field(default_factory=dict[str, float])
    ended: list[Sample] = field(default_factory=list[Sample])

    def observe(self, instances: Iterable[Assessment], moment: Moment) -> tuple[EndedMove, ...]:
        """Record which moves are under way; return those that have ended since, well or not."""
        over: list[EndedMove] = []
        for instance in instances:
            if instance.server is not None:
                self.sizes[instance.id] = instance.server.size.memory_mib
            if instance.occupies:
                self.begun.setdefault(instance.id, moment.at)
                continue
            begun = self.begun.pop(instance.id, None)
            if begun is None:
                continue
            memory, seconds = self._memory_mib(instance.id), _lasted(instance, moment.at - begun)
            if isinstance(instance.state, Departed | Arrived):
                self.ended.append(Sample(memory, seconds))
            move = instance.move
            if move is not None and move.ended and move.target and move.kind in _BORNE:
                failed = not move.succeeded
                over.append(EndedMove(move.target, move.kind, memory, seconds, begun, failed))
        return tuple(over)

    def recall(self, status: EvictionStatus) -> None:
        """Restore the pace from the status after a restart."""
        for entry in status.instances:
            started, finished = entry.startedAt, entry.finishedAt
            moved = entry.attempts and entry.mode != EvictionMode.RESTART
            if entry.phase == InstancePhase.SUCCEEDED and moved and started and finished:
                seconds = max((finished - started).total_seconds(), 0.5)
                self.ended.append(Sample(0, seconds))

    def typical(self, at: float) -> float | None:
        """Seconds that a move takes; None while none has ended."""
        pace = fit(self.ended, self._running(at))
        mean = sum(self.sizes.values()) // max(len(self.sizes), 1)
        return pace.seconds(mean) if pace else None

    def next_ends(self, ids: Iterable[str], within: float, at: float) -> float:
        """Seconds until the next of these moves should have ended, by the pace; 0 without one.

        Where lengths stray, the first may end before its time: the shortest move so far shows by
        how much.

        Args:
            ids: UUIDs of moves under way.
            within: moves that should end so many seconds after the first count as one end.
            at: now.
        """
        pace = fit(self.ended, self._running(at))
        if pace is None:
            return 0.0
        left = sorted(
            pace.seconds(self._memory_mib(id_)) - at + self.begun.get(id_, at) for id_ in ids
        )
        together = [each for each in left if each - left[0] <= within]
        return together[-1] * self._shortest(pace) if together else 0.0

    def _shortest(self, pace: Pace) -> float:
        """Share of its expected time that the shortest move has taken."""
        if len(self.ended) < _FEW:
            return _EARLIEST
        shares = (one.seconds / max(pace.seconds(one.memory_mib), 0.001) for one in self.ended)
        return min(max(min(shares), _EARLIEST), 1.0)

    def seconds_left(self, waiting: Sequence[int], places: int, at: float) -> float | None:
        """See `seconds_left`."""
        return seconds_left(self.ended, self._running(at), waiting, places)

    def _running(self, at: float) -> list[Sample]:
        return [Sample(self._memory_mib(id_), at - begun) for id_, begun in self.begun.items()]

    def _memory_mib(self, id_: str) -> int:
        """Memory of an instance in MiB; 0 for one that was never seen on its host."""
        return self.sizes.get(id_, 0)


def _lasted(instance: Assessment, seen: float) -> float:
    """Seconds that a move took, by its record: its end is seen late.

    When to look for the next end depends on it, so a lag in this value would lead to a longer lag.
    """
    move = instance.move
    recorded = (move.updated - move.created).total_seconds() if move is not None else 0.0
    return min(recorded, seen) if recorded > 0 else seen
