"""KubeVirt's table of failures and its ways to an end, on real guests of one host.

The guests are boot sectors, several at once; each test leaves nothing of them on the host.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import Final

import pytest
import pytest_asyncio

from hypercobalt.api.core import Node
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.lab import processes
from hypercobalt.lab.control import ROLE as API_SERVER
from hypercobalt.lab.errors import CommandError
from hypercobalt.lab.lab import Lab, down
from hypercobalt.lab.pods.actors import CONTROLLER, SCHEDULER
from hypercobalt.lab.pods.running.settings import HANDLER, KUBELET, SERVICE
from hypercobalt.lab.setup import Setup
from hypercobalt.vmi import conditions
from tests.lab.kit.guests import LARGE_MIB, SOON, Guests, guest, guests_of, lay_out
from tests.lab.kit.guests_soak import Soak
from tests.waiting import until

pytestmark = [pytest.mark.timeout(600), pytest.mark.asyncio(loop_scope="module")]
LABELS = {"kubevirt.io/schedulable", "machine-type.node.kubevirt.io/q35"}
"""Labels of a Node whose virt-handler runs."""
PROGRAMS: Final = ("idle", "poweroff", "obey", "panic", "write-disk", "dirty-memory")
PROMPT = 14.0
"""Seconds; the launcher itself would end a guest 15 s after the end of its grace."""


WHOLE = 180.0
"""Seconds of random failures from which on the rows are tried that take minutes."""


def soak_seconds(config: pytest.Config) -> float:
    return float(str(config.getoption("--soak")))


def is_whole(config: pytest.Config) -> bool:
    """Whether the rows are tried that take minutes."""
    return soak_seconds(config) >= WHOLE


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def virt_lab(
    able_machine: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Lab]:
    data = tmp_path_factory.mktemp("rows")
    try:
        made = await Lab.make(data, api_port=0)
        await made.up(Setup(hosts=1, ovn=False, operator=False, virt=True))
        lay_out(made.layout.images, PROGRAMS)
        async with made.control.client() as kube, asyncio.timeout(90), kube.watch(Node) as events:
            async for event in events:
                if event.object is not None and event.object.metadata.labels.keys() >= LABELS:
                    break
        yield made
    finally:
        await down(data)


@pytest_asyncio.fixture(loop_scope="module")
async def guests(virt_lab: Lab) -> AsyncIterator[Guests]:
    async with guests_of(virt_lab) as found:
        yield found


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table.

    Attributes:
        vmi: what is created.
        strike: what happens to it once its guest runs; None: the guest does it itself.
        phase: the VMI's last one.
        events: that are recorded, as `TYPE REASON`.
    """

    vmi: VirtualMachineInstance
    strike: Callable[[Guests, str], Awaitable[None]] | None
    phase: str
    events: set[str]


def crashed(guests: Guests, name: str) -> Awaitable[None]:
    return guests.crash(name)


def pod_deleted(guests: Guests, name: str) -> Awaitable[None]:
    return guests.delete_pod(name)


def pod_vanishes(guests: Guests, name: str) -> Awaitable[None]:
    return guests.delete_pod(name, timedelta())


def launcher_killed(guests: Guests, name: str) -> Awaitable[None]:
    return guests.kill_launcher(name)


WELL, BADLY, ASKED = "Normal Stopped", "Warning Stopped", "Normal ShuttingDown"
ENDS = (
    Row(guest("off", "poweroff"), None, "Succeeded", {WELL}),
    Row(guest("crashed"), crashed, "Failed", {BADLY}),
    Row(guest("panicked", "panic", panic=True), None, "Failed", {"Warning GuestPanicked", BADLY}),
    Row(guest("obeys", "obey", grace=30), pod_deleted, "Succeeded", {ASKED, WELL}),
    Row(guest("deaf", grace=2), pod_deleted, "Failed", {ASKED, BADLY}),
    Row(guest("no-button", grace=30, acpi=False), pod_deleted, "Succeeded", {WELL}),
    Row(guest("vanishes", grace=30), pod_vanishes, "Failed", set()),
    Row(guest("killed"), launcher_killed, "Failed", {BADLY}),
)


