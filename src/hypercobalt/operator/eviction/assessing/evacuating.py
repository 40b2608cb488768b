"""Determines how far an instance of a host that is proven dead is. Pure.

It is started elsewhere unless something else may have it: a move that was under way when the host
died, an evacuation that has left a copy. In doubt it waits, and is given up with a message of what
to check.

A rebuild ends with the host that does it: an evacuation with its target, once that is proven dead
as well, and one that an owner requested with the instance's own host. Nova shows either for ever.
"""

from __future__ import annotations

from typing import assert_never

from hypercobalt.compute.model import Move, MoveKind, Server, ServerStatus
from hypercobalt.operator.eviction.assessing.case import CLOCK_SKEW, Case, Found, attempt, waiting
from hypercobalt.operator.eviction.assessing.leaving import gone
from hypercobalt.operator.eviction.assessing.movability import (
    Absent,
    Blocked,
    Busy,
    Movable,
    OnItsWay,
    evacuability,
)
from hypercobalt.operator.eviction.assessing.owner import is_ended
from hypercobalt.operator.eviction.assessing.witnesses import doubt
from hypercobalt.operator.eviction.model.states import (
    Departed,
    Evacuating,
    Mode,
    Moving,
    Sighting,
    Stranded,
    Unaffected,
)
from hypercobalt.operator.eviction.model.tracks import Blocking


def evacuating(case: Case) -> Found:
    """Return how far the instance is."""
    server, move = case.seen.server, case.seen.move
    evacuation = move if move is not None and move.kind == MoveKind.EVACUATION else None
    if server is None:
        since = case.about.began - CLOCK_SKEW
        ours = evacuation is not None and evacuation.created >= since
        return _arrived(case, evacuation) if evacuation is not None and ours else gone(case)
    goes_on = evacuation is not None and not evacuation.ended
    if evacuation is not None and goes_on and not _died(case, evacuation):
        return _under_way(case, evacuation)
    if server.recovers is False and case.about.only_if_wanted:
        why = "its metadata, flavor or image turns recovery off; it waits for its host"
        return Unaffected(why, stays=True), case.track
    may = evacuability(server)
    match may:
        case OnItsWay() if not (goes_on or _is_unrecorded(case)):
            return _as_evacuation(waiting(case, "", moves=True))
        case OnItsWay():
            return _begun(case, Mode.EVACUATE, interrupted=True)
        case Absent(why):
            return Unaffected(why), case.track
        case Blocked(why):
            return Stranded(why), case.track
        case Busy(why):
            return waiting(case, why)
        case Movable(mode):
            return _begun(case, mode)
        case _:
            assert_never(may)


def _begun(case: Case, mode: Mode, *, interrupted: bool = False) -> Found:
    """Begin its evacuation, unless it may run elsewhere."""
    why = doubt(case)
    return waiting(case, why) if why else attempt(case, mode, interrupted=interrupted)


def _died(case: Case, evacuation: Move) -> bool:
    """Whether the target of its evacuation is proven dead, too."""
    return case.seen.sightings.get(evacuation.target) is Sighting.DEAD


def _is_unrecorded(case: Case) -> bool:
    """Whether it has been rebuilding for too long without the record that an evacuation has."""
    since = case.track.since if case.track.follows == Blocking("") else case.moment.at
    return case.moment.at - since > case.policy.stall.total_seconds()


def _under_way(case: Case, move: Move) -> Found:
    track, _ = case.track.reading(move, case.moment.at)
    still = case.moment.at - track.since
    if still > case.policy.patience.total_seconds():
        text = f"evacuation to {move.target} has been {move.status} for {still:.0f} s"
        return Stranded(f"{text}; check {move.target or 'the scheduler'}"), track
    return Evacuating(move.status), track


def _arrived(case: Case, move: Move) -> Found:
    """Judge an instance on another host: it counts once it is there as it was here."""
    there = case.seen.elsewhere
    if not move.ended:
        return _as_evacuation(waiting(case, f"arrives on {move.target}", moves=True))
    if there is None and not case.seen.sought:
        return _as_evacuation(waiting(case, f"arrives on {move.target}", moves=True))
    if there is None:
        return Departed("deleted after its evacuation"), case.track
    if there.host == move.source or there.task_state:
        text = there.task_state or f"arrives on {move.target}"
        return _as_evacuation(waiting(case, text, moves=True))
    if there.status == ServerStatus.ERROR:
        fault = there.fault or "the compute service gives no reason"
        return Stranded(f"was evacuated to {there.host} and is in ERROR there: {fault}"), case.track
    if there.status == ServerStatus.ACTIVE and not there.running:
        return _as_evacuation(waiting(case, f"starts on {there.host}", moves=True))
    if there.status == ServerStatus.SHUTOFF and case.seen.entry.ran:
        return _off_there(case, there)
    return Departed(f"evacuated to {there.host}{_state(there)}"), case.track


def _off_there(case: Case, there: Server) -> Found:
    """Judge an instance that ran on the dead host and is off now: by its owner's will, or down.

    The node agent of its new host may restart it; if nothing does, it is named as down.
    """
    if is_ended(case.seen.requests) or (there.died is False and not case.about.keeps_servers):
        return Departed(f"evacuated to {there.host}; stopped there by its owner"), case.track
    text = f"was evacuated to {there.host} and is {there.status} there although it ran"
    state, track = waiting(case, text, moves=True)
    if isinstance(state, Stranded):
        return Stranded(f"{text}: start it"), track
    return Evacuating(text), track


def _state(there: Server) -> str:
    return "" if there.status == ServerStatus.ACTIVE else f"; {there.status} there: it did not run"


def _as_evacuation(result: Found) -> Found:
    state, track = result
    return (Evacuating(state.message) if isinstance(state, Moving) else state), track
