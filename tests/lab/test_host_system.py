"""The host's systemd, logind and hostnamed, as they are, killed and restarted."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path

import pytest

from hypercobalt.adapters.host.port import Units
from hypercobalt.adapters.host.system import HostSystem
from hypercobalt.adapters.host.systemd import GRACE
from hypercobalt.adapters.host.units import SystemdUnits
from hypercobalt.agent.board import ConditionReport
from hypercobalt.api.conditions import set_condition
from hypercobalt.api.eviction import Eviction, EvictionStatus
from hypercobalt.lab.agents import KUBECONFIG
from hypercobalt.lab.errors import LabError
from hypercobalt.lab.host import Host, HostPower
from hypercobalt.node_agent.host.units import UnitConditions
from hypercobalt.node_agent.status.parts import Board
from hypercobalt.runtime import Kube, SystemClock
from tests.contracts.units import BAD, CONTRACTS, GOOD
from tests.lab.conftest import TakeHosts
from tests.lab.kit.system import (
    DEADLINE,
    LIBVIRTD,
    LIMIT,
    LOGIND,
    bus,
    evict,
    is_held_back,
    off,
    root,
)

pytestmark = pytest.mark.timeout(180)

SERVICES = {
    GOOD: "[Service]\nExecStart=sleep infinity\n",
    BAD: "[Service]\nType=oneshot\nExecStart=false\n",
}
LOG = "/root/guard.log"
ON_A_BUSY_MACHINE = timedelta(seconds=30)


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.__name__)
async def test_systemd_keeps_the_contract(
    hosts: TakeHosts, contract: Callable[[Units], Awaitable[None]]
) -> None:
    (host,) = await hosts(1)
    for name, text in SERVICES.items():
        await host.run("tee", f"/run/systemd/system/{name}", stdin=text)
    await host.run("systemctl", "daemon-reload")
    try:
        await contract(SystemdUnits(bus(host)))
    finally:
        await host.run("systemctl", "stop", GOOD)
        await host.run("systemctl", "reset-failed")
        await host.run("rm", *(f"/run/systemd/system/{name}" for name in SERVICES))
        await host.run("systemctl", "daemon-reload")


class Watched:
    """The conditions of a host's units, as they come."""

    def __init__(self, host: Host, *names: str, grace: timedelta = GRACE) -> None:
        self.board = Board(SystemClock())
        self.concern = UnitConditions(SystemdUnits(bus(host), grace=grace), self.board, names)

    async def until(self, name: str, good: Callable[[ConditionReport], bool]) -> ConditionReport:
        async with asyncio.timeout(DEADLINE):
            while True:
                parts = self.board.parts
                verdict = parts.conditions.get(name)
                if verdict and good(verdict):
                    return verdict
                await self.board.changed(parts)


@contextlib.asynccontextmanager
async def watched(host: Host, *names: str, grace: timedelta = GRACE) -> AsyncIterator[Watched]:
    made = Watched(host, *names, grace=grace)
    task = asyncio.create_task(made.concern.run())
    try:
        for name in names:
            await made.until(name, lambda _: True)
        yield made
    finally:
        task.cancel()
        await asyncio.wait([task])


def running(verdict: ConditionReport) -> bool:
    return verdict.reason == "Running"


def not_running(verdict: ConditionReport) -> bool:
    return not running(verdict)


@pytest.mark.timed
async def test_a_killed_unit_shows_within_a_second(hosts: TakeHosts) -> None:
    (host,) = await hosts(1)
    async with watched(host, LIBVIRTD) as units:
        await units.until(LIBVIRTD, running)
        pid = await host.run("systemctl", "show", "--property=MainPID", "--value", LIBVIRTD)

        begun = time.monotonic()
        await host.run("kill", "-KILL", pid.strip())
        verdict = await units.until(LIBVIRTD, not_running)

        assert time.monotonic() - begun < 1
        assert verdict.status == "False"
        await units.until(LIBVIRTD, running)  # systemd starts it again


