"""Attempts that this process has recorded: it alone may call the devices for them. Pure."""

from __future__ import annotations

from datetime import datetime

from hypercobalt.api.fencing import Fencing, FencingPhase

Attempts = dict[str, datetime]
"""Deadlines of attempts that this process has recorded and not called yet, by host."""


def new_deadline(stored: Fencing | None, record: Fencing | None) -> datetime | None:
    """Return the deadline of an attempt that is not stored yet; None if there is none."""
    if record is None:
        return None
    known = stored.unfenceDeadline if stored is not None else None
    if record.unfenceDeadline not in {None, known}:
        return record.unfenceDeadline
    known = stored.rebootDeadline if stored is not None else None
    if record.rebootDeadline not in {None, known}:
        return record.rebootDeadline
    if record.phase != FencingPhase.ATTEMPTING:
        return None
    same = stored is not None and (stored.phase, stored.deadline) == (record.phase, record.deadline)
    return None if same else record.deadline
