"""When and how the operating system is updated."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hypercobalt.adapters.host.fake import FakeUnits
from hypercobalt.adapters.host.model import UnitState, check_unit_name
from hypercobalt.adapters.host.port import HostError
from hypercobalt.agent.board import ConditionReport
from hypercobalt.api.conditions import set_condition
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.hypervisor_host import HyperVisorUpdateStatus, OperatingSystemStatus
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.node_agent.host.os_update import (
    Attempts,
    OsUpdate,
    VersionError,
    is_busy,
    is_due,
    judge,
    recall,
    update_unit,
)
from hypercobalt.node_agent.status.parts import Board, Parts
from hypercobalt.runtime import Connection, FakeClock, Informer, Kube, ListResult, Metrics
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.write_cache import Latest

OLD, NEW, UNIT = "1877.2", "1877.3", "systemd-sysupdate@1877.3.service"
REBOOT = "systemd-sysupdate-reboot.target"
CONDITION = "OperatingSystemUpdate"


@pytest.mark.parametrize(
    ("version", "unit"),
    [
        ("latest", "systemd-sysupdate.service"),
        ("1877.3", UNIT),
        ("2026-11-21_b", "systemd-sysupdate@2026-11-21_b.service"),
        ("1.0+git~rc^1", r"systemd-sysupdate@1.0\x2bgit\x7erc\x5e1.service"),
    ],
)
def test_a_version_names_its_unit(version: str, unit: str) -> None:
    assert update_unit(version) == unit


@pytest.mark.parametrize(
    "version",
    [
        "",
        "a/b",
        "../reboot",
        "1 2",
        "1\n",
        "@",
        "a@b",
        "-1",
        ".",
        "é",
        "1\x00",
        r"1\x2f",
        "1" * 300,
    ],
)
def test_text_that_is_no_version_gives_no_unit_name(version: str) -> None:
    with pytest.raises(VersionError, match="no version"):
        update_unit(version)


@given(st.text(max_size=300))
def test_any_text_gives_a_units_name_or_is_refused(version: str) -> None:
    try:
        unit = update_unit(version)
    except VersionError:
        return
    check_unit_name(unit)
    assert "/" not in unit


@pytest.mark.parametrize(
    ("wanted", "running", "progress", "due"),
    [
        ("", OLD, Attempts(), False),
        (NEW, None, Attempts(), False),  # wait until the running version is known
        (NEW, NEW, Attempts(), False),
        (NEW, OLD, Attempts(NEW, installed=NEW), False),  # a reboot is missing
        (NEW, OLD, Attempts(), True),
        (NEW, OLD, Attempts(NEW, retry=1), True),
        (NEW, OLD, Attempts(NEW, retry=0), False),  # given up
        (NEW, OLD, Attempts(OLD, retry=0), True),  # another version was given up
        (NEW, OLD, Attempts(NEW, retry=0, in_progress=True), True),  # agent was restarted
        (OLD, NEW, Attempts(NEW, installed=NEW), True),  # back to an older one
        ("latest", OLD, Attempts(), True),
        ("latest", OLD, Attempts("latest", installed="latest"), False),
    ],
)
def test_an_update_is_due(wanted: str, running: str | None, progress: Attempts, due: bool) -> None:
    assert is_due(wanted, running, progress) is due


@pytest.mark.parametrize(
    ("active", "sub", "busy"),
    [
        ("activating", "start", True),  # a oneshot service at work
        ("active", "running", True),  # a simple one
        ("active", "exited", False),
        ("deactivating", "stop", True),
        ("inactive", "dead", False),
        ("failed", "failed", False),
    ],
)
def test_a_unit_at_work_is_not_a_finished_one(active: str, sub: str, busy: bool) -> None:
    assert is_busy(UnitState(UNIT, load="loaded", active=active, sub=sub)) is busy


@pytest.mark.parametrize(
    ("active", "load", "problem"),
    [
        ("inactive", "loaded", None),
        ("active", "loaded", None),
        ("failed", "loaded", f"{UNIT} failed"),
        ("inactive", "not-found", f"{UNIT} is not-found"),
        ("inactive", "masked", f"{UNIT} is masked"),
    ],
)
def test_the_end_of_an_attempt_is_judged(active: str, load: str, problem: str | None) -> None:
    assert judge(UnitState(UNIT, load=load, active=active)) == problem


def hypervisor(version: str | None = NEW, *, reboot: bool = False) -> Hypervisor:
    return Hypervisor(
        metadata=ObjectMeta(name="kvm-a", uid="u"),
        spec=HypervisorSpec(version=version, reboot=reboot),
    )


@pytest.mark.parametrize(
    ("update", "message", "progress"),
    [
        (None, None, Attempts()),
        (HyperVisorUpdateStatus(retry=2, inProgress=True), f"{NEW}: x", Attempts(NEW, 2, True)),
        (
            HyperVisorUpdateStatus(retry=0, installed=OLD),
            f"{NEW}: x",
            Attempts(NEW, 0, installed=OLD),
        ),
        (HyperVisorUpdateStatus(retry=-7), "odd", Attempts("odd", 0)),
        (HyperVisorUpdateStatus(retry=99), None, Attempts("", 3)),
        (HyperVisorUpdateStatus(retry=1, version=NEW), "any words", Attempts(NEW, 1)),
    ],
)
def test_restarted_agent_reads_its_attempts_from_the_status(
    update: HyperVisorUpdateStatus | None, message: str | None, progress: Attempts
) -> None:
    conditions = (
        set_condition((), CONDITION, "False", "Stopped", message, now=FakeClock().now())
        if message
        else ()
    )
    status = HypervisorStatus(updateStatus=update, conditions=conditions)

    assert recall(replace(hypervisor(), status=status)) == progress


class Updating:
    """An OsUpdate on a host whose unit a test scripts."""

    def __init__(self, *, pause: timedelta, time_limit: timedelta) -> None:
        self.units = FakeUnits(
            UnitState(UNIT, load="loaded", active="inactive"),
            UnitState(REBOOT, load="loaded", active="inactive"),
        )
        self.board = Board(FakeClock())
        kube = Kube(Connection("http://127.0.0.1:1"))
        self._informer = Informer(kube, Selection(Hypervisor), metrics=Metrics())
        self.own, self._version = Latest(self._informer), 0
        self.concern = OsUpdate(
            self.units, self.own, self.board, pause=pause, time_limit=time_limit
        )
        self.task: asyncio.Task[None] | None = None

    def start(self, own: Hypervisor) -> None:
        self.board.put(Parts(operating_system=OperatingSystemStatus(version=OLD)))
        self.see(own)
        self.task = asyncio.create_task(self.concern.run())

    def see(self, own: Hypervisor) -> None:
        """Set the Hypervisor that the API server returns."""
        self._version += 1
        meta = replace(own.metadata, resourceVersion=str(self._version))
        self._informer.load(ListResult([replace(own, metadata=meta)], ""))

    def on_job(self, script: Callable[[str], None]) -> None:
        self.units.on_job = script

    @property
    def update(self) -> HyperVisorUpdateStatus | None:
        return self.board.parts.update

    async def until(self, reason: str, text: str = "") -> ConditionReport:
        async with asyncio.timeout(5):
            while True:
                parts = self.board.parts
                verdict = parts.conditions.get(CONDITION)
                if verdict and verdict.reason == reason and text in verdict.message:
                    return verdict
                await self.board.changed(parts)


@pytest.fixture
async def updating() -> AsyncIterator[Updating]:
    made = Updating(pause=timedelta(0), time_limit=timedelta(seconds=30))
    yield made
    assert made.task
    assert not made.task.done()
    made.task.cancel()
    await asyncio.wait([made.task])


async def test_a_wanted_version_is_installed(updating: Updating) -> None:
    updating.on_job(lambda _: updating.units.set(UNIT, "inactive"))

    updating.start(hypervisor())

    done = await updating.until("Completed")
    assert (done.status, done.message) == (
        "True",
        "1877.3: installed; reboot the host to activate it",
    )
    assert updating.update == HyperVisorUpdateStatus(False, NEW, NEW, 3)
    assert updating.units.jobs == [f"start {UNIT}"]


async def test_activating_is_not_finished(updating: Updating) -> None:
    updating.on_job(lambda _: updating.units.set(UNIT, "activating", sub="start"))
    updating.start(hypervisor())
    running = await updating.until("Running")
    assert (running.status, updating.update) == (
        "True",
        HyperVisorUpdateStatus(True, "unknown", NEW, 3),
    )

    updating.units.leave()  # systemd away meanwhile
    updating.units.come_back()
    updating.units.set(UNIT, "inactive")

    await updating.until("Completed")


async def test_host_is_rebooted_when_the_spec_requires_it(updating: Updating) -> None:
    updating.on_job(lambda job: updating.units.set(job.split()[1], "inactive"))

    updating.start(hypervisor(reboot=True))

    await updating.until("Completed", "rebooting")
    assert updating.units.jobs == [f"start {UNIT}", f"begin {REBOOT}"]


async def test_a_failing_update_is_tried_three_times_and_no_more(updating: Updating) -> None:
    updating.on_job(lambda _: updating.units.set(UNIT, "failed"))

    updating.start(hypervisor())

    stopped = await updating.until("Stopped", "given up")
    assert stopped.message.startswith(f"1877.3: {UNIT} failed; given up")
    assert updating.update == HyperVisorUpdateStatus(False, "unknown", NEW, 0)
    assert updating.units.jobs == [f"start {UNIT}"] * 3


async def test_another_version_has_attempts_again(updating: Updating) -> None:
    updating.on_job(lambda _: updating.units.set(UNIT, "failed"))
    updating.start(hypervisor())
    await updating.until("Stopped", "given up")
    newest = "systemd-sysupdate.service"
    updating.units.set(newest, "inactive")
    updating.on_job(lambda _: updating.units.set(newest, "inactive"))

    updating.see(hypervisor("latest"))

    await updating.until("Completed", "latest: installed")
    assert updating.update == HyperVisorUpdateStatus(False, "latest", "latest", 3)


async def test_an_update_at_work_already_is_waited_for(updating: Updating) -> None:
    updating.units.set(UNIT, "activating", sub="start")
    updating.start(hypervisor())
    await updating.until("Running")

    updating.units.set(UNIT, "inactive")

    await updating.until("Completed")
    assert updating.units.jobs == []


async def test_a_host_without_the_update_unit_reports_it(updating: Updating) -> None:
    updating.start(hypervisor("2000"))

    stopped = await updating.until("Stopped", "given up")

    assert "systemd-sysupdate@2000.service is not-found" in stopped.message


async def test_a_refused_start_is_a_failed_attempt(updating: Updating) -> None:
    def refuse(_: str) -> None:
        raise HostError("StartUnit: access denied")

    updating.on_job(refuse)
    updating.start(hypervisor())

    stopped = await updating.until("Stopped", "given up")

    assert "access denied" in stopped.message


async def test_a_hostile_version_is_refused_by_name(updating: Updating) -> None:
    updating.start(hypervisor("../../etc"))

    stopped = await updating.until("Stopped")

    assert "no version" in stopped.message
    assert updating.units.jobs == []


async def test_an_update_that_never_ends_is_stopped() -> None:
    updating = Updating(pause=timedelta(0), time_limit=timedelta(milliseconds=20))
    updating.on_job(lambda _: updating.units.set(UNIT, "activating", sub="start"))
    updating.start(hypervisor())

    stopped = await updating.until("Stopped", "given up")

    assert "did not finish within" in stopped.message
    assert f"stop {UNIT}" in updating.units.jobs
    assert updating.task
    updating.task.cancel()
    await asyncio.wait([updating.task])


def stored(own: Hypervisor, board: Board) -> Hypervisor:
    """The object after the agent's status was written."""
    verdict = board.parts.conditions.get(CONDITION)
    conditions = own.status.conditions
    if verdict:
        conditions = set_condition(
            (),
            CONDITION,
            verdict.status,
            verdict.reason,
            verdict.message,
            now=FakeClock().now(),
        )
    update = board.parts.update or own.status.updateStatus
    return replace(own, status=HypervisorStatus(updateStatus=update, conditions=conditions))


