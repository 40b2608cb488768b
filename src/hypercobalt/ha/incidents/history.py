"""Record of an instance after a signal: its state, how often signals came, its open cases. Pure.

Signals of the same incident raise the count of its case; they open no second one. The record is
bounded: cases by the number of types, moments and disks by a limit.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from hypercobalt.api.eviction import EvictionMode
from hypercobalt.api.incident import IncidentType, Severity
from hypercobalt.ha.incidents.cases import (
    CRASHES,
    MOST_DISKS,
    Case,
    DiskErrors,
    InstanceRecord,
    State,
    Step,
    is_dump,
    key_of,
    recent,
    with_time,
)
from hypercobalt.ha.incidents.config import HaConfig
from hypercobalt.ha.incidents.signals import STARTS, STOPS, Kind, Signal, is_grave, is_harmless
from hypercobalt.ha.incidents.verdict import COALESCE, Nature, Verdict

RAN_WELL: Final = timedelta(seconds=30)
"""Time after a resume; an I/O error that comes later is a new one."""

_HOUR: Final = timedelta(hours=1)

_STATES: Final = {
    Kind.STARTED: State.RUNNING,
    Kind.ARRIVING: State.INCOMING,
    Kind.ARRIVED: State.RUNNING,
    Kind.RESUMED: State.RUNNING,
    Kind.REBOOTED: State.RUNNING,
    Kind.PAUSED: State.PAUSED,
    Kind.PAUSED_IO_ERROR: State.PAUSED,
    Kind.PAUSED_WATCHDOG: State.PAUSED,
    Kind.PAUSED_API_ERROR: State.PAUSED,
    Kind.POSTCOPY_FAILED: State.PAUSED,
    **dict.fromkeys(STOPS, State.OFF),
}
_BEGINS: Final = {*STARTS, Kind.ARRIVING, Kind.RESUMED}

_OVER_WHEN_RESUMED: Final = (
    *CRASHES,
    IncidentType.HOST_OUT_OF_MEMORY,
    IncidentType.PAUSED,
    IncidentType.POSTCOPY_FAILED,
)
_OVER_WHEN_CRASHED: Final = (
    IncidentType.REBOOTING,
    IncidentType.PAUSED,
    IncidentType.CONTROL_ERROR,
    IncidentType.MONITOR_HUNG,
    IncidentType.IO_ERROR,
)
_GRAVITY: Final = {Severity.INFO: 0, Severity.WARNING: 1, Severity.CRITICAL: 2}


def record(
    instance: InstanceRecord, signal: Signal, verdict: Verdict, config: HaConfig
) -> InstanceRecord:
    """Record a signal and its verdict.

    Args:
        instance: its record before the signal.
        signal: what happened.
        verdict: of `classify` on the same instance.
        config: for the waits between recoveries.
    """
    after = _close(_follow(_count(instance, signal, verdict, config), signal), signal, verdict)
    if verdict.type is None:
        return after
    return after.with_case(_case(after, signal, verdict, verdict.type, config))


def _follow(instance: InstanceRecord, signal: Signal) -> InstanceRecord:
    """Return the present state of the instance."""
    changes: dict[str, object] = {}
    if state := _STATES.get(signal.kind):
        changes["state"] = state
    if signal.name:
        changes["name"] = signal.name
    match signal.kind:
        case Kind.SHUTDOWN_BY_GUEST:
            changes["shutdown"] = "guest"
        case Kind.SHUTDOWN_BY_HOST:
            changes["shutdown"] = "host"
        case Kind.AGENT_CONNECTED:
            changes |= {"agent": True, "agent_seen": True}
        case Kind.AGENT_DISCONNECTED:
            changes["agent"] = False
        case kind if kind in STOPS:
            changes |= {"domain_id": -1, "agent": False}
        case kind if kind in _BEGINS and _is_new_start(instance, signal):
            begun = f"{signal.domain_id}.{signal.at.timestamp():.3f}"
            changes |= {"domain_id": signal.domain_id, "start": begun, "shutdown": ""}
            changes |= {"agent": False, "agent_seen": False, "resumes": 0, "disks": ()}
        case _:
            pass
    return replace(instance, **changes)


def _is_new_start(instance: InstanceRecord, signal: Signal) -> bool:
    """Whether a new start begins; at boot RESUMED comes before STARTED, with the same number."""
    if not instance.start:
        return True
    if signal.domain_id >= 0:
        return signal.domain_id != instance.domain_id
    return signal.kind is not Kind.RESUMED and not instance.active


def _count(
    instance: InstanceRecord, signal: Signal, verdict: Verdict, config: HaConfig
) -> InstanceRecord:
    """Count the signal at this time."""
    now = signal.at
    match signal.kind:
        case Kind.REBOOTED if _apart(instance.reboots, now):
            return replace(instance, reboots=with_time(instance.reboots, now))
        case Kind.WATCHDOG | Kind.PAUSED_WATCHDOG if _apart(instance.watchdogs, now):
            return replace(instance, watchdogs=with_time(instance.watchdogs, now))
        case Kind.MEMORY_FAILURE if is_grave(signal):
            return replace(instance, memory_failures=with_time(instance.memory_failures, now))
        case Kind.MEMORY_FAILURE if not is_harmless(signal):
            return replace(instance, memory_warnings=with_time(instance.memory_warnings, now))
        case Kind.IO_ERROR if signal.action == "report":
            return _count_disk(instance, signal, config)
        case Kind.PAUSED_IO_ERROR if not _resumed_lately(instance, now):
            return replace(instance, resumes=0, paused_since=now)
        case _ if verdict.type in CRASHES and instance.case(*CRASHES) is None:
            return replace(instance, crashes=with_time(instance.crashes, now))
        case _:
            return instance


def _apart(times: tuple[datetime, ...], now: datetime) -> bool:
    return not times or now - times[-1] >= COALESCE


def _count_disk(instance: InstanceRecord, signal: Signal, config: HaConfig) -> InstanceRecord:
    often, now = config.thresholds.io_errors, signal.at
    old = next((disk for disk in instance.disks if disk.path == signal.about), None)
    if old is None:
        disk = DiskErrors(path=signal.about, since=now)
    elif now - old.since < often.within:
        disk = replace(old, count=old.count + 1)
    else:  # a new span; one that begins long after the last suspicion starts at zero
        suspect = old.suspect or (old.since if old.count >= often.count else None)
        lately = now - old.since < 2 * often.within
        disk = DiskErrors(path=old.path, since=now, suspect=suspect if lately else None)
    others = tuple(other for other in instance.disks if other.path != signal.about)
    return replace(instance, disks=(*others, disk)[-MOST_DISKS:])


def _close(instance: InstanceRecord, signal: Signal, verdict: Verdict) -> InstanceRecord:
    """Return the instance without the cases that the signal ends."""
    kind = signal.kind
    if kind in STARTS:
        return replace(instance, cases=())
    if kind is Kind.DUMPING:  # its watchdog may have caused the panic
        kept = tuple(case for case in instance.cases if not _has_led_to_it(case))
        return replace(instance, cases=kept)
    if kind is Kind.REBOOTED:
        return replace(instance, cases=tuple(case for case in instance.cases if not is_dump(case)))
    if kind is Kind.RESUMED:
        left = instance.without(*_OVER_WHEN_RESUMED)
        kept = tuple(case for case in left.cases if not _paused_it(case))
        return replace(left, cases=kept)
    if kind in STOPS and verdict.nature is Nature.UNPLANNED:
        # Cases that an Eviction works at stay: the next recovery waits for its end.
        worked_at = tuple(
            case
            for case in instance.cases
            if case.type not in _OVER_WHEN_CRASHED or case.step is Step.FOLLOW
        )
        return replace(instance, cases=worked_at)
    recovering = any(case.step is Step.FOLLOW for case in instance.cases)
    if kind is Kind.STOPPED_DESTROYED and recovering:
        return instance
    if kind in STOPS or (kind is Kind.UNDEFINED and instance.state is State.OFF):
        return replace(instance, cases=())
    return instance


def _has_led_to_it(case: Case) -> bool:
    return case.type is IncidentType.WATCHDOG and not case.eviction


def _paused_it(case: Case) -> bool:
    pausing = {IncidentType.IO_ERROR, IncidentType.WATCHDOG}
    return case.type in pausing and case.severity == Severity.CRITICAL


def _case(
    instance: InstanceRecord,
    signal: Signal,
    verdict: Verdict,
    type_: IncidentType,
    config: HaConfig,
) -> Case:
    key = key_of(instance.uuid, instance.start, type_)
    due = signal.at + verdict.after
    if verdict.step is Step.RECOVER:
        due = max(due, earliest(instance, signal.at, config))
    old = next((case for case in instance.cases if case.id == key), None)
    new = Case(
        id=key,
        type=type_,
        severity=verdict.severity,
        start=instance.start,
        first_seen=signal.at,
        last_seen=signal.at,
        reaction=verdict.reaction,
        shown=verdict.shown and verdict.step is not Step.RECOVER,  # takes its token later
        step=verdict.step,
        due=None if verdict.step is Step.NONE else due,
        mode=verdict.mode,
        about=signal.about,
    ).with_evidence(signal.text, verdict.rule)
    return new if old is None else _merge(old, new)


def _merge(old: Case, new: Case) -> Case:
    """Merge a signal of the same incident into its case."""
    again = replace(
        old,
        count=old.count + 1,
        last_seen=max(old.last_seen, new.last_seen),
        severity=max(old.severity, new.severity, key=lambda one: _GRAVITY[one]),
        shown=old.shown or new.shown,
        about=old.about or new.about,
    ).with_evidence(*new.evidence)
    if old.step is Step.HELD:
        return replace(again, mode=new.mode if new.mode is EvictionMode.COLD else old.mode)
    if old.step is Step.RECOVER and new.step is Step.RECOVER:
        harder = new if new.mode is EvictionMode.COLD else old
        sooner = min(filter(None, (old.due, new.due)), default=None)
        return replace(again, mode=harder.mode, reaction=harder.reaction, due=sooner)
    if old.eviction or old.step in {Step.RECOVER, Step.FOLLOW, Step.RESUME}:
        return again
    if old.step is Step.PROBE and new.step is not Step.RECOVER:
        return again
    if new.step is Step.PROBE:  # the key has the type: a case that was given up has another one
        again = replace(again, type=new.type)
    return replace(again, step=new.step, due=new.due, mode=new.mode, reaction=new.reaction)


def _resumed_lately(instance: InstanceRecord, now: datetime) -> bool:
    return instance.resumed_at is not None and now - instance.resumed_at <= RAN_WELL


def earliest(instance: InstanceRecord, now: datetime, config: HaConfig) -> datetime:
    """Return the earliest start of the next recovery, according to those of the last hour."""
    count = recent(instance.recoveries, now, _HOUR)
    if not count:
        return now
    waits = config.limits.backoff
    return instance.recoveries[-1] + waits[min(count, len(waits)) - 1]
