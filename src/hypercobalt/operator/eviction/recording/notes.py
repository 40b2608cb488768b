"""The Events of an Eviction, out of two of its statuses. Pure."""

from __future__ import annotations

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.eviction import (
    UNDER_WAY,
    CheckResult,
    EvictionConditionType,
    EvictionInstance,
    EvictionMode,
    EvictionReason,
    EvictionStatus,
    InstancePhase,
    evicting,
    has_ended,
)
from hypercobalt.operator.shared.wording import Note, called, count


def notes(before: EvictionStatus, now: EvictionStatus, host: str) -> tuple[Note, ...]:
    """The Events between two states: the start, each failure, the end."""
    events: list[Note] = []
    was_evicting, is_evicting = evicting(before), evicting(now)
    if was_evicting is None and is_evicting is not None and is_evicting.status == "True":
        text = f"{count(len(now.outstandingInstances))} on {host} to be moved or restarted"
        events.append(Note("Normal", "EvictionStarted", text))
    preflight = get_condition(now.conditions, EvictionConditionType.PREFLIGHT_CHECKS_SUCCEEDED)
    was = get_condition(before.conditions, EvictionConditionType.PREFLIGHT_CHECKS_SUCCEEDED)
    fails = preflight is not None and preflight.status == "False" and not _passes_soon(now)
    if preflight and fails and (not was or was.message != preflight.message):
        events.append(Note("Warning", "PreflightFailed", preflight.message))
    old = {entry.id: entry for entry in before.instances}
    for entry in now.instances:
        events += _entry_notes(old.get(entry.id), entry)
    if is_evicting and is_evicting.status == "False" and not has_ended(before):
        bad = is_evicting.reason == EvictionReason.FAILED
        reason = f"Eviction{is_evicting.reason}"
        events.append(Note("Warning" if bad else "Normal", reason, is_evicting.message))
    return tuple(events)


def _passes_soon(status: EvictionStatus) -> bool:
    stopped_by = {c.result for c in status.checks} & {CheckResult.PENDING, CheckResult.FAILED}
    return stopped_by == {CheckResult.PENDING}


def _entry_notes(old: EvictionInstance | None, entry: EvictionInstance) -> list[Note]:
    was = old.phase if old else None
    if entry.phase == InstancePhase.FAILED and was != InstancePhase.FAILED:
        text = f"Instance {called(entry)}: {entry.message}"
        return [Note("Warning", "InstanceNotMoved", text)]
    retried = (
        entry.phase == InstancePhase.PENDING
        and entry.attempts
        and entry.message
        and (old is None or was in UNDER_WAY or old.attempts != entry.attempts)
    )
    if retried:
        text = f"Instance {called(entry)}, attempt {entry.attempts}: {entry.message}"
        restart = entry.mode == EvictionMode.RESTART
        return [Note("Warning", "RestartFailed" if restart else "MoveFailed", text)]
    return []
