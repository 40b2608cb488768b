"""Judges how an instance has ended here: by intent, by a crash, or with its host. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Final

from hypercobalt.api.duration import short_duration
from hypercobalt.api.eviction import EvictionMode
from hypercobalt.api.incident import IncidentType, Reaction, Severity
from hypercobalt.ha.incidents.cases import CRASHES, InstanceRecord, State, Step, recent
from hypercobalt.ha.incidents.config import HaConfig
from hypercobalt.ha.incidents.signals import (
    Kind,
    Signal,
)
from hypercobalt.ha.incidents.verdict import (
    PANIC_SETTLE,
    PROBE_AGAIN,
    SAME_WATCHDOG,
    SETTLE,
    Nature,
    Rule,
    Verdict,
    out_of_band,
    planned,
)


def _stopped_planned(signal: Signal, instance: InstanceRecord, config: HaConfig) -> Verdict:
    del signal, instance, config
    return planned("migrated away, saved, or stopped by a snapshot")


def _stopped_shutdown(signal: Signal, instance: InstanceRecord, config: HaConfig) -> Verdict:
    if _fired_lately(signal, instance):
        return _crash(signal, instance, config, rule="stopped by its watchdog")
    if instance.shutdown == "host":
        return out_of_band("QEMU was ended from the host, by a signal")
    if config.restart_on_guest_shutdown:
        return _crash(
            signal,
            instance,
            config,
            rule="shut down by its guest; restartOnGuestShutdown is set",
        )
    return planned("shut down by its guest")


def _stopped_destroyed(signal: Signal, instance: InstanceRecord, config: HaConfig) -> Verdict:
    del signal, config
    if _is_worked_at(instance):
        return planned("its Eviction restarts or moves it")
    return out_of_band("destroyed by a client of libvirt: Nova, or a person on the host")


def _found_off(signal: Signal, instance: InstanceRecord, config: HaConfig) -> Verdict:
    del signal, config
    if instance.active and not _is_worked_at(instance):
        # It may have crashed: shown until it is started, or a person has seen it.
        return Verdict(
            nature=Nature.REPORT,
            rule="found off, and running in the journal; libvirt and its log have no reason",
            type=IncidentType.OUT_OF_BAND,
            severity=Severity.WARNING,
        )
    return planned("found off, and libvirt has no reason for it")


def _is_suspended(instance: InstanceRecord) -> bool:
    """Whether a client, rather than an error, has paused it: its owner does not want it to run.

    An instance that a panic has paused does not count.
    """
    case = instance.case(IncidentType.PAUSED)
    if instance.state is not State.PAUSED or case is None or instance.case(*CRASHES) is not None:
        return False
    return case.severity != Severity.CRITICAL


def _is_worked_at(instance: InstanceRecord) -> bool:
    """Whether an Eviction is restarting or moving the instance."""
    return any(case.step is Step.FOLLOW for case in instance.cases)


_WITH_HOST: Final = {
    Kind.ENDED_BY_BOOT: "ran until its host went down; the host has booted since",
    Kind.ENDED_BY_AGENT: "ended by the node agent: the host counted as dead, or was cut off",
}


def _ended_with_host(signal: Signal, instance: InstanceRecord, config: HaConfig) -> Verdict:
    if _is_suspended(instance):
        return out_of_band("paused by a client until its host went down: it stays off")
    crash = _crash(signal, instance, config, rule=_WITH_HOST[signal.kind])
    return replace(crash, type=IncidentType.ENDED_BY_BOOT)


def _runs_after_boot(signal: Signal, instance: InstanceRecord, config: HaConfig) -> Verdict:
    del signal, instance, config
    return Verdict(
        nature=Nature.REPORT,
        rule="libvirt or Nova started it with the host, before the operator could check where it "
        "runs: disable autostart, libvirt-guests and resume_guests_state_on_host_boot",
        type=IncidentType.RUNS_AFTER_BOOT,
        severity=Severity.WARNING,
        step=Step.EXPIRE,
        after=timedelta(hours=1),
    )


def _failed(signal: Signal, instance: InstanceRecord, config: HaConfig) -> Verdict:
    if instance.state is State.UNKNOWN:  # defined here, off in the last listing
        return Verdict(nature=Nature.REPORT, rule="there is no record that it ran here")
    return _crashed(signal, instance, config)


def _crashed(signal: Signal, instance: InstanceRecord, config: HaConfig) -> Verdict:
    if _is_suspended(instance):
        # The memory is lost, and its owner has to learn that; a start would be against the owner's
        # will.
        return Verdict(
            nature=Nature.REPORT,
            rule="its QEMU ended while a client had it paused: it stays off, its memory is lost",
            type=IncidentType.OUT_OF_BAND,
            severity=Severity.WARNING,
        )
    missed = "found crashed, and running in the journal: its end was missed"
    return _crash(
        signal, instance, config, rule=missed if signal.missed else "its QEMU or its guest crashed"
    )


def _panicked(signal: Signal, instance: InstanceRecord, config: HaConfig) -> Verdict:
    verdict = _crash(signal, instance, config, rule="its guest's kernel panicked")
    return replace(verdict, after=PANIC_SETTLE)


def _dumping(signal: Signal, instance: InstanceRecord, config: HaConfig) -> Verdict:
    """Judge a panic whose crash kernel saves the guest's memory.

    A restart would cut the dump short; the crash kernel mostly reboots the guest afterwards.
    """
    rule = "its guest's kernel panicked, and a crash kernel saves its memory"
    crash = _crash(signal, instance, config, rule=rule)
    return replace(
        crash, type=IncidentType.CRASH, reaction=Reaction.WAIT, step=Step.PROBE, after=PROBE_AGAIN
    )


def _crash(signal: Signal, instance: InstanceRecord, config: HaConfig, *, rule: str) -> Verdict:
    """Judge an unplanned end; several signals of the same crash count once."""
    again = config.thresholds.crashes
    count = recent(instance.crashes, signal.at, again.within) + (instance.case(*CRASHES) is None)
    moves = count >= again.count
    if moves:
        rule = f"{rule}; {count} crashes within {short_duration(again.within)}"
    watchdog = _fired_lately(signal, instance)
    if watchdog:
        moves = moves or fires_again(signal, instance, config, at_least=2)
    return Verdict(
        nature=Nature.UNPLANNED,
        rule=rule,
        type=IncidentType.WATCHDOG if watchdog else IncidentType.CRASH,
        severity=Severity.CRITICAL,
        reaction=Reaction.MOVE if moves else Reaction.RESTART,
        step=Step.RECOVER,
        after=SETTLE,
        mode=EvictionMode.COLD if moves else EvictionMode.AUTO,
    )


def _fired_lately(signal: Signal, instance: InstanceRecord) -> bool:
    open_case = instance.case(IncidentType.WATCHDOG)
    return open_case is not None and signal.at - open_case.last_seen < SAME_WATCHDOG


def fires_again(
    signal: Signal, instance: InstanceRecord, config: HaConfig, *, at_least: int
) -> bool:
    return recent(instance.watchdogs, signal.at, config.thresholds.watchdog_again) >= at_least


ENDS: Final[Mapping[Kind, Rule]] = {
    Kind.STOPPED_PLANNED: _stopped_planned,
    Kind.STOPPED_SHUTDOWN: _stopped_shutdown,
    Kind.STOPPED_DESTROYED: _stopped_destroyed,
    Kind.STOPPED_CRASHED: _crashed,
    Kind.STOPPED_FAILED: _failed,
    Kind.FOUND_OFF: _found_off,
    **dict.fromkeys(_WITH_HOST, _ended_with_host),
    Kind.RUNS_AFTER_BOOT: _runs_after_boot,
    Kind.PANICKED: _panicked,
    Kind.DUMPING: _dumping,
}
