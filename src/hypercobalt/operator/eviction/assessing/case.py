"""One instance while its state is determined, and the rules that all courses share. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from hypercobalt.api.eviction import EvictionMode, InstancePhase
from hypercobalt.compute.model import Move, MoveKind
from hypercobalt.operator.eviction.assessing.course import Course
from hypercobalt.operator.eviction.model.policy import Policy
from hypercobalt.operator.eviction.model.states import (
    Evacuating,
    Mode,
    Moment,
    Moving,
    Observed,
    Ready,
    State,
    Stranded,
    Waiting,
)
from hypercobalt.operator.eviction.model.tracks import Begun, Blocking, Failed, Track

CLOCK_SKEW: Final = timedelta(minutes=1)
"""How far the clocks of the compute service and of the Kubernetes API may be apart."""


@dataclass(frozen=True, slots=True)
class About:
    """Facts that all instances of an Eviction share.

    Args:
        began: when the Eviction was made; earlier records are not its own.
        incident: time of the incident that led to it.
        course: which way the instances go.
        recovers: instances run afterwards, unless their owners have stopped them.
        only_if_wanted: an instance whose metadata, flavor or image turns recovery off gets none.
        keeps_servers: see `Facts`.
    """

    began: datetime
    incident: datetime
    course: Course = Course.LEAVE
    recovers: bool = False
    only_if_wanted: bool = False
    keeps_servers: bool = True


_KINDS: Final = {
    EvictionMode.LIVE: frozenset({MoveKind.LIVE, MoveKind.COLD}),
    EvictionMode.COLD: frozenset({MoveKind.LIVE, MoveKind.COLD}),
    EvictionMode.EVACUATE: frozenset({MoveKind.EVACUATION}),
}
"""Moves as an Eviction begins them; the others are owners' and rescuers'."""


@dataclass(frozen=True, slots=True)
class Case:
    """One instance while its state is determined.

    Args:
        seen: without records that are left over.
        track: its track so far.
        left_over: a record that is left over.
        policy: waits and attempts.
        moment: now.
        about: facts that all instances of the Eviction share.
        mode: mode that is tried.
        attempts: how often that mode was begun.
        failed: moves of that mode that have failed, newest first.
    """

    seen: Observed
    track: Track
    left_over: Move | None
    policy: Policy
    moment: Moment
    about: About
    mode: EvictionMode = EvictionMode.LIVE
    attempts: int = 0
    failed: tuple[Move, ...] = ()

    def trying(self, mode: EvictionMode) -> Case:
        """Return the case with its attempts in this mode; live and cold ones count together."""
        entry, kinds = self.seen.entry, _KINDS.get(mode, frozenset[MoveKind]())
        noted = entry.attempts or 0 if mode == (entry.mode or EvictionMode.LIVE) else 0
        left = (self.left_over,) if self.left_over else ()
        ours = [
            move
            for move in (*self.seen.moves, *left)
            if move.created >= self.about.began and move.kind in kinds
        ]
        return replace(
            self,
            mode=mode,
            attempts=max(noted, len(ours)),
            failed=tuple(move for move in ours if move.ended and not move.succeeded),
        )


Found = tuple[State, Track]

_CUT_OFF: Final = 4
"""How many times as many attempts are made where nothing shows that one has failed: the operator
ended while it made them."""


def waiting(case: Case, why: str, *, moves: bool = False) -> Found:
    """Wait for something else to end, up to a limit.

    Args:
        case: of the instance.
        why: for people; another reason is another wait.
        moves: the wait is for the end of a move.
    """
    at, track = case.moment.at, case.track
    if track.follows != Blocking(why):
        track = replace(track, follows=Blocking(why), since=at)
    waited = at - track.since
    if waited > case.policy.patience.total_seconds():
        what = why or "moving without a migration record"
        return Stranded(f"{what} for {waited:.0f} s; check the instance"), track
    return (Moving(why) if moves else Waiting(why)), track


def attempt(case: Case, mode: Mode, *, interrupted: bool = False) -> Found:
    """Begin a move, or begin it again: after a wait, elsewhere, and up to a limit.

    Args:
        case: of the instance.
        mode: of the move.
        interrupted: see `Ready`.
    """
    entry, move, at = case.seen.entry, case.seen.move, case.moment.at
    track, policy, why = case.track, case.policy, entry.message or ""
    if case.left_over is not None:
        why = f"migration record {case.left_over.id} was left {case.left_over.status}"
    if track.follows == Begun(move.id if move else "") and at < track.not_before:
        # The call has gone out, and nothing shows it yet.
        return (Evacuating(why) if mode is Mode.EVACUATE else Moving(why)), track
    if case.failed and case.failed[0] is move:
        last = case.failed[0]
        reason = last.message or "the compute service gives no reason"
        kind = "evacuation" if mode is Mode.EVACUATE else "migration"
        why = f"{kind} to {last.target or 'an unnamed host'}: {last.status}; {reason}"
        if track.follows != Failed(last.id):
            not_before = at + policy.retry_wait(case.attempts)
            track = track.anew(Failed(last.id), since=at, not_before=not_before)
    most = policy.most_attempts(evacuates=mode is Mode.EVACUATE)
    was_given_up = entry.phase == InstancePhase.FAILED
    if case.attempts >= most * (1 if why or was_given_up or interrupted else _CUT_OFF):
        given_up = f"{why or 'not moved'}; given up after {case.attempts} attempts"
        return Stranded((was_given_up and entry.message) or given_up), track
    if at < track.not_before:
        return Waiting(why), track
    failed = frozenset(move.target for move in case.failed if move.target)
    latest = case.failed[0].target if case.failed else ""
    return Ready(mode, why, failed | track.refused, interrupted, latest), track
