"""How far each instance is, by what the compute service and the node agents report now. Pure.

The rules are in `_state`, in their order; the first that fits decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, assert_never

from hypercobalt.api.eviction import EvictionInstance, InstancePhase
from hypercobalt.compute.model import Move, MoveKind, Server, ServerStatus
from hypercobalt.operator.eviction.facts import Facts
from hypercobalt.operator.eviction.movability import (
    Absent,
    Blocked,
    Busy,
    Movable,
    OnItsWay,
    movability,
)
from hypercobalt.operator.eviction.policy import Policy, StuckHelp
from hypercobalt.operator.eviction.progress import (
    FRESH,
    Begun,
    Blocking,
    Failed,
    Track,
    Unrecoverable,
    progress,
)
from hypercobalt.operator.eviction.states import (
    Arrived,
    Assessment,
    Damaged,
    Departed,
    Mode,
    Moment,
    Moving,
    Observed,
    Ready,
    State,
    Stranded,
    Stuck,
    Unaffected,
    Waiting,
)

_OVER: Final = frozenset({InstancePhase.SUCCEEDED, InstancePhase.SKIPPED})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_OURS: Final = {MoveKind.LIVE, MoveKind.COLD}
"""Moves as an Eviction begins them; the others are owners' and rescuers'."""

_OTHER_CLOCK: Final = timedelta(minutes=1)
"""How far the clocks of the compute service and of the Kubernetes API may be apart."""

_GONE: Final = "left the host: deleted, or moved outside this Eviction"


def assess(facts: Facts, tracks: Mapping[str, Track], policy: Policy) -> tuple[Assessment, ...]:
    """Say how far every instance is: those known so far, and those that have come since.

    Args:
        facts: of the pass; `spec.instances` are the only ones, if there are any.
        tracks: what is remembered, by UUID.
        policy: waits and attempts.
    """
    eviction = facts.eviction
    here = {server.id: server for server in facts.servers}
    records: dict[str, list[Move]] = {}
    for move in facts.moves:
        records.setdefault(move.server, []).append(move)
    began = eviction.metadata.creationTimestamp or _EPOCH
    known = {entry.id: entry for entry in facts.status.instances}
    # Begun by a process that died before it wrote so, and arrived: nobody else confirms it.
    arrived = [id_ for id_, (newest, *_) in records.items() if _is_to_be_confirmed(newest, began)]
    found: list[Assessment] = []
    for id_ in dict.fromkeys((*known, *(eviction.spec.instances or (*here, *arrived)))):
        entry = known.get(id_) or EvictionInstance(id=id_)
        seen = Observed(entry, here.get(id_), tuple(records.get(id_, ())), facts.jobs.get(id_))
        found.append(_assess(seen, tracks.get(id_, FRESH), began, policy, facts.moment))
    return tuple(found)


def _assess(
    seen: Observed, track: Track, began: datetime, policy: Policy, moment: Moment
) -> Assessment:
    entry = seen.entry
    if seen.server is None and entry.phase in _OVER:
        message = entry.message or ""
        over = entry.phase == InstancePhase.SUCCEEDED
        state: State = Departed(message) if over else Unaffected(message)
        return Assessment(seen, state, track, entry.attempts or 0)
    if seen.server is None and entry.phase is None and not _is_moving(seen, began):
        return Assessment(seen, Unaffected("is not on the host"), track)
    return assess_one(seen, track, began, policy, moment)


def _is_moving(seen: Observed, began: datetime) -> bool:
    return seen.move is not None and (not seen.move.ended or _is_to_be_confirmed(seen.move, began))


@dataclass(frozen=True, slots=True)
class _Case:
    """One instance, while its state is looked for.

    Args:
        seen: without records that are left over.
        left_over: such a record.
        failed: moves of ours that have failed, newest first.
    """

    seen: Observed
    track: Track
    attempts: int
    failed: tuple[Move, ...]
    left_over: Move | None
    began: datetime
    policy: Policy
    moment: Moment


_Found = tuple[State, Track]


def assess_one(
    seen: Observed, track: Track, began: datetime, policy: Policy, moment: Moment
) -> Assessment:
    """Say how far an instance is.

    Args:
        seen: what there is of it.
        track: what is remembered of it.
        began: when the Eviction was made; earlier records are others'.
        policy: waits and attempts.
        moment: now.
    """
    ours = tuple(move for move in seen.moves if move.created >= began and move.kind in _OURS)
    left_over = tuple(move for move in seen.moves if _is_left_over(move, seen, policy, moment))
    case = _Case(
        replace(seen, moves=tuple(move for move in seen.moves if move not in left_over)),
        track,
        max(seen.entry.attempts or 0, len(ours)),
        tuple(move for move in ours if move.ended and not move.succeeded),
        left_over[0] if left_over else None,
        began,
        policy,
        moment,
    )
    state, track = _state(case)
    return Assessment(case.seen, state, track, case.attempts)


def _state(case: _Case) -> _Found:
    server, move = case.seen.server, case.seen.move
    on_the_way = move is not None and not move.ended
    if server is None:
        return _arriving(case, move) if move is not None and on_the_way else _gone(case)
    if move is not None and on_the_way:
        return _under_way(case, move)
    may = movability(server)
    if isinstance(may, OnItsWay):
        # Accepted, but there is no record yet; or somebody resizes it.
        return _waiting(case, "", moves=True)
    if isinstance(may, Absent):
        return Unaffected(may.why), case.track
    if found := _moved_unnoticed(case):
        return found
    if move is not None and _settles(server, move, case):
        text = f"migration to {move.target} ended as {move.status}; waiting for the final state"
        return Moving(text), case.track
    if move is not None and _is_damaged(server, move, case.began):
        return _damaged(case, server, move)
    match may:
        case Blocked(why):
            return Stranded(why), case.track
        case Busy(why):
            return _waiting(case, why)
        case Movable(mode):
            return _movable(case, mode)
        case _:
            assert_never(may)


# -- no longer on the host ---------------------------------------------------------------------


def _arriving(case: _Case, move: Move) -> _Found:
    """Nova shows the server elsewhere a moment before the record says so: the record counts."""
    track, _ = case.track.reading(move, case.moment.at)
    if case.moment.at - track.since > case.policy.stall.total_seconds():
        return Departed(f"has left the host; its migration record still shows {move.status}"), track
    return Moving("arrives"), track


def _gone(case: _Case) -> _Found:
    entry, move = case.seen.entry, case.seen.move
    if move is None or not (entry.attempts or move.created >= case.began - _OTHER_CLOCK):
        return Departed(entry.message or _GONE), case.track
    if move.kind == MoveKind.COLD and move.status == "finished":
        track, _ = case.track.reading(move, case.moment.at)
        text = f"moved to {move.target}; waiting to be confirmed"
        return Arrived(case.moment.at >= track.not_before, text), track
    return Departed(f"moved to {move.target}" if move.succeeded else _GONE), case.track


def _is_to_be_confirmed(move: Move, began: datetime) -> bool:
    """Whether it is a cold move since `began` that has arrived."""
    recent = move.created >= began - _OTHER_CLOCK
    return recent and move.kind == MoveKind.COLD and move.status == "finished"


# -- on its way --------------------------------------------------------------------------------


def _is_left_over(move: Move, seen: Observed, policy: Policy, moment: Moment) -> bool:
    """Whether nobody has ended a record, though nothing is done to its server any more.

    A compute service that dies in a move leaves one. The last word on a move comes some time after
    its server is let go; a record that is still written is believed.
    """
    if move.ended or seen.server is None or isinstance(movability(seen.server), OnItsWay):
        return False
    return moment.now - move.updated > policy.stall


def _under_way(case: _Case, move: Move) -> _Found:
    policy, at = case.policy, case.moment.at
    now = progress(case.track, move, case.seen.job, policy, at)
    track, record = now.track, now.record
    runs = move.kind == MoveKind.LIVE and move.status == "running"
    text = f"{move.status}; {now.disagreement}" if now.disagreement else move.status
    measured = runs and (now.in_memory or now.is_over)
    patient = not (measured or record.aborts or record.helped)
    if now.still <= (policy.longest if patient else policy.stall).total_seconds():
        if record.aborts and track.may_abort(record, at):
            return Stuck(move, force=False, message=f"{text}; aborting"), track
        return Moving(text), track
    text = f"no progress for {now.still:.0f} s while {text}"
    if move.kind != MoveKind.LIVE:
        return Stranded(text), track
    # Forced while its disks are copied, it would be paused until they are.
    can_help = runs and not now.is_over and (now.in_memory or not record.lowest.disk)
    if can_help and not record.helped and policy.stuck_help is StuckHelp.FORCE:
        return Stuck(move, force=True, message=f"{text}; forcing completion"), track
    if not record.aborts:
        return Stuck(move, force=False, message=f"{text}; aborting"), track
    return Stranded(f"{text}; abort failed as well; check both hosts"), track


def _moved_unnoticed(case: _Case) -> _Found | None:
    """Its host reports a move, of which the compute service does not; None if it reports none."""
    job, at = case.seen.job, case.moment.at
    track = case.track.seeing(job, at)
    if job is None or job.ended or track.view is None:
        return None
    if at - track.view.since > case.policy.stall.total_seconds():
        return None
    return Moving("libvirt reports a migration, the compute service does not; waiting"), track


# -- on the host, after a move that has failed -------------------------------------------------


def _is_our_failure(move: Move, began: datetime) -> bool:
    """Whether a live move has failed on its way; not one for which there was no target."""
    failed = move.kind == MoveKind.LIVE and move.ended and not move.succeeded
    return failed and bool(move.target) and move.created >= began


def _settles(server: Server, move: Move, case: _Case) -> bool:
    """Whether what Nova shows of a server after its move may still change.

    A compute service whose clock is wrong is taken at its word.
    """
    just = abs(case.moment.now - move.updated) < case.policy.settle
    return server.status != ServerStatus.ERROR and just and _is_our_failure(move, case.began)


def _is_damaged(server: Server, move: Move, began: datetime) -> bool:
    """Whether a move has left it in ERROR; or, once out of that, ACTIVE though it is paused."""
    if server.task_state or not _is_our_failure(move, began):
        return False
    if server.status == ServerStatus.ERROR:
        return server.running or server.paused
    return server.status == ServerStatus.ACTIVE and server.paused


def _damaged(case: _Case, server: Server, move: Move) -> _Found:
    guest = "is paused" if server.paused else "runs"
    text = f"migration to {move.target} left it in {server.status} although its guest {guest} here"
    if case.track.of == Unrecoverable(move.id):
        may = movability(server)
        return Stranded(may.why if isinstance(may, Blocked) else text), case.track
    text = f"{text}; recovering"
    state, track = _waiting(case, text)
    if isinstance(state, Stranded):
        return state, track
    return Damaged(server, case.moment.at >= track.not_before, text), track


# -- on the host, and not moved ----------------------------------------------------------------


def _waiting(case: _Case, why: str, *, moves: bool = False) -> _Found:
    at, track = case.moment.at, case.track
    if track.of != Blocking(why):
        track = replace(track, of=Blocking(why), since=at)
    waited = at - track.since
    if waited > case.policy.patience.total_seconds():
        what = why or "moving without a migration record"
        return Stranded(f"{what} for {waited:.0f} s; check the instance"), track
    return (Moving(why) if moves else Waiting(why)), track


def _movable(case: _Case, mode: Mode) -> _Found:
    entry, move, at = case.seen.entry, case.seen.move, case.moment.at
    track, policy, why = case.track, case.policy, entry.message or ""
    if case.left_over is not None:
        why = f"migration record {case.left_over.id} was left {case.left_over.status}"
    if track.of == Begun(move.id if move else "") and at < track.not_before:
        # The call has gone out, and nothing shows it yet.
        return Moving(why), track
    if case.failed and case.failed[0] is move:
        last = case.failed[0]
        reason = last.message or "the compute service gives no reason"
        why = f"migration to {last.target or 'an unnamed host'}: {last.status}; {reason}"
        if track.of != Failed(last.id):
            wait = policy.retry_after.total_seconds() * 2 ** max(0, case.attempts - 1)
            track = track.anew(Failed(last.id), since=at, not_before=at + wait)
    if case.attempts >= policy.attempts:
        given_up = f"{why or 'not moved'}; given up after {case.attempts} attempts"
        kept = entry.message if entry.phase == InstancePhase.FAILED else None
        return Stranded(kept or given_up), track
    if at < track.not_before:
        return Waiting(why), track
    failed = frozenset(move.target for move in case.failed if move.target)
    return Ready(mode, why, failed | track.refused), track
