"""Determines how far an instance that leaves a living host is. Pure.

The rules are in `leaving`, in their order; the first that fits decides.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, assert_never

from hypercobalt.api.eviction import EvictionMode, InstancePhase
from hypercobalt.compute.model import Move, MoveKind, Server, ServerStatus
from hypercobalt.operator.eviction.assessing.case import CLOCK_SKEW, Case, Found, attempt, waiting
from hypercobalt.operator.eviction.assessing.course import Course
from hypercobalt.operator.eviction.assessing.movability import (
    Absent,
    Blocked,
    Busy,
    Movable,
    OnItsWay,
    movability,
)
from hypercobalt.operator.eviction.assessing.progress import progress
from hypercobalt.operator.eviction.assessing.witnesses import lacks_guest
from hypercobalt.operator.eviction.model.policy import StuckHelp
from hypercobalt.operator.eviction.model.states import (
    Arrived,
    Damaged,
    Departed,
    Mode,
    Moving,
    Sighting,
    State,
    Stranded,
    Stuck,
    Unaffected,
    Unconfirmed,
)
from hypercobalt.operator.eviction.model.tracks import Unrecoverable

_UNREPORTED: Final = (
    "is off since a crash or a boot of its host; waiting for the node agent to report if it ran"
)
_UNNAMED: Final = (
    "is off, and its host shows as many incidents as it can: whether this instance has crashed is "
    "shown once some of them are over; waiting for that"
)
_GONE: Final = "left the host: deleted, or moved outside this Eviction"


def leaving(case: Case) -> Found:
    """Return how far the instance is."""
    server, move = case.seen.server, case.seen.move
    if move is not None and not move.ended:
        return _arriving(case, move) if server is None else _under_way(case, move)
    if server is None:
        return gone(case)
    may = movability(server)
    if isinstance(may, OnItsWay):
        # Accepted, but there is no record yet; or its owner resizes it.
        return waiting(case, "", moves=True)
    if isinstance(may, Absent):
        return Unaffected(may.why), case.track
    if result := _moved_unnoticed(case):
        return result
    if move is not None and _settles(server, move, case):
        text = f"migration to {move.target} ended as {move.status}; waiting for the final state"
        return Moving(text), case.track
    if move is not None and _is_damaged(server, move, case.about.began):
        return _damaged(case, server, move)
    if move is not None and _has_arrived(server, move, case):
        return Stranded(_astray(server, move)), case.track
    match may:
        case Blocked(why):
            return Stranded(why), case.track
        case Busy(why):
            return waiting(case, why)
        case Movable(mode):
            return _movable(case, server, mode)
        case _:
            assert_never(may)


def _movable(case: Case, server: Server, mode: Mode) -> Found:
    course, runs = case.about.course, mode is Mode.LIVE
    if course is Course.LIVE and not runs:
        return Unaffected(
            "is off: the Eviction moves running instances only", stays=True
        ), case.track
    if course is Course.COLD and server.paused:
        return Stranded("is paused and cannot be moved cold: unpause or stop it"), case.track
    if course is Course.LEAVE and (result := _unreported(case, server)):
        return result
    # A restart that failed leaves the state from before the crash: its move was noted as cold.
    down = case.mode is EvictionMode.COLD or not server.running
    dead = course is Course.RECOVER and down and not server.paused
    return attempt(case, Mode.COLD if course is Course.COLD or dead else mode)


def _unreported(case: Case, server: Server) -> Found | None:
    """Wait for the report of whether an instance that may be dead ran; None for no wait.

    Moved as it is, one that ran would stay off, and its node agent would lose track of it. Where
    the compute service does not depend on the host, that report is why the server counts as dead.
    """
    if case.seen.entry.ran or case.attempts:
        return None
    if case.seen.unnamed:
        return waiting(case, _UNNAMED)
    if case.about.keeps_servers or not server.died:
        return None
    state, track = waiting(case, _UNREPORTED)
    if case.moment.at - track.since > case.policy.report_lag.total_seconds():
        return None
    return state, track


# -- no longer on the host ---------------------------------------------------------------------


def _arriving(case: Case, move: Move) -> Found:
    """Wait for the record, which counts: Nova shows the server elsewhere a moment before."""
    track, _ = case.track.reading(move, case.moment.at)
    still = case.moment.at - track.since
    if still <= case.policy.stall.total_seconds():
        return Moving("arrives"), track
    if (state := _as_seen(case, move)) is not None:
        return state, track
    text = _left_by(move)
    if still > case.policy.patience.total_seconds():
        return Stranded(f"{text}; check {move.target}"), track
    return Moving(text), track


def gone(case: Case) -> Found:
    """Judge an instance that has left the host without a move of it under way.

    That it is well where it is, is seen at the end of the Eviction: see `arrivals`.
    """
    entry, move = case.seen.entry, case.seen.move
    if move is None or not (entry.attempts or move.created >= case.about.began - CLOCK_SKEW):
        # What was waited for at the end is judged anew there.
        noted = "" if entry.phase == InstancePhase.CONFIRMING else entry.message
        return Departed(noted or _GONE, unnoticed=True), case.track
    if move.kind == MoveKind.COLD and move.status == "finished":
        track, _ = case.track.reading(move, case.moment.at)
        text = f"moved to {move.target}; waiting to be confirmed"
        return Arrived(case.moment.at >= track.not_before, text), track
    if move.succeeded:
        return Departed(f"moved to {move.target}"), case.track
    state = _as_seen(case, move)
    return waiting(case, _left_by(move), moves=True) if state is None else (state, case.track)


def _as_seen(case: Case, move: Move) -> State | None:
    """Return the state of an instance after a move that did not end well; None if not seen yet."""
    there, text = case.seen.elsewhere, _left_by(move)
    if there is None:
        return _missing(case, move) if case.seen.sought else None
    if there.host == move.source or there.task_state:
        return None
    if there.status == ServerStatus.ERROR:
        fault = there.fault or "the compute service gives no reason"
        return Stranded(f"{text}, and it is in ERROR on {there.host}: {fault}")
    if case.seen.entry.ran and not (there.running or there.paused):
        return Stranded(f"{text}, and it is {there.status} on {there.host}: start it")
    return Departed(f"moved to {there.host}; its migration record {_shown(move)}")


def _missing(case: Case, move: Move) -> State:
    if case.about.keeps_servers:
        return Departed(f"deleted; its migration to {move.target} {_shown(move)}")
    why = f": {move.message}" if move.message else ""
    return Stranded(f"{_left_by(move)}, and no host has it{why}")


def _left_by(move: Move) -> str:
    return f"has left the host; its migration to {move.target} {_shown(move)}"


def _shown(move: Move) -> str:
    return f"{'ended as' if move.ended else 'still shows'} {move.status}"


# -- on its way --------------------------------------------------------------------------------


def _under_way(case: Case, move: Move) -> Found:
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
    untried = not (record.helped or record.aborts)
    if can_help and untried and policy.stuck_help is StuckHelp.FORCE:
        return Stuck(move, force=True, message=f"{text}; forcing completion"), track
    if not record.aborts:
        return Stuck(move, force=False, message=f"{text}; aborting"), track
    return Stranded(f"{text}; abort failed as well; check both hosts"), track


def _moved_unnoticed(case: Case) -> Found | None:
    """Follow a move that only the host reports, and not the compute service; None without one."""
    job, at = case.seen.job, case.moment.at
    track = case.track.seeing(job, at)
    if job is None or job.ended or track.view is None:
        return None
    if at - track.view.since > case.policy.stall.total_seconds():
        return None
    return Unconfirmed("libvirt reports a migration, the compute service does not; waiting"), track


# -- on the host, after a move that has failed -------------------------------------------------


def _is_our_failure(move: Move, began: datetime) -> bool:
    """Whether a live move has failed on its way, rather than for lack of a target."""
    failed = move.kind == MoveKind.LIVE and move.ended and not move.succeeded
    return failed and bool(move.target) and move.created >= began


def _settles(server: Server, move: Move, case: Case) -> bool:
    """Whether Nova may still change the server's state after its move.

    A compute service's times are taken as they are, even if its clock is wrong.
    """
    just = abs(case.moment.now - move.updated) < case.policy.settle
    return server.status != ServerStatus.ERROR and just and _is_our_failure(move, case.about.began)


def _has_arrived(server: Server, move: Move, case: Case) -> bool:
    """Whether a guest runs on the target of a move that the compute service has lost track of.

    libvirt ends a migration by itself when the nova-compute of its source is restarted meanwhile.
    """
    there = case.seen.sightings.get(move.target) in {Sighting.RUNS, Sighting.RAN}
    return there and lacks_guest(server) and _is_our_failure(move, case.about.began)


def _astray(server: Server, move: Move) -> str:
    # In this order: a guest that is started first runs twice. A domain that stays keeps a
    # nova-compute that is new from starting, and the move keeps its share of the source.
    return (
        f"runs on {move.target}, as its node agent reports, though its migration ended as "
        f"{move.status} and the compute service keeps it on {move.source}: end it on "
        f"{move.target} (virsh destroy {server.id}; virsh undefine --keep-nvram {server.id}), "
        f"only then start it on {move.source} (openstack server reboot --hard {server.id}), and "
        f"correct its allocation (nova-manage placement heal_allocations --force --instance "
        f"{server.id}; nova-manage placement audit --delete)"
    )


def _is_damaged(server: Server, move: Move, began: datetime) -> bool:
    """Whether a move has left the server in ERROR; or later ACTIVE though it is paused."""
    if server.task_state or not _is_our_failure(move, began):
        return False
    if server.status == ServerStatus.ERROR:
        return server.running or server.paused
    return server.status == ServerStatus.ACTIVE and server.paused


def _damaged(case: Case, server: Server, move: Move) -> Found:
    guest = "is paused" if server.paused else "runs"
    text = f"migration to {move.target} left it in {server.status} although its guest {guest} here"
    if case.track.follows == Unrecoverable(move.id):
        may = movability(server)
        return Stranded(may.why if isinstance(may, Blocked) else text), case.track
    text = f"{text}; recovering"
    state, track = waiting(case, text)
    if isinstance(state, Stranded):
        return state, track
    return Damaged(server, case.moment.at >= track.not_before, text), track
