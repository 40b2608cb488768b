"""Whether a move goes on, by what its record says and by what the host's node agent sees. Pure.

The two may disagree: a nova-compute that has lost a migration leaves its record as it was, and an
agent that has died its Migration. What goes on by either goes on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from hypercobalt.compute.model import Move, MoveKind
from hypercobalt.operator.eviction.policy import Policy

_OTHER_CLOCK: Final = timedelta(minutes=1)
"""How far the clocks of the compute service and of a host may be apart."""


@dataclass(frozen=True, slots=True)
class Left:
    """Bytes that are still to be moved; 0 where nothing is known.

    Disks and memory are apart, since they go one after the other: the first of the memory is more
    than the last of a disk.
    """

    memory: int = 0
    disk: int = 0

    def is_less(self, than: Left) -> bool:
        """Whether less is left of one of them, or something is known for the first time."""
        return _is_less(self.memory, than.memory) or _is_less(self.disk, than.disk)

    def least(self, other: Left) -> Left:
        """The least of each."""
        return Left(
            self.memory if _is_less(self.memory, other.memory) else other.memory,
            self.disk if _is_less(self.disk, other.disk) else other.disk,
        )


def _is_less(now: int, lowest: int) -> bool:
    return bool(now) and (not lowest or now < lowest)


@dataclass(frozen=True, slots=True)
class Job:
    """A live migration as the node agent of the host that the server leaves sees it.

    Args:
        started: when it was first seen, by the clock of the host.
        left: to be moved.
        ended: how it has ended (`failed` …); "" while it goes on.
    """

    started: datetime | None
    left: Left = Left()
    ended: str = ""

    def is_of(self, move: Move) -> bool:
        """Whether it may be what a record tells of, and not an earlier attempt."""
        early = self.started is not None and self.started < move.created - _OTHER_CLOCK
        return move.kind == MoveKind.LIVE and not early


@dataclass(frozen=True, slots=True)
class Sight:
    """What is remembered of a job.

    Args:
        started: says which one.
        lowest: the least that was left.
        since: when something last went on.
    """

    started: datetime | None
    lowest: Left
    since: float


@dataclass(frozen=True, slots=True)
class Track:
    """What is remembered of one instance, timed by a clock that never steps.

    Args:
        move: the record that is followed.
        status: its status.
        lowest: the least that was left.
        since: when something last went on, or when the wait began.
        helped: it has been asked to complete.
        aborted: it has been asked to stop.
        not_before: no call for this instance before then.
        refused: hosts that the compute service would not move it to.
        sight: of its newest job.
    """

    move: str = ""
    status: str = ""
    lowest: Left = Left()
    since: float = 0.0
    helped: bool = False
    aborted: bool = False
    not_before: float = 0.0
    refused: frozenset[str] = frozenset()
    sight: Sight | None = None

    def anew(self, move: str, status: str = "", *, since: float, not_before: float = 0.0) -> Track:
        """What is remembered once something else is followed."""
        fresh = Track(move, status, since=since, not_before=not_before)
        return replace(fresh, refused=self.refused, sight=self.sight)

    def reading(self, move: Move, at: float) -> Track:
        """What is remembered of a record: what is less than ever, or new, is progress."""
        left, track = Left(move.remaining, move.disk_remaining), self
        if track.move != move.id:
            track = track.anew(move.id, move.status, since=at)
        elif track.status != move.status or left.is_less(track.lowest):
            track = replace(track, status=move.status, since=at)
        return replace(track, lowest=left.least(track.lowest))

    def seeing(self, job: Job | None, at: float) -> Track:
        """What is remembered of a job that goes on; likewise."""
        if job is None or job.ended:
            return self
        known = self.sight
        if known is None or known.started != job.started:
            return replace(self, sight=Sight(job.started, job.left, at))
        if not job.left.is_less(known.lowest):
            return self
        return replace(self, sight=Sight(job.started, job.left.least(known.lowest), at))


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a move under way is.

    Args:
        track: what to remember.
        still: seconds without progress.
        in_memory: its memory is moved; else it waits, copies disks, or tells nothing.
        is_over: its host has seen it end, and its record says that it runs.
        told: what the record and the host tell differently, for people; "" when they agree.
    """

    track: Track
    still: float
    in_memory: bool
    is_over: bool
    told: str


def progress(track: Track, move: Move, job: Job | None, policy: Policy, at: float) -> Progress:
    """How far a move under way is.

    Args:
        track: what is remembered of it.
        move: its record.
        job: the newest one of its server.
        policy: how long the two may differ.
        at: now, by the clock that never steps.
    """
    own = job if job is not None and job.is_of(move) else None
    track = track.reading(move, at).seeing(own, at)
    sight = track.sight if own is not None else None
    by_record, by_host = at - track.since, at - sight.since if sight else None
    still = by_record if by_host is None else min(by_record, by_host)
    ended = own.ended if own is not None and move.status == "running" else ""
    is_over = bool(ended) and still > policy.unsure.total_seconds()
    memory = track.lowest.memory or (sight.lowest.memory if sight else 0)
    told, stall = "", policy.stall.total_seconds()
    if is_over:
        told = f"its host has seen the migration end ({ended}), the compute service has not"
    elif by_host is not None and by_host <= stall < by_record:
        told = "libvirt reports progress, the compute service none; treated as progressing"
    return Progress(track, still, memory > 0, is_over, told)
