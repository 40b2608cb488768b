"""Judges what happens to an instance that has not ended, and to the host's memory. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hypercobalt.api.duration import short_duration
from hypercobalt.api.eviction import EvictionMode
from hypercobalt.api.incident import IncidentType, Reaction, Severity
from hypercobalt.ha.incidents.cases import InstanceRecord, State, Step, is_dump, recent
from hypercobalt.ha.incidents.config import HaConfig
from hypercobalt.ha.incidents.ends import fires_again
from hypercobalt.ha.incidents.signals import (
    Kind,
    Signal,
    is_grave,
    is_harmless,
)
from hypercobalt.ha.incidents.verdict import (
    COALESCE,
    NOTED,
    PANIC_SETTLE,
    SAME_WATCHDOG,
    SETTLE,
    Nature,
    Rule,
    Verdict,
    planned,
    probed_first,
)


def _paused(signal: Signal, instance: InstanceRecord, config: HaConfig) -> Verdict:
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


def _paused_by_error(signal: Signal, instance: InstanceRecord, config: HaConfig) -> Verdict:
    del signal, instance, config
    return Verdict(
        nature=Nature.UNPLANNED,
        rule="a libvirt call failed and left it paused: check libvirtd's log",
        type=IncidentType.PAUSED,
        severity=Severity.CRITICAL,
    )


def _postcopy_failed(signal: Signal, instance: InstanceRecord, config: HaConfig) -> Verdict:
    del signal, instance, config
    return Verdict(
        nature=Nature.UNPLANNED,
        rule="its memory is split between two hosts: recover the migration, or restart it",
        type=IncidentType.POSTCOPY_FAILED,
        severity=Severity.CRITICAL,
    )


def _watchdog(signal: Signal, instance: InstanceRecord, config: HaConfig) -> Verdict:
    again = fires_again(signal, instance, config, at_least=1) and not _same_watchdog(
        signal, instance
    )
    acts = signal.action in {"reset", "shutdown", "poweroff"}
    if acts and not again:
        rule = f"the watchdog fired, and QEMU acts: {signal.action}"
        # A probe before the stop would find the instance running, and close the incident.
        after = COALESCE if signal.action == "reset" else SAME_WATCHDOG
        return probed_first(rule, IncidentType.WATCHDOG, Severity.WARNING, after=after)
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


def _same_watchdog(signal: Signal, instance: InstanceRecord) -> bool:
    """Whether the watchdog's last firing caused this signal, too.

    WATCHDOG and SUSPENDED/WATCHDOG are one firing. The watchdog has to have fired before.
    """
    return signal.at - instance.watchdogs[-1] < COALESCE


def _rebooted(signal: Signal, instance: InstanceRecord, config: HaConfig) -> Verdict:
    if instance.reboots and signal.at - instance.reboots[-1] < COALESCE:
        return planned("one reset gives two events")
    known = instance.case(IncidentType.WATCHDOG, IncidentType.CRASH)
    if known is not None and known.step not in {Step.NONE, Step.HELD} and not is_dump(known):
        return planned("part of its open incident")
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
    return probed_first(
        "the guest reboots; the agent checks that it comes back",
        IncidentType.REBOOTING,
        Severity.INFO,
        Nature.PLANNED,
        after=COALESCE,
    )


def _io_error(signal: Signal, instance: InstanceRecord, config: HaConfig) -> Verdict:
    if signal.kind is Kind.PAUSED_IO_ERROR or signal.action == "pause":
        rule = "paused until its storage is back"
        return probed_first(rule, IncidentType.IO_ERROR, Severity.CRITICAL)
    if signal.action != "report":
        return NOTED
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


def _control_error(signal: Signal, instance: InstanceRecord, config: HaConfig) -> Verdict:
    del signal, config
    if instance.state is State.INCOMING:
        return Verdict(
            nature=Nature.REPORT, rule="an incoming migration is ending: its source reports that"
        )
    rule = "libvirt has lost QEMU's monitor"
    return probed_first(rule, IncidentType.CONTROL_ERROR, Severity.WARNING)


def _monitor_occupied(signal: Signal, instance: InstanceRecord, config: HaConfig) -> Verdict:
    del instance
    if signal.seconds < config.thresholds.monitor_occupied.total_seconds():
        return NOTED
    rule = "QEMU's monitor does not answer; libvirt sends no event for that"
    return probed_first(rule, IncidentType.MONITOR_HUNG, Severity.WARNING, Nature.REPORT)


def _memory_failure(signal: Signal, host: InstanceRecord, config: HaConfig) -> Verdict:
    """Judge a memory failure by the record of the host."""
    limits, now = config.thresholds, signal.at
    grave = is_grave(signal)
    often = limits.memory_failures if grave else limits.corrected_memory_failures
    known = host.memory_failures if grave else host.memory_warnings
    many = recent(known, now, often.within) + 1 >= often.count
    if is_harmless(signal) or not (grave or many):
        return NOTED
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


TROUBLES: Final[Mapping[Kind, Rule]] = {
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