async def test_phase_shows_how_a_guest_has_ended(guests: Guests) -> None:
    async def play(row: Row) -> str:
        name = row.vmi.metadata.name
        if row.strike is not None:
            await guests.run(name)
            await row.strike(guests, name)
        phase = await guests.ended(name)
        await guests.events(name, row.events)
        return phase

    await guests.create(*(row.vmi for row in ENDS))
    found = await asyncio.gather(*(play(row) for row in ENDS))
    names = [row.vmi.metadata.name for row in ENDS]
    assert dict(zip(names, found, strict=True)) == {
        row.vmi.metadata.name: row.phase for row in ENDS
    }


DELETED = {
    "obeys": "Succeeded",
    "deaf": "Failed",
    "no-grace": "Succeeded",
    "no-button": "Succeeded",
}


async def test_deleted_instance_ends_after_its_grace_period(guests: Guests) -> None:
    async def play(name: str) -> float:
        await guests.run(name)
        began = monotonic()
        await guests.delete(name)
        await guests.are_gone(name)
        return monotonic() - began

    await guests.create(
        guest("obeys", "obey", grace=60),
        guest("deaf", grace=2),
        guest("no-grace", grace=0),
        guest("no-button", grace=60, acpi=False),
    )
    took = dict(zip(DELETED, await asyncio.gather(*map(play, DELETED)), strict=True))
    assert {name: guests.last[name].status.phase for name in DELETED} == DELETED
    assert took["deaf"] > 2
    assert max(took.values()) < PROMPT


@asynccontextmanager
async def without(guests: Guests, unit: str) -> AsyncGenerator[None]:
    """A service of the host is stopped for a while."""
    await guests.host.run("systemctl", "stop", unit)
    try:
        yield
    finally:
        await guests.host.run("systemctl", "start", unit)


async def has_ended(guests: Guests, name: str) -> float:
    """Wait until an instance has no QEMU any more; return when that was."""

    async def gone() -> bool:
        return not await guests.emulators(name)

    await until(gone, 60)
    return monotonic()


async def test_launcher_and_kubelet_end_guests_whose_handler_is_away(
    guests: Guests, pytestconfig: pytest.Config
) -> None:
    names = ("stays", "crashed", "launcher", "kubelet")
    await guests.create(*(guest(name, grace=1) for name in names))
    await guests.run(*names)
    before = await guests.emulators("stays")
    async with without(guests, HANDLER):
        stuck = guests.unit("kubelet")
        await guests.host.run("systemctl", "kill", "--signal=STOP", "--kill-who=all", stuck)
        began = monotonic()
        await guests.delete("launcher", "kubelet")
        await guests.create(guest("later"))
        await guests.crash("crashed")
        by_launcher, by_kubelet = await asyncio.gather(
            has_ended(guests, "launcher"), has_ended(guests, "kubelet")
        )
        assert 1 + 15 < by_launcher - began < 1 + 30
        assert 1 + 30 <= by_kubelet - began + 1 < 1 + 30 + 15  # deadlines of pods are whole seconds
        await guests.are_gone("kubelet")
        # Its host takes no pod: nobody would start the guest.
        await guests.until("later", lambda vmi: vmi.status.phase == "Scheduling")
        assert guests.last["crashed"].status.phase == "Running"
        if is_whole(pytestconfig):
            await asyncio.sleep(WHOLE)  # the launchers wait for minutes
    await guests.run("later", "stays")
    assert await guests.ended("crashed") == "Failed"
    assert await guests.emulators("stays") == before
    assert len(before) == 1


async def test_guests_run_on_while_api_server_and_controller_are_away(guests: Guests) -> None:
    lab = guests.lab
    await guests.create(guest("stays"), guest("crashed"), guest("deleted"))
    await guests.run("stays", "crashed", "deleted")
    before = {name: await guests.emulators(name) for name in ("stays", "deleted")}
    away = {API_SERVER, CONTROLLER, SCHEDULER}
    await processes.kill(lab.state.id, lambda one: one.role == CONTROLLER)
    await guests.delete("deleted")
    await guests.create(guest("later"))
    assert await guests.ended("deleted") == "Succeeded"  # its handler does that alone
    await processes.kill(lab.state.id, lambda one: one.role in away)
    await guests.crash("crashed")
    await guests.host.run("systemctl", "restart", HANDLER)
    assert await guests.emulators("stays") == before["stays"]
    assert "deleted" not in guests.gone
    await lab.control.start()
    await lab.actors.start()
    assert await guests.ended("crashed") == "Failed"
    await guests.are_gone("deleted")
    await guests.run("later", "stays")
    assert await guests.emulators("stays") == before["stays"]


