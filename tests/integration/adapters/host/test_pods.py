"""The pods of a systemd: read at one moment, and killed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest
from dbus_fast.message import Message
from tests.integration.adapters.host.conftest import Bus, Join, Peer

from hypercobalt.adapters.host.jobs import MANAGER, PATH
from hypercobalt.adapters.host.pod_model import PodInterest, PodProcesses
from hypercobalt.adapters.host.pods import SystemdPods
from hypercobalt.adapters.host.port import HostError

SYSTEMD = "org.freedesktop.systemd1"
UIDS = tuple(f"0f6c2b1e-1111-4111-8111-00000000000{n}" for n in range(3))
LAB, SLICE, OVER = (
    f"hypercobalt-pod-{UIDS[0]}.service",
    f"kubepods-burstable-pod{UIDS[1].replace('-', '_')}.slice",
    f"hypercobalt-pod-{UIDS[2]}.service",
)
INTEREST = PodInterest("launcher", "qemu-")
LAUNCHER = [["/", 7, "python3 launcher"], ["/", 8, "qemu-kvm -m 64"]]
SEEN = (("python3", "launcher"), ("qemu-kvm", "-m", "64"))


async def systemd(join: Join, processes: dict[str, list[list[object]]]) -> Peer:
    def answer(call: Message) -> Message:
        (unit,) = call.body
        if unit not in processes:
            return Message.new_error(call, f"{SYSTEMD}.NoSuchUnit", "no")
        return Message.new_method_return(call, "a(sus)", [processes[unit]])

    made = await join(None)
    lists(made, (LAB, "active"), (SLICE, "active"), (OVER, "failed"), ("kubepods.slice", "active"))
    made.answers["GetUnitProcesses"] = answer
    await made.bus.request_name(SYSTEMD)
    return made


def lists(systemd: Peer, *units: tuple[str, str]) -> None:
    rows = [
        [unit, "text", "loaded", state, "sub", "", f"/unit/{number}", 0, "", "/"]
        for number, (unit, state) in enumerate(units)
    ]
    systemd.returns("ListUnitsByPatterns", "a(ssssssouso)", [rows])


async def test_pods_of_interest_are_read_now(bus: Bus, join: Join) -> None:
    await systemd(join, {LAB: LAUNCHER, SLICE: [["/", 9, "nginx"]]})
    found = await SystemdPods(bus.address).running(INTEREST)
    assert found == (PodProcesses(UIDS[0], SEEN),)


async def test_pod_that_ends_while_it_is_read_is_none(bus: Bus, join: Join) -> None:
    await systemd(join, {SLICE: LAUNCHER})
    found = await SystemdPods(bus.address).running(INTEREST)
    assert found == (PodProcesses(UIDS[1], SEEN),)


async def test_pod_whose_processes_are_refused_is_an_error(bus: Bus, join: Join) -> None:
    """A list without it would show that no launcher runs."""
    made = await systemd(join, {})
    made.refuses("GetUnitProcesses", "org.freedesktop.DBus.Error.AccessDenied")
    with pytest.raises(HostError):
        await SystemdPods(bus.address).running(INTEREST)


async def test_launcher_after_very_many_processes_is_seen(bus: Bus, join: Join) -> None:
    forks: list[list[object]] = [["/", number, "fork"] for number in range(300)]
    await systemd(join, {LAB: [*forks, *LAUNCHER]})
    assert await SystemdPods(bus.address).running(INTEREST) == (PodProcesses(UIDS[0], SEEN),)


async def test_launcher_with_a_command_line_that_cannot_be_read_is_seen(
    bus: Bus, join: Join
) -> None:
    await systemd(join, {LAB: [["/", 7, 'python3 launcher "x'], ["/", 8, "nginx"]]})
    assert await SystemdPods(bus.address).running(INTEREST) == (PodProcesses(UIDS[0], ()),)


async def test_launcher_that_was_seen_is_one_while_it_has_any_process(bus: Bus, join: Join) -> None:
    """A guest that has broken out chooses the command lines of its pod."""
    processes = {LAB: LAUNCHER}
    made = await systemd(join, processes)
    lists(made, (LAB, "active"))
    made.returns("Subscribe")
    pods = SystemdPods(bus.address)
    async with aclosing(pods.watch(INTEREST)) as watched:
        assert await anext(watched) == (PodProcesses(UIDS[0], SEEN),)
    processes[LAB] = [["/", 7, "nginx"]]
    assert await pods.running(INTEREST) == (PodProcesses(UIDS[0], SEEN),)
    async with aclosing(pods.watch(INTEREST)) as watched:
        assert await anext(watched) == (PodProcesses(UIDS[0], SEEN),)


async def test_launcher_that_was_seen_is_one_while_its_processes_are_refused(
    bus: Bus, join: Join
) -> None:
    processes = {LAB: LAUNCHER}
    made, pods = await systemd(join, processes), SystemdPods(bus.address)
    assert await pods.running(INTEREST) == (PodProcesses(UIDS[0], SEEN),)

    def answer(call: Message) -> Message:
        error = "NoSuchUnit" if call.body == ["-.slice"] else "TooBig"
        return Message.new_error(call, f"{SYSTEMD}.{error}", "no")

    lists(made, (LAB, "active"))
    made.answers["GetUnitProcesses"] = answer
    assert await pods.running(INTEREST) == (PodProcesses(UIDS[0], SEEN),)
    lists(made, (LAB, "active"), (SLICE, "active"))
    with pytest.raises(HostError):  # nothing is known of the other one
        await pods.running(INTEREST)


async def test_launcher_that_was_seen_is_none_without_a_process(bus: Bus, join: Join) -> None:
    processes = {LAB: LAUNCHER}
    await systemd(join, processes)
    pods = SystemdPods(bus.address)
    assert await pods.running(INTEREST) != ()
    processes[LAB] = []
    assert await pods.running(INTEREST) == ()


async def test_pod_of_a_kubelet_without_units_is_seen_and_not_killed(bus: Bus, join: Join) -> None:
    """With the cgroup driver `cgroupfs`; what only systemd's root slice has."""
    group = f"/kubepods/burstable/pod{UIDS[2]}/c0ffee"
    rows = [
        [group, 7, "python3 launcher"],
        [group, 8, "qemu-kvm -m 64"],
        ["/init.scope", 1, "init"],
    ]
    await systemd(join, {LAB: LAUNCHER, "-.slice": rows})
    pods = SystemdPods(bus.address)
    assert await pods.running(INTEREST) == (
        PodProcesses(UIDS[0], SEEN),
        PodProcesses(UIDS[2], SEEN),
    )
    with pytest.raises(HostError, match=UIDS[2]):
        await pods.kill(UIDS[2])


