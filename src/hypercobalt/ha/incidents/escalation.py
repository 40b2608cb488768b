"""Chooses which due cases get an Eviction now, and which wait or are given up. Pure.

An instance is recovered in place first, then elsewhere, then no more (`RecoveryExhausted`). For a
host each incident takes a token, many crashes at once get one Eviction, and a storage that several
instances have lost together gets none.

Source: the HA reference, section 5, "Escalation, dedup, storm protection".
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from hypercobalt.api.duration import short_duration
from hypercobalt.api.eviction import EvictionMode, Trigger
from hypercobalt.api.incident import IncidentType, Reaction, Severity
from hypercobalt.ha.incidents.cases import (
    CRASHES,
    TRIGGERS,
    Case,
    InstanceRecord,
    State,
    Step,
    eviction_name,
    key_of,
    reaction_of,
    recent,
    with_time,
)
from hypercobalt.ha.incidents.config import HaConfig
from hypercobalt.ha.incidents.holding import reported
from hypercobalt.ha.incidents.pools import pool_of
from hypercobalt.ha.incidents.shared_storage import wait_for_storage
from hypercobalt.ha.incidents.signals import HOST
from hypercobalt.ha.incidents.storm import admit
from hypercobalt.ha.incidents.verdict import SHORTLY

_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)
_MINUTE: Final = timedelta(minutes=1)
_CRASHES: Final = frozenset({*CRASHES, IncidentType.HOST_OUT_OF_MEMORY})
_A_MOMENT: Final = timedelta(seconds=1)
_SHARED_BY: Final = 2
FOLLOW: Final = timedelta(seconds=30)
"""Interval between reads of an Eviction that was made: libvirt mostly shows its end first."""


@dataclass(frozen=True, slots=True)
class AvailableMemory:
    """The host's memory.

    Args:
        available_bytes: bytes available without swapping; None: unknown.
        kills: whether the kernel's OOM killer has acted just now.
    """

    available_bytes: int | None
    kills: bool = False


@dataclass(frozen=True, slots=True)
class RecoveryRequest:
    """An Eviction that has to be made.

    Args:
        name: of the Eviction.
        incident: id of the incident that it is labelled with.
        since: when that incident was first seen.
        instances: UUIDs; empty for all instances of the host.
        cases: for each incident that it recovers, the UUID of the instance and the id of the case.
        trigger: for programs.
        mode: how.
        reason: for people.
    """

    name: str
    incident: str
    since: datetime
    instances: tuple[str, ...]
    cases: tuple[tuple[str, str], ...]
    trigger: Trigger
    mode: EvictionMode
    reason: str


@dataclass(frozen=True, slots=True)
class EscalationPlan:
    """Result for the cases that are due.

    Args:
        instances: all of them, with their cases as they are now.
        recoveries: Evictions that have to be made. The cases have their names, so the same
            Eviction is made each time.
    """

    instances: dict[str, InstanceRecord]
    recoveries: tuple[RecoveryRequest, ...]


def plan(
    instances: Mapping[str, InstanceRecord],
    node: str,
    config: HaConfig,
    now: datetime,
    memory: AvailableMemory,
) -> EscalationPlan:
    """Choose the reactions to the cases that are due and have recovery as their next step.

    Args:
        instances: all that are remembered, and the host as `HOST`.
        node: name of the host.
        config: limits and thresholds.
        now: time of this pass, UTC.
        memory: of the host, read just now.
    """
    known = {HOST: InstanceRecord(uuid=HOST), **instances}
    fresh = [(uuid, case) for uuid, case in _due(known, now) if not case.eviction]
    fresh = [one for one in fresh if not _given_up(known, *one, config, now)]
    fresh = [(uuid, _tried_again(known, uuid, case)) for uuid, case in fresh]
    fresh = [one for one in fresh if not _storage_is_away(known, *one, config, now)]
    fresh = [(uuid, _short_of_memory(known, uuid, case, memory)) for uuid, case in fresh]
    if many := _many_crashed(known, config, now):
        crashed = [one for one in fresh if one[1].type in _CRASHES]
        _as_one(known, crashed, many, node, now)
        fresh = [one for one in fresh if one not in crashed]
    for uuid, case in sorted(fresh, key=lambda one: one[1].first_seen):
        if _admitted(known, uuid, case, config, now):
            named = replace(
                case,
                shown=True,
                eviction=eviction_name(case.id, node),
                reaction=reaction_of(case.mode),  # it may have waited
            )
            known[uuid] = known[uuid].with_case(named)
    return EscalationPlan(known, _recoveries(known, now))


def recovering(instance: InstanceRecord, case_id: str, now: datetime) -> InstanceRecord:
    """Return the instance after the Eviction of a case was made; it is followed and counted.

    A start after the host's reboot does not count towards the limits of the instance.
    """
    counted = instance.recoveries
    cases = list[Case]()
    for case in instance.cases:
        if case.id != case_id:
            cases.append(case)
            continue
        if case.type is not IncidentType.ENDED_BY_BOOT:
            counted = with_time(counted, now)
        recorded = case.with_evidence(f"Eviction {case.eviction}")
        cases.append(recorded.then(Step.FOLLOW, now + FOLLOW))
    return replace(instance, cases=tuple(cases), recoveries=counted)


def failed(
    instance: InstanceRecord, case: Case, config: HaConfig, now: datetime, why: str
) -> InstanceRecord:
    """Return the instance after the Eviction of a case failed.

    An instance that is off gets another one once the cool-down is over, as long as its limits
    allow: storage may be back later than its hosts. The case of such an instance is a crash, or a
    restart left it off. An instance that I/O errors have paused waits for its storage again
    meanwhile. An instance that runs, and is recovered for another reason, may be well by then: its
    case is given up.
    """
    recorded = case.with_evidence(why)
    if _is_paused_by_storage(instance, case):
        return wait_for_storage(
            instance, recorded, why, config, now, at_least=config.limits.cool_down
        )[0]
    if case.type in _CRASHES or instance.state is State.OFF:
        again = now + config.limits.cool_down + _A_MOMENT
        return instance.with_case(replace(recorded, eviction="").then(Step.RECOVER, again))
    given_up = replace(exhausted(recorded), reaction=Reaction.REPORT)
    return instance.with_case(given_up.then(Step.NONE))


def postponed(
    instance: InstanceRecord, case_id: str, due: datetime, why: str = "", *, alone: bool = False
) -> InstanceRecord:
    """Return the instance after it was found that something else has to end first.

    Args:
        instance: of the case.
        case_id: its id.
        due: when to check again.
        why: what has to end.
        alone: show the case, also where an incident of the host stands for it.
    """
    cases = tuple(
        replace(case, shown=case.shown or alone).with_evidence(why).then(case.step, due)
        if case.id == case_id
        else case
        for case in instance.cases
    )
    return replace(instance, cases=cases)


def _due(known: Mapping[str, InstanceRecord], now: datetime) -> list[tuple[str, Case]]:
    return [
        (uuid, case)
        for uuid, instance in known.items()
        for case in instance.cases
        if case.step is Step.RECOVER and case.due is not None and case.due <= now
    ]


def _given_up(
    known: dict[str, InstanceRecord], uuid: str, case: Case, config: HaConfig, now: datetime
) -> bool:
    if case.type is IncidentType.ENDED_BY_BOOT:
        return False
    instance, limits = known[uuid], config.limits
    hour, day = (recent(instance.recoveries, now, span) for span in (_HOUR, _DAY))
    if hour < limits.recoveries_per_hour and day < limits.recoveries_per_day:
        return False
    text = f"given up: {hour} recoveries within an hour, {day} within a day"
    if _is_paused_by_storage(instance, case):
        known[uuid], _ = wait_for_storage(instance, case, text, config, now)
        return True
    known[uuid] = reported(instance.with_case(exhausted(case)), case.id, text)
    return True


def _is_paused_by_storage(instance: InstanceRecord, case: Case) -> bool:
    return case.type is IncidentType.IO_ERROR and instance.state is State.PAUSED


def exhausted(case: Case) -> Case:
    """Return the case, given up."""
    return replace(
        case, type=IncidentType.RECOVERY_EXHAUSTED, severity=Severity.CRITICAL, shown=True
    )


def _tried_again(known: dict[str, InstanceRecord], uuid: str, case: Case) -> Case:
    """Return the case; one that was given up has recurred, and gets the type in its name back."""
    if case.type is not IncidentType.RECOVERY_EXHAUSTED:
        return case
    type_ = next(one for one in TRIGGERS if key_of(uuid, case.start, one) == case.id)
    again = replace(case, type=type_)
    known[uuid] = known[uuid].with_case(again)
    return again


def _storage_is_away(
    known: dict[str, InstanceRecord], uuid: str, case: Case, config: HaConfig, now: datetime
) -> bool:
    """Whether other instances have errors on the same storage: a move would repair nothing."""
    if case.type is not IncidentType.IO_ERROR:
        return False
    pool = pool_of(case.about)
    errors = [
        (other.name or other.uuid, error.count)
        for other in known.values()
        for error in other.cases
        if error.type is IncidentType.IO_ERROR and error.about and pool_of(error.about) == pool
    ]
    if len(errors) < _SHARED_BY:
        return False
    names = ", ".join(sorted(name for name, _ in errors))
    text = f"the storage {pool} fails for {len(errors)} instances: {names}"
    known[uuid], fails = wait_for_storage(known[uuid], case, text, config, now)
    if fails:
        seen, about = sum(count for _, count in errors), case.about
        _open_on_host(known, IncidentType.STORAGE_DEGRADED, text, now, about=about, count=seen)
    return True


def _short_of_memory(
    known: dict[str, InstanceRecord], uuid: str, case: Case, memory: AvailableMemory
) -> Case:
    """Return the case of an instance that the OOM killer ended; if known to lack room, it moves."""
    if case.type is not IncidentType.CRASH or not memory.kills:
        return case
    available, room = memory.available_bytes, "the host has memory for this instance again"
    if available is None:
        room = "the host's available memory cannot be read: the instance is restarted here"
    elif available < known[uuid].memory_bytes:
        room = "the host has no memory for this instance: it moves"
        case = replace(case, mode=EvictionMode.COLD, reaction=Reaction.MOVE)
    text = f"the host's OOM killer has acted; {room}"
    new = replace(case, type=IncidentType.HOST_OUT_OF_MEMORY).with_evidence(text)
    known[uuid] = known[uuid].with_case(new)
    return new


def _many_crashed(known: Mapping[str, InstanceRecord], config: HaConfig, now: datetime) -> str:
    """Return why the crashes of this minute count as the host's; "" when they do not."""
    rule = config.thresholds.many_crashes
    crashed = {uuid for uuid, one in known.items() if recent(one.crashes, now, rule.within)}
    there = crashed | {uuid for uuid, one in known.items() if one.active}
    if len(crashed) < rule.count or len(crashed) * 100 < rule.percent * len(there):
        return ""
    return f"{len(crashed)} of {len(there)} instances crashed within {short_duration(rule.within)}"


