"""Determines how far a restart of an instance on its host is. Pure.

An attempt is written to the status before the call: a process that finds one cannot decide whether
the call was made, and waits until the compute service must show its result.

A server that is shown as running is no proof of a restart: Nova shows what was before the crash
when a reboot fails on the host before anything is done. The record of the restart is the proof; or,
where it has no end, the report of the host's node agent that the crashed instance runs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hypercobalt.compute.model import Server, ServerStatus
from hypercobalt.operator.eviction.assessing.case import Case, Found, waiting
from hypercobalt.operator.eviction.assessing.course import Course
from hypercobalt.operator.eviction.assessing.leaving import leaving
from hypercobalt.operator.eviction.assessing.movability import Absent, Blocked, Busy, restartability
from hypercobalt.operator.eviction.assessing.owner import planned, started
from hypercobalt.operator.eviction.model.states import (
    Crashed,
    Departed,
    Restarted,
    Restarting,
    Stranded,
    Unaffected,
    Waiting,
)
from hypercobalt.operator.eviction.model.tracks import Rebooted, Track

_FOREIGN: Final = (
    "the compute service has it on another host; the domain of its UUID on this host is not started"
)


def restarting(case: Case) -> Found | None:
    """Return how far the instance is; None when every restart has failed and it has to leave."""
    server, move = case.seen.server, case.seen.move
    if server is None:
        return _away(case)
    if move is not None and not move.ended:
        return leaving(case)
    if case.attempts:
        return _follow(case, server)
    match restartability(server):
        case Blocked(why):
            return Stranded(why), case.track
        case Busy(why):
            return waiting(case, why)
        case Absent(why):
            return Unaffected(why), case.track
        case _:
            why = case.seen.entry.message or ""
            if case.moment.at < case.track.not_before:  # it may run elsewhere
                return Waiting(why), case.track
            return Crashed(server, why), case.track


def left_to_owner(case: Case) -> Found | None:
    """Return the state of an instance that its owner has stopped, or that runs again already."""
    server, move = case.seen.server, case.seen.move
    if server is None or (move is not None and not move.ended):
        return None
    if not case.attempts and (why := _needless(case, server)):
        return Unaffected(why, stays=True), case.track
    if request := _planned(case):
        return Unaffected(f"requested by its owner: {request}", stays=True), case.track
    return None


def _away(case: Case) -> Found:
    """Assess an instance that runs elsewhere: its stale domain here is never started."""
    there = case.seen.elsewhere
    if there is not None and case.seen.entry.target == there.host:
        followed = _follow(case, there)
        gave_up = f"moved to {there.host}; does not run there after {case.attempts} restarts"
        return followed or (Stranded(gave_up), case.track)
    if not (case.attempts or case.seen.move):
        return Unaffected(_FOREIGN), case.track
    return leaving(case)


def brought_up(case: Case, result: Found) -> Found:
    """Start a crashed instance that was moved cold, on its new host."""
    state, track = result
    there = case.seen.elsewhere
    if not isinstance(state, Departed) or there is None or there.task_state:
        return result
    if there.status != ServerStatus.SHUTOFF or _planned(case):
        return result
    return Crashed(there, f"moved to {there.host}; off there"), track


def _needless(case: Case, server: Server) -> str:
    if server.recovers is False and case.about.only_if_wanted:
        return "its metadata, flavor or image turns recovery off"
    request = started(case.seen.requests, case.about.incident)
    if request and _runs(server):
        return f"runs again: its owner has requested {request}"
    return ""


def _planned(case: Case) -> str:
    return planned(case.seen.requests, case.about.incident, case.policy.planned_within)


def _follow(case: Case, server: Server) -> Found | None:
    """Follow the restarts that were begun."""
    track, policy, at = case.track, case.policy, case.moment.at
    if not isinstance(track.follows, Rebooted):
        lag = policy.power_lag.total_seconds()
        track = track.anew(Rebooted(), since=at, not_before=at + lag)
        return Restarting(
            "restart requested by an earlier operator process; waiting for its result"
        ), track
    if track.follows.failed:
        return _again(replace(case, track=track), server, track.follows.failed)
    result, waited = case.seen.restart, at - track.since
    if at >= track.not_before and result is not None and result.failed:
        return _failed(
            case, track, server, f"attempt {case.attempts} to restart it: {result.failed}"
        )
    if at >= track.not_before and _runs(server):
        proof = _proof(case, waited)
        if proof is not None:
            return Restarted(f"restarted, attempt {case.attempts}{proof}"), track
    settled = at >= max(track.not_before, track.since + policy.settle.total_seconds())
    idle = not server.task_state and server.status in {ServerStatus.SHUTOFF, ServerStatus.ERROR}
    if not (settled and idle) and waited <= policy.restart_within.total_seconds():
        unproven = "runs as before, or again; waiting for the result of its restart"
        return Restarting(server.task_state or (unproven if _runs(server) else "")), track
    why = f"is {server.status} {waited:.0f} s after its restart"
    return _failed(case, track, server, f"{why}, which has no result" if _runs(server) else why)


def _proof(case: Case, waited: float) -> str | None:
    """Return the addition to the message if the restart is proven; None otherwise."""
    seen = case.seen
    if seen.restart is not None and seen.restart.succeeded:
        return ""
    reported = seen.server is not None and seen.revived
    if reported and waited >= case.policy.report_lag.total_seconds():
        return "; its node agent reports that it runs"
    return None


def _failed(case: Case, track: Track, server: Server, why: str) -> Found | None:
    """Begin the wait before the next attempt."""
    at = case.moment.at
    again = at + case.policy.restart_wait(case.attempts)
    failed = track.anew(Rebooted(why), since=at, not_before=again)
    return _again(replace(case, track=failed), server, why)


def _again(case: Case, server: Server, why: str) -> Found | None:
    moves_then, waits = case.about.course is not Course.RESTART, case.policy.restart_waits
    most = case.policy.restarts if moves_then else len(waits) + 1
    if case.attempts >= most:
        text = f"{why}; given up after {case.attempts} restarts"
        return None if moves_then else (Stranded(text), case.track)
    if case.moment.at < case.track.not_before:
        return Waiting(why), case.track
    return Crashed(server, why), case.track


def _runs(server: Server) -> bool:
    return server.status == ServerStatus.ACTIVE and server.running and not server.task_state