async def test_every_process_of_the_pod_is_killed_and_of_no_other(bus: Bus, join: Join) -> None:
    made, killed = await systemd(join, {}), list[list[object]]()

    def kill(call: Message) -> Message:
        killed.append(list(call.body))
        return Message.new_method_return(call)

    made.answers["KillUnit"] = kill
    await SystemdPods(bus.address).kill(UIDS[1])
    await SystemdPods(bus.address).kill(UIDS[2])  # which has ended
    assert killed == [[SLICE, "all", 9]]


async def test_pod_that_systemd_does_not_kill_is_an_error(bus: Bus, join: Join) -> None:
    made = await systemd(join, {})
    made.refuses("KillUnit", "org.freedesktop.DBus.Error.AccessDenied")
    with pytest.raises(HostError):
        await SystemdPods(bus.address).kill(UIDS[0])


async def test_pod_that_was_announced_before_its_start_is_seen_once_it_has_started(
    bus: Bus, join: Join
) -> None:
    """A new unit is inactive until its job runs, and then systemd announces no unit any more."""
    made = await systemd(join, {LAB: LAUNCHER})
    made.returns("Subscribe")
    lists(made)
    async with aclosing(SystemdPods(bus.address).watch(INTEREST)) as pods:
        assert await anext(pods) == ()
        following = asyncio.create_task(_next(pods))
        lists(made, (LAB, "inactive"))
        seen = made.calls.count("ListUnitsByPatterns")
        await made.signal(PATH, f"{MANAGER}.UnitNew", "so", [LAB, "/unit/0"])
        await made.called("ListUnitsByPatterns", seen + 1)

        lists(made, (LAB, "active"))
        await made.signal(PATH, f"{MANAGER}.JobRemoved", "uoss", [1, "/job/1", LAB, "done"])

        async with asyncio.timeout(10):
            assert await following == (PodProcesses(UIDS[0], SEEN),)


async def _next(
    pods: AsyncGenerator[tuple[PodProcesses, ...] | HostError],
) -> tuple[PodProcesses, ...] | HostError:
    return await anext(pods)