def _as_one(
    known: dict[str, InstanceRecord],
    crashed: Iterable[tuple[str, Case]],
    why: str,
    node: str,
    now: datetime,
) -> None:
    """Merge the cases: one Eviction for each mode, and one incident of the host."""
    by_mode: dict[EvictionMode, list[tuple[str, Case]]] = {}
    for uuid, case in crashed:
        by_mode.setdefault(case.mode, []).append((uuid, case))
    for cases in by_mode.values():
        ids = "".join(sorted(case.id for _, case in cases))
        name = f"ha-{node[:200]}-{hashlib.sha256(ids.encode()).hexdigest()[:10]}"
        type_, text = IncidentType.MANY_CRASHES, why
        if all(case.type is IncidentType.ENDED_BY_BOOT for _, case in cases):
            type_ = IncidentType.ENDED_BY_BOOT
            text = "the instances ended with their host, or while it counted as dead"
        for uuid, case in cases:
            part = replace(case, eviction=name, shown=False).with_evidence(text)
            known[uuid] = known[uuid].with_case(part)
        _open_on_host(known, type_, text, now, reaction=Reaction.RESTART, eviction=name)


def _open_on_host(
    known: dict[str, InstanceRecord],
    type_: IncidentType,
    text: str,
    now: datetime,
    *,
    reaction: Reaction = Reaction.WAIT,
    eviction: str = "",
    about: str = "",
    count: int | None = None,
) -> None:
    """Open an incident of the host, or count it again; `count` replaces a smaller count."""
    host = known[HOST]
    key = key_of(HOST, host.start, type_)
    old = next((case for case in host.cases if case.id == key), None)
    before = old.count if old else 0
    case = Case(
        id=key,
        type=type_,
        severity=Severity.CRITICAL,
        start=host.start,
        first_seen=old.first_seen if old else now,
        last_seen=now,
        count=max(before, before + 1 if count is None else count),
        evidence=old.evidence if old else (),
        reaction=reaction,
        eviction=eviction,
        about=about,
    ).with_evidence(text)
    known[HOST] = host.with_case(case.then(Step.EXPIRE, now + SHORTLY))


