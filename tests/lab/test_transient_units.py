"""Transient units of a host's systemd, as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import timedelta

import pytest

from hypercobalt.adapters.host.pod_model import PodInterest
from hypercobalt.adapters.host.pods import SystemdPods
from hypercobalt.adapters.host.port import TransientUnits
from hypercobalt.adapters.host.transient import SystemdTransientUnits
from hypercobalt.adapters.host.transient_model import TransientUnit
from tests.contracts.transient_units import CONTRACTS, NAME, OTHER, PREFIX, all_over, until
from tests.lab.conftest import TakeHosts
from tests.lab.kit.system import bus
from tests.waiting import Pause

pytestmark = pytest.mark.timeout(180)


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.__name__)
async def test_systemd_keeps_the_contract_of_transient_units(
    hosts: TakeHosts, contract: Callable[[TransientUnits], Awaitable[None]]
) -> None:
    (host,) = await hosts(1)
    units = SystemdTransientUnits(bus(host))
    try:
        await contract(units)
    finally:
        for name in (NAME, OTHER):
            await units.kill(name)
            await units.remove(name)


async def test_settings_arguments_and_the_stop_command_reach_the_program(hosts: TakeHosts) -> None:
    (host,) = await hosts(1)
    units = SystemdTransientUnits(bus(host))
    await host.run("ip", "netns", "add", "transient")
    script = "readlink /proc/self/ns/net; echo $A; echo \"$1\"; trap 'exit 5' USR1; sleep 60 & wait"
    try:
        await units.start(
            TransientUnit(
                name=NAME,
                command=("/bin/sh", "-c", script, "sh", "${A} %n $$"),
                stop_command=("/bin/sh", "-c", "kill -USR1 $MAINPID; sleep 0.2"),
                settings={
                    "Environment": ("A=b c",),
                    "NetworkNamespacePath": "/run/netns/transient",
                    "StandardOutputFileToAppend": "/root/transient.log",
                    "MemoryMax": 64 * 2**20,
                    "TasksMax": 20,
                    "DeviceAllow": ("/dev/null rw",),
                    "TimeoutStopUSec": 10_000_000,
                },
            )
        )
        shown = await host.run("systemctl", "show", "--property=MemoryMax,TasksMax", NAME)
        assert "TasksMax=20" in shown
        assert "MemoryMax=67108864" in shown
        run = await units.remove(NAME)
        assert run
        assert run.exit_code == 5
        namespace, variable, argument = (await host.run("cat", "/root/transient.log")).splitlines()
        inside = await host.run("ip", "netns", "exec", "transient", "readlink", "/proc/self/ns/net")
        assert namespace == inside.strip()
        assert (variable, argument) == ("b c", "${A} %n $$")
    finally:
        await units.remove(NAME)
        await host.run("rm", "-f", "/root/transient.log")
        await host.run("ip", "netns", "delete", "transient")


async def test_a_pod_without_a_unit_is_among_the_processes_of_the_root(hosts: TakeHosts) -> None:
    """As a kubelet with the cgroup driver `cgroupfs` has it, in the hierarchy of systemd."""
    (host,) = await hosts(1)
    uid = "0f6c2b1e-1111-4111-8111-0123456789ab"
    group = f"/sys/fs/cgroup/unified/kubepods/burstable/pod{uid}"
    script = "mkdir -p $1; echo $$ >$1/cgroup.procs; exec sh -c 'sleep 60; :' launcher"
    unit = TransientUnit(name=NAME, command=("/bin/sh", "-c", script, "sh", group))
    units, pause = SystemdTransientUnits(bus(host)), Pause(0.1)
    try:
        await units.start(unit)
        async with asyncio.timeout(20):
            while not (found := await SystemdPods(bus(host)).running(PodInterest("launcher", "-"))):
                await pause()
        assert [pod.uid for pod in found] == [uid]
    finally:
        await host.run("sh", "-c", f"kill -9 $(cat {group}/cgroup.procs)")
        await units.remove(NAME)
        empty = f"cd /sys/fs/cgroup/unified && rmdir -p kubepods/burstable/pod{uid} || :"
        await host.run("sh", "-c", empty)


async def test_a_program_that_ends_while_the_bus_is_away_is_shown_after_it(
    hosts: TakeHosts,
) -> None:
    (host,) = await hosts(1)
    units = SystemdTransientUnits(bus(host), grace=timedelta(seconds=60))
    try:
        await units.start(TransientUnit(name=NAME, command=("/bin/sleep", "infinity")))
        async with asyncio.timeout(60), aclosing(units.watch(PREFIX)) as news:
            first = await anext(news)
            assert isinstance(first, tuple)
            await host.run("systemctl", "restart", "dbus.service")
            await host.run("systemctl", "kill", "--signal=KILL", NAME)
            async for runs in news:
                if isinstance(runs, tuple) and all_over(runs):
                    assert [run.signal for run in runs] == [9]
                    break
        assert await until(units, all_over)
    finally:
        await units.remove(NAME)
