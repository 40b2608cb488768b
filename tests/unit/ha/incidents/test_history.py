"""The history of an instance after a signal."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace
from tests.unit.ha.cases import open_case
from tests.unit.ha.signs import NOON, U1

from hypercobalt.api.eviction import EvictionMode
from hypercobalt.api.incident import IncidentType, Reaction, Severity
from hypercobalt.ha.incidents.cases import Case, DiskErrors, InstanceRecord, State, Step
from hypercobalt.ha.incidents.config import HaConfig
from hypercobalt.ha.incidents.history import earliest, record
from hypercobalt.ha.incidents.signals import Kind, Signal
from hypercobalt.ha.incidents.verdict import Nature, Verdict

CONFIG = HaConfig()
S = timedelta(seconds=1)
NOTED = Verdict(nature=Nature.REPORT, rule="recorded only")
PLANNED = Verdict(nature=Nature.PLANNED, rule="planned")
UNPLANNED = Verdict(nature=Nature.UNPLANNED, rule="unplanned")
CRASHED = Verdict(
    nature=Nature.UNPLANNED, rule="it crashed", type=IncidentType.CRASH, step=Step.RECOVER
)


def after(
    known: InstanceRecord,
    kind: Kind,
    verdict: Verdict = NOTED,
    *,
    later: float = 0,
    name: str = "vm-1",
    domain_id: int = -1,
    action: str = "",
    about: str = "",
) -> InstanceRecord:
    """The history after a signal, so many seconds after noon."""
    seen = Signal(
        kind=kind,
        instance=U1,
        name=name,
        at=NOON + later * S,
        domain_id=domain_id,
        action=action,
        about=about,
    )
    return record(known, seen, verdict, CONFIG)


def case(type_: IncidentType = IncidentType.CRASH, **fields: object) -> Case:
    return open_case(type_, **{"severity": Severity.WARNING} | fields)


def instance(*cases: Case, **fields: object) -> InstanceRecord:
    wanted: dict[str, object] = {"start": "s", "state": State.RUNNING, "domain_id": 3, **fields}
    return InstanceRecord(uuid=U1, cases=cases, **wanted)  # type: ignore[arg-type]


RUNS = instance(agent=True, agent_seen=True, shutdown="guest", resumes=2)


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        (Kind.STARTED, State.RUNNING),
        (Kind.ARRIVING, State.INCOMING),
        (Kind.RESUMED, State.RUNNING),
        (Kind.PAUSED, State.PAUSED),
        (Kind.PAUSED_IO_ERROR, State.PAUSED),
        (Kind.STOPPED_CRASHED, State.OFF),
        (Kind.FOUND_OFF, State.OFF),
    ],
)
def test_state_follows_the_signal(kind: Kind, state: State) -> None:
    found = after(InstanceRecord(uuid=U1), kind)
    assert (found.state, found.name) == (state, "vm-1")


def test_name_and_state_stay_where_a_signal_has_none() -> None:
    assert after(replace(RUNS, name="vm-0"), Kind.DEFINED, name="") == replace(RUNS, name="vm-0")


@pytest.mark.parametrize(
    ("kind", "shutdown", "agent"),
    [
        (Kind.SHUTDOWN_BY_GUEST, "guest", (True, True)),
        (Kind.SHUTDOWN_BY_HOST, "host", (True, True)),
        (Kind.AGENT_DISCONNECTED, "guest", (False, True)),
        (Kind.STOPPED_SHUTDOWN, "guest", (False, True)),
    ],
)
def test_shutdown_and_agent_are_remembered(
    kind: Kind, shutdown: str, agent: tuple[bool, bool]
) -> None:
    found = after(RUNS, kind)
    assert (found.shutdown, (found.agent, found.agent_seen)) == (shutdown, agent)
    assert found.domain_id == (-1 if kind is Kind.STOPPED_SHUTDOWN else 3)


def test_agent_that_connects_was_seen() -> None:
    found = after(instance(), Kind.AGENT_CONNECTED)
    assert (found.agent, found.agent_seen) == (True, True)


@pytest.mark.parametrize(
    ("known", "kind", "domain_id", "begins"),
    [
        pytest.param(RUNS, Kind.STARTED, 4, True, id="another number"),
        pytest.param(RUNS, Kind.STARTED, 3, False, id="the number of this start"),
        pytest.param(RUNS, Kind.RESUMED, 0, True, id="the number 0 is one"),
        pytest.param(RUNS, Kind.STARTED, -1, False, id="without a number, and it runs"),
        pytest.param(
            replace(RUNS, state=State.OFF), Kind.STARTED, -1, True, id="without, and it was off"
        ),
        pytest.param(
            replace(RUNS, state=State.OFF), Kind.RESUMED, -1, False, id="a resume without a number"
        ),
        pytest.param(replace(RUNS, start=""), Kind.RESUMED, -1, True, id="the first that is known"),
        pytest.param(RUNS, Kind.PAUSED, 4, False, id="no start at all"),
    ],
)
def test_start_is_named_once(
    known: InstanceRecord, kind: Kind, domain_id: int, *, begins: bool
) -> None:
    found = after(known, kind, domain_id=domain_id)
    if begins:
        assert found.start == f"{domain_id}.{NOON.timestamp():.3f}"
        assert (found.shutdown, found.agent, found.agent_seen) == ("", False, False)
        assert (found.resumes, found.disks, found.domain_id) == (0, (), domain_id)
    else:
        assert (found.start, found.shutdown, found.resumes) == (known.start, "guest", 2)


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        (Kind.REBOOTED, "reboots"),
        (Kind.WATCHDOG, "watchdogs"),
        (Kind.PAUSED_WATCHDOG, "watchdogs"),
    ],
)
@pytest.mark.parametrize(("later", "times"), [(1.9, 1), (2, 2)], ids=["one event", "another"])
def test_events_within_two_seconds_count_once(
    kind: Kind, field: str, later: float, times: int
) -> None:
    found = after(after(instance(), kind), kind, later=later)
    assert len(getattr(found, field)) == times


@pytest.mark.parametrize(
    ("action", "about", "failures", "warnings"),
    [
        ("fatal", "guest", 1, 0),
        ("inject", "hypervisor", 1, 0),
        ("ignore", "hypervisor", 1, 0),
        ("inject", "guest", 0, 1),
        ("ignore", "guest", 0, 0),
    ],
    ids=["fatal", "of the hypervisor", "of a QEMU that goes on", "of a guest", "of no matter"],
)
def test_failures_of_memory_count_by_their_gravity(
    action: str, about: str, failures: int, warnings: int
) -> None:
    found = after(instance(), Kind.MEMORY_FAILURE, action=action, about=about)
    assert (len(found.memory_failures), len(found.memory_warnings)) == (failures, warnings)


@pytest.mark.parametrize(
    ("known", "verdict", "times"),
    [
        pytest.param(instance(), CRASHED, 1, id="the first signal"),
        pytest.param(instance(case()), CRASHED, 0, id="another signal of the same crash"),
        pytest.param(instance(), PLANNED, 0, id="it was meant to stop"),
    ],
)
def test_crash_counts_once(known: InstanceRecord, verdict: Verdict, times: int) -> None:
    assert len(after(known, Kind.STOPPED_CRASHED, verdict).crashes) == times


@pytest.mark.parametrize(
    ("ago", "resumes"), [(None, 0), (30, 2), (30.1, 0)], ids=["never", "lately", "long ago"]
)
def test_error_long_after_a_resume_is_another_one(ago: float | None, resumes: int) -> None:
    last = None if ago is None else NOON - ago * S
    found = after(replace(RUNS, resumed_at=last), Kind.PAUSED_IO_ERROR, domain_id=3)
    assert (found.resumes, found.paused_since) == (resumes, None if resumes else NOON)


OFTEN = CONFIG.thresholds.io_errors
SPAN = OFTEN.within / S


def errors(count: int = 1, suspect: datetime | None = None) -> DiskErrors:
    return DiskErrors(path="/a", since=NOON, count=count, suspect=suspect)


@pytest.mark.parametrize(
    ("old", "later", "count", "suspect"),
    [
        pytest.param(None, 0, 1, None, id="the first"),
        pytest.param(errors(), SPAN - 1, 2, None, id="within the span"),
        pytest.param(errors(), SPAN, 1, None, id="few before the span"),
        pytest.param(
            errors(OFTEN.count),
            SPAN,
            1,
            NOON,
            id="too many in the span before",
        ),
        pytest.param(
            errors(OFTEN.count - 1),
            SPAN,
            1,
            None,
            id="nearly too many before",
        ),
        pytest.param(
            errors(1, NOON - S),
            SPAN,
            1,
            NOON - S,
            id="suspected since longer",
        ),
        pytest.param(
            errors(OFTEN.count),
            2 * SPAN - 1,
            1,
            NOON,
            id="not long after that",
        ),
        pytest.param(
            errors(OFTEN.count),
            2 * SPAN,
            1,
            None,
            id="long after that",
        ),
    ],
)
def test_errors_of_a_disk_count_by_spans(
    old: DiskErrors | None, later: float, count: int, suspect: object
) -> None:
    other = DiskErrors(path="/b", since=NOON, count=7)
    known = instance(disks=(other, *([old] if old else [])))
    found = after(known, Kind.IO_ERROR, later=later, action="report", about="/a")
    disk = next(one for one in found.disks if one.path == "/a")
    assert (disk.count, disk.suspect, found.disks[0]) == (count, suspect, other)
    assert (disk.since == NOON) is (count == 2 or later == 0)


REBOOT = case(IncidentType.REBOOTING)
FOLLOWED = case(IncidentType.MONITOR_HUNG, step=Step.FOLLOW)
DISK = case(IncidentType.IO_ERROR)
PAUSED_BY = case(IncidentType.IO_ERROR, severity=Severity.CRITICAL)
LOOP = case(IncidentType.REBOOT_LOOP)


@pytest.mark.parametrize(
    ("kind", "verdict", "cases", "left"),
    [
        pytest.param(Kind.STARTED, NOTED, (REBOOT, FOLLOWED), (), id="a start ends all"),
        pytest.param(
            Kind.RESUMED,
            NOTED,
            (case(), case(IncidentType.PAUSED), PAUSED_BY, LOOP),
            (LOOP,),
            id="a resume what paused or stopped it",
        ),
        pytest.param(Kind.RESUMED, NOTED, (DISK,), (DISK,), id="but not a report of a disk"),
        pytest.param(
            Kind.RESUMED,
            NOTED,
            (case(IncidentType.CONTROL_ERROR, severity=Severity.CRITICAL),),
            (case(IncidentType.CONTROL_ERROR, severity=Severity.CRITICAL),),
            id="nor what is critical and no pause",
        ),
        pytest.param(
            Kind.STOPPED_CRASHED,
            UNPLANNED,
            (REBOOT, DISK, LOOP, FOLLOWED),
            (LOOP, FOLLOWED),
            id="a crash what it replaces, but not what an Eviction works at",
        ),
        pytest.param(
            Kind.WATCHDOG, UNPLANNED, (REBOOT, DISK), (REBOOT, DISK), id="what stops nothing, none"
        ),
        pytest.param(Kind.STOPPED_SHUTDOWN, PLANNED, (LOOP, FOLLOWED), (), id="a stop all"),
        pytest.param(
            Kind.STOPPED_DESTROYED, PLANNED, (LOOP, FOLLOWED), (LOOP, FOLLOWED), id="by an Eviction"
        ),
        pytest.param(Kind.STOPPED_DESTROYED, PLANNED, (LOOP,), (), id="by a client"),
        pytest.param(Kind.UNDEFINED, NOTED, (LOOP,), (LOOP,), id="its definition alone goes"),
        pytest.param(Kind.AGENT_CONNECTED, NOTED, (LOOP,), (LOOP,), id="nothing that ends it"),
    ],
)
def test_signal_ends_the_incidents_that_it_settles(
    kind: Kind, verdict: Verdict, cases: tuple[Case, ...], left: tuple[Case, ...]
) -> None:
    assert after(instance(*cases), kind, verdict, domain_id=3).cases == left


def test_undefining_an_instance_that_is_off_ends_its_cases() -> None:
    off = instance(LOOP, state=State.OFF)
    assert after(off, Kind.UNDEFINED).cases == ()
    assert after(off, Kind.DEFINED).cases == (LOOP,)


HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("recoveries", "wait"),
    [
        pytest.param((), 0, id="the first at once"),
        pytest.param((NOON,), 10, id="the second"),
        pytest.param((NOON - S, NOON), 30, id="the third"),
        pytest.param((NOON - 3 * S, NOON - S, NOON), 120, id="the fourth"),
        pytest.param((NOON,) * 9, 120, id="no longer than the last wait"),
        pytest.param((NOON - HOUR,), 0, id="an hour later it is the first again"),
        pytest.param((NOON - HOUR, NOON), 10, id="those of the last hour count"),
    ],
)
def test_recoveries_wait_longer_each_time(recoveries: tuple[object, ...], wait: float) -> None:
    known = instance(recoveries=recoveries)
    assert earliest(known, NOON, CONFIG) == NOON + wait * S


@pytest.mark.parametrize(
    ("verdict", "shown", "due"),
    [
        pytest.param(
            Verdict(nature=Nature.REPORT, rule="r", type=LOOP.type, step=Step.EXPIRE),
            True,
            NOON,
            id="shown, and due at once",
        ),
        pytest.param(
            Verdict(
                nature=Nature.REPORT,
                rule="r",
                type=IncidentType.PAUSED,
                step=Step.PROBE,
                after=9 * S,
                shown=False,
            ),
            False,
            NOON + 9 * S,
            id="not shown, and probed later",
        ),
        pytest.param(CRASHED, False, NOON + 10 * S, id="a recovery takes its token, and waits"),
        pytest.param(
            Verdict(nature=Nature.REPORT, rule="r", type=IncidentType.PAUSED, after=9 * S),
            True,
            None,
            id="a report is due never",
        ),
    ],
)
def test_incident_is_opened(verdict: Verdict, due: object, *, shown: bool) -> None:
    found = after(instance(recoveries=(NOON,)), Kind.BLOCK_THRESHOLD, verdict, domain_id=3)
    (one,) = found.cases
    assert (one.shown, one.due, one.count, one.first_seen) == (shown, due, 1, NOON)


def merged(old: Case, **verdict: object) -> Case:
    """An open incident that is seen again a second later."""
    wanted: dict[str, object] = {"nature": Nature.UNPLANNED, "rule": "again", **verdict}
    again = Verdict(type=old.type, **wanted)  # type: ignore[arg-type]
    (one,) = after(instance(old), Kind.BLOCK_THRESHOLD, again, later=1, about="/a").cases
    return one


@pytest.mark.parametrize(
    ("old", "new", "severity"),
    [
        (Severity.INFO, Severity.WARNING, Severity.WARNING),
        (Severity.CRITICAL, Severity.WARNING, Severity.CRITICAL),
    ],
)
def test_incident_that_is_seen_again_counts_and_grows(
    old: Severity, new: Severity, severity: Severity
) -> None:
    one = merged(case(LOOP.type, severity=old, shown=False), severity=new)
    assert (one.count, one.first_seen, one.last_seen) == (2, NOON, NOON + S)
    assert (one.severity, one.shown, one.about) == (severity, True, "/a")
    assert one.evidence[-1] == "again"
    assert merged(case(LOOP.type, about="/b")).about == "/b"
    assert merged(case(LOOP.type, shown=True), shown=False).shown, "it stays"


HARDER = {
    EvictionMode.AUTO: Reaction.RESTART,
    EvictionMode.COLD: Reaction.MOVE,
    EvictionMode.LIVE: Reaction.MOVE,
}


@pytest.mark.parametrize(
    ("old", "new", "mode"),
    [
        pytest.param(EvictionMode.AUTO, EvictionMode.COLD, EvictionMode.COLD, id="it moves"),
        pytest.param(EvictionMode.COLD, EvictionMode.AUTO, EvictionMode.COLD, id="still"),
        pytest.param(EvictionMode.LIVE, EvictionMode.AUTO, EvictionMode.LIVE, id="as before"),
    ],
)
def test_recovery_that_is_due_twice_is_made_sooner_and_harder(
    old: EvictionMode, new: EvictionMode, mode: EvictionMode
) -> None:
    first = case(step=Step.RECOVER, mode=old, reaction=HARDER[old], due=NOON + 9 * S)
    one = merged(first, step=Step.RECOVER, mode=new, reaction=HARDER[new])
    assert (one.mode, one.reaction) == (mode, HARDER[mode])
    assert (one.due, one.step) == (NOON + S, Step.RECOVER)


@pytest.mark.parametrize(
    ("old", "new", "step"),
    [
        pytest.param(Step.NONE, Step.EXPIRE, Step.EXPIRE, id="it had none"),
        pytest.param(Step.EXPIRE, Step.RECOVER, Step.RECOVER, id="it is worse now"),
        pytest.param(Step.PROBE, Step.RECOVER, Step.RECOVER, id="no probe is needed any more"),
        pytest.param(Step.PROBE, Step.EXPIRE, Step.PROBE, id="it is to be probed"),
        pytest.param(Step.RESUME, Step.RECOVER, Step.RESUME, id="it is resumed first"),
        pytest.param(Step.FOLLOW, Step.RECOVER, Step.FOLLOW, id="its Eviction works at it"),
        pytest.param(Step.RECOVER, Step.EXPIRE, Step.RECOVER, id="it is to be recovered"),
    ],
)
def test_incident_that_is_seen_again_keeps_the_more_urgent_step(
    old: Step, new: Step, step: Step
) -> None:
    one = merged(case(LOOP.type, step=old, due=NOON), step=new, reaction=Reaction.MOVE)
    assert one.step is step
    assert (one.reaction is Reaction.MOVE) is (step is not old)
    held = merged(case(LOOP.type, step=old, due=NOON, eviction="ha-1"), step=Step.EXPIRE)
    assert held.step is old
    late = merged(case(LOOP.type, step=old, due=NOON + 9 * S), step=new)
    assert late.due == NOON + (9 if step is old else 1) * S
