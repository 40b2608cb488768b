"""A namespace with VMIs, and what scheduler, kubelet and handler would do to them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace
from tests.integration.runtime.scripted import eventually

from hypercobalt.api.core import NodeCondition
from hypercobalt.api.kubevirt.devices import DevicesSpec, DiskSpec
from hypercobalt.api.kubevirt.machine import GuestMemory, MachineSpec
from hypercobalt.api.kubevirt.names import FOREGROUND_FINALIZER, UNPAUSED_GATE
from hypercobalt.api.kubevirt.spec import DomainSpec, VMISpec
from hypercobalt.api.kubevirt.status import VMIStatus
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.kubevirt.volumes import ContainerDisk, VolumeSpec
from hypercobalt.api.meta import Object, ObjectMeta
from hypercobalt.api.pods import (
    ContainerState,
    ContainerStateRunning,
    ContainerStatus,
    PodReadinessGate,
)
from hypercobalt.api.quantity import Quantity
from hypercobalt.api.workloads import Container, Pod, PodSpec, PodStatus
from hypercobalt.lab.pods.placing.binding import bind
from hypercobalt.runtime import Election, Kube, Manager, Metrics, load_connection
from hypercobalt.runtime.client.errors import ConflictError
from hypercobalt.virt.controller.assembly import add_controller
from hypercobalt.virt.controller.model import launcher_name

T = TypeVar("T", bound=Object)
NODE = "node-a"
DEADLINE = 45.0


def render(vmi: VirtualMachineInstance) -> Pod:
    """A launcher pod, as small as the server takes it."""
    labels = {"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": vmi.metadata.uid}
    return Pod(
        metadata=ObjectMeta(generateName=f"virt-launcher-{vmi.metadata.name}-", labels=labels),
        spec=PodSpec(
            terminationGracePeriodSeconds=60,
            restartPolicy="Never",
            automountServiceAccountToken=False,
            readinessGates=(PodReadinessGate(conditionType=UNPAUSED_GATE),),
            containers=(Container(name="compute", image="virt-launcher"),),
        ),
    )


@dataclass
class Lab:
    """One namespace."""

    kube: Kube
    kubeconfig: Path
    namespace: str

    async def add(self, name: str = "vm", **status: object) -> VirtualMachineInstance:
        """A VMI as admission leaves it."""
        volume = VolumeSpec(name="root", containerDisk=ContainerDisk(image="alpine:3.20"))
        domain = DomainSpec(
            machine=MachineSpec(type="q35"),
            memory=GuestMemory(guest=Quantity("64Mi")),
            devices=DevicesSpec(disks=(DiskSpec(name="root"),)),
        )
        meta = ObjectMeta(name=name, namespace=self.namespace, finalizers=(FOREGROUND_FINALIZER,))
        vmi = VirtualMachineInstance(
            metadata=meta,
            spec=VMISpec(domain=domain, volumes=(volume,)),
            status=VMIStatus(phase="Pending", runtimeUser=107),
        )
        if status:
            vmi = replace(vmi, status=replace(vmi.status, **status))
        return await self.kube.create(vmi)

    async def vmi(self, name: str = "vm") -> VirtualMachineInstance | None:
        return await self.kube.get(VirtualMachineInstance, name, self.namespace)

    async def pods(self) -> list[Pod]:
        return (await self.kube.list(Pod, self.namespace)).items

    async def until(
        self, good: Callable[[VirtualMachineInstance], bool], name: str = "vm"
    ) -> VirtualMachineInstance:
        """Follow a VMI until it is as wanted."""
        return await self._until(VirtualMachineInstance, name, good)

    async def phase(self, phase: str, name: str = "vm") -> VirtualMachineInstance:
        """Follow a VMI until it has a phase."""
        return await self.until(lambda vmi: vmi.status.phase == phase, name)

    async def gone(self, name: str = "vm") -> None:
        """Wait until a VMI does not exist."""

        async def nothing() -> bool:
            return await self.vmi(name) is None

        await eventually(nothing, seconds=DEADLINE)

    async def until_pod(self, good: Callable[[Pod], bool], vmi: VirtualMachineInstance) -> Pod:
        """Follow a VMI's pod until it is as wanted."""
        return await self._until(Pod, launcher_name(vmi), good)

    async def _until(self, type_: type[T], name: str, good: Callable[[T], bool]) -> T:
        last: T | None = None
        try:
            async with (
                asyncio.timeout(DEADLINE),
                self.kube.watch(type_, self.namespace, fields=f"metadata.name={name}") as events,
            ):
                async for event in events:
                    last = event.object or last
                    if event.object is not None and good(event.object):
                        return event.object
        except TimeoutError:
            raise AssertionError(f"not in {DEADLINE} s; last: {last}") from None
        raise AssertionError(f"the watch ended; last: {last}")


