"""Judges a signal of an instance: planned, unplanned or only reported. Pure.

Evidence is weighed in order, and the first match decides; each verdict names its rule and evidence.
Rows 4 and 5, which need Nova, and row 3, which needs the Hypervisor as it is now, are applied right
before a reaction (`restraint.py`, and the operator's Eviction).

Source: the HA reference, sections 3 (measured sequences), 4 (evidence) and 5 (reactions).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Final

from hypercobalt.api.duration import short_duration
from hypercobalt.api.eviction import EvictionMode
from hypercobalt.api.incident import IncidentType, Reaction, Severity
from hypercobalt.ha.incidents.cases import Instance, State, Step, is_dump, recent
from hypercobalt.ha.incidents.config import HaConfig
from hypercobalt.ha.incidents.signals import (
    EVENT_TYPE,
    STOPS,
    EventType,
    Kind,
    Signal,
    is_grave,
    is_harmless,
)
from hypercobalt.ha.incidents.verdict import Nature, Verdict

SETTLE: Final = timedelta(milliseconds=300)
"""Wait after a stop: related events, such as the stops of many instances, arrive within it."""
PANIC_SETTLE: Final = timedelta(seconds=2)
"""Wait after a panic: libvirt may restart the guest itself (`on_crash`). Also after a watchdog's
NMI, which makes a guest panic to save its memory.
"""
COALESCE: Final = timedelta(seconds=2)
"""A reset gives two REBOOT events within 0.2 to 0.7 s."""
SAME_WATCHDOG: Final = timedelta(seconds=120)
"""A stop so soon after a watchdog's poweroff or shutdown belongs to it."""
PROBE_AGAIN: Final = timedelta(seconds=10)
SHORTLY: Final = timedelta(minutes=10)
"""How long a report stays open when nothing closes it."""

CRASHES: Final = (IncidentType.CRASH, IncidentType.ENDED_BY_BOOT)
"""Types of unplanned ends."""


def _planned(rule: str) -> Verdict:
    return Verdict(nature=Nature.PLANNED, rule=rule)


def _probed_first(
    rule: str,
    type_: IncidentType,
    severity: Severity,
    nature: Nature = Nature.UNPLANNED,
    after: timedelta = PROBE_AGAIN,
) -> Verdict:
    """An incident that may pass by itself: the instance is probed before any reaction."""
    return Verdict(
        nature=nature,
        rule=rule,
        type=type_,
        severity=severity,
        reaction=Reaction.WAIT,
        step=Step.PROBE,
        after=after,
    )


_NOTED: Final = Verdict(nature=Nature.REPORT, rule="recorded only")
_UNMONITORED: Final = Verdict(nature=Nature.REPORT, rule="not monitored, by the configuration")


def classify(signal: Signal, instance: Instance, config: HaConfig) -> Verdict:
    """Judge a signal by the record of the instance before it.

    Args:
        signal: what happened.
        instance: its record before the signal.
        config: thresholds, and which events are monitored.
    """
    if not config.event(EVENT_TYPE.get(signal.kind, EventType.LIFECYCLE)).monitored:
        return _UNMONITORED
    if signal.kind in STOPS and instance.state is State.INCOMING:
        return Verdict(
            nature=Nature.REPORT, rule="an incoming migration ended before the instance ran here"
        )
    rule = _RULES.get(signal.kind)
    return rule(signal, instance, config) if rule else _NOTED


def _stopped_planned(signal: Signal, instance: Instance, config: HaConfig) -> Verdict:
    del signal, instance, config
    return _planned("migrated away, saved, or stopped by a snapshot")


def _stopped_shutdown(signal: Signal, instance: Instance, config: HaConfig) -> Verdict:
    if _fired_lately(signal, instance):
        return _crash(signal, instance, config, rule="stopped by its watchdog")
    if instance.shutdown == "host":
        return _out_of_band("QEMU was ended from the host, by a signal")
    if config.restart_on_guest_shutdown:
        return _crash(
            signal,
            instance,
            config,
            rule="shut down by its guest; restartOnGuestShutdown is set",
        )
    return _planned("shut down by its guest")


