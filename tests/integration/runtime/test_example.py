"""The worked example, against the scripted and the embedded server, with faults under way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from examples.eviction import POLL, add_to, decide
from msgspec.structs import replace
from tests.integration.runtime.conftest import QUICK
from tests.integration.runtime.scripted import ScriptedServer, eventually

from hypercobalt.api.coordination import Event
from hypercobalt.api.crd import manifests
from hypercobalt.api.eviction import Eviction, EvictionSpec, EvictionStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.apiserver.server import ServerOptions, serve
from hypercobalt.runtime import (
    Connection,
    Election,
    Kube,
    Limits,
    Manager,
    Metrics,
    Timing,
    load_connection,
)

NOW = datetime(2026, 11, 21, tzinfo=UTC)
QUEUE = ("i1", "i2", "i3")
TIMING = Timing(
    duration=timedelta(seconds=3),
    renew_deadline=timedelta(seconds=2),
    retry_period=timedelta(milliseconds=200),
)


class Cloud:
    """Instances that move on request."""

    def __init__(self, **hosts: str) -> None:
        self.hosts = hosts
        self.moves: list[str] = []

    async def host_of(self, instance: str) -> str | None:
        return self.hosts.get(instance)

    async def migrate(self, instance: str) -> None:
        self.moves.append(instance)
        self.hosts[instance] = "kvm-b"


def eviction(*queue: str) -> Eviction:
    return Eviction(
        metadata=ObjectMeta(name="drain-a", generation=1),
        spec=EvictionSpec(hypervisor="kvm-a", reason="upgrade"),
        status=EvictionStatus(outstandingInstances=queue),
    )


@pytest.mark.parametrize(
    ("queue", "host", "migrate", "left", "again"),
    [
        pytest.param(("i2", "i1"), "kvm-a", "i1", ("i2", "i1"), POLL, id="on-the-host-is-moved"),
        pytest.param(("i1",), "kvm-b", None, (), None, id="arrived-leaves-the-queue"),
        pytest.param(("i1",), None, None, (), None, id="deleted-leaves-the-queue"),
        pytest.param((), None, None, (), None, id="nothing-left-succeeds"),
    ],
)
def test_decision_moves_instances_and_shrinks_the_queue(
    queue: tuple[str, ...],
    host: str | None,
    migrate: str | None,
    left: tuple[str, ...],
    again: timedelta | None,
) -> None:
    plan = decide(eviction(*queue), host, NOW)
    assert (plan.migrate, plan.status.outstandingInstances) == (migrate, left)
    assert plan.requeue_after == again


@asynccontextmanager
async def running(kube: Kube, metrics: Metrics, cloud: Cloud) -> AsyncIterator[Manager]:
    election = Election("example", "default", "test", TIMING)
    manager = Manager(kube, metrics=metrics, election=election)
    add_to(manager, cloud)
    task = asyncio.create_task(manager.run())
    try:
        yield manager
    finally:
        manager.stop()
        async with asyncio.timeout(10):
            await task


async def evict(kube: Kube) -> None:
    given = eviction()
    await kube.create(replace(given, metadata=ObjectMeta(name="drain-a"), status=EvictionStatus()))
    await kube.modify(
        Eviction,
        "drain-a",
        lambda e: replace(e, status=EvictionStatus(outstandingInstances=QUEUE)),
        subresource="status",
    )


async def succeeded(kube: Kube) -> bool:
    found = await kube.get(Eviction, "drain-a")
    conditions = found.status.conditions if found else ()
    return [(c.type, c.status, c.reason) for c in conditions] == [
        ("Evicting", "False", "Succeeded")
    ]


async def test_controller_evicts_through_storms_and_a_restart(
    server: ScriptedServer, kube: Kube, metrics: Metrics
) -> None:
    cloud = Cloud(i1="kvm-a", i2="kvm-a", i3="kvm-a")
    await evict(kube)
    async with running(kube, metrics, cloud):
        await eventually(lambda: bool(cloud.moves))
        server.fail(500, times=3, on="evictions")
        server.fail(429, times=3, on="evictions")
        await server.stop()
        await server.start()
        server.compact()
        await eventually(lambda: succeeded(kube))
    assert sorted(set(cloud.moves)) == sorted(QUEUE)
    lease = server.objects["leases"]["default/example"]
    assert lease["spec"]["holderIdentity"] == ""  # type: ignore[index]


async def test_controller_evicts_on_the_embedded_server(tmp_path: Path) -> None:
    cloud = Cloud(i1="kvm-a", i2="kvm-a", i3="kvm-a")
    metrics = Metrics()
    encoded = tuple(msgspec.json.encode(manifest) for manifest in manifests())
    options = ServerOptions(data=tmp_path, port=0, manifests=encoded)
    limits = Limits(backoff=QUICK)
    async with serve(options) as server:
        connection: Connection = load_connection(server.kubeconfig)
        async with Kube(connection, metrics=metrics, limits=limits) as kube:
            async with running(kube, metrics, cloud):
                await evict(kube)
                await eventually(lambda: succeeded(kube))
            events = await kube.list(Event, "default")
    assert cloud.moves == list(reversed(QUEUE))
    notes = sorted(event.note for event in events.items)
    assert notes == [f"Moving instance {instance}" for instance in QUEUE]
