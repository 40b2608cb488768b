"""How far one instance is, by what the compute service says of it now. Pure.

The phase comes from the server and the records of its moves, never from what was written before; so
any pass may be the first. What is remembered between passes (`Track`) only times waits: without it
they begin anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Final

from hypercobalt.api.eviction import EvictionInstance, InstancePhase
from hypercobalt.compute.model import Move, MoveKind, Server, ServerStatus
from hypercobalt.operator.eviction.policy import Policy, StuckHelp
from hypercobalt.operator.eviction.progress import Job, Track, progress
from hypercobalt.operator.eviction.ways import Way, verdict

_OURS: Final = {MoveKind.LIVE, MoveKind.COLD}
"""Moves as an Eviction begins them; the others are owners' and rescuers'."""

_OTHER_CLOCK: Final = timedelta(minutes=1)
"""How far the clocks of the compute service and of the Kubernetes API may be apart."""


BEGUN: Final = "begun"
"""`Track.move` after a call that begins a move; its `status` is the newest record before."""

LOST: Final = "lost:"
"""`Track.move` begins so, and ends with the id of a record, when its server cannot be recovered."""


class Step(Enum):
    """What to do about one instance now."""

    NONE = auto()
    START = auto()
    """It may be begun, when there is room for another move."""
    CONFIRM = auto()
    FORCE = auto()
    ABORT = auto()
    RECOVER = auto()
    """Its live move has failed and left it in ERROR, though its guest is well where it was."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The time of a pass.

    Args:
        now: for people.
        at: seconds of the clock that never steps.
    """

    now: datetime
    at: float


@dataclass(frozen=True, slots=True)
class Seen:
    """What there is of one instance.

    Args:
        entry: what the status says so far.
        server: when it is on the host.
        moves: records of its moves away from the host, newest first.
        job: its live migration as the node agent sees it, None when it says nothing.
    """

    entry: EvictionInstance
    server: Server | None
    moves: tuple[Move, ...]
    job: Job | None = None

    @property
    def move(self) -> Move | None:
        """The newest record."""
        return self.moves[0] if self.moves else None


@dataclass(frozen=True, slots=True)
class Standing:
    """How far an instance is, and what to do about it.

    Args:
        seen: what this was made of.
        phase: for the status.
        step: to do now.
        live: how it would be started.
        message: for the status.
        attempts: how often moving it was begun.
        avoid: hosts where it has failed.
        track: what to remember.
        occupies: it takes one of the places for moves.
    """

    seen: Seen
    phase: InstancePhase
    track: Track
    step: Step = Step.NONE
    live: bool = True
    message: str = ""
    attempts: int = 0
    avoid: frozenset[str] = frozenset()
    occupies: bool = False

    @property
    def id(self) -> str:
        """UUID of the instance."""
        return self.seen.entry.id


def follow(seen: Seen, track: Track, began: datetime, policy: Policy, moment: Moment) -> Standing:
    """Say how far an instance is.

    Args:
        seen: what there is of it.
        track: what is remembered of it.
        began: when the Eviction was made; earlier records are others'.
        policy: waits and attempts.
        moment: now.
    """
    recent = tuple(move for move in seen.moves if _may_be_ours(move, began))
    aside = tuple(move for move in seen.moves if _is_left_over(move, seen, policy, moment))
    seen = replace(seen, moves=tuple(move for move in seen.moves if move not in aside))
    failed = tuple(move for move in recent if move.ended and not move.succeeded)
    standing = Standing(
        seen,
        InstancePhase.PENDING,
        track,
        attempts=max(seen.entry.attempts or 0, len(recent)),
        avoid=frozenset(move.target for move in failed if move.target) | track.refused,
        message=f"its record {aside[0].id} of a move is left {aside[0].status}" if aside else "",
    )
    move = seen.move
    on_the_way = move is not None and not move.ended
    if seen.server is None:
        if move is not None and on_the_way:
            return _arriving(standing, move, policy, moment)
        return _left(standing, began, moment)
    found = verdict(seen.server)
    if move is not None and on_the_way:
        return _moving(standing, move, policy, moment)
    if found.way is Way.MOVING:
        # Accepted, but there is no record yet; or somebody resizes it.
        return _waiting(standing, "", policy, moment, phase=InstancePhase.MIGRATING)
    if found.way is Way.ABSENT:
        return replace(standing, phase=InstancePhase.SKIPPED, message=found.why)
    if unsaid := _leaving_unsaid(standing, policy, moment):
        return unsaid
    if move is not None and _settles(seen.server, move, began, policy, moment):
        text = f"its move to {move.target} has ended as {move.status}; it settles"
        return replace(standing, phase=InstancePhase.MIGRATING, message=text, occupies=True)
    if move is not None and _is_left_wrong(seen.server, move, began):
        return _recovering(standing, seen.server, move, policy, moment)
    if found.way is Way.BLOCKED:
        return replace(standing, phase=InstancePhase.FAILED, message=found.why)
    if found.way is Way.WAIT:
        return _waiting(standing, found.why, policy, moment)
    return _idle(standing, failed, live=found.way is Way.LIVE, policy=policy, moment=moment)


def _may_be_ours(move: Move, began: datetime) -> bool:
    return move.created >= began and move.kind in _OURS


def _is_left_over(move: Move, seen: Seen, policy: Policy, moment: Moment) -> bool:
    """Whether nobody has ended a record, though nothing is done to its server any more.

    A compute service that dies in a move leaves one. The last word on a move comes some time after
    its server is let go; a record that is still written is believed.
    """
    if move.ended or seen.server is None or verdict(seen.server).way is Way.MOVING:
        return False
    return moment.now - move.updated > policy.stall


def waits_for_us(move: Move, began: datetime) -> bool:
    """Whether it is a cold move since `began` that has arrived, and has to be confirmed."""
    recent = move.created >= began - _OTHER_CLOCK
    return recent and move.kind == MoveKind.COLD and move.status == "finished"


def begun(standing: Standing, policy: Policy, moment: Moment) -> Track:
    """What to remember after a call that begins a move, however it ended.

    It is not repeated until there was time to see what it did.
    """
    known = standing.seen.move.id if standing.seen.move else ""
    wait = policy.unsure.total_seconds()
    return standing.track.anew(BEGUN, known, since=moment.at, not_before=moment.at + wait)


def _left(standing: Standing, began: datetime, moment: Moment) -> Standing:
    """It is no longer on the host, and nothing is on its way."""
    entry, move = standing.seen.entry, standing.seen.move
    ours = move is not None and (bool(entry.attempts) or move.created >= began - _OTHER_CLOCK)
    if move is None or not ours:
        text = entry.message or "is gone: deleted, or moved by somebody else"
        return replace(standing, phase=InstancePhase.SUCCEEDED, message=text)
    if move.kind == MoveKind.COLD and move.status == "finished":
        track = standing.track.reading(move, moment.at)
        due = moment.at >= track.not_before
        return replace(
            standing,
            phase=InstancePhase.CONFIRMING,
            step=Step.CONFIRM if due else Step.NONE,
            message=f"is on {move.target}; the move waits to be confirmed",
            track=track,
        )
    if not move.succeeded:
        text = "is gone: deleted, or moved by somebody else"
        return replace(standing, phase=InstancePhase.SUCCEEDED, message=text)
    return replace(standing, phase=InstancePhase.SUCCEEDED, message=f"moved to {move.target}")


def _arriving(standing: Standing, move: Move, policy: Policy, moment: Moment) -> Standing:
    """The server is shown elsewhere a moment before the record says so: the record counts."""
    track = standing.track.reading(move, moment.at)
    if moment.at - track.since > policy.stall.total_seconds():
        text = f"is elsewhere, but its move is still {move.status}"
        return replace(standing, phase=InstancePhase.SUCCEEDED, message=text, track=track)
    return replace(
        standing, phase=InstancePhase.MIGRATING, message="arrives", track=track, occupies=True
    )


def _moving(standing: Standing, move: Move, policy: Policy, moment: Moment) -> Standing:
    now = progress(standing.track, move, standing.seen.job, policy, moment.at)
    track, runs = now.track, move.kind == MoveKind.LIVE and move.status == "running"
    said = f"{move.status}; {now.told}" if now.told else move.status
    moving = replace(
        standing, phase=InstancePhase.MIGRATING, track=track, occupies=True, message=said
    )
    measured = runs and (now.in_memory or now.is_over)
    limit = policy.stall if measured or track.aborted or track.helped else policy.longest
    if now.still <= limit.total_seconds():
        return moving
    text = f"no progress for {now.still:.0f} s while {said}"
    if move.kind != MoveKind.LIVE:
        return replace(moving, phase=InstancePhase.FAILED, occupies=False, message=text)
    # Forced while its disks are copied, it would be paused until they are.
    can_help = runs and not now.is_over and (now.in_memory or not track.lowest.disk)
    if can_help and not track.helped and policy.stuck_help is StuckHelp.FORCE:
        again = replace(track, helped=True, since=moment.at)
        return replace(
            moving, step=Step.FORCE, track=again, message=f"{text}; it is forced to complete"
        )
    if not track.aborted:
        again = replace(track, aborted=True, since=moment.at)
        return replace(moving, step=Step.ABORT, track=again, message=f"{text}; it is aborted")
    text = f"{text}; abort failed as well; check both hosts"
    return replace(moving, phase=InstancePhase.FAILED, occupies=False, message=text)


def _leaving_unsaid(standing: Standing, policy: Policy, moment: Moment) -> Standing | None:
    """Its host sees it move, of which the compute service says nothing; None when it does not."""
    job = standing.seen.job
    track = standing.track.seeing(job, moment.at)
    sight = track.sight
    if job is None or job.ended or sight is None:
        return None
    if moment.at - sight.since > policy.stall.total_seconds():
        return None
    text = "its host sees it move, the compute service does not: that is waited for"
    return replace(
        standing, phase=InstancePhase.MIGRATING, track=track, occupies=True, message=text
    )


def _is_our_failure(move: Move, began: datetime) -> bool:
    """Whether a live move has failed on its way; not one for which there was no target."""
    failed = move.kind == MoveKind.LIVE and move.ended and not move.succeeded
    return failed and bool(move.target) and move.created >= began


def _settles(server: Server, move: Move, began: datetime, policy: Policy, moment: Moment) -> bool:
    """Whether what is shown of a server after its move may still change.

    A compute service whose clock is wrong is taken at its word.
    """
    good, just = server.status != ServerStatus.ERROR, abs(moment.now - move.updated) < policy.settle
    return good and just and _is_our_failure(move, began)


def _is_left_wrong(server: Server, move: Move, began: datetime) -> bool:
    """Whether a move has left it in ERROR; or, once out of that, ACTIVE though it is paused."""
    if server.task_state or not _is_our_failure(move, began):
        return False
    if server.status == ServerStatus.ERROR:
        return server.running or server.paused
    return server.status == ServerStatus.ACTIVE and server.paused


def _recovering(
    standing: Standing, server: Server, move: Move, policy: Policy, moment: Moment
) -> Standing:
    guest = "is paused" if server.paused else "runs"
    text = f"its move to {move.target} left it {server.status}, though its guest {guest} here"
    if standing.track.move == f"{LOST}{move.id}":
        why = verdict(server).why or text
        return replace(standing, phase=InstancePhase.FAILED, message=why)
    text = f"{text}; that is set right"
    waiting = _waiting(standing, text, policy, moment)
    due = waiting.phase is InstancePhase.PENDING and moment.at >= waiting.track.not_before
    return replace(waiting, step=Step.RECOVER) if due else waiting


def _waiting(
    standing: Standing,
    why: str,
    policy: Policy,
    moment: Moment,
    *,
    phase: InstancePhase = InstancePhase.PENDING,
) -> Standing:
    track = standing.track
    moves = phase is InstancePhase.MIGRATING
    what = f"wait:{why}"
    if track.move != what:
        track = replace(track, move=what, since=moment.at)
    waited = moment.at - track.since
    if waited > policy.patience.total_seconds():
        text = f"{why or 'is on its way'}, for {waited:.0f} s now: look at it"
        return replace(standing, phase=InstancePhase.FAILED, message=text, track=track)
    return replace(standing, phase=phase, message=why, track=track, occupies=moves)


def _idle(
    standing: Standing, failed: tuple[Move, ...], *, live: bool, policy: Policy, moment: Moment
) -> Standing:
    """It is on the host, and may be moved."""
    entry, track = standing.seen.entry, standing.track
    why = standing.message or entry.message or ""
    known = standing.seen.move.id if standing.seen.move else ""
    if track.move == BEGUN and track.status == known and moment.at < track.not_before:
        # The call has gone out, and there is no trace of it yet.
        return replace(standing, phase=InstancePhase.MIGRATING, message=why, occupies=True)
    if failed and failed[0] is standing.seen.move:
        last = failed[0]
        said = last.message or "the compute service does not say why"
        why = f"move to {last.target or 'a host of its choice'}: {last.status}; {said}"
        if track.move != f"failed:{last.id}":
            wait = policy.retry_after.total_seconds() * 2 ** max(0, standing.attempts - 1)
            track = track.anew(f"failed:{last.id}", since=moment.at, not_before=moment.at + wait)
    if standing.attempts >= policy.attempts:
        text = f"{why or 'not moved'}; given up after {standing.attempts} attempts"
        if entry.phase == InstancePhase.FAILED and entry.message:
            text = entry.message
        return replace(standing, phase=InstancePhase.FAILED, message=text, track=track)
    due = moment.at >= track.not_before
    return replace(
        standing,
        step=Step.START if due else Step.NONE,
        live=live,
        message=why,
        track=track,
    )
