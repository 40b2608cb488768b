"""A launcher on the libvirt in memory: what its calls do, and when it ends."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from hypercobalt.adapters.disks.fake import FakeDisks
from hypercobalt.adapters.libvirt.fake import FakeLibvirt
from hypercobalt.adapters.libvirt.model import Domain, DomainState
from hypercobalt.adapters.libvirt.port import LibvirtError, LibvirtRefusedError
from hypercobalt.adapters.libvirt.vocabulary import Lifecycle, ShutoffReason, Stopped, Suspended
from hypercobalt.virt.launcher import guest
from hypercobalt.virt.launcher.ending import UNNOTICED
from hypercobalt.virt.launcher.launcher import Launcher
from hypercobalt.virt.launcher.settings import LauncherSettings
from hypercobalt.virt.wire.client import LauncherConnection as Connection
from hypercobalt.virt.wire.client import LauncherError, LauncherRefusedError, connect
from hypercobalt.virt.wire.messages import (
    Delete,
    DomainReport,
    GetDomain,
    Kill,
    LauncherCall,
    Pause,
    PausedBy,
    Reset,
    Shutdown,
    SoftReboot,
    Sync,
    TapDevice,
    Unpause,
)
from hypercobalt.vmi.paths import PodPaths
from hypercobalt.vmi.phases import LifeCycle, LifeReason

UID = "5f774ae2-e58e-4654-8aa8-4fb506459473"
UUID = "6a1a24a1-4061-4607-8bf4-a3963d0c5895"
BOUND = 10.0
RUNNING, SHUTOFF, PAUSED = LifeCycle.RUNNING, LifeCycle.SHUTOFF, LifeCycle.PAUSED


class World:
    """A launcher with its libvirt, disks and handler."""

    def __init__(self, directory: Path) -> None:
        self.libvirt, self.disks = FakeLibvirt(), FakeDisks()
        self.paths = PodPaths(
            private=f"{directory}/private",
            public=str(directory),
            ephemeral=f"{directory}/ephemeral",
            runtime=f"{directory}/run/libvirt",
        )
        Path(self.paths.sockets).mkdir()

    @asynccontextmanager
    async def launcher(
        self, **settings: object
    ) -> AsyncIterator[tuple[Launcher, asyncio.Task[int]]]:
        given = LauncherSettings(
            namespace="lab",
            name="guest",
            uid=UID,
            paths=self.paths,
            handlers=(os.getuid(),),
            **settings,  # type: ignore[arg-type]
        )
        launcher = Launcher(given, self.libvirt, self.disks)
        running = asyncio.create_task(launcher.run())
        try:
            yield launcher, running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    @asynccontextmanager
    async def handler(self) -> AsyncIterator[Connection]:
        path = Path(self.paths.command_socket)
        async with asyncio.timeout(BOUND):
            while not path.exists():  # noqa: ASYNC110  a file has no event
                await asyncio.sleep(0)
            async with connect(path, uid=os.getuid()) as connection:
                yield connection

    async def called(self, name: str) -> None:
        """Wait until a call to libvirt is under way."""
        async with asyncio.timeout(BOUND):
            while not self.libvirt.calls[name]:  # noqa: ASYNC110  the fake has no event for it
                await asyncio.sleep(0.001)

    def domain(self) -> Domain:
        (found,) = self.libvirt.here.values()
        return found


def sync(
    *, phase: str = "Scheduled", uid: str = UID, emulation: bool = True, **spec: object
) -> Sync:
    vmi = {
        "metadata": {"name": "guest", "namespace": "lab", "uid": uid},
        "spec": {
            "domain": {"memory": {"guest": "32Mi"}, "firmware": {"uuid": UUID}},
            **spec,
        },
        "status": {"phase": phase},
    }
    return Sync(msgspec.Raw(msgspec.json.encode(vmi)), emulation=emulation)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def later(launcher: Launcher, by: timedelta) -> None:
    """Let time have passed for a launcher."""
    clock = launcher._now
    launcher._now = lambda: clock() + by


async def call(handler: Connection, one: LauncherCall) -> DomainReport:
    found = await handler.call(one, deadline=BOUND)
    assert found is not None
    return found


async def test_sync_makes_and_starts_the_domain_once(world: World) -> None:
    async with world.launcher(), world.handler() as handler:
        for _ in range(2):
            report = await call(
                handler, sync(volumes=[{"name": "d", "emptyDisk": {"capacity": "1Mi"}}])
            )
            assert (report.state, report.interfaces) == (RUNNING, ())
        assert len(world.libvirt.defined) == world.libvirt.calls["boot"] == 1
        assert world.domain().name == "lab_guest"
        assert list(world.disks.made) == [Path(world.paths.empty_disk("d"))]

        world.libvirt.stop(UUID, Stopped.SHUTDOWN)
        for phase in ("Scheduled", "Running", "Succeeded"):
            assert (await call(handler, sync(phase=phase))).reason is LifeReason.SHUTDOWN
        assert world.libvirt.calls["boot"] == 1


async def test_sync_that_failed_is_repeated_and_two_at_once_do_the_same(world: World) -> None:
    async with world.launcher(), world.handler() as handler:
        world.libvirt.failures["boot"] = LibvirtRefusedError("Cannot allocate memory")
        with pytest.raises(LauncherError, match="Cannot allocate memory"):
            await call(handler, sync())
        del world.libvirt.failures["boot"]
        found = await asyncio.gather(call(handler, sync()), call(handler, sync()))
        assert {one.state for one in found} == {RUNNING}
        assert len(world.libvirt.defined) == 1
        assert world.libvirt.calls["boot"] == 2


async def test_restarted_libvirtd_lets_no_guest_run_twice(world: World) -> None:
    async with world.launcher(), world.handler() as handler:
        await call(handler, sync())
        world.libvirt.stop(UUID, Stopped.SHUTDOWN)
        assert (await call(handler, GetDomain())).reason is LifeReason.SHUTDOWN
        world.libvirt.put(replace(world.domain(), reason=0))
        for one in (sync(), GetDomain()):
            report = await call(handler, one)
            assert (report.state, report.reason) == (SHUTOFF, LifeReason.SHUTDOWN)
        assert world.libvirt.calls["boot"] == 1


async def test_start_whose_outcome_is_unknown_is_not_repeated(world: World) -> None:
    world.libvirt.failures["boot"] = LibvirtError("no answer within 60 s")
    async with world.launcher(), world.handler() as handler:
        with pytest.raises(LauncherError, match="no answer"):
            await call(handler, sync())
        del world.libvirt.failures["boot"]
        assert (await call(handler, sync())).state is SHUTOFF
        assert world.libvirt.calls["boot"] == 1


async def test_vmi_past_its_start_gets_no_second_domain(world: World) -> None:
    async with world.launcher(), world.handler() as handler:
        for phase in ("Running", "Succeeded", "Failed"):
            assert (await call(handler, sync(phase=phase))).state is None
        assert not world.libvirt.defined


async def test_guest_with_the_start_strategy_paused_waits_for_its_user(world: World) -> None:
    async with world.launcher(), world.handler() as handler:
        for _ in range(2):
            report = await call(handler, sync(startStrategy="Paused"))
            assert (report.state, report.paused_by) == (PAUSED, PausedBy.USER)
        assert (await call(handler, Unpause())).state is RUNNING


async def test_sync_resumes_what_an_error_paused_and_not_what_its_user_did(world: World) -> None:
    async with world.launcher(), world.handler() as handler:
        await call(handler, sync())
        world.libvirt.suspend(UUID, Suspended.IO_ERROR)
        assert (await call(handler, GetDomain())).paused_by is PausedBy.IO_ERROR
        assert (await call(handler, sync(phase="Running"))).state is RUNNING
        assert (await call(handler, Pause())).paused_by is PausedBy.USER
        assert (await call(handler, sync(phase="Running"))).state is PAUSED


async def test_vmi_of_another_launcher_and_one_that_cannot_be_are_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest, "has_kvm", lambda: False)
    async with world.launcher(), world.handler() as handler:
        for wrong, words in (
            (sync(uid="other"), r"metadata\.uid"),
            (sync(phase="Dreaming"), r"status\.phase"),
            (Sync(msgspec.Raw(b'{"metadata":3}')), "spec"),
            (sync(domain={"memory": {"guest": "1Q"}}), "spec"),
            (sync(emulation=False), "/dev/kvm"),
            (sync(volumes=[{"name": "r", "containerDisk": {"image": "x"}}]), r"spec\.volumes\[0\]"),
        ):
            with pytest.raises(LauncherRefusedError, match=words):
                await call(handler, wrong)
        assert not world.libvirt.defined


async def test_calls_that_need_a_domain_fail_without_one(world: World) -> None:
    async with world.launcher(), world.handler() as handler:
        for needs in (Pause(), Unpause(), Reset(), SoftReboot()):
            with pytest.raises(LauncherError, match="there is no domain"):
                await call(handler, needs)
        for works in (Shutdown(), Kill(), GetDomain()):
            assert (await call(handler, works)).state is None


async def test_events_are_pushed_in_order(world: World) -> None:
    async with world.launcher(), world.handler() as handler:
        reports = handler.reports()
        assert await anext(reports) == DomainReport()
        await call(handler, sync())
        seen = [await anext(reports)]
        world.libvirt.suspend(UUID, Suspended.IO_ERROR)
        while seen[-1].state is not PAUSED:
            seen.append(await anext(reports))
        world.libvirt.stop(UUID, Stopped.CRASHED)
        while seen[-1].state is not SHUTOFF:
            seen.append(await anext(reports))
        assert seen[-1].reason is LifeReason.CRASHED
        assert [one.state for one in seen if one.state is RUNNING]


async def test_shutdown_is_repeated_with_its_first_time_noted(world: World) -> None:
    world.libvirt.deaf.add(UUID)
    async with world.launcher() as (_, running), world.handler() as handler:
        await call(handler, sync())
        first = await call(handler, Shutdown())
        again = await call(handler, Shutdown())
        assert again.shutdown_since == first.shutdown_since is not None
        assert world.libvirt.calls["shutdown"] == 2

        world.libvirt.stubborn.add(UUID)
        with pytest.raises(LauncherError, match="SIGTERM"):
            await call(handler, Kill())
        with pytest.raises(LauncherError, match="is alive"):
            await call(handler, Delete())
        world.libvirt.stubborn.clear()
        assert (await call(handler, Kill())).reason is LifeReason.DESTROYED
        assert (await call(handler, Delete())).state is None
        assert await running == 0


async def test_signal_is_reported_and_no_guest_starts_after_it(world: World) -> None:
    async with world.launcher() as (launcher, _), world.handler() as handler:
        await call(handler, sync())
        launcher.signalled()
        reports = handler.reports()
        async with asyncio.timeout(BOUND):
            while (report := await anext(reports)).marked_since is None:
                pass
        launcher.signalled()
        assert (await call(handler, GetDomain())) == report
        assert (report.state, report.shutdown_since) == (RUNNING, None)


async def test_guest_whose_start_is_under_way_gets_its_grace_period(world: World) -> None:
    """Also in a pod that has been there for longer than an end is waited for."""
    world.libvirt.delays["boot"] = 0.1
    async with world.launcher() as (launcher, running), world.handler() as handler:
        later(launcher, timedelta(minutes=1))
        starting = asyncio.create_task(call(handler, sync()))
        await world.called("boot")
        launcher.signalled()
        report = await starting
        assert (report.state, report.marked_since is not None) == (RUNNING, True)
        assert (await call(handler, Shutdown())).reason is LifeReason.SHUTDOWN
        assert not running.done()


async def test_guest_whose_start_is_under_way_is_not_reported_as_crashed(world: World) -> None:
    world.libvirt.delays["boot"] = 0.1
    async with world.launcher(), world.handler() as handler:
        starting = asyncio.create_task(call(handler, sync()))
        await world.called("boot")
        report = await call(handler, GetDomain())
        assert (report.state, report.reason) == (SHUTOFF, LifeReason.UNKNOWN)
        assert (await starting).state is RUNNING


async def test_signal_before_the_start_leaves_the_guest_off(world: World) -> None:
    world.libvirt.delays["define"] = 0.1
    async with world.launcher() as (launcher, running), world.handler() as handler:
        starting = asyncio.create_task(call(handler, sync()))
        await world.called("define")
        launcher.signalled()
        await asyncio.gather(starting, return_exceptions=True)
        assert await running == 0
    assert not world.libvirt.calls["boot"]


async def test_guest_that_is_still_there_is_ended_at_the_deadline(world: World) -> None:
    async with world.launcher(grace_seconds=0.05) as (launcher, running):
        async with world.handler() as handler:
            await call(handler, sync())
            launcher.signalled()
            async with asyncio.timeout(BOUND):
                async for report in handler.reports():
                    if report.state is SHUTOFF:
                        break
            assert report.reason is LifeReason.DESTROYED
            await call(handler, Delete())
        assert await running == 0


async def test_launcher_ends_when_no_domain_appears_or_is_wanted(world: World) -> None:
    async with world.launcher(qemu_timeout_seconds=0.01) as (_, running):
        assert await running == 1
    async with world.launcher() as (launcher, running), world.handler():
        launcher.signalled()
        assert await running == 0
    assert not Path(world.paths.command_socket).exists()


async def emulator_of(world: World) -> asyncio.subprocess.Process:
    """A process that libvirt has as the guest's QEMU."""
    emulator = await asyncio.create_subprocess_exec("sleep", "60")
    directory = Path(world.paths.runtime, "qemu/run")
    directory.mkdir(parents=True)
    (directory / "lab_guest.pid").write_text(f"{emulator.pid}\n")
    return emulator


