"""The effect of a probe on an open case."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.unit.ha.cases import open_case
from tests.unit.ha.signs import NOON, U1

from hypercobalt.api.eviction import EvictionMode
from hypercobalt.api.incident import IncidentType, Reaction, Severity
from hypercobalt.ha.incidents.cases import Case, InstanceRecord, State, Step
from hypercobalt.ha.incidents.config import HaConfig
from hypercobalt.ha.incidents.probes import InstanceProbe, probed, resumed
from hypercobalt.ha.incidents.verdict import PROBE_AGAIN

CONFIG = HaConfig()
LIMITS = CONFIG.thresholds
S = timedelta(seconds=1)
RUNS = InstanceProbe(state=State.RUNNING)
PAUSED = InstanceProbe(state=State.PAUSED)
OFF = InstanceProbe(state=State.OFF)
QUIET = InstanceProbe(state=State.RUNNING, quiet_seconds=30)
LOST = InstanceProbe(state=State.RUNNING, control_error=True)
CLOSED = None


def case(type_: IncidentType) -> Case:
    """A case that was opened at noon, with an instance to probe."""
    grave = Severity.WARNING
    return open_case(type_, severity=grave, step=Step.PROBE, due=NOON, shown=False)


def after(
    type_: IncidentType, probe: InstanceProbe, later: timedelta = PROBE_AGAIN, **instance: object
) -> InstanceRecord:
    one = case(type_)
    known = InstanceRecord(uuid=U1, start="s", cases=(one,), **instance)  # type: ignore[arg-type]
    return probed(known, one, probe, CONFIG, NOON + later)


REBOOT, WATCHDOG, IO = IncidentType.REBOOTING, IncidentType.WATCHDOG, IncidentType.IO_ERROR
MONITOR, HUNG = IncidentType.CONTROL_ERROR, IncidentType.MONITOR_HUNG
DUMP = IncidentType.CRASH
LATE = LIMITS.reboot_deadline
SOON = LATE - 0.1 * S
HAD_AGENT = {"agent_seen": True}


def hangs(seconds: float) -> InstanceProbe:
    return InstanceProbe(state=State.RUNNING, occupied_seconds=seconds)


@pytest.mark.parametrize(
    ("type_", "probe", "later", "known", "step"),
    [
        pytest.param(
            REBOOT, InstanceProbe(state=State.UNKNOWN), LATE, {}, Step.PROBE, id="no answer"
        ),
        pytest.param(REBOOT, RUNS, S, {}, CLOSED, id="runs, and never had an agent"),
        pytest.param(REBOOT, OFF, S, {}, Step.PROBE, id="is off still"),
        pytest.param(REBOOT, OFF, S, {"agent": True}, Step.PROBE, id="its agent is of before"),
        pytest.param(REBOOT, RUNS, S, HAD_AGENT, Step.PROBE, id="its agent is not back"),
        pytest.param(
            REBOOT,
            InstanceProbe(state=State.RUNNING, agent=True),
            S,
            HAD_AGENT,
            CLOSED,
            id="answers",
        ),
        pytest.param(REBOOT, RUNS, S, HAD_AGENT | {"agent": True}, CLOSED, id="is connected"),
        pytest.param(REBOOT, QUIET, SOON, HAD_AGENT, Step.PROBE, id="not back, in time"),
        pytest.param(REBOOT, QUIET, LATE, HAD_AGENT, Step.RECOVER, id="not back in time"),
        pytest.param(
            REBOOT,
            InstanceProbe(state=State.RUNNING, quiet_seconds=29.9),
            LATE,
            HAD_AGENT,
            Step.PROBE,
            id="its disks work: an update perhaps",
        ),
        pytest.param(
            REBOOT,
            InstanceProbe(state=State.OFF, quiet_seconds=0),
            LATE,
            {},
            Step.RECOVER,
            id="is off, and its disks cannot work",
        ),
        pytest.param(WATCHDOG, QUIET, LATE, HAD_AGENT, Step.RECOVER, id="hangs again"),
        pytest.param(MONITOR, RUNS, S, {}, CLOSED, id="libvirt has the monitor"),
        pytest.param(
            MONITOR, LOST, LIMITS.control_error_wait - 0.1 * S, {}, Step.PROBE, id="not for long"
        ),
        pytest.param(MONITOR, LOST, LIMITS.control_error_wait, {}, Step.RECOVER, id="for long"),
        pytest.param(HUNG, RUNS, S, {}, CLOSED, id="the emulator answers"),
        pytest.param(
            HUNG, hangs(LIMITS.monitor_hung / S - 1), S, {}, Step.PROBE, id="not yet hung"
        ),
        pytest.param(HUNG, hangs(LIMITS.monitor_hung / S), S, {}, Step.RECOVER, id="hung"),
        pytest.param(IO, RUNS, S, {}, CLOSED, id="runs again"),
        pytest.param(IO, PAUSED, S, {}, Step.PROBE, id="its storage is away"),
        pytest.param(
            IO, PAUSED, LIMITS.io_error_wait - 0.1 * S, {}, Step.PROBE, id="away, not for long"
        ),
        pytest.param(IO, PAUSED, LIMITS.io_error_wait, {}, Step.RECOVER, id="away for too long"),
        pytest.param(
            IO,
            PAUSED,
            LIMITS.io_error_wait,
            {"paused_since": NOON + S},
            Step.PROBE,
            id="paused since a little later",
        ),
        pytest.param(
            IO,
            InstanceProbe(state=State.PAUSED, storage=True),
            S,
            {},
            Step.RESUME,
            id="its storage is back",
        ),
        pytest.param(IncidentType.PAUSED, RUNS, S, {}, CLOSED, id="a client has resumed it"),
        pytest.param(IncidentType.PAUSED, PAUSED, S, {}, Step.NONE, id="stays paused"),
        pytest.param(DUMP, RUNS, LATE, {}, Step.PROBE, id="its crash kernel writes"),
        pytest.param(DUMP, QUIET, SOON, {}, Step.PROBE, id="its crash kernel has only begun"),
        pytest.param(DUMP, QUIET, LATE, {}, Step.RECOVER, id="its crash kernel hangs"),
        pytest.param(
            DUMP,
            InstanceProbe(state=State.OFF, quiet_seconds=30),
            LATE,
            {},
            Step.PROBE,
            id="is off: its stop is judged",
        ),
        pytest.param(IncidentType.OUT_OF_BAND, RUNS, S, {}, Step.NONE, id="nothing to look for"),
    ],
)
def test_next_step_follows_from_the_result_of_a_probe(
    type_: IncidentType,
    probe: InstanceProbe,
    later: timedelta,
    known: dict[str, object],
    step: Step | None,
) -> None:
    found = after(type_, probe, later, **known).cases
    assert [one.step for one in found] == ([] if step is CLOSED else [step])
    now = NOON + later
    due = {Step.PROBE: now + PROBE_AGAIN, Step.NONE: None}
    assert [one.due for one in found] == ([] if step is CLOSED else [due.get(step, now)])


@pytest.mark.parametrize(
    ("type_", "probe", "found", "done", "text"),
    [
        pytest.param(
            REBOOT,
            OFF,
            IncidentType.REBOOT_FAILED,
            (EvictionMode.AUTO, Reaction.RESTART),
            "not back since 2026-11-23T12:00:00Z: off",
            id="does not come back",
        ),
        pytest.param(
            WATCHDOG,
            QUIET,
            WATCHDOG,
            (EvictionMode.COLD, Reaction.MOVE),
            "runs, but neither its agent nor its disks have been back since 2026-11-23T12:00:00Z",
            id="hangs again",
        ),
        pytest.param(
            HUNG,
            hangs(1000),
            HUNG,
            (EvictionMode.AUTO, Reaction.RESTART),
            "QEMU has not answered for 1000 s",
            id="its emulator hangs",
        ),
        pytest.param(
            IO,
            PAUSED,
            IO,
            (EvictionMode.AUTO, Reaction.RESTART),
            "its storage has been away since 2026-11-23T12:00:00Z",
            id="its storage stays away",
        ),
    ],
)
def test_recovery_after_a_probe_is_shown_with_its_reason(
    type_: IncidentType,
    probe: InstanceProbe,
    found: IncidentType,
    done: tuple[EvictionMode, Reaction],
    text: str,
) -> None:
    (one,) = after(type_, probe, timedelta(hours=2), **HAD_AGENT).cases
    assert (one.type, (one.mode, one.reaction)) == (found, done)
    assert (one.severity, one.shown, one.step) == (Severity.CRITICAL, True, Step.RECOVER)
    assert one.evidence == (text,)


def test_instance_that_stays_paused_is_shown() -> None:
    (one,) = after(IncidentType.PAUSED, PAUSED).cases
    assert (one.shown, one.evidence) == (True, ("paused since 2026-11-23T12:00:00Z",))


def test_recovery_after_another_one_waits_as_long_as_that_demands() -> None:
    (one,) = after(MONITOR, LOST, timedelta(hours=1), recoveries=(NOON + timedelta(hours=1),)).cases
    assert one.due == NOON + timedelta(hours=1) + CONFIG.limits.backoff[0]


@pytest.mark.parametrize(
    ("tries", "ago", "step"),
    [
        pytest.param(0, 0, Step.RESUME, id="the first at once"),
        pytest.param(1, 9.9, Step.PROBE, id="the second not before its wait"),
        pytest.param(1, 10, Step.RESUME, id="but then"),
        pytest.param(2, 29.9, Step.PROBE, id="the third later"),
        pytest.param(4, 119.9, Step.PROBE, id="none sooner than the longest wait"),
        pytest.param(4, 120, Step.RESUME, id="which is the last one"),
        pytest.param(5, 999, Step.PROBE, id="no more than five"),
        pytest.param(1, None, Step.RESUME, id="when the last was is not known"),
    ],
)
def test_resumes_wait_longer_each_time(tries: int, ago: float | None, step: Step) -> None:
    back, now = InstanceProbe(state=State.PAUSED, storage=True), timedelta(minutes=5)
    last = None if ago is None else NOON + now - ago * S
    found = after(IO, back, now, resumes=tries, resumed_at=last, paused_since=NOON + now)
    assert found.cases[0].step is step


def test_resumed_instance_is_counted_and_probed_again() -> None:
    one = case(IO)
    found = resumed(InstanceRecord(uuid=U1, resumes=1, cases=(one,)), one, NOON)
    assert (found.resumes, found.resumed_at) == (2, NOON)
    assert (found.cases[0].step, found.cases[0].due) == (Step.PROBE, NOON + PROBE_AGAIN)
