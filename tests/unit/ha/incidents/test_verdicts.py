"""Verdicts on signals at the limits of the thresholds."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.unit.ha.cases import open_case
from tests.unit.ha.signs import NOON, U1

from hypercobalt.api.duration import short_duration
from hypercobalt.api.eviction import EvictionMode
from hypercobalt.api.incident import IncidentType, Reaction, Severity
from hypercobalt.ha.incidents.cases import Case, DiskErrors, InstanceRecord, State, Step
from hypercobalt.ha.incidents.classify import classify
from hypercobalt.ha.incidents.config import HaConfig
from hypercobalt.ha.incidents.signals import Kind, Signal
from hypercobalt.ha.incidents.verdict import (
    COALESCE,
    PANIC_SETTLE,
    SAME_WATCHDOG,
    SETTLE,
    Verdict,
)

CONFIG = HaConfig()
LIMITS = CONFIG.thresholds
S = timedelta(seconds=1)
MOVES = (Reaction.MOVE, EvictionMode.COLD)
RESTARTS = (Reaction.RESTART, EvictionMode.AUTO)


def judged(
    known: InstanceRecord,
    kind: Kind,
    *,
    action: str = "",
    about: str = "",
    seconds: float = 0,
    missed: bool = False,
) -> Verdict:
    """The verdict on a signal at noon."""
    signal = Signal(
        kind=kind,
        instance=U1,
        name="vm-1",
        at=NOON,
        action=action,
        about=about,
        seconds=seconds,
        missed=missed,
    )
    return classify(signal, known, CONFIG)


def runs(**fields: object) -> InstanceRecord:
    return InstanceRecord(uuid=U1, state=State.RUNNING, **fields)  # type: ignore[arg-type]


def fired(ago: float) -> tuple[Case, ...]:
    """The open incident of a watchdog."""
    return (open_case(IncidentType.WATCHDOG, U1, "", NOON - ago * S, severity=Severity.WARNING),)


@pytest.mark.parametrize(
    ("known", "type_", "done"),
    [
        pytest.param(runs(), IncidentType.CRASH, RESTARTS, id="the first crash"),
        pytest.param(
            runs(crashes=(NOON,) * (LIMITS.crashes.count - 1)),
            IncidentType.CRASH,
            MOVES,
            id="one too many",
        ),
        pytest.param(runs(cases=fired(119)), IncidentType.WATCHDOG, RESTARTS, id="its watchdog"),
        pytest.param(runs(cases=fired(120)), IncidentType.CRASH, RESTARTS, id="long after that"),
        pytest.param(
            runs(cases=fired(1), watchdogs=(NOON - S,)),
            IncidentType.WATCHDOG,
            RESTARTS,
            id="a watchdog that fired once",
        ),
        pytest.param(
            runs(cases=fired(1), watchdogs=(NOON - 9 * S, NOON - S)),
            IncidentType.WATCHDOG,
            MOVES,
            id="a watchdog that fired twice",
        ),
        pytest.param(
            runs(cases=fired(1), crashes=(NOON,) * (LIMITS.crashes.count - 1)),
            IncidentType.WATCHDOG,
            MOVES,
            id="a watchdog that fired once, of one that crashes too often",
        ),
        pytest.param(
            runs(watchdogs=(NOON - 9 * S, NOON - S)), IncidentType.CRASH, RESTARTS, id="and is over"
        ),
    ],
)
def test_crash_restarts_in_place_until_crashes_are_too_many(
    known: InstanceRecord, type_: IncidentType, done: tuple[Reaction, EvictionMode]
) -> None:
    found = judged(known, Kind.STOPPED_CRASHED)
    assert (found.type, (found.reaction, found.mode)) == (type_, done)
    often = f"crashes within {short_duration(LIMITS.crashes.within)}" in found.rule
    assert often is (len(known.crashes) > 0)


PROBED = (Reaction.WAIT, Step.PROBE, timedelta(seconds=10))
SHORT = timedelta(minutes=10)


@pytest.mark.parametrize(
    ("kind", "action", "type_", "severity", "done"),
    [
        pytest.param(
            Kind.STOPPED_CRASHED,
            "",
            IncidentType.CRASH,
            Severity.CRITICAL,
            (Reaction.RESTART, Step.RECOVER, SETTLE),
            id="crashed",
        ),
        pytest.param(
            Kind.PANICKED,
            "",
            IncidentType.CRASH,
            Severity.CRITICAL,
            (Reaction.RESTART, Step.RECOVER, PANIC_SETTLE),
            id="panicked: libvirt may restart it",
        ),
        pytest.param(
            Kind.DUMPING,
            "",
            IncidentType.CRASH,
            Severity.CRITICAL,
            PROBED,
            id="panicked: its crash kernel saves its memory",
        ),
        pytest.param(
            Kind.WATCHDOG,
            "inject-nmi",
            IncidentType.WATCHDOG,
            Severity.CRITICAL,
            (Reaction.RESTART, Step.RECOVER, PANIC_SETTLE),
            id="a watchdog that has its guest panic",
        ),
        pytest.param(
            Kind.ENDED_BY_BOOT,
            "",
            IncidentType.ENDED_BY_BOOT,
            Severity.CRITICAL,
            (Reaction.RESTART, Step.RECOVER, SETTLE),
            id="ended by the boot",
        ),
        pytest.param(
            Kind.RUNS_AFTER_BOOT,
            "",
            IncidentType.RUNS_AFTER_BOOT,
            Severity.WARNING,
            (Reaction.REPORT, Step.EXPIRE, timedelta(hours=1)),
            id="runs after the boot",
        ),
        pytest.param(
            Kind.STOPPED_DESTROYED,
            "",
            IncidentType.OUT_OF_BAND,
            Severity.INFO,
            (Reaction.REPORT, Step.EXPIRE, SHORT),
            id="destroyed",
        ),
        pytest.param(
            Kind.PAUSED,
            "",
            IncidentType.PAUSED,
            Severity.WARNING,
            (Reaction.REPORT, Step.PROBE, LIMITS.paused),
            id="paused",
        ),
        pytest.param(
            Kind.PAUSED_IO_ERROR,
            "",
            IncidentType.IO_ERROR,
            Severity.CRITICAL,
            PROBED,
            id="paused by an error",
        ),
        pytest.param(
            Kind.IO_ERROR,
            "pause",
            IncidentType.IO_ERROR,
            Severity.CRITICAL,
            PROBED,
            id="an error that pauses",
        ),
        pytest.param(
            Kind.WATCHDOG,
            "reset",
            IncidentType.WATCHDOG,
            Severity.WARNING,
            (Reaction.WAIT, Step.PROBE, COALESCE),
            id="a watchdog that resets",
        ),
        pytest.param(
            Kind.WATCHDOG,
            "shutdown",
            IncidentType.WATCHDOG,
            Severity.WARNING,
            (Reaction.WAIT, Step.PROBE, SAME_WATCHDOG),
            id="a watchdog that shuts down",
        ),
        pytest.param(
            Kind.REBOOTED,
            "",
            IncidentType.REBOOTING,
            Severity.INFO,
            (Reaction.WAIT, Step.PROBE, COALESCE),
            id="rebooted",
        ),
        pytest.param(
            Kind.CONTROL_ERROR,
            "",
            IncidentType.CONTROL_ERROR,
            Severity.WARNING,
            PROBED,
            id="the monitor is lost",
        ),
    ],
)
def test_first_incident_of_a_kind_has_its_reaction(
    kind: Kind,
    action: str,
    type_: IncidentType,
    severity: Severity,
    done: tuple[Reaction, Step, timedelta],
) -> None:
    found = judged(runs(), kind, action=action)
    assert (found.type, found.severity) == (type_, severity)
    assert (found.reaction, found.step, found.after) == done


@pytest.mark.parametrize(
    ("missed", "rule"),
    [
        (False, "its QEMU or its guest crashed"),
        (True, "found crashed, and running in the journal: its end was missed"),
    ],
)
def test_crash_that_a_listing_has_found_is_named(rule: str, *, missed: bool) -> None:
    assert judged(runs(), Kind.STOPPED_CRASHED, missed=missed).rule == rule


@pytest.mark.parametrize(
    ("times", "rule", "done"),
    [
        pytest.param((), "the watchdog fired, the guest hangs", RESTARTS, id="once"),
        pytest.param((NOON - 9 * S,), "the watchdog fired again", MOVES, id="again"),
        pytest.param((NOON - 2 * S,), "the watchdog fired again", MOVES, id="again, soon"),
        pytest.param((NOON - S,), "the watchdog fired, the guest hangs", RESTARTS, id="one firing"),
    ],
)
def test_watchdog_that_pauses_restarts_and_moves_when_it_fires_again(
    times: tuple[object, ...], rule: str, done: tuple[Reaction, EvictionMode]
) -> None:
    found = judged(runs(watchdogs=times), Kind.PAUSED_WATCHDOG, action="pause")
    assert (found.rule, (found.reaction, found.mode)) == (rule, done)


OFTEN = LIMITS.io_errors


@pytest.mark.parametrize(
    ("suspect", "count", "persists"),
    [
        pytest.param(None, OFTEN.count, False, id="not suspected"),
        pytest.param(NOON - OFTEN.within, OFTEN.count - 1, True, id="just so many, just so long"),
        pytest.param(NOON - OFTEN.within, OFTEN.count - 2, False, id="fewer"),
        pytest.param(NOON - OFTEN.within + S, OFTEN.count, False, id="not for so long"),
    ],
)
def test_disk_errors_that_persist_move_an_instance(
    suspect: object, count: int, *, persists: bool
) -> None:
    disk = DiskErrors(path="/a", since=NOON, count=count, suspect=suspect)  # type: ignore[arg-type]
    found = judged(runs(disks=(disk,)), Kind.IO_ERROR, action="report", about="/a")
    assert (found.reaction, found.step, found.after, found.rule) == (
        (Reaction.MOVE, Step.RECOVER, SETTLE, "disk errors persist")
        if persists
        else (
            Reaction.REPORT,
            Step.EXPIRE,
            LIMITS.io_errors_over,
            "a disk error was reported to the guest",
        )
    )


MEMORY = LIMITS.memory_failures


@pytest.mark.parametrize(
    ("action", "about", "before", "type_", "empties"),
    [
        pytest.param("fatal", "guest", 0, IncidentType.MEMORY_FAILURE, False, id="one"),
        pytest.param(
            "fatal", "guest", MEMORY.count - 1, IncidentType.MEMORY_FAILURE, True, id="many"
        ),
        pytest.param(
            "ignore",
            "hypervisor",
            0,
            IncidentType.MEMORY_FAILURE,
            False,
            id="of QEMU itself, which could go on",
        ),
        pytest.param("ignore", "guest", 0, None, False, id="nothing that matters"),
        pytest.param("inject", "guest", 0, None, False, id="one that its guest repairs"),
    ],
)
def test_memory_failure_empties_the_host_or_is_reported(
    action: str, about: str, before: int, type_: IncidentType | None, *, empties: bool
) -> None:
    known = runs(memory_failures=(NOON,) * before)
    found = judged(known, Kind.MEMORY_FAILURE, action=action, about=about)
    assert found.type is type_
    if type_ is not None:
        assert (found.severity, found.reaction, found.step, found.after) == (
            (Severity.CRITICAL, Reaction.MOVE, Step.RECOVER, SETTLE)
            if empties
            else (Severity.CRITICAL, Reaction.REPORT, Step.EXPIRE, MEMORY.within)
        )
        assert ("failures of the host's memory within" in found.rule) is empties


def test_memory_failures_that_guests_correct_empty_no_host() -> None:
    many = (NOON,) * LIMITS.corrected_memory_failures.count
    found = judged(runs(memory_warnings=many), Kind.MEMORY_FAILURE, action="inject")
    assert (found.type, found.reaction) == (IncidentType.MEMORY_FAILURE, Reaction.REPORT)
    assert judged(runs(memory_warnings=many), Kind.MEMORY_FAILURE, action="ignore").type is None


@pytest.mark.parametrize(("ago", "type_"), [(1.9, None), (2, IncidentType.REBOOTING)])
def test_reboot_within_two_seconds_is_the_same(ago: float, type_: IncidentType | None) -> None:
    assert judged(runs(reboots=(NOON - ago * S,)), Kind.REBOOTED).type is type_


@pytest.mark.parametrize(
    ("step", "type_"),
    [
        pytest.param(Step.RECOVER, None, id="an Eviction is to be made"),
        pytest.param(Step.FOLLOW, None, id="an Eviction works at it"),
        pytest.param(Step.NONE, IncidentType.REBOOTING, id="nothing more is done about it"),
    ],
)
def test_reboot_in_an_open_incident_is_checked_where_nothing_else_is(
    step: Step, type_: IncidentType | None
) -> None:
    (case,) = fired(300)
    assert judged(runs(cases=(case.then(step),)), Kind.REBOOTED).type is type_


@pytest.mark.parametrize(("less", "looped"), [(1, True), (2, False)])
def test_reboots_up_to_the_limit_are_a_loop(less: int, *, looped: bool) -> None:
    times = (NOON - 9 * S,) * (LIMITS.reboot_loop.count - less)
    assert (judged(runs(reboots=times), Kind.REBOOTED).type is IncidentType.REBOOT_LOOP) is looped


@pytest.mark.parametrize(("less", "type_"), [(0, IncidentType.MONITOR_HUNG), (0.1, None)])
def test_monitor_that_does_not_answer_for_long_enough_is_an_incident(
    less: float, type_: IncidentType | None
) -> None:
    owed = LIMITS.monitor_occupied / S - less
    assert judged(runs(), Kind.MONITOR_OCCUPIED, seconds=owed).type is type_


@pytest.mark.parametrize(
    ("known", "type_"),
    [
        pytest.param(runs(), IncidentType.OUT_OF_BAND, id="it ran"),
        pytest.param(
            InstanceRecord(uuid=U1, state=State.PAUSED),
            IncidentType.OUT_OF_BAND,
            id="it was paused",
        ),
        pytest.param(
            runs(cases=tuple(case.then(Step.FOLLOW) for case in fired(1))),
            None,
            id="its Eviction works at it",
        ),
        pytest.param(InstanceRecord(uuid=U1), None, id="nothing was known of it"),
    ],
)
def test_instance_that_is_found_off_without_a_reason(
    known: InstanceRecord, type_: IncidentType | None
) -> None:
    found = judged(known, Kind.FOUND_OFF, missed=True)
    assert (found.type, found.reaction) == (type_, Reaction.REPORT)
    if type_ is not None:  # nobody knows why: it does not pass by itself
        assert (found.severity, found.step) == (Severity.WARNING, Step.NONE)


def test_incoming_instance_is_judged_by_what_does_not_stop_it() -> None:
    incoming = InstanceRecord(uuid=U1, state=State.INCOMING)
    assert judged(incoming, Kind.STOPPED_FAILED).type is None
    assert judged(incoming, Kind.PAUSED).type is IncidentType.PAUSED
