"""virt-controller dies at any call of a VMI's life, and the next process goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from tests.integration.mortal import Death, Dying, MortalKube
from tests.integration.virt.controller.world import Handler, Kubelet, Lab, render

from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.workloads import Pod
from hypercobalt.errors import TransientError
from hypercobalt.runtime import (
    Informer,
    ListResult,
    Metrics,
    Recorder,
    SystemClock,
    load_connection,
)
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.write_cache import WriteCache
from hypercobalt.virt.controller.act import VMIActions
from hypercobalt.virt.controller.observe import BY_VMI, VMIObserver, controlling_vmi
from hypercobalt.virt.controller.reconciler import VMIReconciler

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

TURNS = 60


class Process:
    """A controller whose passes the test makes one by one."""

    def __init__(self, lab: Lab, client: MortalKube, dying: Dying) -> None:
        metrics, clock = Metrics(), SystemClock()
        client.dying = dying
        self._lab = lab
        self._vmis = Informer(lab.kube, Selection(VirtualMachineInstance), metrics=metrics)
        self._pods = Informer(
            lab.kube, Selection(Pod), metrics=metrics, indexes={BY_VMI: controlling_vmi}
        )
        observer = VMIObserver(client, self._pods.cache, WriteCache(self._pods), clock)
        events = Recorder(lab.kube, "example.com/test", "test", clock=clock, metrics=metrics)
        actions = VMIActions(client, observer, render, events)
        self._reconciler = VMIReconciler(client, WriteCache(self._vmis), observer, actions)

    async def step(self) -> None:
        """Make one pass on what the server has."""
        lab = self._lab
        vmis = (await lab.kube.list(VirtualMachineInstance, lab.namespace)).items
        self.sees(vmis, await lab.pods())
        await self.reconcile()

    def sees(self, vmis: list[VirtualMachineInstance], pods: list[Pod]) -> None:
        """Have the watches report these objects, and no others."""
        self._vmis.load(ListResult(vmis, "1", {}))
        self._pods.load(ListResult(pods, "1", {}))

    async def reconcile(self) -> None:
        """Make one pass on what the watches have reported."""
        try:
            await self._reconciler.reconcile(f"{self._lab.namespace}/vm")
        except TransientError:
            return  # tried again, as the next turn does


@dataclass
class Others:
    """Scheduler, kubelet, handler and the person, each doing what is next."""

    lab: Lab
    delete_in: str = "Running"
    pods: list[str] = field(default_factory=list)
    phases: list[str] = field(default_factory=list)
    ran: set[str] = field(default_factory=set)

    async def act(self) -> bool:
        """Take the next step; False when the VMI is gone."""
        vmi, pods = await self.lab.vmi(), await self.lab.pods()
        assert len(pods) <= 1, "two pods at once"
        self.pods += [p.metadata.uid for p in pods if p.metadata.uid not in self.pods]
        if vmi is None:
            return bool(pods)
        phase, deleted = vmi.status.phase, vmi.metadata.deletionTimestamp is not None
        if not self.phases or self.phases[-1] != phase:
            self.phases.append(phase)
        if phase == self.delete_in and not deleted:
            await self.lab.kube.delete(VirtualMachineInstance, "vm", self.lab.namespace)
        elif phase == "Scheduled" and not deleted:
            self.ran |= {*vmi.status.activePods}
            await Handler(self.lab).sets("Running")
        elif deleted and phase in ("Scheduled", "Running"):
            await Handler(self.lab).sets("Succeeded")
        elif pods:
            await self._kubelet(pods[0])
        return True

    async def _kubelet(self, pod: Pod) -> None:
        kubelet = Kubelet(self.lab)
        if pod.metadata.deletionTimestamp is not None:
            await kubelet.removes(pod)
        elif not pod.spec.nodeName:
            await kubelet.binds(pod)
        elif pod.status.phase != "Running":
            await kubelet.runs(pod)


async def life(lab: Lab, client: MortalKube, dying: Dying, others: Others) -> int:
    """Take a VMI through its life, and return how often the controller died."""
    await lab.add()
    process, deaths = Process(lab, client, dying), 0
    for _ in range(TURNS):
        if not await others.act():
            return deaths
        try:
            await process.step()
        except Death:
            deaths += 1
            process = Process(lab, client, Dying())
    raise AssertionError(f"not done in {TURNS} turns: {await lab.vmi()}")


async def wherever_it_dies(lab: Lab, check: Callable[[MortalKube, Dying], Awaitable[int]]) -> None:
    whole = Dying()
    async with MortalKube(load_connection(lab.kubeconfig)) as client:
        assert await check(client, whole) == 0
        assert whole.seen > 5
        for calls in range(whole.seen):
            assert await check(client, Dying(calls)) == 1, calls


async def test_controller_that_dies_at_any_call_of_a_vmis_life_does_no_harm(lab: Lab) -> None:
    async def check(client: MortalKube, dying: Dying) -> int:
        others = Others(lab)
        deaths = await life(lab, client, dying, others)
        assert others.phases == ["Pending", "Scheduling", "Scheduled", "Running", "Succeeded"]
        assert len(others.ran) == 1, "the guest was started in two pods"
        assert len(others.pods) <= 1 + deaths
        return deaths

    await wherever_it_dies(lab, check)


@pytest.mark.parametrize("phase", ["Pending", "Scheduling", "Scheduled"])
async def test_vmi_that_is_deleted_early_goes_wherever_the_controller_dies(
    lab: Lab, phase: str
) -> None:
    async def check(client: MortalKube, dying: Dying) -> int:
        others = Others(lab, delete_in=phase)
        deaths = await life(lab, client, dying, others)
        assert "Running" not in others.phases
        assert await lab.pods() == []
        return deaths

    await wherever_it_dies(lab, check)


async def test_two_processes_that_decide_at_once_make_one_pod(lab: Lab) -> None:
    """Two processes decide on the same state: one pod is created, and one only."""
    vmi = await lab.add()
    async with MortalKube(load_connection(lab.kubeconfig)) as client:
        one, two = Process(lab, client, Dying()), Process(lab, client, Dying())
        for process in (one, two):  # both know a VMI without a pod
            process.sees([vmi], [])
        await asyncio.gather(one.reconcile(), two.reconcile())
        for process in (one, two, one):
            await process.step()
    (pod,) = await lab.pods()
    found = await lab.vmi()
    assert found is not None
    assert list(found.status.activePods) == [pod.metadata.uid]