async def test_a_masked_unit_shows(hosts: TakeHosts) -> None:
    (host,) = await hosts(1)
    async with watched(host, GOOD) as units:
        assert (await units.until(GOOD, lambda _: True)).reason == "NotFound"
        await host.run("systemctl", "mask", "--runtime", GOOD)
        await units.until(GOOD, lambda verdict: verdict.reason == "Masked")
        await host.run("systemctl", "unmask", "--runtime", GOOD)
        await units.until(GOOD, lambda verdict: verdict.reason == "NotFound")


@contextlib.asynccontextmanager
async def without_agent(host: Host) -> AsyncIterator[None]:
    """Stop the host's agent, which would start what a test stops: it connects to their sockets."""
    runs = "hypercobalt" in await host.run("systemctl", "list-units", "--plain", "hypercobalt-*")
    if runs:
        await host.run("systemctl", "stop", "hypercobalt-node-agent.service")
    try:
        yield
    finally:
        if runs:
            await host.run("systemctl", "start", "hypercobalt-node-agent.service")


@pytest.mark.parametrize("what", ["daemon-reload", "daemon-reexec", "restart dbus.service"])
async def test_a_restart_of_systemd_or_the_bus_changes_no_state(
    hosts: TakeHosts, what: str
) -> None:
    (host,) = await hosts(1)
    units_of = watched(host, LIBVIRTD, grace=ON_A_BUSY_MACHINE)
    async with without_agent(host), units_of as units:
        await units.until(LIBVIRTD, running)
        before = units.board.parts

        await host.run("systemctl", *what.split())
        await host.run("systemctl", "stop", LIBVIRTD)
        assert units.board.parts is before or not_running(await units.until(LIBVIRTD, not_running))
        assert (await units.until(LIBVIRTD, not_running)).reason in {"Deactivating", "Stopped"}

        await host.run("systemctl", "start", LIBVIRTD)
        await units.until(LIBVIRTD, running)


@pytest.mark.timed
async def test_a_bus_that_is_away_is_reported_and_comes_back(hosts: TakeHosts) -> None:
    (host,) = await hosts(1)
    async with without_agent(host), watched(host, LIBVIRTD) as units:
        await units.until(LIBVIRTD, running)

        await host.run("systemctl", "stop", "dbus.socket", "dbus.service")
        away = await units.until(LIBVIRTD, lambda verdict: verdict.status == "Unknown")
        assert away.reason == "SystemdUnreachable"
        assert "system bus" in away.message

        begun = time.monotonic()
        await host.run("systemctl", "start", "dbus.socket", "dbus.service")
        await units.until(LIBVIRTD, lambda verdict: verdict.status != "Unknown")
        assert time.monotonic() - begun < 2

        await host.run("systemctl", "start", LIBVIRTD)  # it ends with the bus
        await units.until(LIBVIRTD, running)


async def test_watching_absent_units_causes_no_traffic(hosts: TakeHosts) -> None:
    (host,) = await hosts(1)
    async with without_agent(host), watched(host, "absent.service", GOOD):
        messages = await host.run("sh", "-c", "timeout 3 dbus-monitor --system --profile; true")

    assert "NameAcquired" in messages  # the monitor was connected
    assert "ListUnitsByNames" not in messages


async def test_an_update_of_os_release_shows(hosts: TakeHosts) -> None:
    (host,) = await hosts(1)
    system = HostSystem(bus(host), root=root(host))
    async with asyncio.timeout(DEADLINE), aclosing(system.watch()) as states:
        before = await anext(states)
        kernel = (await host.run("uname", "-r")).strip()
        assert before.pretty_version.startswith("Debian")
        assert before.kernel_release == kernel

        await host.run("sh", "-c", "sed s/^PRETTY_NAME.*/PRETTY_NAME=New/ /etc/os-release >/srv/r")
        await host.run("ln", "-sfn", "/srv/r", "/etc/os-release")
        try:
            assert (await anext(states)).pretty_version == "New"
        finally:
            await host.run("ln", "-sfn", "../usr/lib/os-release", "/etc/os-release")