def _stopped_destroyed(signal: Signal, instance: Instance, config: HaConfig) -> Verdict:
    del signal, config
    if _is_worked_at(instance):
        return _planned("its Eviction restarts or moves it")
    return _out_of_band("destroyed by a client of libvirt: Nova, or a person on the host")


def _found_off(signal: Signal, instance: Instance, config: HaConfig) -> Verdict:
    del signal, config
    if instance.active and not _is_worked_at(instance):
        # It may have crashed: shown until it is started, or a person has seen it.
        return Verdict(
            nature=Nature.REPORT,
            rule="found off, and running in the journal; libvirt and its log have no reason",
            type=IncidentType.OUT_OF_BAND,
            severity=Severity.WARNING,
        )
    return _planned("found off, and libvirt has no reason for it")


def _is_suspended(instance: Instance) -> bool:
    """Whether a client, rather than an error, has paused it: its owner does not want it to run.

    An instance that a panic has paused does not count.
    """
    case = instance.case(IncidentType.PAUSED)
    if instance.state is not State.PAUSED or case is None or instance.case(*CRASHES) is not None:
        return False
    return case.severity != Severity.CRITICAL


def _is_worked_at(instance: Instance) -> bool:
    """Whether an Eviction is restarting or moving the instance."""
    return any(case.step is Step.FOLLOW for case in instance.cases)


_WITH_HOST: Final = {
    Kind.ENDED_BY_BOOT: "ran until its host went down; the host has booted since",
    Kind.ENDED_BY_AGENT: "ended by the node agent: the host counted as dead, or was cut off",
}


def _ended_with_host(signal: Signal, instance: Instance, config: HaConfig) -> Verdict:
    if _is_suspended(instance):
        return _out_of_band("paused by a client until its host went down: it stays off")
    crash = _crash(signal, instance, config, rule=_WITH_HOST[signal.kind])
    return replace(crash, type=IncidentType.ENDED_BY_BOOT)


def _runs_after_boot(signal: Signal, instance: Instance, config: HaConfig) -> Verdict:
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


def _out_of_band(rule: str) -> Verdict:
    return Verdict(
        nature=Nature.REPORT,
        rule=rule,
        type=IncidentType.OUT_OF_BAND,
        step=Step.EXPIRE,
        after=SHORTLY,
    )


def _failed(signal: Signal, instance: Instance, config: HaConfig) -> Verdict:
    if instance.state is State.UNKNOWN:  # defined here, off in the last listing
        return Verdict(nature=Nature.REPORT, rule="there is no record that it ran here")
    return _crashed(signal, instance, config)


def _crashed(signal: Signal, instance: Instance, config: HaConfig) -> Verdict:
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


def _panicked(signal: Signal, instance: Instance, config: HaConfig) -> Verdict:
    verdict = _crash(signal, instance, config, rule="its guest's kernel panicked")
    return replace(verdict, after=PANIC_SETTLE)


def _dumping(signal: Signal, instance: Instance, config: HaConfig) -> Verdict:
    """Judge a panic whose crash kernel saves the guest's memory.

    A restart would cut the dump short; the crash kernel mostly reboots the guest afterwards.
    """
    rule = "its guest's kernel panicked, and a crash kernel saves its memory"
    crash = _crash(signal, instance, config, rule=rule)
    return replace(
        crash, type=IncidentType.CRASH, reaction=Reaction.WAIT, step=Step.PROBE, after=PROBE_AGAIN
    )


def _crash(signal: Signal, instance: Instance, config: HaConfig, *, rule: str) -> Verdict:
    """Judge an unplanned end; several signals of the same crash count once."""
    again = config.thresholds.crashes
    count = recent(instance.crashes, signal.at, again.within) + (instance.case(*CRASHES) is None)
    moves = count >= again.count
    if moves:
        rule = f"{rule}; {count} crashes within {short_duration(again.within)}"
    watchdog = _fired_lately(signal, instance)
    if watchdog:
        moves = moves or _fires_again(signal, instance, config, at_least=2)
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


