"""From what the compute service says to one standing for each instance. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from hypercobalt.api.eviction import Eviction, EvictionInstance, EvictionStatus, InstancePhase
from hypercobalt.compute.model import Move, Server
from hypercobalt.operator.eviction.follow import (
    Moment,
    Seen,
    Standing,
    follow,
    waits_for_us,
)
from hypercobalt.operator.eviction.policy import Policy
from hypercobalt.operator.eviction.progress import Job, Track

_OVER: Final = frozenset({InstancePhase.SUCCEEDED, InstancePhase.SKIPPED})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def standings(
    eviction: Eviction,
    status: EvictionStatus,
    servers: Iterable[Server],
    moves: Iterable[Move],
    *,
    jobs: Mapping[str, Job],
    tracks: Mapping[str, Track],
    policy: Policy,
    moment: Moment,
) -> tuple[Standing, ...]:
    """Say how far every instance is: those known so far, and those that have come since.

    Args:
        eviction: its spec counts; `spec.instances` are the only ones, if there are any.
        status: what is known so far.
        servers: all on the host.
        moves: records of moves away from it, newest first.
        jobs: live migrations as the node agent sees them, by UUID.
        tracks: what is remembered, by UUID.
        policy: waits and attempts.
        moment: now.
    """
    here = {server.id: server for server in servers}
    records: dict[str, list[Move]] = {}
    for move in moves:
        records.setdefault(move.server, []).append(move)
    began = eviction.metadata.creationTimestamp or _EPOCH
    known = {entry.id: entry for entry in status.instances}
    # Begun by a process that died before it wrote so, and arrived: nobody else confirms it.
    arrived = [id_ for id_, (newest, *_) in records.items() if waits_for_us(newest, began)]
    wanted = dict.fromkeys((*known, *(eviction.spec.instances or (*here, *arrived))))
    found: list[Standing] = []
    for id_ in wanted:
        entry, track = known.get(id_) or EvictionInstance(id=id_), tracks.get(id_, Track())
        server = here.get(id_)
        seen = Seen(entry, server, tuple(records.get(id_, ())), jobs.get(id_))
        if server is None and entry.phase in _OVER:
            over = InstancePhase(entry.phase)
            attempts, message = entry.attempts or 0, entry.message or ""
            found.append(Standing(seen, over, track, attempts=attempts, message=message))
        elif server is None and entry.phase is None and not _is_moving(seen, began):
            skipped = InstancePhase.SKIPPED
            found.append(Standing(seen, skipped, track, message="is not on the host"))
        else:
            found.append(follow(seen, track, began, policy, moment))
    return tuple(found)


def left(eviction: Eviction, counted: Iterable[str], found: Iterable[Standing]) -> set[str]:
    """What is counted to the host and has to leave it, but for what is known to stay there."""
    only = eviction.spec.instances
    stay = {standing.id for standing in found if standing.phase is InstancePhase.FAILED}
    return {id_ for id_ in counted if id_ not in stay and (not only or id_ in only)}


def unlisted(id_: str) -> Standing:
    """An instance that the compute service counts to the host and lists nowhere."""
    text = (
        "the compute service counts this instance on the host but does not list it; check the host"
    )
    seen = Seen(EvictionInstance(id=id_), None, ())
    return Standing(seen, InstancePhase.FAILED, Track(), message=text)


def _is_moving(seen: Seen, began: datetime) -> bool:
    return seen.move is not None and (not seen.move.ended or waits_for_us(seen.move, began))