async def test_guest_goes_on_once_its_full_disk_has_room(guests: Guests) -> None:
    host, name = guests.host, "full"

    def paused(vmi: VirtualMachineInstance) -> str:
        shown = conditions.get(vmi.status.conditions, "Paused")
        return shown.reason if shown is not None else ""

    async with without(guests, SERVICE):
        await guests.create(guest(name, "write-disk"))
        vmi = await guests.until(name, lambda vmi: bool(vmi.status.activePods))
        (pod,) = vmi.status.activePods
        disks = f"{KUBELET}/pods/{pod}/volumes/kubernetes.io~empty-dir/ephemeral-disks"
        await host.run("mkdir", "-p", disks)
        await host.run("mount", "-t", "tmpfs", "-o", "size=640k", "tmpfs", disks)
    try:
        await guests.until(name, lambda vmi: paused(vmi) == "PausedIOError")
        (before,) = await guests.emulators(name)
        await guests.events(name, {"Warning IOerror"})
        assert guests.last[name].status.phase == "Running"
        await host.run("mount", "-o", "remount,size=64m", disks)
        await guests.until(name, lambda vmi: not paused(vmi))
        assert await guests.emulators(name) == [before]
        await guests.delete(name)
        await has_ended(guests, name)
    finally:
        await host.run("umount", "--lazy", disks)


async def test_nothing_is_left_and_none_runs_twice_after_random_failures(
    guests: Guests, pytestconfig: pytest.Config
) -> None:
    seed = str(pytestconfig.getoption("randomly_seed", 1))
    most = 20 if is_whole(pytestconfig) else 6
    await Soak(guests, seed=seed, most=most).play(soak_seconds(pytestconfig))


async def test_instance_whose_launcher_never_listens_has_failed(
    guests: Guests, pytestconfig: pytest.Config
) -> None:
    if not is_whole(pytestconfig):
        pytest.skip(f"takes three minutes: --soak {WHOLE:g}")
    host, name = guests.host, "mute"
    async with without(guests, SERVICE):
        await guests.create(guest(name))
        await guests.until(name, lambda vmi: bool(vmi.status.activePods))
        stop = f"systemctl kill --signal=STOP --kill-who=all {guests.unit(name)}"
        silencing = asyncio.create_task(host.run("sh", "-c", f"until {stop}; do :; done"))
    await silencing
    await guests.until(name, lambda vmi: vmi.status.phase == "Scheduled")
    began = monotonic()
    assert await guests.ended(name, 240) == "Failed"
    assert 170 < monotonic() - began < 200
    assert await guests.emulators(name) == []


async def test_vmi_shows_that_its_guest_met_the_memory_limit(guests: Guests) -> None:
    name = "large"
    await guests.create(guest(name, "dirty-memory", memory_mib=LARGE_MIB))
    await guests.until(name, lambda vmi: bool(vmi.status.activePods))
    bound = ("systemctl", "set-property", "--runtime", guests.unit(name), f"MemoryMax={LARGE_MIB}M")

    async def is_bounded() -> bool:
        with suppress(CommandError):  # there is no unit yet
            await guests.host.run(*bound)
            return True
        return False

    await until(is_bounded, SOON)
    assert await guests.ended(name) == "Failed"
    assert guests.last[name].status.reason == "OOMKilled"
    await guests.events(name, {BADLY})


async def test_shutdown_of_the_host_ends_its_guests_in_good_order(guests: Guests) -> None:
    host, ends = guests.host, {"obeys": "Succeeded", "deaf": "Failed", "no-button": "Succeeded"}
    await guests.create(
        guest("obeys", "obey", grace=20),
        guest("deaf", grace=1),
        guest("no-button", grace=20, acpi=False),
    )
    await guests.run(*ends)
    began = monotonic()
    await host.shutdown()
    assert monotonic() - began < 20 + PROMPT
    assert {name: guests.last[name].status.phase for name in ends} == ends
    await guests.lab.up_host(host)
    assert {name: guests.last[name].status.phase for name in ends} == ends
    await guests.delete(*ends)
    await guests.are_gone(*ends)
    await guests.create(guest("lost"))
    await guests.run("lost")
    await host.crash()
    await guests.lab.up_host(host)
    assert await guests.ended("lost") == "Failed"
