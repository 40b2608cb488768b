"""Which servers are read one by one, besides the listing of their host. Pure."""

from __future__ import annotations

from typing import Final

from hypercobalt.api.eviction import EvictionMode, InstancePhase
from hypercobalt.compute.model import MoveKind
from hypercobalt.operator.eviction.assessing.course import recovers
from hypercobalt.operator.eviction.model.facts import Facts

_OVER: Final = {InstancePhase.SUCCEEDED, InstancePhase.FAILED, InstancePhase.SKIPPED}


def to_be_verified(facts: Facts) -> tuple[str, ...]:
    """Servers that have left, and must be seen to run where they are: UUIDs.

    Those are the evacuated ones, once that is over, and crashed ones that were moved cold.
    """
    modes = {EvictionMode.EVACUATE, EvictionMode.RESTART}
    if recovers(facts):
        modes.add(EvictionMode.COLD)
    here = {server.id for server in facts.servers}
    evacuations = [move for move in facts.moves if move.kind == MoveKind.EVACUATION]
    evacuated = {move.server for move in evacuations}
    arriving = {move.server for move in evacuations if not move.ended}
    return tuple(
        entry.id
        for entry in facts.status.instances
        if entry.id not in here | arriving
        and entry.phase not in _OVER
        and (entry.mode in modes or entry.id in evacuated)
    )


def requests_to_be_read(facts: Facts) -> tuple[str, ...]:
    """Servers of which it matters what was requested lately: UUIDs.

    Those are the ones that may be restarted or moved in this pass, here or where they have come to.
    """
    if not recovers(facts):
        return tuple(server.id for server in facts.servers if server.died)
    only = frozenset(facts.eviction.spec.instances)
    known = {entry.id: entry for entry in facts.status.instances}
    found: list[str] = []
    for server in facts.servers:
        entry = known.get(server.id)
        is_open = entry is None or entry.phase not in _OVER
        if is_open and not server.task_state and (not only or server.id in only):
            found.append(server.id)
    return (*found, *to_be_verified(facts))