@pytest.mark.parametrize("turns", range(1, 40, 2))
async def test_an_agent_killed_at_any_point_ends_with_the_version_installed(turns: int) -> None:
    """The unit takes a while and fails the first time."""
    outcomes = ["failed", "inactive", "inactive", "inactive"]
    first = Updating(pause=timedelta(0), time_limit=timedelta(seconds=30))
    work: set[asyncio.Task[None]] = set()

    async def take_a_while(units: FakeUnits) -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        units.set(UNIT, outcomes.pop(0))

    def start(job: str) -> None:
        assert job == f"start {UNIT}"
        first.units.set(UNIT, "activating", sub="start")
        work.add(asyncio.create_task(take_a_while(first.units)))

    first.on_job(start)
    first.start(hypervisor())
    for _ in range(turns):
        await asyncio.sleep(0)
    assert first.task
    first.task.cancel()
    await asyncio.wait([first.task])

    second = Updating(pause=timedelta(0), time_limit=timedelta(seconds=30))
    second.units = first.units
    second.concern = OsUpdate(
        first.units, second.own, second.board, pause=timedelta(0), time_limit=timedelta(seconds=30)
    )
    own = stored(hypervisor(), first.board)
    finished = own.status.updateStatus and own.status.updateStatus.installed == NEW
    second.start(own)
    if not finished:
        await second.until("Completed")
        assert second.update == HyperVisorUpdateStatus(False, NEW, NEW, 3)
    else:
        assert second.update is None  # nothing to do
    assert second.task
    second.task.cancel()
    await asyncio.wait([second.task, *work])
    assert first.units.jobs.count(f"start {UNIT}") <= 3
