"""Cancels an Eviction that is deleted: its actions are stopped before the object goes. Pure.

Live moves are aborted. Cold ones finish and are confirmed, since nothing else would do that; the
object is kept for as long as that may take. Evacuations and restarts are left alone: each ends by
itself. A server that an abort leaves in ERROR, though its guest runs, is recovered. Whether the
host takes new instances again is decided by the maintenance controller.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from hypercobalt.api.eviction import EvictionInstance, EvictionMode, EvictionReason
from hypercobalt.compute.model import MoveKind
from hypercobalt.operator.eviction.assessing.situation import Situation
from hypercobalt.operator.eviction.model.actions import Abort, Action
from hypercobalt.operator.eviction.model.decision import End, EvictionPlan
from hypercobalt.operator.eviction.model.facts import Facts
from hypercobalt.operator.eviction.model.states import (
    Arrived,
    Assessment,
    Crashed,
    Damaged,
    Departed,
    Moment,
    Ready,
    Unaffected,
    Waiting,
)
from hypercobalt.operator.eviction.model.tracks import Recorded
from hypercobalt.operator.eviction.planning.calls import expected_after, remedy
from hypercobalt.operator.eviction.planning.polling import poll_deletion
from hypercobalt.operator.shared.wording import called, count

LONGEST: Final = timedelta(minutes=2)
"""A deleted object must not stay for ever because a live move does not end. A cold one may take as
long as any move that reports no progress (`Policy.longest`)."""

_NAMED: Final = 20  # instances in one message

_LEFT_ALONE: Final = frozenset({EvictionMode.EVACUATE, EvictionMode.RESTART})
"""Modes of actions that are not undone and need no end."""


def cancel(situation: Situation, instances: Sequence[Assessment]) -> EvictionPlan:
    """Stop the Eviction's actions, or follow them to their end; earlier moves are not its own."""
    facts, policy = situation.facts, situation.policy
    left = [instance for instance in instances if _is_to_be_ended(instance)]
    waited = since_deletion(facts)
    limit = policy.longest if any(map(_is_cold, left)) else LONGEST
    late = bool(left) and waited > limit
    actions = {
        instance.id: action
        for instance in left
        if (action := _stop(instance, facts.moment)) is not None
    }
    expected = expected_after(actions, map(_skipped, instances), policy, facts.moment)
    return EvictionPlan(
        instances=expected,
        actions={} if late else actions,
        end=End(EvictionReason.CANCELLED, cancelled(expected, left)),
        release=late or not left,
        left_behind=left_behind([instance.observed.entry for instance in left], limit)
        if late
        else "",
        look_again=poll_deletion(waited),
    )


def _stop(instance: Assessment, moment: Moment) -> Action | None:
    move, record = instance.move, instance.track.follows
    if move is None or move.ended or move.kind != MoveKind.LIVE:
        return remedy(instance)
    due = isinstance(record, Recorded) and instance.track.may_abort(record, moment.at)
    return Abort(move) if due else None


def _is_to_be_ended(instance: Assessment) -> bool:
    if isinstance(instance.state, Arrived | Damaged):
        return True
    if instance.mode in _LEFT_ALONE:
        return False
    goes_on = instance.move is not None and not instance.move.ended
    return bool(instance.attempts) and (instance.occupies or goes_on)


def _is_cold(instance: Assessment) -> bool:
    return instance.move is not None and instance.move.kind != MoveKind.LIVE


def _skipped(instance: Assessment) -> Assessment:
    if not isinstance(instance.state, Ready | Waiting | Crashed):
        return instance
    return replace(instance, state=Unaffected("the Eviction was cancelled"))


def cancelled(instances: Iterable[Assessment], left: Sequence[Assessment]) -> str:
    """Return the summary of a deleted Eviction."""
    departed = sum(isinstance(instance.state, Departed) for instance in instances)
    text = f"cancelled: the Eviction was deleted when {count(departed)} had left"
    if not left:
        return text
    names = ", ".join(called(instance.observed.entry) for instance in left[:_NAMED])
    return f"{text}; {count(len(left), 'move')} under way: {names}"


def left_behind(entries: Sequence[EvictionInstance], limit: timedelta) -> str:
    """Return what is given up, and what a person has to do about it once the object is gone.

    Args:
        entries: entries of instances that may be under way; none when they are not known.
        limit: how long the deletion waited for them.
    """
    if not entries:
        return "gave up waiting: migrations may still run, their state cannot be read"
    names = ", ".join(called(entry) for entry in entries[:_NAMED])
    more = ", …" if len(entries) > _NAMED else ""
    text = f"gave up waiting: {count(len(entries), 'move')} may still run, of {names}{more}"
    if limit > LONGEST:
        text += "; one that ends in VERIFY_RESIZE: openstack server resize confirm ID"
    return text


def since_deletion(facts: Facts) -> timedelta:
    """Time for which the deletion has waited."""
    deleted = facts.eviction.metadata.deletionTimestamp
    return max(facts.moment.now - deleted, timedelta(0)) if deleted else timedelta(0)
