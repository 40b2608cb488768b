"""A shutdown of the host, from logind's announcement to the moment it may go on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.integration.node_agent.host.conftest import (
    DEADLINE,
    NODE,
    Site,
    T,
    create_hypervisor,
)
from tests.integration.runtime.scripted import eventually

from hypercobalt.adapters.host.fake import FakeShutdown
from hypercobalt.api.conditions import set_condition
from hypercobalt.api.eviction import Eviction, EvictionSpec, EvictionStatus
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.apiserver.server import Server
from hypercobalt.node_agent.host.shutdown_drain import ShutdownDrain, make_eviction
from hypercobalt.runtime import Backoff, Connection, Kube, Limits, SystemClock, load_connection

pytestmark = pytest.mark.asyncio(loop_scope="module")

REASON = "kvm-node-agent: emergency evacuation due to host reboot"
AMPLE = timedelta(minutes=10)


def guard(site: Site, shutdown: FakeShutdown, kube: Kube | None = None) -> None:
    evacuation = ShutdownDrain(
        shutdown,
        kube or site.kube,
        site.hypervisor,
        site.board,
        node=NODE,
        api_patience=timedelta(milliseconds=300),
        retry=timedelta(milliseconds=20),
    )
    site.start(evacuation.run)


async def guarded(
    kube: Kube, site: Site, *, limit: timedelta = AMPLE, active: int = 1
) -> tuple[Hypervisor, FakeShutdown]:
    """A host with instances that run, whose shutdown is held back."""
    hypervisor = await create_hypervisor(kube)
    shutdown = FakeShutdown(limit)
    site.put_instances(active=active)
    guard(site, shutdown)
    await held(shutdown)
    return hypervisor, shutdown


async def created(kube: Kube, *, not_uid: str = "") -> Eviction:
    """Wait for an Eviction of the host."""
    async with (
        asyncio.timeout(DEADLINE),
        kube.watch(Eviction, fields=f"metadata.name={NODE}") as events,
    ):
        async for event in events:
            found = event.object
            if found is not None and found.metadata.uid != not_uid:
                return found
    raise AssertionError("the watch ended")


async def gone(kube: Kube) -> None:
    """Wait until the host has no Eviction."""
    await eventually(lambda: lacks_eviction(kube), seconds=DEADLINE)


async def lacks_eviction(kube: Kube) -> bool:
    return await kube.get(Eviction, NODE) is None


async def end(kube: Kube, status: str, reason: str) -> None:
    """Write the condition `Evicting`, as the operator does."""
    eviction = await kube.get(Eviction, NODE)
    assert eviction is not None
    conditions = set_condition((), "Evicting", status, reason, "", now=SystemClock().now())
    await kube.patch_status(eviction, EvictionStatus(conditions=conditions))


async def released(shutdown: FakeShutdown) -> None:
    async with asyncio.timeout(DEADLINE):
        await shutdown.released()


async def held(shutdown: FakeShutdown) -> None:
    async with asyncio.timeout(DEADLINE):
        await shutdown.held()


async def is_not_released(shutdown: FakeShutdown) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await shutdown.released()


@pytest.mark.parametrize("reason", ["Succeeded", "Failed"])
async def test_shutdown_is_held_back_until_the_eviction_has_ended(
    kube: Kube, site: Site, reason: str
) -> None:
    hypervisor, shutdown = await guarded(kube, site, active=2)

    shutdown.prepare()

    eviction = await created(kube)
    assert (eviction.spec.hypervisor, eviction.spec.reason) == (NODE, REASON)
    assert eviction.spec.trigger == "HostShutdown"
    (owner,) = eviction.metadata.ownerReferences
    assert (owner.apiVersion, owner.kind, owner.name, owner.uid) == (
        "kvm.cloud.sap/v1",
        "Hypervisor",
        NODE,
        hypervisor.metadata.uid,
    )
    await end(kube, "True", "Running")
    await is_not_released(shutdown)
    before = time.monotonic()
    await end(kube, "False", reason)
    await released(shutdown)
    assert time.monotonic() - before < 1


@pytest.mark.parametrize(
    ("evacuate", "active"), [(False, 2), (True, 0)], ids=["not requested", "no instance runs"]
)
async def test_nothing_is_held_back_without_cause(
    kube: Kube, site: Site, evacuate: bool, active: int
) -> None:
    await create_hypervisor(kube, evacuateOnReboot=evacuate)
    shutdown = FakeShutdown(AMPLE)
    site.put_instances(active=active, inactive=1)
    guard(site, shutdown)

    shutdown.prepare()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await shutdown.held()
    assert await kube.get(Eviction, NODE) is None


async def test_inhibitor_follows_the_instances_and_the_spec(kube: Kube, site: Site) -> None:
    await create_hypervisor(kube)
    shutdown = FakeShutdown(AMPLE)
    guard(site, shutdown)

    for active in (1, 0, 3):
        site.put_instances(active=active)
        await (held(shutdown) if active else released(shutdown))

    await kube.merge_patch(Hypervisor, NODE, {"spec": {"evacuateOnReboot": False}})
    await released(shutdown)


async def test_shutdown_goes_on_when_the_last_instance_has_left(kube: Kube, site: Site) -> None:
    _, shutdown = await guarded(kube, site, active=2)
    shutdown.prepare()
    await created(kube)

    site.put_instances(active=1)
    await is_not_released(shutdown)
    site.put_instances(active=0, inactive=1)

    await released(shutdown)


async def test_a_shutdown_that_is_called_off_keeps_the_delay_for_the_next(
    kube: Kube, site: Site
) -> None:
    _, shutdown = await guarded(kube, site)
    shutdown.prepare()
    first = await created(kube)

    shutdown.prepare(False)
    await gone(kube)
    await is_not_released(shutdown)

    shutdown.prepare()
    second = await created(kube, not_uid=first.metadata.uid)
    assert second.spec.trigger == "HostShutdown"
    await is_not_released(shutdown)
    await end(kube, "False", "Succeeded")
    await released(shutdown)


@pytest.mark.parametrize("status", [None, "True", "False"])
async def test_eviction_of_a_shutdown_is_removed_once_the_host_is_up(
    kube: Kube, site: Site, status: str | None
) -> None:
    """Also one that goes on: it would empty a host that is in service again."""
    hypervisor = await create_hypervisor(kube)
    await kube.create(make_eviction(hypervisor))
    if status is not None:
        await end(kube, status, "Running" if status == "True" else "Failed")
    guard(site, FakeShutdown(AMPLE))

    await gone(kube)


async def test_eviction_of_a_shutdown_that_is_called_off_is_removed(kube: Kube, site: Site) -> None:
    _, shutdown = await guarded(kube, site)
    shutdown.prepare()
    await created(kube)
    await end(kube, "True", "Running")

    shutdown.prepare(False)

    await gone(kube)
    await is_not_released(shutdown)


class LateLogind(FakeShutdown):
    """A logind that answers whether a shutdown is prepared when it is let."""

    def __init__(self) -> None:
        super().__init__(AMPLE)
        self.answers = asyncio.Event()

    async def preparations(self) -> AsyncGenerator[bool]:
        await self.answers.wait()
        async for preparing in super().preparations():
            yield preparing


async def test_agent_that_starts_in_a_shutdown_keeps_its_eviction_until_logind_has_answered(
    kube: Kube, site: Site
) -> None:
    hypervisor = await create_hypervisor(kube)
    await kube.create(make_eviction(hypervisor))
    await end(kube, "False", "Succeeded")
    shutdown = LateLogind()
    guard(site, shutdown)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await gone(kube)
    shutdown.answers.set()
    await gone(kube)


async def test_an_eviction_that_is_not_for_a_shutdown_is_not_changed(
    kube: Kube, site: Site
) -> None:
    spec = EvictionSpec(hypervisor=NODE, reason="maintenance", trigger="Maintenance")
    await kube.create(Eviction(metadata=ObjectMeta(name=NODE), spec=spec))
    await end(kube, "False", "Succeeded")
    await guarded(kube, site)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await gone(kube)


async def test_logind_is_let_go_before_its_limit(kube: Kube, site: Site) -> None:
    _, shutdown = await guarded(kube, site, limit=timedelta(milliseconds=800))

    before = time.monotonic()
    shutdown.prepare()
    await released(shutdown)

    assert 0.2 < time.monotonic() - before < 0.8


@pytest.mark.parametrize(
    ("trigger", "reason"), [("Manual", "Succeeded"), ("Maintenance", "Failed")]
)
async def test_an_eviction_that_ended_before_the_shutdown_does_not_stand_for_a_new_one(
    kube: Kube, site: Site, trigger: str, reason: str
) -> None:
    spec = EvictionSpec(hypervisor=NODE, reason="weeks ago", trigger=trigger)
    old = await kube.create(Eviction(metadata=ObjectMeta(name=NODE), spec=spec))
    await end(kube, "False", reason)
    _, shutdown = await guarded(kube, site)

    shutdown.prepare()

    made = await created(kube, not_uid=old.metadata.uid)
    assert made.spec.trigger == "HostShutdown"
    await is_not_released(shutdown)
    await end(kube, "False", "Succeeded")
    await released(shutdown)


async def test_another_ones_eviction_is_waited_for_and_followed_by_one_for_those_that_stay(
    kube: Kube, site: Site
) -> None:
    spec = EvictionSpec(hypervisor=NODE, reason="maintenance", trigger="Maintenance")
    others = await kube.create(Eviction(metadata=ObjectMeta(name=NODE), spec=spec))
    _, shutdown = await guarded(kube, site)

    shutdown.prepare()
    await is_not_released(shutdown)
    present = await kube.get(Eviction, NODE)
    assert present is not None
    assert present.metadata.uid == others.metadata.uid
    await end(kube, "False", "Failed")

    made = await created(kube, not_uid=others.metadata.uid)
    assert made.spec.trigger == "HostShutdown"
    await is_not_released(shutdown)
    await end(kube, "False", "Failed")
    await released(shutdown)


async def test_another_ones_eviction_that_leaves_no_instance_is_kept(
    kube: Kube, site: Site
) -> None:
    spec = EvictionSpec(hypervisor=NODE, reason="maintenance", trigger="Maintenance")
    others = await kube.create(Eviction(metadata=ObjectMeta(name=NODE), spec=spec))
    _, shutdown = await guarded(kube, site)
    shutdown.prepare()
    await is_not_released(shutdown)

    site.put_instances(active=0)

    await released(shutdown)
    present = await kube.get(Eviction, NODE)
    assert present is not None
    assert (present.metadata.uid, present.spec) == (others.metadata.uid, others.spec)


class Overtaken(Kube):
    """A client that is always a moment too late to make an Eviction."""

    async def create(self, obj: T) -> T:
        spec = EvictionSpec(hypervisor=NODE, reason="maintenance", trigger="Maintenance")
        await super().create(Eviction(metadata=ObjectMeta(name=NODE), spec=spec))
        return await super().create(obj)


async def test_an_eviction_created_in_between_counts_as_that_of_the_shutdown(
    kube: Kube, site: Site, server: Server
) -> None:
    await create_hypervisor(kube)
    shutdown = FakeShutdown(AMPLE)
    site.put_instances(active=1)
    async with Overtaken(load_connection(server.kubeconfig)) as late:
        guard(site, shutdown, late)
        await held(shutdown)

        shutdown.prepare()

        others = await created(kube)
        assert others.spec.trigger == "Maintenance"
        await is_not_released(shutdown)
        await end(kube, "False", "Failed")
        await released(shutdown)


async def test_an_eviction_that_is_deleted_is_made_again(kube: Kube, site: Site) -> None:
    _, shutdown = await guarded(kube, site)
    shutdown.prepare()
    first = await created(kube)

    await kube.delete(Eviction, NODE)

    await created(kube, not_uid=first.metadata.uid)
    await end(kube, "False", "Failed")
    await released(shutdown)


async def test_shutdown_goes_on_when_the_api_is_away(kube: Kube, site: Site) -> None:
    await create_hypervisor(kube)
    shutdown = FakeShutdown(AMPLE)
    site.put_instances(active=1)
    quick = Backoff(base=timedelta(milliseconds=2), cap=timedelta(milliseconds=20))
    limits = Limits(
        deadline=timedelta(milliseconds=200), attempt=timedelta(milliseconds=100), backoff=quick
    )
    async with Kube(Connection("http://127.0.0.1:9"), limits=limits) as nowhere:
        guard(site, shutdown, nowhere)
        await held(shutdown)

        shutdown.prepare()

        await released(shutdown)
    assert await kube.get(Eviction, NODE) is None


async def test_shutdown_goes_on_when_the_eviction_is_refused(kube: Kube, site: Site) -> None:
    hypervisor, shutdown = await guarded(kube, site)
    # An owner that the server would refuse.
    meta = hypervisor.metadata
    later = replace(meta, uid="", resourceVersion=str(int(meta.resourceVersion) + 1))
    site.hypervisor.wrote(replace(hypervisor, metadata=later))

    shutdown.prepare()

    await released(shutdown)


async def test_delay_is_taken_once_logind_is_there(kube: Kube, site: Site) -> None:
    await create_hypervisor(kube)
    shutdown = FakeShutdown(AMPLE)
    shutdown.leave()
    site.put_instances(active=1)
    guard(site, shutdown)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await shutdown.held()
    shutdown.come_back()

    await held(shutdown)


async def test_logind_that_no_longer_reports_its_limit_does_not_release_the_inhibitor(
    kube: Kube, site: Site
) -> None:
    _, shutdown = await guarded(kube, site)

    shutdown.leave()
    shutdown.prepare()

    await created(kube)
    await is_not_released(shutdown)