async def test_launcher_ends_if_libvirtd_does_not_notice_the_end_of_qemu(world: World) -> None:
    emulator = await emulator_of(world)
    async with world.launcher() as (launcher, running), world.handler() as handler:
        await call(handler, sync())
        world.libvirt.failures["domains"] = LibvirtError("no answer")
        emulator.kill()
        await emulator.wait()
        async with asyncio.timeout(BOUND):
            while launcher._end.vanished is None:  # noqa: ASYNC110  it has no event of its own
                await asyncio.sleep(0.001)
        later(launcher, UNNOTICED)
        launcher._changed.set()
        async with asyncio.timeout(BOUND):
            assert await running == 1


async def test_end_of_qemu_is_noticed_without_an_event(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hypercobalt.virt.launcher.launcher._READ_AGAIN", 0.01)
    emulator = await emulator_of(world)
    async with world.launcher(), world.handler() as handler:
        await call(handler, sync())
        reports = handler.reports()
        emulator.kill()
        await emulator.wait()
        await asyncio.sleep(0.05)
        assert (await call(handler, GetDomain())).state is RUNNING
        gone = replace(world.domain(), active=False, state=DomainState.SHUTOFF)
        world.libvirt.put(replace(gone, reason=ShutoffReason.DAEMON))
        async with asyncio.timeout(BOUND):
            async for report in reports:
                if report.reason is LifeReason.CRASHED:
                    break
        assert world.libvirt.calls["boot"] == 1


async def test_reading_that_failed_is_repeated(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hypercobalt.virt.launcher.launcher._READ_AGAIN", 0.01)
    async with world.launcher(), world.handler() as handler:
        await call(handler, sync())
        reports = handler.reports()
        world.libvirt.failures["domains"] = LibvirtError("no answer")
        world.libvirt.suspend(UUID)
        with pytest.raises(LauncherError, match="no answer"):
            await call(handler, GetDomain())
        del world.libvirt.failures["domains"]
        async with asyncio.timeout(BOUND):
            async for report in reports:
                if report.state is PAUSED:
                    break
        world.libvirt.disconnect()
        world.libvirt.stop(UUID, Stopped.CRASHED)
        world.libvirt.connect()
        async with asyncio.timeout(BOUND):
            async for report in reports:
                if report.state is SHUTOFF:
                    break


async def test_taps_come_with_the_call_and_the_reset_goes_to_the_domain(world: World) -> None:
    interfaces = [{"name": "default", "masquerade": {}}]
    domain = {
        "memory": {"guest": "32Mi"},
        "firmware": {"uuid": UUID},
        "devices": {"interfaces": interfaces},
    }
    made = sync(domain=domain, networks=[{"name": "default", "pod": {}}])
    taps = {"default": TapDevice("tap0", "02:00:00:00:00:07", 1450)}
    async with world.launcher(), world.handler() as handler:
        await call(handler, Sync(made.vmi, taps, emulation=True))
        (document,) = world.libvirt.defined
        assert "tap0" in document
        assert "02:00:00:00:00:07" in document
        for one, name in ((Reset(), "reset"), (SoftReboot(), "reboot")):
            await call(handler, one)
            assert world.libvirt.calls[name] == 1
        world.libvirt.lifecycle(UUID, Lifecycle.RESUMED)