def _fired_lately(signal: Signal, instance: Instance) -> bool:
    open_case = instance.case(IncidentType.WATCHDOG)
    return open_case is not None and signal.at - open_case.last_seen < SAME_WATCHDOG


def _fires_again(signal: Signal, instance: Instance, config: HaConfig, *, at_least: int) -> bool:
    return recent(instance.watchdogs, signal.at, config.thresholds.watchdog_again) >= at_least


def _paused(signal: Signal, instance: Instance, config: HaConfig) -> Verdict:
    del signal, instance
    return Verdict(
        nature=Nature.REPORT,
        rule="paused by a client of libvirt; never resumed by itself",
        type=IncidentType.PAUSED,
        severity=Severity.WARNING,
        step=Step.PROBE,
        after=config.thresholds.paused,
        shown=False,
    )


def _paused_by_error(signal: Signal, instance: Instance, config: HaConfig) -> Verdict:
    del signal, instance, config
    return Verdict(
        nature=Nature.UNPLANNED,
        rule="a libvirt call failed and left it paused: check libvirtd's log",
        type=IncidentType.PAUSED,
        severity=Severity.CRITICAL,
    )


def _postcopy_failed(signal: Signal, instance: Instance, config: HaConfig) -> Verdict:
    del signal, instance, config
    return Verdict(
        nature=Nature.UNPLANNED,
        rule="its memory is split between two hosts: recover the migration, or restart it",
        type=IncidentType.POSTCOPY_FAILED,
        severity=Severity.CRITICAL,
    )


def _watchdog(signal: Signal, instance: Instance, config: HaConfig) -> Verdict:
    again = _fires_again(signal, instance, config, at_least=1) and not _same_watchdog(
        signal, instance
    )
    acts = signal.action in {"reset", "shutdown", "poweroff"}
    if acts and not again:
        rule = f"the watchdog fired, and QEMU acts: {signal.action}"
        return _probed_first(rule, IncidentType.WATCHDOG, Severity.WARNING, after=COALESCE)
    return Verdict(
        nature=Nature.UNPLANNED,
        rule="the watchdog fired again" if again else "the watchdog fired, the guest hangs",
        type=IncidentType.WATCHDOG,
        severity=Severity.CRITICAL,
        reaction=Reaction.MOVE if again else Reaction.RESTART,
        step=Step.RECOVER,
        after=PANIC_SETTLE if signal.action == "inject-nmi" else SETTLE,
        mode=EvictionMode.COLD if again else EvictionMode.AUTO,
    )


def _same_watchdog(signal: Signal, instance: Instance) -> bool:
    """Whether the watchdog's last firing caused this signal, too.

    WATCHDOG and SUSPENDED/WATCHDOG are one firing. The watchdog has to have fired before.
    """
    return signal.at - instance.watchdogs[-1] < COALESCE


def _rebooted(signal: Signal, instance: Instance, config: HaConfig) -> Verdict:
    if instance.reboots and signal.at - instance.reboots[-1] < COALESCE:
        return _planned("one reset gives two events")
    known = instance.case(IncidentType.WATCHDOG, IncidentType.CRASH)
    if known is not None and known.step not in {Step.NONE, Step.HELD} and not is_dump(known):
        return _planned("part of its open incident")
    loop = config.thresholds.reboot_loop
    if recent(instance.reboots, signal.at, loop.within) + 1 >= loop.count:
        return Verdict(
            nature=Nature.REPORT,
            rule=f"{loop.count} reboots within {short_duration(loop.within)}",
            type=IncidentType.REBOOT_LOOP,
            severity=Severity.WARNING,
            step=Step.EXPIRE,
            after=loop.within,
        )
    return _probed_first(
        "the guest reboots; the agent checks that it comes back",
        IncidentType.REBOOTING,
        Severity.INFO,
        Nature.PLANNED,
        after=COALESCE,
    )


