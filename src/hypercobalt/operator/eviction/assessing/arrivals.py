"""Judges instances that have left by what is seen of them where they are. Pure.

The record of a completed move is no proof that its instance lives: its server may be in ERROR, off
or deleted. An Eviction succeeds once each is seen to run, is off by its owner's will, or was off.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from hypercobalt.api.eviction import EvictionInstance
from hypercobalt.compute.model import Move, MoveKind, Server, ServerStatus
from hypercobalt.operator.eviction.assessing.owner import is_ended
from hypercobalt.operator.eviction.assessing.situation import Situation
from hypercobalt.operator.eviction.model.states import Arrived, Assessment, Departed, Stranded
from hypercobalt.operator.eviction.model.tracks import Blocking
from hypercobalt.operator.eviction.model.whereabouts import Whereabouts

_AT_REST: Final = frozenset({"SUSPENDED", "SHELVED", "SHELVED_OFFLOADED", "SOFT_DELETED"})
"""States of a server without a running guest that only a request leads to."""


def as_seen(situation: Situation, instance: Assessment) -> Assessment:
    """Return an instance as it is seen where it is now; one that has not left as it was.

    Args:
        situation: of the pass, with the whereabouts of what has left.
        instance: as it would be by its moves.
    """
    found, departed = situation.facts.left.get(instance.id), instance.state
    if found is None or not isinstance(departed, Departed):
        return instance
    if found.unread:
        return _waits(situation, instance, f"{_left(instance)}; cannot read it: {found.unread}")
    if found.server is not None:
        return _there(situation, instance, departed, found, found.server)
    return instance if found.runs_on else _on_no_host(situation, instance, departed)


def _there(
    situation: Situation,
    instance: Assessment,
    departed: Departed,
    found: Whereabouts,
    server: Server,
) -> Assessment:
    if server.status == ServerStatus.ERROR:
        fault = server.fault or "the compute service gives no reason"
        text = f"has left the host, and it is in ERROR on {server.host}: {fault}"
        return replace(instance, state=Stranded(text))
    seen, ran_here = instance.observed, not situation.recovers
    ran = ran_when_it_left(seen.entry, seen.moves, counts_entry=ran_here)
    if server.running or server.paused or server.status in _AT_REST or not ran:
        text = f"moved to {server.host or 'no host'} outside this Eviction"
        return replace(instance, state=Departed(text)) if departed.unnoticed else instance
    by_hosts = server.died is False and not situation.facts.keeps_servers
    if is_ended(found.requests) or by_hosts:
        text = f"moved to {server.host}; stopped there by its owner"
        return replace(instance, state=Departed(text))
    shown = server.task_state or server.status
    return _waits(
        situation,
        instance,
        f"moved to {server.host}, and its guest does not run there although it ran: it is {shown}",
        "start it",
    )


def ran_when_it_left(entry: EvictionInstance, moves: Iterable[Move], *, counts_entry: bool) -> bool:
    """Whether the guest of an instance ran when it left.

    Args:
        entry: of the instance.
        moves: of the instance, newest first.
        counts_entry: an instance that ran when it was last seen has to run. Where crashed ones are
            recovered, those have rules of their own.
    """
    newest = next((move for move in moves if move.succeeded), None)
    if newest is not None and newest.kind == MoveKind.LIVE:
        return True
    return bool(entry.ran) and counts_entry


def _on_no_host(situation: Situation, instance: Assessment, departed: Departed) -> Assessment:
    """Judge an instance that is nowhere: a service that keeps the servers has deleted it.

    Where the hosts themselves keep them, a move may have lost it.
    """
    moved = bool(instance.attempts or instance.observed.moves)
    if moved and not situation.facts.keeps_servers:
        return replace(instance, state=Stranded(f"{_left(instance)}, and no host has it"))
    if departed.unnoticed:
        return replace(instance, state=Departed("deleted"))
    return replace(instance, state=Departed(f"{_left(instance)}; deleted since"))


def _left(instance: Assessment) -> str:
    done = (move for move in instance.observed.moves if move.succeeded)
    target = next((move.target for move in done if move.target), instance.observed.entry.target)
    return f"moved to {target}" if target else "has left the host"


def _waits(
    situation: Situation, instance: Assessment, why: str, way_out: str = "check it"
) -> Assessment:
    """Return the instance while it is waited for; given up after the policy's patience."""
    at, track = situation.facts.moment.at, instance.track
    if track.follows != Blocking(why):
        track = replace(track, follows=Blocking(why), since=at)
    if at - track.since > situation.policy.patience.total_seconds():
        return replace(instance, state=Stranded(f"{why}: {way_out}"), track=track)
    return replace(instance, state=Arrived(due=False, message=why), track=track)
