"""Memory of an instance between passes: the thing that is followed, and its last progress. Pure.

A record of the compute service and a job that the host's node agent sees are followed apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from hypercobalt.compute.model import Move, MoveKind

_CLOCK_SKEW: Final = timedelta(minutes=1)
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
        """The lesser memory and the lesser disk of the two; 0 counts as not known."""
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

    def is_before(self, other: Job) -> bool:
        """Whether another job began later."""
        return bool(self.started and other.started and self.started < other.started)

    def is_of(self, move: Move) -> bool:
        """Whether the job may be the one of a record, rather than of an earlier attempt."""
        early = self.started is not None and self.started < move.created - _CLOCK_SKEW
        return move.kind == MoveKind.LIVE and not early


@dataclass(frozen=True, slots=True)
class HostView:
    """Memory of a job.

    Args:
        started: distinguishes one job from the next.
        lowest: least bytes that were left.
        since: when it last made progress.
    """

    started: datetime | None
    lowest: Left
    since: float


# -- what is remembered of an instance ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Begun:
    """A move was requested, and no record shows it yet.

    Args:
        known: the newest record before the call; "" for none.
    """

    known: str


@dataclass(frozen=True, slots=True)
class Recorded:
    """A record is followed.

    Args:
        id: of the record.
        status: its status.
        lowest: least bytes that were left.
        helped: the move was ordered to complete by force.
        aborts: how often an abort was ordered.
        refused: the last abort was refused, or its outcome is not known.
    """

    id: str
    status: str
    lowest: Left = Left()
    helped: bool = False
    aborts: int = 0
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """The last move has failed; the next attempt waits.

    Args:
        record: of the move.
    """

    record: str


@dataclass(frozen=True, slots=True)
class Blocking:
    """Something else has to end first.

    Args:
        why: for people; another reason is another wait.
    """

    why: str


@dataclass(frozen=True, slots=True)
class Rebooted:
    """A restart was requested.

    Args:
        failed: why it has not brought the instance up; the next attempt waits. "" before that.
    """

    failed: str = ""


@dataclass(frozen=True, slots=True)
class Unrecoverable:
    """The compute service would not take it out of the ERROR that its move left it in.

    Args:
        record: of the move.
    """

    record: str


Followed = Begun | Recorded | Failed | Blocking | Rebooted | Unrecoverable


@dataclass(frozen=True, slots=True)
class Track:
    """Memory of one instance, timed by a clock that never steps.

    It only times waits: without it they begin again.

    Args:
        follows: the thing that is timed; None for none.
        since: when that last made progress, or when the wait began.
        not_before: no call for this instance before then.
        refused: hosts that the compute service would not move it to.
        view: of its newest job.
    """

    follows: Followed | None = None
    since: float = 0.0
    not_before: float = 0.0
    refused: frozenset[str] = frozenset()
    view: HostView | None = None

    def anew(self, follows: Followed | None, *, since: float, not_before: float = 0.0) -> Track:
        """Return the track once something else is followed."""
        return Track(follows, since, not_before, self.refused, self.view)

    def reading(self, move: Move, at: float) -> tuple[Track, Recorded]:
        """Return the track of a record: a value that is lower than ever, or new, is progress."""
        left, known = Left(move.remaining, move.disk_remaining), self.follows
        if not isinstance(known, Recorded) or known.id != move.id:
            known = Recorded(move.id, move.status, left)
            return self.anew(known, since=at), known
        progressed = known.status != move.status or left.is_less(known.lowest)
        known = replace(known, status=move.status, lowest=left.least(known.lowest))
        return replace(self, follows=known, since=at if progressed else self.since), known

    def seeing(self, job: Job | None, at: float) -> Track:
        """Return the track of a job that goes on: less left than ever is progress."""
        if job is None or job.ended:
            return self
        known = self.view
        if known is None or known.started != job.started:
            return replace(self, view=HostView(job.started, job.left, at))
        if not job.left.is_less(known.lowest):
            return self
        return replace(self, view=HostView(job.started, job.left.least(known.lowest), at))

    def may_abort(self, record: Recorded, at: float) -> bool:
        """Whether to abort the move: once for a record, and again when that was refused."""
        return not record.aborts or (record.refused and at >= self.not_before)


FRESH: Final = Track()
"""Nothing is remembered."""
