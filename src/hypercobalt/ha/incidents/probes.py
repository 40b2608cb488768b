"""Judges a probe of an instance with an open case: over, wait, resume or recover. Pure.

Source: the HA reference, section 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from hypercobalt.api.eviction import EvictionMode
from hypercobalt.api.incident import IncidentType, Reaction, Severity
from hypercobalt.ha.incidents.cases import Case, InstanceRecord, State, Step, key_of, reaction_of
from hypercobalt.ha.incidents.config import HaConfig
from hypercobalt.ha.incidents.history import earliest
from hypercobalt.ha.incidents.verdict import PROBE_AGAIN

_QUIET_DISKS: Final = timedelta(seconds=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceProbe:
    """Result of a probe of an instance.

    Args:
        state: of the instance; UNKNOWN when libvirt does not answer.
        agent: whether its guest's agent answers; None: it has none, or was not probed.
        control_error: libvirt has lost the emulator's monitor.
        occupied_seconds: time for which the emulator has owed an answer.
        storage: whether the disk can be read and has room; None: it cannot be tried from here.
        quiet_seconds: time for which its disks have neither read nor written; 0 when not known.
    """

    state: State
    agent: bool | None = None
    control_error: bool = False
    occupied_seconds: float = 0
    storage: bool | None = None
    quiet_seconds: float = 0


def probed(
    instance: InstanceRecord, case: Case, probe: InstanceProbe, config: HaConfig, now: datetime
) -> InstanceRecord:
    """Return the instance with the case closed, or with its next step."""
    later = instance.with_case(case.then(Step.PROBE, now + PROBE_AGAIN))
    if probe.state is State.UNKNOWN:
        return later
    match case.type:
        case IncidentType.REBOOTING | IncidentType.WATCHDOG:
            return _back(instance, case, probe, config, now)
        case IncidentType.CRASH:
            return _dumped(instance, case, probe, config, now)
        case IncidentType.PAUSED:
            if probe.state is not State.PAUSED:
                return instance.without_case(case.id)
            shown = replace(case, shown=True).with_evidence(
                f"paused since {case.first_seen:%FT%TZ}"
            )
            return instance.with_case(shown.then(Step.NONE))
        case IncidentType.IO_ERROR:
            return _storage(instance, case, probe, config, now)
        case IncidentType.CONTROL_ERROR:
            if not probe.control_error:
                return instance.without_case(case.id)
            waited = now - case.first_seen >= config.thresholds.control_error_wait
            return _recover(instance, case, config, now) if waited else later
        case IncidentType.MONITOR_HUNG:
            if not probe.occupied_seconds:
                return instance.without_case(case.id)
            text = f"QEMU has not answered for {probe.occupied_seconds:.0f} s"
            if probe.occupied_seconds < config.thresholds.monitor_hung.total_seconds():
                return later
            return _recover(instance, case.with_evidence(text), config, now)
        case _:
            return instance.with_case(case.then(Step.NONE))


def _recover(
    instance: InstanceRecord,
    case: Case,
    config: HaConfig,
    now: datetime,
    mode: EvictionMode = EvictionMode.AUTO,
) -> InstanceRecord:
    reaction = reaction_of(mode)
    changed = replace(case, mode=mode, reaction=reaction, severity=Severity.CRITICAL, shown=True)
    return instance.with_case(changed.then(Step.RECOVER, max(now, earliest(instance, now, config))))


def _back(
    instance: InstanceRecord, case: Case, probe: InstanceProbe, config: HaConfig, now: datetime
) -> InstanceRecord:
    """Return the instance after a reboot or a watchdog's reset.

    It is back when it runs, with its agent if it had one. A guest without its agent whose disks
    work is still on its way, with an update or a file system check perhaps; it is left alone.
    """
    agent = probe.agent or instance.agent
    if probe.state is State.RUNNING and (agent or not instance.agent_seen):
        return instance.without_case(case.id)
    if now - case.first_seen < config.thresholds.reboot_deadline or (
        probe.state is State.RUNNING and probe.quiet_seconds < _QUIET_DISKS.total_seconds()
    ):
        return instance.with_case(case.then(Step.PROBE, now + PROBE_AGAIN))
    text = (
        f"runs, but neither its agent nor its disks have been back since {case.first_seen:%FT%TZ}"
        if probe.state is State.RUNNING
        else f"not back since {case.first_seen:%FT%TZ}: {probe.state}"
    )
    if case.type is IncidentType.WATCHDOG:
        return _recover(instance, case.with_evidence(text), config, now, EvictionMode.COLD)
    failed = IncidentType.REBOOT_FAILED
    changed = replace(case, id=key_of(instance.uuid, instance.start, failed), type=failed)
    return _recover(instance.without_case(case.id), changed.with_evidence(text), config, now)


def _dumped(
    instance: InstanceRecord, case: Case, probe: InstanceProbe, config: HaConfig, now: datetime
) -> InstanceRecord:
    """Follow a guest whose crash kernel saves its memory: its reboot closes the case."""
    quiet = probe.state is State.RUNNING and probe.quiet_seconds >= _QUIET_DISKS.total_seconds()
    if not quiet or now - case.first_seen < config.thresholds.reboot_deadline:
        return instance.with_case(case.then(Step.PROBE, now + PROBE_AGAIN))
    text = f"its crash kernel has not rebooted it since {case.first_seen:%FT%TZ}; no disk is in use"
    return _recover(instance, case.with_evidence(text), config, now, case.mode)


def _storage(
    instance: InstanceRecord, case: Case, probe: InstanceProbe, config: HaConfig, now: datetime
) -> InstanceRecord:
    """Resume an instance that I/O errors have paused once its storage is back.

    Room in a pool can often not be seen from the host, so a resume may end in the next error; the
    next one then comes later.
    """
    if probe.state is not State.PAUSED:
        return instance.without_case(case.id)
    if probe.storage and _may_resume(instance, config, now):
        changed = replace(case, reaction=Reaction.RESUME).with_evidence(
            "its storage can be used again"
        )
        return instance.with_case(changed.then(Step.RESUME, now))
    since = instance.paused_since or case.first_seen
    if now - since < config.thresholds.io_error_wait:
        return instance.with_case(case.then(Step.PROBE, now + PROBE_AGAIN))
    text = f"its storage has been away since {since:%FT%TZ}"
    return _recover(instance, case.with_evidence(text), config, now)


def _may_resume(instance: InstanceRecord, config: HaConfig, now: datetime) -> bool:
    tries, waits = instance.resumes, config.limits.backoff
    if tries >= config.limits.resumes:
        return False
    if not tries or instance.resumed_at is None:
        return True
    return now - instance.resumed_at >= waits[min(tries, len(waits)) - 1]


def resumed(instance: InstanceRecord, case: Case, now: datetime) -> InstanceRecord:
    """Return the instance after the agent has resumed it: a probe shows whether it stays so."""
    text = f"resumed at {now:%FT%TZ}"
    changed = case.with_evidence(text).then(Step.PROBE, now + PROBE_AGAIN)
    return replace(instance, resumes=instance.resumes + 1, resumed_at=now).with_case(changed)