class Guard:
    """A service of the host that guards it."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._log = host.disk.root / "root/guard.log"
        self._read = 0  # characters

    async def start(self) -> None:
        # A service: what is entered from the machine would keep the host from ending.
        settings = ("--quiet", "--collect", "--unit=guard", f"--property=StandardError=file:{LOG}")
        command = (sys.executable, "/root/guard.py", KUBECONFIG, self.host.name)
        await self.host.run("systemd-run", *settings, *command)

    async def until(self, event: str) -> None:
        """Wait until it logs an event, from where the last wait ended."""
        try:
            async with asyncio.timeout(DEADLINE):
                while (found := self._text().find(f'"{event}"', self._read)) < 0:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(f"no {event} in {self._text()}") from None
        self._read = found + 1

    def _text(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    async def kill(self) -> None:
        await self.host.run("systemctl", "kill", "--signal=KILL", "guard.service")

    async def inhibitors(self) -> str:
        return await self.host.run("systemd-inhibit", "--list", "--no-legend", "--no-pager")


@contextlib.asynccontextmanager
async def guarded(host: Host) -> AsyncIterator[Guard]:
    await host.run("mkdir", "-p", "/etc/systemd/logind.conf.d")
    await host.run("tee", "/etc/systemd/logind.conf.d/limit.conf", stdin=LOGIND)
    await host.run("systemctl", "restart", "systemd-logind.service")
    await host.run("tee", "/root/guard.py", stdin=await script())
    await host.run("rm", "-f", LOG)
    guard = Guard(host)
    await guard.start()
    try:
        await guard.until("shutdown_inhibitor_taken")
        yield guard
    finally:
        if host.power is HostPower.RUNNING:
            with contextlib.suppress(LabError):  # the host may be going down
                await guard.kill()


async def script() -> str:
    return await asyncio.to_thread((Path(__file__).parent / "kit/guard.py").read_text, "utf-8")


async def test_an_inhibitor_is_there_after_logind_was_restarted(nodes: TakeHosts) -> None:
    (host,) = await nodes(1)
    async with guarded(host) as guard:
        assert "hypercobalt node-agent" in await guard.inhibitors()
        assert "sleep" not in await guard.inhibitors()

        for how in (("restart",), ("kill", "--signal=KILL")):
            await host.run("systemctl", *how, "systemd-logind.service")
            await guard.until("shutdown_inhibitor_taken")
            assert "hypercobalt node-agent" in await guard.inhibitors()


@pytest.mark.timed
async def test_a_shutdown_waits_for_the_eviction_and_then_goes_on_at_once(
    api: Kube, nodes: TakeHosts, record_property: Callable[[str, object], None]
) -> None:
    (host,) = await nodes(1)
    async with guarded(host) as guard:
        begun = time.monotonic()
        await host.run("systemctl", "--no-wall", "--no-block", "poweroff")
        eviction = await evict(api, host)
        record_property("seconds_to_eviction", time.monotonic() - begun)
        assert eviction.spec.trigger == "HostShutdown"
        assert await is_held_back(host)
        assert (await host.run("systemctl", "is-active", LIBVIRTD)).strip() == "active"

        ended = time.monotonic()
        done = set_condition((), "Evicting", "False", "Succeeded", "", now=SystemClock().now())
        await api.patch_status(eviction, EvictionStatus(conditions=done))
        await guard.until("shutdown_inhibitor_released")
        record_property("seconds_to_release", time.monotonic() - ended)
        assert time.monotonic() - ended < 1
        record_property("seconds_to_off", seconds := await off(host) - ended)
        assert seconds < LIMIT.total_seconds() / 2
    await api.delete(Eviction, host.name)


async def test_a_shutdown_goes_on_when_the_guard_dies(api: Kube, nodes: TakeHosts) -> None:
    (host,) = await nodes(1)
    async with guarded(host) as guard:
        await host.run("systemctl", "--no-wall", "--no-block", "poweroff")
        await evict(api, host)

        killed = time.monotonic()
        await guard.kill()

        assert await off(host) - killed < LIMIT.total_seconds() / 2
    await api.delete(Eviction, host.name)
