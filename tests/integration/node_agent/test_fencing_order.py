"""The agent ends its host's guests when the operator orders it, and reports that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace as replace_parts
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace
from tests.following import background
from tests.integration.runtime.scripted import eventually
from tests.sockets import left_to_the_collector

from hypercobalt.adapters.host.fake import FakePods
from hypercobalt.adapters.libvirt.fake import FakeLibvirt
from hypercobalt.api.fencing import Fencing, FencingMethod, FencingPhase, is_ordered
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.kubevirt.names import LAUNCHER_MODULE
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.apiserver.server import Server
from hypercobalt.node_agent.fencing.guests import AllGuests, Ended
from hypercobalt.node_agent.fencing.order import FencingOrder
from hypercobalt.node_agent.host.launchers import PodLaunchers
from hypercobalt.node_agent.status.parts import Board
from hypercobalt.runtime import Informer, Kube, Metrics, SystemClock, load_connection
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.write_cache import Latest

from .conftest import NODE, boot

pytestmark = pytest.mark.asyncio(loop_scope="module")

BOOT = "b1"
LAUNCHER = ("python3", "-m", LAUNCHER_MODULE, '{"namespace":"default","name":"guest","uid":"u"}')
STARTED = datetime(2026, 1, 1, tzinfo=UTC)
LATER = datetime(2026, 1, 2, tzinfo=UTC)


class Host:
    """A host with two guests, whose agent follows its Hypervisor."""

    def __init__(self, kube: Kube, own: Latest[Hypervisor]) -> None:
        self.kube, self.libvirt, self.board = kube, FakeLibvirt(), Board(SystemClock())
        self.own, self.ended, self.pods = own, Ended(), FakePods()
        for name in ("a", "b"):
            boot(self.libvirt, name)

    @property
    def guests(self) -> int:
        return sum(domain.active for domain in self.libvirt.here.values())

    @property
    def record(self) -> Fencing | None:
        """The fencing record as the agent has it."""
        return self.own.value.status.fencing if self.own.value is not None else None

    async def fence(self, fencing: Fencing | None) -> Hypervisor:
        """Have the operator write `status.fencing`."""
        stored = await self.kube.get(Hypervisor, NODE)
        assert stored is not None
        return await self.kube.patch_status(stored, replace(stored.status, fencing=fencing))

    async def stopped(self) -> None:
        async with asyncio.timeout(10):
            parts = self.board.parts
            while parts.guests_stopped is None:
                parts = await self.board.changed(parts)


@asynccontextmanager
async def host(kube: Kube, agents: Kube | None = None) -> AsyncIterator[Host]:
    await kube.create(Hypervisor(metadata=ObjectMeta(name=NODE)))
    selection = Selection(Hypervisor, fields=f"metadata.name={NODE}")
    informer = Informer(kube, selection, metrics=Metrics())
    own = Latest(informer)
    made = Host(kube, own)
    order = FencingOrder(
        agents or kube,
        AllGuests(made.libvirt, PodLaunchers(made.pods)),
        own,
        made.board,
        boot=BOOT,
        renewals=lambda: 0,
        ended=made.ended,
        clock=SystemClock(),
    )

    async def listen() -> None:
        async for event in made.libvirt.events():
            order.on_event(event)

    with left_to_the_collector():
        async with background(informer.run, order.run, listen):
            await informer.wait_synced()
            yield made


@pytest.mark.parametrize(
    ("phase", "method"),
    [
        (FencingPhase.ATTEMPTING, FencingMethod.AGENT),
        (FencingPhase.FENCED, FencingMethod.BMC),
        (FencingPhase.FENCED, FencingMethod.EXTERNAL),
    ],
)
async def test_an_order_for_this_boot_ends_every_guest(
    kube: Kube, phase: FencingPhase, method: FencingMethod
) -> None:
    async with host(kube) as kvm:
        fencing = Fencing(phase=phase, method=method, bootID=BOOT, startedAt=STARTED)
        await kvm.fence(fencing)
        await kvm.stopped()
        done = kvm.board.parts.guests_stopped
        assert done is not None
        assert (done.bootID, done.startedAt, done.count, kvm.guests) == (BOOT, STARTED, 2, 0)


@pytest.mark.parametrize(
    ("phase", "method", "of"),
    [
        (FencingPhase.ATTEMPTING, FencingMethod.BMC, BOOT),
        (FencingPhase.FAILED, FencingMethod.AGENT, BOOT),
        (FencingPhase.RELEASED, FencingMethod.AGENT, BOOT),
        (FencingPhase.FENCED, FencingMethod.BMC, "another"),
        (FencingPhase.ATTEMPTING, FencingMethod.AGENT, "another"),
        (FencingPhase.FENCED, FencingMethod.BMC, None),
    ],
)
async def test_other_fencing_ends_no_guest(
    kube: Kube, phase: FencingPhase, method: FencingMethod, of: str | None
) -> None:
    async with host(kube) as kvm:
        await kvm.fence(Fencing(phase=phase, method=method, bootID=of, startedAt=STARTED))
        # The order after it is carried out, so the first was read.
        before = kvm.libvirt.calls["destroy"]
        order = Fencing(phase=FencingPhase.ATTEMPTING, method=FencingMethod.AGENT, bootID=BOOT)
        kvm.libvirt.delays["destroy"] = 0.01
        assert (kvm.guests, before) == (2, 0)
        await kvm.fence(order)
        await kvm.stopped()
        done = kvm.board.parts.guests_stopped
        assert done is not None
        assert done.startedAt is None
        assert done.count == 2


async def test_guest_that_is_started_after_the_order_is_ended_while_the_api_is_away(
    kube: Kube, server: Server
) -> None:
    agents = Kube(load_connection(server.kubeconfig))
    async with host(kube, agents) as kvm:
        await kvm.fence(Fencing(phase=FencingPhase.FENCED, bootID=BOOT, startedAt=STARTED))
        await kvm.stopped()
        await agents.aclose()
        boot(kvm.libvirt, "c")
        assert kvm.guests == 1
        await eventually(lambda: kvm.guests == 0)


async def test_order_is_not_reported_as_done_while_a_launcher_pod_runs(kube: Kube) -> None:
    async with host(kube) as kvm:
        kvm.pods.set("p", LAUNCHER)
        kvm.pods.stubborn.add("p")
        await kvm.fence(Fencing(phase=FencingPhase.FENCED, bootID=BOOT, startedAt=STARTED))
        await eventually(lambda: kvm.guests == 0 and len(kvm.pods.killed) > 1)
        assert kvm.board.parts.guests_stopped is None
        kvm.pods.stubborn.clear()
        await kvm.stopped()
        done = kvm.board.parts.guests_stopped
        assert done is not None
        assert done.count == 3


async def test_launcher_pod_that_starts_after_the_order_is_ended(kube: Kube) -> None:
    async with host(kube) as kvm:
        await kvm.fence(Fencing(phase=FencingPhase.FENCED, bootID=BOOT, startedAt=STARTED))
        await kvm.stopped()
        kvm.pods.set("late", LAUNCHER)
        found = await PodLaunchers(kvm.pods).running()
        kvm.board.put(replace_parts(kvm.board.parts, launchers=found))
        await eventually(lambda: kvm.pods.killed == ["late"])


async def test_launcher_pods_run_on_without_an_order(kube: Kube) -> None:
    async with host(kube) as kvm:
        kvm.pods.set("p", LAUNCHER)
        found = await PodLaunchers(kvm.pods).running()
        kvm.board.put(replace_parts(kvm.board.parts, launchers=found))
        fencing = Fencing(phase=FencingPhase.ATTEMPTING, method=FencingMethod.BMC, bootID=BOOT)
        await kvm.fence(fencing)
        await eventually(lambda: kvm.record == fencing)
        assert (kvm.guests, kvm.pods.killed) == (2, [])


async def test_guest_that_is_started_after_the_order_was_withdrawn_runs_on(kube: Kube) -> None:
    async with host(kube) as kvm:
        order = Fencing(phase=FencingPhase.FENCED, bootID=BOOT, startedAt=STARTED)
        await kvm.fence(order)
        await kvm.stopped()
        await kvm.fence(replace(order, phase=FencingPhase.FAILED))
        await eventually(lambda: not is_ordered(kvm.record, BOOT))
        boot(kvm.libvirt, "c")
        again = replace(order, startedAt=LATER)
        await kvm.fence(replace(again, phase=FencingPhase.RELEASED))  # looked at after the start
        await eventually(lambda: kvm.record is not None and kvm.record.startedAt == LATER)
        assert kvm.guests == 1


async def test_a_withdrawn_order_ends_no_guest(kube: Kube) -> None:
    async with host(kube) as kvm:
        read = kvm.libvirt.calls["domains"]
        order = FencingOrder(
            kube,
            AllGuests(kvm.libvirt, PodLaunchers(kvm.pods)),
            stale(kube),
            kvm.board,
            boot=BOOT,
            renewals=lambda: 0,
            ended=kvm.ended,
            clock=SystemClock(),
        )
        async with asyncio.timeout(10):
            await order.obey(NODE)
        assert (kvm.guests, kvm.libvirt.calls["domains"]) == (2, read)


def stale(kube: Kube) -> Latest[Hypervisor]:
    return Latest(Informer(kube, Selection(Hypervisor), metrics=Metrics()))
