"""Deadlines are measured by the clock that does not step."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from hypercobalt.api.kubevirt.spec import VMISpec
from hypercobalt.api.kubevirt.status import VMIStatus
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.workloads import Pod
from hypercobalt.runtime import Cache
from hypercobalt.runtime.clock import FakeClock
from hypercobalt.virt.handler.decide import decide
from hypercobalt.virt.handler.link import LauncherPlaces
from hypercobalt.virt.handler.links import Launchers
from hypercobalt.virt.handler.model import NO_REPORT, Contact, HandlerCall
from hypercobalt.virt.handler.observe import BY_VMI, HandlerObserver, uid_of_vmi
from hypercobalt.virt.wire.client import LauncherConnection
from hypercobalt.virt.wire.messages import DomainReport
from hypercobalt.vmi.phases import LifeCycle

SECOND = timedelta(seconds=1)
KEY = "ns/vm"


class Watched:
    """One launcher that is followed, and what is known of it."""

    def __init__(self, pods: Path, phase: str) -> None:
        self.clock = FakeClock()
        places = LauncherPlaces(pods, 107, lambda _uid, _peer: "")
        self.launchers = Launchers(places, lambda _key: None, self.clock)
        cache = Cache[Pod]({BY_VMI: uid_of_vmi})
        self.observer = HandlerObserver("node-a", cache, self.launchers, self.clock)
        vmi = VirtualMachineInstance(
            metadata=ObjectMeta(
                name="vm", namespace="ns", uid="u1", deletionTimestamp=self.clock.now()
            ),
            spec=VMISpec(terminationGracePeriodSeconds=30),
            status=VMIStatus(phase=phase, nodeName="node-a"),
        )
        self.launcher = self.launchers.follow(KEY, vmi, "pod-1")

    def runs(self, report: DomainReport) -> None:
        """Have the launcher connected, with a guest."""
        link = self.launcher.link
        link.connection = LauncherConnection.__new__(LauncherConnection)
        link.view = replace(link.view, contact=Contact.CONNECTED, report=report)

    def asks(self) -> None:
        """Have the guest asked to shut down."""

        async def work(_connection: LauncherConnection) -> None:
            return

        self.launchers.send(KEY, HandlerCall.SHUTDOWN, work)

    def decided(self) -> tuple[str, HandlerCall | None]:
        plan = decide(self.observer.orphan(self.launcher))
        return plan.vmi.status.phase, plan.call


@pytest.fixture
async def scheduled(tmp_path: Path) -> AsyncIterator[Watched]:
    made = Watched(tmp_path, "Scheduled")
    yield made
    await made.launchers.close()


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Watched]:
    made = Watched(tmp_path, "Running")
    yield made
    await made.launchers.close()


@pytest.mark.parametrize("step", [timedelta(days=1), -timedelta(days=1)])
async def test_guest_is_late_by_the_time_that_passed(scheduled: Watched, step: timedelta) -> None:
    scheduled.clock.step(step)
    assert scheduled.decided() == ("Scheduled", None)
    scheduled.clock.advance(NO_REPORT + SECOND)
    assert scheduled.decided() == ("Failed", None)


@pytest.mark.parametrize("step", [timedelta(days=1), -timedelta(days=1)])
async def test_guest_has_its_grace_period_though_the_clock_steps(
    running: Watched, step: timedelta
) -> None:
    running.runs(DomainReport(LifeCycle.RUNNING))
    running.asks()
    running.runs(DomainReport(LifeCycle.RUNNING, shutdown_since=running.clock.now()))
    running.clock.step(step)
    assert running.decided() == ("Running", None)
    running.clock.advance(29 * SECOND)
    assert running.decided() == ("Running", HandlerCall.SHUTDOWN)
    running.clock.advance(2 * SECOND)
    assert running.decided() == ("Running", HandlerCall.KILL)


async def test_grace_period_goes_on_in_the_next_handler(running: Watched) -> None:
    since = running.clock.now() - 20 * SECOND  # another process has asked
    running.runs(DomainReport(LifeCycle.RUNNING, shutdown_since=since))
    running.asks()
    running.clock.step(-timedelta(days=1))
    running.clock.advance(9 * SECOND)
    assert running.decided() == ("Running", HandlerCall.SHUTDOWN)
    running.clock.advance(2 * SECOND)
    assert running.decided() == ("Running", HandlerCall.KILL)
