"""When a process that died is started again: pure.

At once after it ran steadily; then after 1, 2, 4 s and so on, as long as it dies soon after each
start. There is no last attempt: what is missing may come back, such as room on a disk. A process
that a command has stopped is held, and so is not started.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

STEADY: Final = timedelta(seconds=60)
"""A process that ran for so long starts without a delay when it dies."""
_FIRST: Final = timedelta(seconds=1)
_LONGEST: Final = timedelta(seconds=60)
UNKNOWN: Final = "how is not known"
_MANY: Final = 16  # doublings; the longest delay is reached long before


class Restarts(msgspec.Struct, frozen=True):
    """What happened to the process of one role."""

    times: int = 0
    """Starts after a death since `up`, those that failed included."""
    in_a_row: int = 0
    """Starts among these since it last ran steadily."""
    died: datetime | None = None
    how: str = ""
    """How it ended last, or why its last start failed."""
    started: datetime | None = None
    due: datetime | None = None
    """Time of the next start; None while it runs or is held."""


RestartRecord = Mapping[str, Restarts]
"""Restarts by role; a role is not in it if its process never died."""


def delay(in_a_row: int) -> timedelta:
    """Time until the next start, after so many that did not last."""
    if not in_a_row:
        return timedelta()
    return min(_FIRST * (1 << min(in_a_row - 1, _MANY)), _LONGEST)


def died(known: Restarts | None, how: str, now: datetime) -> Restarts:
    """Return the record after the process was found dead."""
    known = known or Restarts()
    steady = known.started is None or now - known.started >= STEADY
    in_a_row = 0 if steady else known.in_a_row
    return msgspec.structs.replace(
        known, in_a_row=in_a_row, died=now, how=how, due=now + delay(in_a_row)
    )


def started(known: Restarts, now: datetime) -> Restarts:
    """Return the record after the process was started again."""
    return msgspec.structs.replace(
        known, times=known.times + 1, in_a_row=known.in_a_row + 1, started=now, due=None
    )


def failed(known: Restarts, why: str, now: datetime) -> Restarts:
    """Return the record after a start of the process failed."""
    return msgspec.structs.replace(
        started(known, now), how=why, due=now + delay(known.in_a_row + 1)
    )


@dataclass(frozen=True, slots=True)
class SupervisionFacts:
    """What one pass sees.

    Args:
        wanted: roles that a lab has, each after those that it needs.
        running: those of them that run, and perhaps others.
        held: roles that a command has stopped.
        ends: how processes ended that were watched, by role; it may come later than the death.
        needs: the role that must run before a role is started.
    """

    wanted: Sequence[str]
    running: Collection[str]
    held: Collection[str]
    ends: Mapping[str, str]
    needs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SupervisionPlan:
    """The record as it is now, and the roles to start."""

    record: RestartRecord
    start: tuple[str, ...]


def decide(facts: SupervisionFacts, record: RestartRecord, now: datetime) -> SupervisionPlan:
    """Note what died, forget what runs again or is held, and choose what to start now."""
    after = {
        role: one if role in facts.wanted else msgspec.structs.replace(one, due=None)
        for role, one in record.items()
    }
    for role in facts.wanted:
        known = after.get(role)
        if known is not None and known.how == UNKNOWN and role in facts.ends:
            known = after[role] = msgspec.structs.replace(known, how=facts.ends[role])
        if role in facts.running or role in facts.held:
            if known is not None and known.due is not None:
                after[role] = msgspec.structs.replace(known, due=None)
        elif known is None or known.due is None:
            after[role] = died(known, facts.ends.get(role, UNKNOWN), now)
    due = {role: one.due for role, one in after.items() if one.due is not None}
    start = tuple(
        role
        for role in facts.wanted
        if role in due
        and due[role] <= now
        and facts.needs.get(role, role) in {*facts.running, role}
    )
    return SupervisionPlan(after, start)


def wake(record: RestartRecord, now: datetime, longest: timedelta) -> timedelta:
    """Time until the next start is due, at most the longest."""
    due = [one.due - now for one in record.values() if one.due is not None]
    return max(min([*due, longest]), timedelta())