def _admitted(
    known: dict[str, InstanceRecord], uuid: str, case: Case, config: HaConfig, now: datetime
) -> bool:
    """Whether the case may get an Eviction of its own; without a token it waits."""
    if case.shown:
        return True
    again = case.reaction is Reaction.WAIT
    known[HOST], admitted = admit(known[HOST], now, config, again=again)
    if not admitted:
        due = now + _MINUTE / config.limits.incidents_per_minute
        waits = replace(case, reaction=Reaction.WAIT)
        known[uuid] = known[uuid].with_case(waits.then(Step.RECOVER, due))
    return admitted


def _recoveries(known: Mapping[str, InstanceRecord], now: datetime) -> tuple[RecoveryRequest, ...]:
    """Return one recovery for each Eviction's name, the oldest incident first."""
    groups: dict[str, list[tuple[str, Case]]] = {}
    for uuid, case in sorted(_due(known, now), key=lambda one: one[1].first_seen):
        if case.eviction:
            groups.setdefault(case.eviction, []).append((uuid, case))
    return tuple(_recovery(known, name, cases) for name, cases in groups.items())


def _recovery(
    known: Mapping[str, InstanceRecord], name: str, cases: list[tuple[str, Case]]
) -> RecoveryRequest:
    first_uuid, first = cases[0]
    who = known[first_uuid].name or first_uuid or "the host"
    more = f" and {len(cases) - 1} more" if len(cases) > 1 else ""
    return RecoveryRequest(
        name=name,
        incident=first.id,
        since=first.first_seen,
        instances=tuple(uuid for uuid, _ in cases if uuid != HOST),
        cases=tuple((uuid, case.id) for uuid, case in cases),
        trigger=TRIGGERS[first.type],
        mode=first.mode,
        reason=f"HA: {first.type} of {who}{more}: {first.evidence[-1] if first.evidence else ''}",
    )
