"""One node: VMIs that were handed over to it, their pods' directories, launchers, and handlers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace
from tests.integration.runtime.scripted import eventually
from tests.integration.virt.controller.world import DEADLINE, NODE, Kubelet, Lab, render

from hypercobalt.api.coordination import Event
from hypercobalt.api.kubevirt.names import NODE_NAME
from hypercobalt.api.kubevirt.status import PhaseTransition
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.meta import owner_reference
from hypercobalt.api.workloads import Pod
from hypercobalt.runtime import Kube, Manager, Metrics, load_connection
from hypercobalt.runtime.tasks import first
from hypercobalt.virt.handler.assembly import guests
from hypercobalt.virt.handler.link import LauncherPlaces
from hypercobalt.virt.handler.sockets import CheckPeer
from hypercobalt.virt.handler.taps import NoTaps
from hypercobalt.virt.wire import messages
from hypercobalt.virt.wire.messages import AnyCall, DomainReport
from hypercobalt.virt.wire.peers import PeerCredentials
from hypercobalt.virt.wire.server import LauncherServer
from hypercobalt.vmi.phases import LifeCycle, LifeReason

NOTHING = DomainReport()
RUNS = DomainReport(LifeCycle.RUNNING, machine="pc-q35-7.2", emulated=True)
OFF = DomainReport(LifeCycle.SHUTOFF, LifeReason.SHUTDOWN)
DESTROYED = DomainReport(LifeCycle.SHUTOFF, LifeReason.DESTROYED)
CRASHED = DomainReport(LifeCycle.SHUTOFF, LifeReason.CRASHED)


def any_process(pod_uid: str, peer: PeerCredentials) -> str:
    """Take every process for the launcher: the test plays them all."""
    del pod_uid, peer
    return ""


@dataclass
class FakeLauncher:
    """One launcher that answers as the test has set it.

    Attributes:
        calls: that it got.
        obeys: its guest does what a call requests.
        fails: raised by each Sync.
        once: a guest that has run is not started again, as real launchers do.
        starts: how often its guest was started.
    """

    calls: list[AnyCall] = field(default_factory=list[AnyCall])
    obeys: bool = True
    fails: Exception | None = None
    report: DomainReport = NOTHING
    once: bool = False
    starts: int = 0

    def __post_init__(self) -> None:
        self.server = LauncherServer(self._answer, peers=(os.getuid(),))
        self.server.report(self.report)
        self._news = asyncio.Event()

    def reports(self, report: DomainReport) -> None:
        self.report = report
        self.server.report(report)

    def names(self) -> list[str]:
        """Names of the calls that it got."""
        return [type(call).__name__ for call in self.calls]

    async def called(self, name: str, times: int = 1) -> None:
        """Wait until it got a call so often."""
        async with asyncio.timeout(DEADLINE):
            while self.names().count(name) < times:
                self._news.clear()
                await self._news.wait()

    async def _answer(self, call: AnyCall) -> DomainReport | None:
        self.calls.append(call)
        self._news.set()
        match call:
            case messages.Sync():
                if self.fails is not None:
                    raise self.fails
                if self.obeys and not (self.once and self.starts):
                    self.starts += 1
                    self.reports(RUNS)
            case messages.Shutdown() if self.obeys:
                self.reports(OFF)
            case messages.Kill():
                self.reports(DESTROYED)
            case _:
                pass
        return self.report


@dataclass
class Node:
    """The node of the test.

    Attributes:
        lab: with its VMIs.
        pods: directory of the kubelet.
    """

    lab: Lab
    pods: Path

    async def handed_over(self, name: str = "vm", phase: str = "Scheduled") -> Pod:
        """A VMI as virt-controller hands it over, with its pod and that pod's directory."""
        lab = self.lab
        vmi = await lab.add(name, phase=phase)
        made = render(vmi)
        meta = replace(
            made.metadata,
            namespace=lab.namespace,
            ownerReferences=(owner_reference(vmi, controller=True, blocks=True),),
        )
        pod = await lab.kube.create(replace(made, metadata=meta))
        kubelet = Kubelet(lab)
        await kubelet.binds(pod)
        pod = await kubelet.runs(pod)
        self.directory(pod.metadata.uid).mkdir(parents=True)

        def hand_over(old: VirtualMachineInstance) -> VirtualMachineInstance:
            status = replace(
                old.status,
                nodeName=NODE,
                activePods={pod.metadata.uid: NODE},
                phaseTransitionTimestamps=(
                    PhaseTransition(phase=phase, phaseTransitionTimestamp=datetime.now(UTC)),
                ),
            )
            labels = {**old.metadata.labels, NODE_NAME: NODE}
            return replace(old, metadata=replace(old.metadata, labels=labels), status=status)

        await lab.kube.modify(VirtualMachineInstance, name, hand_over, lab.namespace)
        return pod

    def directory(self, pod_uid: str) -> Path:
        return self.pods / pod_uid / "volumes/kubernetes.io~empty-dir/sockets"

    def socket(self, pod: Pod) -> Path:
        return self.directory(pod.metadata.uid) / "launcher-sock"

    @asynccontextmanager
    async def launcher(
        self, pod: Pod, fake: FakeLauncher | None = None
    ) -> AsyncIterator[FakeLauncher]:
        """A launcher of a pod, played by the test."""
        fake = fake or FakeLauncher()
        async with fake.server.serve(self.socket(pod)):
            yield fake

    @contextmanager
    def process(self, pod: Pod) -> Iterator[subprocess.Popen[bytes]]:
        """A launcher of a pod in a process of its own; its guest obeys."""
        module = "tests.integration.virt.handler.obedient"
        started = subprocess.Popen([sys.executable, "-m", module, str(self.socket(pod))])
        try:
            yield started
        finally:
            started.kill()
            started.wait(DEADLINE)

    @asynccontextmanager
    async def handler(
        self, check: CheckPeer = any_process, user: int | None = None
    ) -> AsyncIterator[Metrics]:
        """A handler of the node, until the block is left; `user` is that of its launchers."""
        metrics = Metrics()
        connection = load_connection(self.lab.kubeconfig)
        async with Kube(connection, field_manager="virt-handler", metrics=metrics) as kube:
            manager = Manager(kube, metrics=metrics)
            places = LauncherPlaces(self.pods, os.getuid() if user is None else user, check)
            run = guests(manager, NODE, places, NoTaps(), emulation=True)
            manager.add_service("guests", lambda stop: first(stop.wait(), run()))
            task = asyncio.create_task(manager.run())
            try:
                yield metrics
            finally:
                manager.stop()
                with contextlib.suppress(Exception, asyncio.CancelledError):
                    await asyncio.wait_for(task, DEADLINE)

    async def events(self, vmi: VirtualMachineInstance) -> list[str]:
        """Reasons of the Events about a VMI, in their order."""
        found = (await self.lab.kube.list(Event, self.lab.namespace)).items
        about = [one for one in found if one.regarding and one.regarding.uid == vmi.metadata.uid]
        return [one.reason for one in sorted(about, key=lambda one: one.metadata.resourceVersion)]

    async def deletes(self, name: str = "vm") -> None:
        await self.lab.kube.delete(VirtualMachineInstance, name, self.lab.namespace)


async def one_write(metrics: Metrics) -> None:
    """Wait until a handler has written one VMI once, and nothing else."""
    wanted = {"patch virtualmachineinstances.kubevirt.io": 1}
    await eventually(lambda: writes(metrics) == wanted)


def writes(metrics: Metrics) -> dict[str, int]:
    """How often a handler has written, by verb and resource, without Events."""
    found: dict[str, int] = {}
    for family in metrics.call_seconds.collect():
        for sample in family.samples:
            verb, resource = sample.labels.get("verb", ""), sample.labels.get("resource", "")
            written = verb in ("create", "update", "patch", "delete", "apply")
            if sample.name.endswith("_count") and written and "events" not in resource:
                found[f"{verb} {resource}"] = int(sample.value)
    return found
