"""When to look at an Eviction again. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from hypercobalt.operator.eviction.model.decision import Preflight
from hypercobalt.operator.eviction.model.states import Assessment, Moment, Ready
from hypercobalt.operator.eviction.model.tracks import Begun
from hypercobalt.operator.eviction.planning.estimate import Timings

IDLE: Final = timedelta(seconds=10)
"""Wait while nothing is under way: no compute service reports that a host was disabled or an
instance was built.
"""

AWAY: Final = timedelta(seconds=5)
"""Wait while the compute service cannot be read, or does not list the host."""

ARRIVING: Final = timedelta(seconds=5)
"""Wait while only moves to the host are left, and the instances that they bring."""

_SLOWEST: Final = timedelta(seconds=2)
_FASTEST: Final = timedelta(milliseconds=200)
_FIRST: Final = timedelta(milliseconds=500)
_SHARE: Final = 0.1  # of a move's length that may pass before its end is noticed

_DELETED_SLOWEST: Final = timedelta(seconds=5)
_DELETED_FASTEST: Final = timedelta(milliseconds=500)
"""Wait for the deletion of an Eviction: an aborted migration ends in about a second."""
_DELETED_SHARE: Final = 0.1  # of the time that the deletion has waited


def is_quiet(instances: Sequence[Assessment]) -> bool:
    """Whether a move is under way, and only its end makes a difference: others wait for a place.

    A move that was begun and has no record yet counts: the next pass looks for its record.
    """
    still_open = [instance for instance in instances if instance.is_open]
    under_way = [instance for instance in still_open if instance.occupies and _goes(instance)]
    waiting = [instance for instance in still_open if isinstance(instance.state, Ready)]
    return bool(under_way) and len(under_way) + len(waiting) == len(still_open)


def _goes(instance: Assessment) -> bool:
    begun = isinstance(instance.track.follows, Begun)
    return begun or (instance.move is not None and not instance.move.ended)


def poll_after(
    instances: Sequence[Assessment], checks: Preflight, timings: Timings, moment: Moment
) -> timedelta:
    """Return when to check again.

    No compute service reports the end of a move, so it is polled, more often when moves are
    short: a place stays empty for a small share of a move's time, and long moves cost few calls.
    The first poll is when the next moves should have ended, those of about the same time together.

    Args:
        instances: all, once the actions are accepted.
        checks: what they have found.
        timings: of the moves so far.
        moment: now.
    """
    busy = [instance for instance in instances if instance.occupies]
    if busy:
        typical = timings.typical(moment.at)
        ages = [moment.at - instance.track.since for instance in busy if instance.track.since]
        long = typical if typical is not None else min(ages, default=0.0)
        if typical is None and long < _FIRST.total_seconds():
            return _FIRST
        share = long * _SHARE
        expected = timings.next_ends((instance.id for instance in busy), share, moment.at)
        wait = max(share, expected + share / 2)
        return min(max(timedelta(seconds=wait), _FASTEST), _SLOWEST)
    if checks.obstacles:
        return IDLE
    waits = [instance.track.not_before - moment.at for instance in instances if instance.is_open]
    due = min((wait for wait in waits if wait > 0), default=_SLOWEST.total_seconds())
    return min(max(timedelta(seconds=due), _FASTEST), _SLOWEST)


def poll_deletion(waited: timedelta) -> timedelta:
    """Return when to check a deleted Eviction again.

    Args:
        waited: time for which its deletion has waited.
    """
    return min(max(_DELETED_FASTEST, waited * _DELETED_SHARE), _DELETED_SLOWEST)
