"""Chooses the servers that are read one by one, besides the listing of their host. Pure."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from hypercobalt.api.eviction import EvictionMode, InstancePhase
from hypercobalt.compute.model import MoveKind, Server, ServerStatus
from hypercobalt.operator.eviction.assessing.deaths import is_to_run
from hypercobalt.operator.eviction.assessing.situation import Situation
from hypercobalt.operator.eviction.model.facts import Facts

_WELL: Final = {InstancePhase.SUCCEEDED, InstancePhase.SKIPPED}
_OVER: Final = {InstancePhase.SUCCEEDED, InstancePhase.FAILED, InstancePhase.SKIPPED}
_DOWN: Final = {ServerStatus.SHUTOFF, ServerStatus.ERROR}


def to_be_verified(situation: Situation) -> tuple[str, ...]:
    """Return UUIDs of servers that have left, and must be seen to run on their new host.

    Those are the evacuated ones, once that is over, crashed ones that were moved cold, and those
    whose move has failed on the way, or whose record has no end; each for as long as it is not
    seen to be well.

    A record that is not written any more has no end after `Policy.stall`.

    Args:
        situation: with the servers and moves of the host.
    """
    facts, stall = situation.facts, situation.policy.stall
    modes = {EvictionMode.EVACUATE, EvictionMode.RESTART}
    if situation.recovers:
        modes.add(EvictionMode.COLD)
    here = {server.id for server in facts.servers}
    evacuations = [move for move in facts.moves if move.kind == MoveKind.EVACUATION]
    evacuated = {move.server for move in evacuations}
    arriving = {move.server for move in evacuations if not move.ended}
    newest = {move.server: move for move in reversed(facts.moves)}
    failed = {
        id_
        for id_, move in newest.items()
        if (not move.succeeded if move.ended else facts.moment.now - move.updated > stall)
    }
    return tuple(
        entry.id
        for entry in facts.status.instances
        if entry.id not in here | arriving
        and entry.phase not in _WELL
        and (entry.mode in modes or is_to_run(entry) or entry.id in evacuated | failed)
    )


def restarts_to_be_read(facts: Facts) -> tuple[str, ...]:
    """Return UUIDs of servers with a restart that may be over, by what is shown of them.

    Nova shows a server as ACTIVE and running whose reboot has failed before it began: the state
    does not have the result.

    Args:
        facts: with the servers that were looked up.
    """
    shown = {**facts.elsewhere, **{server.id: server for server in facts.servers}}
    return tuple(
        entry.id
        for entry in facts.status.instances
        if (entry.mode, entry.phase) == (EvictionMode.RESTART, InstancePhase.RESTARTING)
        and (server := shown.get(entry.id)) is not None
        and not (server.task_state or server.status in _DOWN)
    )


def requests_to_be_read(situation: Situation) -> tuple[str, ...]:
    """Return UUIDs of servers for which recent requests matter.

    Those are the ones that may be restarted or moved in this pass, here or where they have come to;
    and those that ran, and are off where they were evacuated to.

    Args:
        situation: with the servers that were looked up.
    """
    facts = situation.facts
    if not situation.recovers:
        ran = {entry.id for entry in facts.status.instances if entry.ran}
        died = tuple(server.id for server in facts.servers if server.died)
        return (*died, *(server.id for server in facts.elsewhere.values() if _is_off(server, ran)))
    only = frozenset(facts.eviction.spec.instances)
    known = {entry.id: entry for entry in facts.status.instances}
    to_look_up: list[str] = []
    for server in facts.servers:
        entry = known.get(server.id)
        is_open = entry is None or entry.phase not in _OVER
        if is_open and not server.task_state and (not only or server.id in only):
            to_look_up.append(server.id)
    return (*to_look_up, *to_be_verified(situation))


def _is_off(server: Server, ran: Container[str]) -> bool:
    return server.id in ran and server.status == ServerStatus.SHUTOFF
