"""Decides whether a move goes on, by its record and by its host's node agent. Pure.

The two may disagree: a nova-compute that has lost a migration leaves its record as it was, and an
agent that has died its Migration. A move that goes on by either of them goes on.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypercobalt.compute.model import Move
from hypercobalt.operator.eviction.model.policy import Policy
from hypercobalt.operator.eviction.model.tracks import Job, Recorded, Track


@dataclass(frozen=True, slots=True)
class MoveProgress:
    """How far a move under way is.

    Args:
        track: track for the next pass.
        record: its record, as followed.
        still: seconds without progress.
        in_memory: its memory is moved; else it waits, copies disks, or reports nothing.
        is_over: its host reports its end, and its record has it running.
        disagreement: what record and host report differently, for people; "" when they agree.
    """

    track: Track
    record: Recorded
    still: float
    in_memory: bool
    is_over: bool
    disagreement: str


def progress(track: Track, move: Move, job: Job | None, policy: Policy, at: float) -> MoveProgress:
    """Return how far a move under way is.

    Args:
        track: its track so far.
        move: its record.
        job: the newest one of its server.
        policy: how long the two may differ.
        at: now, by the clock that never steps.
    """
    own = job if job is not None and job.is_of(move) else None
    track, record = track.reading(move, at)
    track = track.seeing(own, at)
    view = track.view if own is not None else None
    by_record, by_host = at - track.since, at - view.since if view else None
    still = by_record if by_host is None else min(by_record, by_host)
    ended = own.ended if own is not None and move.status == "running" else ""
    is_over = bool(ended) and still > policy.unsure.total_seconds()
    memory = record.lowest.memory or (view.lowest.memory if view else 0)
    differ, stall = "", policy.stall.total_seconds()
    if is_over:
        differ = f"libvirt reports that the migration ended ({ended}), the compute service does not"
    elif by_host is not None and by_host <= stall < by_record:
        differ = "libvirt reports progress, the compute service none; treated as progressing"
    return MoveProgress(track, record, still, memory > 0, is_over, differ)