def _io_error(signal: Signal, instance: Instance, config: HaConfig) -> Verdict:
    if signal.kind is Kind.PAUSED_IO_ERROR or signal.action == "pause":
        rule = "paused until its storage is back"
        return _probed_first(rule, IncidentType.IO_ERROR, Severity.CRITICAL)
    if signal.action != "report":
        return _NOTED
    often = config.thresholds.io_errors
    disk = next((disk for disk in instance.disks if disk.path == signal.about), None)
    persists = (
        disk is not None
        and disk.suspect is not None
        and signal.at - disk.suspect >= often.within
        and disk.count + 1 >= often.count
    )
    return Verdict(
        nature=Nature.UNPLANNED,
        rule="disk errors persist" if persists else "a disk error was reported to the guest",
        type=IncidentType.IO_ERROR,
        severity=Severity.WARNING,
        reaction=Reaction.MOVE if persists else Reaction.REPORT,
        step=Step.RECOVER if persists else Step.EXPIRE,
        after=SETTLE if persists else config.thresholds.io_errors_over,
        mode=EvictionMode.LIVE,
    )


def _control_error(signal: Signal, instance: Instance, config: HaConfig) -> Verdict:
    del signal, config
    if instance.state is State.INCOMING:
        return Verdict(
            nature=Nature.REPORT, rule="an incoming migration is ending: its source reports that"
        )
    rule = "libvirt has lost QEMU's monitor"
    return _probed_first(rule, IncidentType.CONTROL_ERROR, Severity.WARNING)


def _monitor_occupied(signal: Signal, instance: Instance, config: HaConfig) -> Verdict:
    del instance
    if signal.seconds < config.thresholds.monitor_occupied.total_seconds():
        return _NOTED
    rule = "QEMU's monitor does not answer; libvirt sends no event for that"
    return _probed_first(rule, IncidentType.MONITOR_HUNG, Severity.WARNING, Nature.REPORT)


def _memory_failure(signal: Signal, host: Instance, config: HaConfig) -> Verdict:
    """Judge a memory failure by the record of the host."""
    limits, now = config.thresholds, signal.at
    grave = is_grave(signal)
    often = limits.memory_failures if grave else limits.corrected_memory_failures
    known = host.memory_failures if grave else host.memory_warnings
    many = recent(known, now, often.within) + 1 >= often.count
    if is_harmless(signal) or not (grave or many):
        return _NOTED
    empties = grave and many
    return Verdict(
        nature=Nature.UNPLANNED,
        rule=f"{often.count} failures of the host's memory within {short_duration(often.within)}"
        if many
        else "the host's memory has failed: check its hardware",
        type=IncidentType.MEMORY_FAILURE,
        severity=Severity.CRITICAL if grave else Severity.WARNING,
        reaction=Reaction.MOVE if empties else Reaction.REPORT,
        step=Step.RECOVER if empties else Step.EXPIRE,
        after=SETTLE if empties else limits.memory_failures.within,
        mode=EvictionMode.LIVE,
    )


_RULES: Final[dict[Kind, Callable[[Signal, Instance, HaConfig], Verdict]]] = {
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
    Kind.PAUSED: _paused,
    Kind.PAUSED_API_ERROR: _paused_by_error,
    Kind.PAUSED_IO_ERROR: _io_error,
    Kind.PAUSED_WATCHDOG: _watchdog,
    Kind.POSTCOPY_FAILED: _postcopy_failed,
    Kind.WATCHDOG: _watchdog,
    Kind.REBOOTED: _rebooted,
    Kind.IO_ERROR: _io_error,
    Kind.CONTROL_ERROR: _control_error,
    Kind.MONITOR_OCCUPIED: _monitor_occupied,
    Kind.MEMORY_FAILURE: _memory_failure,
}
