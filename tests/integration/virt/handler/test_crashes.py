"""virt-handler dies at any call, to the API server or to the launcher, and the next one goes on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.integration.mortal import Death, Dying, MortalKube
from tests.integration.virt.controller.world import NODE, Lab
from tests.integration.virt.handler.node import FakeLauncher, Node, any_process

from hypercobalt.api.kubevirt.names import NODE_NAME
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
from hypercobalt.virt.handler.act import HandlerActions
from hypercobalt.virt.handler.link import LauncherPlaces
from hypercobalt.virt.handler.links import FollowedLauncher, Launchers, Work
from hypercobalt.virt.handler.model import HandlerCall
from hypercobalt.virt.handler.observe import (
    BY_KEY,
    BY_VMI,
    HandlerObserver,
    key_of_vmi,
    uid_of_vmi,
)
from hypercobalt.virt.handler.reconciler import HandlerReconciler
from hypercobalt.virt.handler.taps import NoTaps
from hypercobalt.virt.wire.client import LauncherConnection
from hypercobalt.vmi.grace import RESEND

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(240)]

BOUND = 60.0


class MortalLaunchers(Launchers):
    """Calls of launchers whose process dies before one is sent, or before its answer is used."""

    dying: Dying = Dying()
    died: Callable[[], None] = staticmethod(lambda: None)

    async def _make(
        self,
        launcher: FollowedLauncher,
        call: HandlerCall,
        work: Work,
        connection: LauncherConnection,
    ) -> None:
        async def mortal(connection: LauncherConnection) -> None:
            self.dying()
            await work(connection)
            self.dying()

        with suppress(Death):
            await super()._make(launcher, call, mortal, connection)
        if self.dying.dead:
            self.died()


class Process:
    """A handler whose passes the test makes one by one."""

    def __init__(self, node: Node, client: MortalKube, dying: Dying) -> None:
        metrics, clock = Metrics(), SystemClock()
        client.dying, self._lab, self._dying = dying, node.lab, dying
        self.news = asyncio.Event()
        lab = node.lab
        self._vmis = Informer(lab.kube, Selection(VirtualMachineInstance), metrics=metrics)
        self._pods = Informer(
            lab.kube,
            Selection(Pod),
            metrics=metrics,
            indexes={BY_VMI: uid_of_vmi, BY_KEY: key_of_vmi},
        )
        places = LauncherPlaces(node.pods, os.getuid(), any_process)
        self.launchers = MortalLaunchers(places, lambda _key: self.news.set(), clock)
        self.launchers.dying, self.launchers.died = dying, self.news.set
        observer = HandlerObserver(NODE, self._pods.cache, self.launchers, clock)
        events = Recorder(lab.kube, "example.com/test", "test", clock=clock, metrics=metrics)
        actions = HandlerActions(client, self.launchers, NoTaps(), events, emulation=True)
        known = WriteCache(self._vmis)
        self._reconciler = HandlerReconciler(client, known, self.launchers, observer, actions)

    async def step(self) -> None:
        """Make one pass on what the server has, once there is a reason for it."""
        if self._dying.dead:
            raise Death
        lab = self._lab
        listed = (await lab.kube.list(VirtualMachineInstance, lab.namespace)).items
        vmis = [vmi for vmi in listed if vmi.metadata.labels.get(NODE_NAME) == NODE]
        self._vmis.load(ListResult(vmis, "1", {}))
        self._pods.load(ListResult(await lab.pods(), "1", {}))
        self.news.clear()
        with suppress(TransientError):  # tried again, as the next turn does
            await self._reconciler.reconcile(f"{lab.namespace}/vm")


async def life(node: Node, client: MortalKube, dying: Dying) -> int:
    """Take a guest through its life, and return how often the handler died."""
    pod = await node.handed_over()
    fake = FakeLauncher(once=True)
    process, deaths, phases = Process(node, client, dying), 0, list[str]()
    async with node.launcher(pod, fake), asyncio.timeout(BOUND):
        while "Delete" not in fake.names():
            vmi = await node.lab.vmi()
            assert vmi is not None
            if not phases or phases[-1] != vmi.status.phase:
                phases.append(vmi.status.phase)
            if vmi.status.phase == "Running" and vmi.metadata.deletionTimestamp is None:
                await node.deletes()
            try:
                await process.step()
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.1):
                        await process.news.wait()
            except Death:
                deaths += 1
                await process.launchers.close()
                process = Process(node, client, Dying())
        await process.launchers.close()
    assert phases == ["Scheduled", "Running", "Succeeded"]
    assert fake.starts == 1
    await node.lab.kube.modify(
        VirtualMachineInstance,
        "vm",
        lambda old: replace(old, metadata=replace(old.metadata, finalizers=())),
        node.lab.namespace,
    )
    await node.lab.kube.delete(Pod, pod.metadata.name, node.lab.namespace, grace=RESEND * 0)
    return deaths


async def wherever_it_dies(lab: Lab, check: Callable[[MortalKube, Dying], Awaitable[int]]) -> None:
    whole = Dying()
    async with MortalKube(load_connection(lab.kubeconfig)) as client:
        assert await check(client, whole) == 0
        assert whole.seen > 8
        for calls in range(whole.seen):
            assert await check(client, Dying(calls)) <= 1, calls


async def test_handler_that_dies_at_any_call_of_a_guests_life_does_no_harm(
    lab: Lab, pods: Path
) -> None:
    node = Node(lab, pods)
    await wherever_it_dies(lab, lambda client, dying: life(node, client, dying))
