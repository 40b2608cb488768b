"""Verdicts on a listing, by the stored boot and the present one."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import ParamSpec, TypeVar

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry
from tests.integration.runtime.scripted import eventually
from tests.unit.ha.cases import open_case
from tests.unit.ha.signs import NODE, PLENTY, U1, uuid

from hypercobalt.adapters.libvirt.events import (
    Connected,
    Disconnected,
    DomainEvent,
    EventKind,
    Lost,
)
from hypercobalt.adapters.libvirt.fake import FakeLibvirt
from hypercobalt.adapters.libvirt.model import Domain, DomainState
from hypercobalt.adapters.libvirt.vocabulary import (
    Lifecycle,
    Shutdown,
    ShutoffReason,
    Stopped,
    WatchdogAction,
)
from hypercobalt.api.eviction import Trigger
from hypercobalt.api.incident import IncidentType, Severity
from hypercobalt.ha.incidents.cases import Case, InstanceRecord, State, Step
from hypercobalt.ha.incidents.config import HaConfig
from hypercobalt.ha.incidents.escalation import plan
from hypercobalt.ha.incidents.signals import HOST
from hypercobalt.ha.incidents.verdict import SETTLE
from hypercobalt.node_agent.fencing.guests import Ended
from hypercobalt.node_agent.incidents.domain_log import DIRECTORY, DomainLogs
from hypercobalt.node_agent.incidents.journal import IncidentJournal
from hypercobalt.node_agent.incidents.judge import Judge
from hypercobalt.node_agent.incidents.metrics import IncidentMetrics
from hypercobalt.node_agent.incidents.store import Store
from hypercobalt.runtime import FakeClock
from hypercobalt.runtime.tasks import first

P = ParamSpec("P")
T = TypeVar("T")
U2 = uuid(2)


class Judging:
    """The judge of a host that remembers one instance, which ran with the number 1."""

    def __init__(self, directory: Path, boot: str = "b1") -> None:
        self.store, self.libvirt, self.clock = Store(), FakeLibvirt(), FakeClock()
        self.store.put(
            InstanceRecord(uuid=U1, name="vm1", state=State.RUNNING, start="1.1", domain_id=1)
        )
        self.ended = Ended()
        self.judge = Judge(
            self.libvirt,
            self.store,
            IncidentJournal(directory),
            IncidentMetrics(CollectorRegistry()),
            clock=self.clock,
            boot=boot,
            ended=self.ended.take,
            config=HaConfig,
            logs=DomainLogs(directory),
            write_again=timedelta(milliseconds=10),
        )

    async def compare(self, until: Callable[[], bool]) -> None:
        """List domains until an effect shows."""
        self.judge.on_event(Lost())
        await first(self.judge.run(), eventually(until, seconds=1.5))

    async def all_is_judged(self) -> None:
        """Wait until an event that comes last is judged, which is about another instance."""
        last = DomainEvent(EventKind.REBOOT, U2, "vm2", self.clock.now())
        self.judge.on_event(last)
        await eventually(lambda: U2 in self.store.known, seconds=1.5)

    @property
    def types(self) -> list[IncidentType]:
        return [case.type for case in self.store.get(U1).cases]


CRASHED = Domain(U1, "vm1", False, DomainState.SHUTOFF, reason=ShutoffReason.CRASHED)
RUNS = Domain(U1, "vm1", True, DomainState.RUNNING, id=1)


@pytest.mark.parametrize(
    ("remembered", "boot", "incident"),
    [
        ("b1", "b1", IncidentType.CRASH),
        ("b1", "b2", IncidentType.ENDED_BY_BOOT),
        ("", "b1", IncidentType.CRASH),
        ("b1", "", IncidentType.CRASH),
    ],
)
async def test_only_a_known_boot_can_be_another_one(
    tmp_path: Path, remembered: str, boot: str, incident: IncidentType
) -> None:
    judging = Judging(tmp_path, boot)
    judging.store.put(InstanceRecord(uuid=HOST, start=remembered))
    judging.libvirt.put(CRASHED)
    await judging.compare(lambda: bool(judging.types))
    assert judging.types == [incident]
    assert judging.store.host.start == (boot or remembered)


async def test_number_of_a_start_means_another_one_after_a_boot(tmp_path: Path) -> None:
    judging = Judging(tmp_path, "b2")
    judging.store.put(InstanceRecord(uuid=HOST, start="b1"))
    judging.libvirt.put(RUNS)
    await judging.compare(lambda: judging.store.host.start == "b2")
    assert judging.types == [IncidentType.RUNS_AFTER_BOOT]
    assert judging.store.get(U1).start not in {"", "1.1"}


def event(judging: Judging, kind: EventKind, type_: int, detail: int, start: int) -> DomainEvent:
    """An event of the instance that comes now."""
    return DomainEvent(kind, U1, "vm1", judging.clock.now(), type_, detail, domain_id=start)


@pytest.mark.parametrize("stop_has_come", [True, False])
async def test_end_that_a_listing_shows_is_of_the_watchdog_whose_event_waits_meanwhile(
    tmp_path: Path, stop_has_come: bool
) -> None:
    """A libvirtd that was held up sends the event first, and is listed when it comes."""
    judging = Judging(tmp_path)
    judging.libvirt.put(CRASHED)
    judging.judge.on_event(Connected(judging.libvirt.versions))
    judging.judge.on_event(event(judging, EventKind.WATCHDOG, 0, WatchdogAction.POWEROFF, 1))
    if stop_has_come:
        stop = event(judging, EventKind.LIFECYCLE, Lifecycle.STOPPED, Stopped.FAILED, -1)
        judging.judge.on_event(stop)
    await first(judging.judge.run(), judging.all_is_judged())

    assert judging.types == [IncidentType.WATCHDOG]
    planned = plan(judging.store.known, NODE, HaConfig(), judging.clock.now() + SETTLE, PLENTY)
    assert [one.trigger for one in planned.recoveries] == [Trigger.WATCHDOG]


async def test_watchdog_of_the_next_start_has_not_ended_the_one_before(tmp_path: Path) -> None:
    judging = Judging(tmp_path)
    judging.libvirt.put(CRASHED)
    judging.judge.on_event(Connected(judging.libvirt.versions))
    judging.judge.on_event(event(judging, EventKind.WATCHDOG, 0, WatchdogAction.POWEROFF, 2))
    await judging.compare(lambda: bool(judging.types))
    assert judging.types[0] is IncidentType.CRASH


async def test_end_that_a_listing_shows_is_the_hosts_whose_event_waits_meanwhile(
    tmp_path: Path,
) -> None:
    judging = Judging(tmp_path)
    judging.libvirt.put(dataclasses.replace(CRASHED, reason=ShutoffReason.SHUTDOWN))
    judging.judge.on_event(Connected(judging.libvirt.versions))
    by_host = event(judging, EventKind.LIFECYCLE, Lifecycle.SHUTDOWN, Shutdown.HOST, 1)
    judging.judge.on_event(by_host)
    await first(judging.judge.run(), judging.all_is_judged())
    assert judging.types == [IncidentType.OUT_OF_BAND]


FORGOTTEN = dataclasses.replace(CRASHED, reason=ShutoffReason.UNKNOWN)
STARTED = "2026-11-27 22:00:00.000+0000: starting up libvirt version: 10.0.0, qemu version: 8.2.2"
ENDED = "2026-11-27 23:00:00.123+0000: shutting down, reason={}"


def write_log(root: Path, *lines: str) -> None:
    (root / DIRECTORY).mkdir(parents=True)
    (root / DIRECTORY / "vm1.log").write_text("".join(f"{line}\n" for line in lines))


@pytest.mark.parametrize(
    ("reason", "incident", "severity"),
    [
        pytest.param("crashed", IncidentType.CRASH, Severity.CRITICAL, id="its QEMU died"),
        pytest.param("daemon", IncidentType.CRASH, Severity.CRITICAL, id="killed by a libvirtd"),
        pytest.param("destroyed", IncidentType.OUT_OF_BAND, Severity.INFO, id="by a client"),
        pytest.param("unheard", IncidentType.OUT_OF_BAND, Severity.WARNING, id="a new reason"),
        pytest.param("", IncidentType.OUT_OF_BAND, Severity.WARNING, id="there is no log"),
    ],
)
async def test_end_that_libvirt_has_forgotten_is_judged_by_the_log_of_the_domain(
    tmp_path: Path, reason: str, incident: IncidentType, severity: Severity
) -> None:
    judging = Judging(tmp_path)
    if reason:
        write_log(tmp_path, STARTED, ENDED.format(reason))
    judging.libvirt.put(FORGOTTEN)
    await judging.compare(lambda: bool(judging.types))
    (case,) = judging.store.get(U1).cases
    assert (case.type, case.severity) == (incident, severity)


async def test_instance_that_its_guest_has_shut_down_meanwhile_is_no_incident(
    tmp_path: Path,
) -> None:
    judging = Judging(tmp_path)
    write_log(tmp_path, STARTED, ENDED.format("shutdown"))
    judging.libvirt.put(FORGOTTEN)
    await judging.compare(lambda: judging.store.get(U1).state is State.OFF)
    assert judging.types == []


def of_host(type_: IncidentType, step: Step) -> Case:
    now = FakeClock().now()
    return open_case(type_, HOST, "b1", now).then(step, now)


@pytest.mark.parametrize(("boot", "left"), [("b1", 4), ("b2", 2)])
async def test_report_of_the_host_ends_with_its_boot(tmp_path: Path, boot: str, left: int) -> None:
    judging = Judging(tmp_path, boot)
    cases = (
        of_host(IncidentType.RECOVERY_EXHAUSTED, Step.NONE),
        of_host(IncidentType.MEMORY_FAILURE, Step.EXPIRE),
        of_host(IncidentType.MEMORY_FAILURE, Step.FOLLOW),
        of_host(IncidentType.STORAGE_DEGRADED, Step.EXPIRE),
    )
    judging.store.put(InstanceRecord(uuid=HOST, start="b1", cases=cases))
    judging.libvirt.put(CRASHED)
    await judging.compare(lambda: bool(judging.types))
    assert judging.store.host.cases == cases[-left:]


@pytest.mark.parametrize(
    ("reason", "types"),
    [
        pytest.param(ShutoffReason.DESTROYED, [IncidentType.ENDED_BY_BOOT], id="by the agent"),
        pytest.param(ShutoffReason.CRASHED, [IncidentType.CRASH], id="before the agent got to it"),
    ],
)
async def test_instance_that_the_agent_has_ended_is_recovered_with_its_host(
    tmp_path: Path, reason: ShutoffReason, types: list[IncidentType]
) -> None:
    judging = Judging(tmp_path)
    judging.ended.note(U1)
    judging.libvirt.put(dataclasses.replace(CRASHED, reason=reason))
    await judging.compare(lambda: bool(judging.types))
    assert judging.types == types
    assert not judging.ended.take(U1), "what a person ends later is that person's"


async def test_instance_that_a_person_ends_is_only_reported(tmp_path: Path) -> None:
    judging = Judging(tmp_path)
    judging.libvirt.put(dataclasses.replace(CRASHED, reason=ShutoffReason.DESTROYED))
    await judging.compare(lambda: bool(judging.types))
    assert judging.types == [IncidentType.OUT_OF_BAND]


async def test_clock_that_is_set_back_hides_neither_a_crash_nor_a_departure(
    tmp_path: Path,
) -> None:
    judging = Judging(tmp_path)
    later = judging.clock.now() + timedelta(hours=1)
    for who in (U1, U2):
        started = DomainEvent(EventKind.LIFECYCLE, who, "vm", later, Lifecycle.STARTED, domain_id=2)
        judging.judge.on_event(started)
    judging.libvirt.put(CRASHED)
    await judging.compare(lambda: bool(judging.types))
    assert judging.types == [IncidentType.CRASH]
    assert U2 not in judging.store.known


class Busy(ThreadPoolExecutor):
    """One thread, which has other work until `free` is set; `submitted` is set with what waits."""

    def __init__(self) -> None:
        super().__init__(max_workers=1)
        self.free, self.submitted = threading.Event(), threading.Event()
        super().submit(self.free.wait)

    def submit(self, work: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> Future[T]:
        self.submitted.set()
        return super().submit(work, *args, **options)


async def test_change_whose_write_had_not_begun_is_kept_at_the_end(tmp_path: Path) -> None:
    judging = Judging(tmp_path)
    await judging.judge.load()
    with Busy() as threads:
        try:
            asyncio.get_running_loop().set_default_executor(threads)
            judging.store.put(InstanceRecord(uuid=U2, name="vm2"))
            await first(judging.judge.run(), eventually(threads.submitted.is_set, seconds=1.5))
        finally:
            threads.free.set()
    assert IncidentJournal(tmp_path).read()[U2].name == "vm2"


async def test_five_of_fifty_that_end_while_libvirtd_is_away_are_found_and_nothing_else(
    tmp_path: Path,
) -> None:
    """The events of five never come; the other forty-five run on without an incident."""
    judging = Judging(tmp_path)
    uuids = [uuid(number) for number in range(100, 150)]
    for number, who in enumerate(uuids, 2):
        known = InstanceRecord(uuid=who, name=who, state=State.RUNNING, start="s", domain_id=number)
        judging.store.put(known)
        judging.libvirt.put(Domain(who, who, True, DomainState.RUNNING, id=number))
    judging.libvirt.put(RUNS)
    ended = uuids[::10]
    judging.judge.on_event(Disconnected("End of file while reading data"))
    for who in ended:
        dead = Domain(who, who, False, DomainState.SHUTOFF, reason=ShutoffReason.CRASHED)
        judging.libvirt.put(dead)
    await judging.compare(lambda: len(cases(judging)) >= len(ended))

    assert cases(judging) == {who: [IncidentType.CRASH] for who in ended}
    later = judging.clock.now() + SETTLE
    planned = plan(judging.store.known, NODE, HaConfig(), later, PLENTY)
    assert sorted(one.instances for one in planned.recoveries) == [(who,) for who in ended]


async def test_change_that_could_not_be_written_is_kept_once_the_disk_is_back(
    tmp_path: Path,
) -> None:
    place = tmp_path / "state"
    place.write_text("no directory")
    judging = Judging(place)
    await judging.judge.load()
    judging.libvirt.put(CRASHED)

    async def repaired() -> None:
        await eventually(lambda: bool(judging.types), seconds=1.5)
        place.unlink()
        await eventually(lambda: U1 in IncidentJournal(place).read(), seconds=1.5)

    judging.judge.on_event(Lost())
    await first(judging.judge.run(), repaired())


async def test_step_due_by_a_clock_ahead_is_due_by_this_clock(tmp_path: Path) -> None:
    ahead = FakeClock().now() + timedelta(hours=1)
    case = of_host(IncidentType.CRASH, Step.RECOVER)
    due = replace(case, last_seen=ahead, due=ahead + timedelta(seconds=10))
    IncidentJournal(tmp_path).close({U2: InstanceRecord(uuid=U2, cases=(due,))})
    judging = Judging(tmp_path)
    await judging.judge.load()
    (loaded,) = judging.store.get(U2).cases
    assert loaded.due == judging.clock.now() + timedelta(seconds=10)


def cases(judging: Judging) -> dict[str, list[IncidentType]]:
    """Types of the open cases of each instance that has any."""
    known = judging.store.known.values()
    return {one.uuid: [case.type for case in one.cases] for one in known if one.cases}