@dataclass
class Kubelet:
    """The scheduler and the kubelet of one node, on order of the test."""

    lab: Lab
    node: str = NODE

    async def binds(self, pod: Pod) -> None:
        """Assign a pod to the node, as a scheduler does."""
        await bind(self.lab.kube, pod, self.node)

    async def runs(self, pod: Pod) -> Pod:
        """Report that a pod runs; its readiness by its gates, as kubelets do."""
        running = ContainerState(running=ContainerStateRunning(startedAt=datetime.now(UTC)))
        statuses = (ContainerStatus(name="compute", ready=True, started=True, state=running),)

        def report(found: Pod) -> Pod:
            gates = {one.type: one.status for one in found.status.conditions}
            opens = all(gates.get(g.conditionType) == "True" for g in found.spec.readinessGates)
            others = [c for c in found.status.conditions if c.type != "Ready"]
            ready = NodeCondition(type="Ready", status="True" if opens else "False")
            return replace(
                found,
                status=replace(
                    found.status,
                    phase="Running",
                    containerStatuses=statuses,
                    conditions=(*others, ready),
                ),
            )

        return await self.reports(pod, report)

    async def ends(self, pod: Pod, phase: str = "Succeeded") -> Pod:
        """Report that a pod's containers have ended."""
        return await self.reports(pod, lambda found: replace(found, status=PodStatus(phase=phase)))

    async def reports(self, pod: Pod, change: Callable[[Pod], Pod]) -> Pod:
        meta = pod.metadata
        written = await self.lab.kube.modify(
            Pod, meta.name, change, meta.namespace, subresource="status"
        )
        assert written is not None
        return written

    async def removes(self, pod: Pod) -> None:
        """End a pod for good."""
        meta = pod.metadata
        await self.lab.kube.delete(Pod, meta.name, meta.namespace, grace=timedelta())


@dataclass
class Handler:
    """The handler of the node, on order of the test."""

    lab: Lab

    async def sets(self, phase: str, name: str = "vm") -> VirtualMachineInstance:
        """Write a phase, as whole as the handler does."""
        while True:
            try:
                written = await self.lab.kube.modify(
                    VirtualMachineInstance,
                    name,
                    lambda vmi: replace(vmi, status=replace(vmi.status, phase=phase)),
                    self.lab.namespace,
                )
            except ConflictError:
                continue
            assert written is not None
            return written


async def handed_over(lab: Lab, name: str = "vm") -> VirtualMachineInstance:
    """Have a pod placed and run, until the VMI is handed over."""
    kubelet = Kubelet(lab)
    vmi = await lab.phase("Scheduling", name)
    pod = await lab.until_pod(lambda _: True, vmi)
    await kubelet.binds(pod)
    await lab.until_pod(lambda p: bool(p.status.conditions), vmi)
    await kubelet.runs(pod)
    return await lab.phase("Scheduled", name)


@dataclass
class Running:
    """A running controller and what it has sent."""

    metrics: Metrics
    manager: Manager
    task: asyncio.Task[None]

    def calls(self) -> dict[str, int]:
        """How often each call was answered, by verb and resource."""
        found: dict[str, int] = {}
        for family in self.metrics.call_seconds.collect():
            for sample in family.samples:
                if sample.name.endswith("_count"):
                    name = f"{sample.labels['verb']} {sample.labels['resource']}"
                    found[name] = found.get(name, 0) + int(sample.value)
        return found

    @property
    def leads(self) -> bool:
        (family,) = self.metrics.leader.collect()
        return any(sample.value for sample in family.samples)


@asynccontextmanager
async def controller(
    kubeconfig: Path,
    *,
    election: Election | None = None,
    guard: Callable[[], None] = lambda: None,
) -> AsyncIterator[Running]:
    """Run the controller until the block is left."""
    metrics = Metrics()
    async with Kube(load_connection(kubeconfig), metrics=metrics) as client:
        manager = Manager(client.guarded(guard), metrics=metrics, election=election)
        add_controller(manager, render)
        task = asyncio.create_task(manager.run())
        try:
            yield Running(metrics, manager, task)
        finally:
            manager.stop()
            with contextlib.suppress(Exception, asyncio.CancelledError):
                await asyncio.wait_for(task, DEADLINE)


@dataclass
class Seen:
    """Every state of a namespace's objects, as a watch reports them."""

    vmis: list[VirtualMachineInstance] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)


@asynccontextmanager
async def watching(lab: Lab) -> AsyncIterator[Seen]:
    """Record what happens to the namespace's VMIs and pods."""
    seen = Seen()

    async def follow(type_: type[T], into: list[T]) -> None:
        async with lab.kube.watch(type_, lab.namespace) as events:
            async for event in events:
                into += [event.object] if event.object is not None else []

    async with asyncio.TaskGroup() as tasks:
        both = (
            tasks.create_task(follow(VirtualMachineInstance, seen.vmis)),
            tasks.create_task(follow(Pod, seen.pods)),
        )
        try:
            yield seen
        finally:
            for task in both:
                task.cancel()
