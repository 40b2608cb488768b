"""Every boot sector gives the event that drills use it for."""

from __future__ import annotations

import asyncio
import re

import pytest

from hypercobalt.lab.disk import LOCAL
from hypercobalt.lab.guest.bootsector import Program
from hypercobalt.lab.vms.domain import Watchdog, WatchdogAction
from hypercobalt.lab.vms.fleet import Fleet
from hypercobalt.lab.vms.request import VMRequest
from tests.lab.conftest import TakeFleet
from tests.lab.kit.events import Events

pytestmark = pytest.mark.timeout(240)


@pytest.mark.parametrize(
    ("program", "settings", "expected"),
    [
        pytest.param(
            "poweroff",
            VMRequest(),
            ["Started Booted", "Shutdown Finished after guest request", "Stopped Shutdown"],
            id="poweroff",
        ),
        pytest.param("reset", VMRequest(), ["Started Booted", "'reboot'"], id="reset"),
        pytest.param(
            "triple-fault", VMRequest(), ["Started Booted", "'reboot'"], id="triple-fault"
        ),
        pytest.param(
            "panic",
            VMRequest(on_crash="destroy"),
            ["Started Booted", "Crashed Panicked", "Stopped Crashed"],
            id="panic",
        ),
        pytest.param(
            "dump",
            VMRequest(),
            ["Started Booted", "Crashed Crashloaded", "'reboot'"],
            id="dump",
        ),
        pytest.param(
            "watchdog",
            VMRequest(watchdog=Watchdog("pause", "ib700")),
            ["Started Booted", "'watchdog'.*pause", "Suspended Watchdog"],
            id="watchdog",
        ),
    ],
)
async def test_a_program_gives_its_events(
    fleet: TakeFleet, program: Program, settings: VMRequest, expected: list[str]
) -> None:
    vms = await fleet(1)
    async with Events(vms.host("kvm-1")) as events:
        await vms.add(
            VMRequest(
                kind="boot",
                program=program,
                host="kvm-1",
                network=False,
                watchdog=settings.watchdog,
                on_crash=settings.on_crash,
            )
        )
        await events.wait(*expected)


@pytest.mark.parametrize(
    ("action", "expected", "state"),
    [
        pytest.param("none", ["'watchdog'.*none"], "running (booted)", id="none"),
        pytest.param("reset", ["'watchdog'.*reset", "'reboot'"], "running (booted)", id="reset"),
        pytest.param("inject-nmi", ["'watchdog'.*inject-nmi"], "running (booted)", id="inject-nmi"),
        pytest.param("shutdown", ["'watchdog'.*shutdown"], "running (booted)", id="shutdown"),
        pytest.param(
            "poweroff",
            ["'watchdog'.*poweroff", "Stopped Failed"],
            "shut off (crashed)",
            id="poweroff-looks-like-a-crash",
        ),
    ],
)
async def test_a_watchdog_does_its_action(
    fleet: TakeFleet, action: WatchdogAction, expected: list[str], state: str
) -> None:
    vms = await fleet(1)
    host = vms.host("kvm-1")
    watchdog = Watchdog(action, "ib700")
    request = VMRequest(name="a", kind="boot", program="watchdog", host="kvm-1", watchdog=watchdog)
    async with Events(host) as events:
        await vms.add(request)
        await events.wait(*expected)
    assert (await host.run("virsh", "domstate", "--reason", "a")).strip() == state


async def test_writes_to_a_full_disk_pause_the_vm(fleet: TakeFleet) -> None:
    vms = await fleet(1)
    host = vms.host("kvm-1")
    await host.run("mkdir", "-p", f"{LOCAL}/vms")
    await host.run("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", f"{LOCAL}/vms")
    try:
        async with Events(host) as events:
            await vms.add(
                VMRequest(name="a", kind="boot", program="write-disk", host="kvm-1", disk="local")
            )
            await events.wait("'io-error-reason'.*enospc", "Suspended I/O Error")
        assert (await vms.inventory()).find("a").state == "paused"
    finally:
        await vms.remove("a")
        await host.run("umount", f"{LOCAL}/vms")


async def test_memory_is_dirtied_at_about_the_rate_requested(fleet: TakeFleet) -> None:
    vms = await fleet(1)
    await vms.add(VMRequest(name="a", kind="boot", program="dirty-memory", host="kvm-1"))
    await vms.add(VMRequest(name="b", kind="boot", program="idle", host="kvm-1"))

    async with asyncio.timeout(60):  # a busy machine slows it at times
        while await _dirty_rate_mib(vms, "a") not in range(2, 7):
            pass
    assert await _dirty_rate_mib(vms, "b") in range(2)


async def _dirty_rate_mib(vms: Fleet, name: str) -> int:
    host = vms.host("kvm-1")
    await host.run("virsh", "domdirtyrate-calc", name, "--seconds", "2")
    while True:
        printed = await host.run("virsh", "domstats", name, "--dirtyrate")
        if "calc_status=2" in printed:
            found = re.search(r"megabytes_per_second=(\d+)", printed)
            assert found, printed
            return int(found[1])
