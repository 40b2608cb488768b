"""Why an Eviction is where it is, what it waits for and what to do, in words. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from hypercobalt.api.conditions import Condition, get_condition
from hypercobalt.api.duration import human_duration
from hypercobalt.api.eviction import (
    CheckResult,
    Eviction,
    EvictionConditionType,
    EvictionInstance,
    EvictionReason,
    EvictionStatus,
    InstancePhase,
)
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.operator.eviction.status import called, count

_LISTED: Final = 20

_REMEDIES: Final = {
    "HostUp": "bring the compute service of the host back; instances of a dead host are evacuated "
    "by the high-availability service, after fencing",
    "HostDisabled": "`cobalt maintain {host} --reason …` takes the host out of service",
    "Instances": "put the named instances into a state in which they can be moved",
    "TargetCapacity": "free or add capacity, or enable hosts that are disabled",
    "ServerGroups": "the members of a strict affinity group cannot leave one by one: delete the "
    "group, or move them by hand",
}


def explain(eviction: Eviction, hypervisor: Hypervisor | None, now: datetime) -> list[str]:
    """Say it in sentences, one in each line.

    Args:
        eviction: as read.
        hypervisor: the host's, None if there is none.
        now: for ages.
    """
    host, spec = eviction.spec.hypervisor, eviction.spec
    evicting = get_condition(eviction.status.conditions, EvictionConditionType.EVICTING)
    only = f"only {count(len(spec.instances))}" if spec.instances else "all instances"
    since = eviction.metadata.creationTimestamp
    asked = f", asked for {_ago(since, now)}" if since else ""
    lines = [f"It moves {only} away from {host}{asked}, because: {spec.reason}"]
    if hypervisor is not None and hypervisor.spec.maintenanceReason:
        lines.append(f"{host} is out of service, because: {hypervisor.spec.maintenanceReason}")
    if eviction.metadata.deletionTimestamp is not None:
        lines.append("It is being deleted: what it has begun is stopped first.")
    if evicting is None:
        lines.append("The operator has not looked at it yet. Does it run, and lead?")
        if hypervisor is None:
            lines.append(f"There is no Hypervisor {host}; spec.hypervisor cannot be corrected.")
        return lines
    if evicting.status == "False":
        lines += _ended(eviction, evicting, now)
        if (
            evicting.reason == EvictionReason.SUCCEEDED
            and hypervisor
            and hypervisor.spec.maintenance
        ):
            lines.append(f"`cobalt resume {host}` puts the host back into service.")
        return lines
    return [*lines, *_running(eviction.status, evicting, host, now)]


def _running(status: EvictionStatus, evicting: Condition, host: str, now: datetime) -> list[str]:
    stops = (CheckResult.PENDING, CheckResult.FAILED)
    bad = [check for check in status.checks if check.result in stops]
    lines = [f"{evicting.message}."]
    if bad:
        lines.append("Nothing is moved before this is put right:")
        for check in bad:
            lines.append(f"  - {check.message or check.name}")
            remedy = _REMEDIES.get(check.name)
            if remedy and check.result == CheckResult.FAILED:  # what is pending passes by itself
                lines.append(f"    What to do: {remedy.format(host=host)}.")
    elif not status.checks:
        found = get_condition(status.conditions, EvictionConditionType.PREFLIGHT_CHECKS_SUCCEEDED)
        if found is not None and found.status == "False":
            lines.append(f"Nothing is moved: {found.message}.")
    lines += [
        f"Doubt before it began: {check.message or check.name}."
        for check in status.checks
        if check.result == CheckResult.WARNING
    ]
    lines += _group(status, InstancePhase.MIGRATING, "On their way", now)
    lines += _group(status, InstancePhase.CONFIRMING, "Moved, to be confirmed", now)
    lines += _group(status, InstancePhase.PENDING, "Waiting for their turn", now)
    lines += _group(status, InstancePhase.FAILED, "Given up", now)
    done = status.progress.estimatedCompletion if status.progress else None
    if done is not None:
        left = (done - now).total_seconds()
        lines.append(f"The last one should have left in {_length(left)}.")
    return lines


def _ended(eviction: Eviction, evicting: Condition, now: datetime) -> list[str]:
    host = eviction.spec.hypervisor
    lines = [f"It ended {_ago(evicting.lastTransitionTime, now)}: {evicting.message}."]
    if evicting.reason == EvictionReason.FAILED:
        lines += _group(eviction.status, InstancePhase.FAILED, "Still on the host", now)
        lines.append(f"Put that right, then `cobalt evict {host}` tries again.")
        lines.append("Until then the host does not count as evicted, and is not taken away.")
    return lines


def _group(status: EvictionStatus, phase: InstancePhase, title: str, now: datetime) -> list[str]:
    found = [entry for entry in status.instances if entry.phase == phase]
    if not found:
        return []
    lines = [f"{title} ({len(found)}):", *(f"  - {_line(e, now)}" for e in found[:_LISTED])]
    if len(found) > _LISTED:
        lines.append(f"  - and {len(found) - _LISTED} more")
    return lines


def _line(entry: EvictionInstance, now: datetime) -> str:
    parts = [called(entry)]
    if entry.target:
        parts.append(f"to {entry.target}")
    if entry.startedAt and entry.phase == InstancePhase.MIGRATING:
        parts.append(f"for {_length((now - entry.startedAt).total_seconds())}")
    if (entry.attempts or 0) > 1:
        parts.append(f"attempt {entry.attempts}")
    text = ", ".join(parts)
    return f"{text}: {entry.message}" if entry.message else text


def _ago(then: datetime, now: datetime) -> str:
    return f"{_length((now - then).total_seconds())} ago"


def _length(seconds: float) -> str:
    return human_duration(timedelta(seconds=max(seconds, 0)))
