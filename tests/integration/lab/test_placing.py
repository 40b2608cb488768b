"""The lab's scheduler on a real API server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from hypercobalt.api.affinity import Affinity, PodAffinity, PodAffinityTerm
from hypercobalt.api.coordination import Event
from hypercobalt.api.core import Namespace, Node, NodeStatus
from hypercobalt.api.meta import LabelSelector, ObjectMeta
from hypercobalt.api.pods import ResourceRequirements
from hypercobalt.api.quantity import Quantity
from hypercobalt.api.workloads import Container, Pod, PodSpec, PodStatus
from hypercobalt.apiserver.server import ServerOptions, serve
from hypercobalt.lab.pods.placing.scheduler import add_scheduler
from hypercobalt.runtime import Kube, Manager, Metrics, load_connection
from hypercobalt.vmi.launcher_pods import pod_condition
from tests.integration.apiserver.conftest import certificates, options
from tests.integration.runtime.scripted import eventually
from tests.sockets import left_to_the_collector

__all__ = ["certificates", "options"]

DEADLINE = 15.0


@asynccontextmanager
async def scheduled(options: ServerOptions) -> AsyncIterator[Kube]:
    """A server with a scheduler, and a client of its administrator."""
    with left_to_the_collector():
        async with serve(options) as server:
            connection, metrics = load_connection(server.kubeconfig), Metrics()
            async with Kube(connection) as kube, Kube(connection, metrics=metrics) as client:
                await kube.create(Namespace(metadata=ObjectMeta(name="lab")))
                manager = Manager(client, metrics=metrics)
                add_scheduler(manager)
                running = asyncio.create_task(manager.run())
                try:
                    yield kube
                finally:
                    manager.stop()
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.wait_for(running, DEADLINE)


async def add_node(kube: Kube, name: str, cpu: str = "4") -> None:
    await kube.create(Node(metadata=ObjectMeta(name=name, labels={"zone": name})))
    have = {"cpu": Quantity(cpu), "memory": Quantity("8Gi"), "pods": Quantity("20")}
    status = NodeStatus(allocatable=have, capacity=have)
    await kube.modify(Node, name, lambda n: replace(n, status=status), subresource="status")


async def add_pod(
    kube: Kube, name: str, cpu: str = "1", scheduler: str = "", *, app: str = "", near: str = ""
) -> None:
    """A pod; `app` is its label, and `near` that of a pod on whose Node it has to be."""
    requests = ResourceRequirements(requests={"cpu": Quantity(cpu)})
    container = Container(name="compute", image="x", resources=requests)
    meta = ObjectMeta(name=name, namespace="lab", labels={"app": app} if app else {})
    term = PodAffinityTerm(
        topologyKey="zone", labelSelector=LabelSelector(matchLabels={"app": near})
    )
    company = PodAffinity(requiredDuringSchedulingIgnoredDuringExecution=(term,) if near else ())
    spec = PodSpec(
        containers=(container,), schedulerName=scheduler, affinity=Affinity(podAffinity=company)
    )
    await kube.create(Pod(metadata=meta, spec=spec))


async def until(kube: Kube, name: str, good: Callable[[Pod], bool]) -> Pod:
    async with (
        asyncio.timeout(DEADLINE),
        kube.watch(Pod, "lab", fields=f"metadata.name={name}") as events,
    ):
        async for event in events:
            if event.object is not None and good(event.object):
                return event.object
    raise AssertionError(name)


def message(pod: Pod) -> str:
    shown = pod_condition(pod, "PodScheduled")
    return shown.message if shown is not None and shown.status == "False" else ""


async def test_pods_are_bound_and_never_more_than_fit(options: ServerOptions) -> None:
    async with scheduled(options) as kube:
        for name in ("node-a", "node-b"):
            await add_node(kube, name)
        for number in range(9):
            await add_pod(kube, f"p{number}")

        async def placed() -> bool:
            pods = (await kube.list(Pod, "lab")).items
            return sum(bool(pod.spec.nodeName) for pod in pods) == 8 and any(map(message, pods))

        await eventually(placed, seconds=DEADLINE)
        pods = (await kube.list(Pod, "lab")).items
        nodes = [pod.spec.nodeName for pod in pods]
        assert (nodes.count("node-a"), nodes.count("node-b")) == (4, 4)
        (left,) = [pod for pod in pods if not pod.spec.nodeName]
        assert message(left) == (
            "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: "
            "2 No preemption victims found for incoming pod."
        )

        async def told() -> bool:
            events = (await kube.list(Event, "lab")).items
            return {one.reason for one in events} == {"Scheduled", "FailedScheduling"}

        await eventually(told, seconds=DEADLINE)


async def test_pod_waits_for_a_node_and_for_the_end_of_another_pod(options: ServerOptions) -> None:
    async with scheduled(options) as kube:
        await add_pod(kube, "first", cpu="3")
        waiting = await until(kube, "first", lambda pod: bool(message(pod)))
        assert message(waiting) == "no nodes available to schedule pods"
        await add_node(kube, "node-a")
        first = await until(kube, "first", lambda pod: bool(pod.spec.nodeName))
        shown = pod_condition(first, "PodScheduled")
        assert shown is not None
        assert shown.status == "True"
        await add_pod(kube, "second", cpu="3")
        await until(kube, "second", lambda pod: "Insufficient cpu" in message(pod))
        ended = PodStatus(phase="Succeeded")
        await kube.modify(
            Pod, "first", lambda pod: replace(pod, status=ended), "lab", subresource="status"
        )
        await until(kube, "second", lambda pod: bool(pod.spec.nodeName))


async def test_pod_that_requires_company_waits_for_it(options: ServerOptions) -> None:
    async with scheduled(options) as kube:
        await add_node(kube, "node-a")
        await add_pod(kube, "web", near="db")
        await until(kube, "web", lambda pod: "didn't match pod affinity rules" in message(pod))
        await add_pod(kube, "db", app="db")
        await until(kube, "db", lambda pod: bool(pod.spec.nodeName))
        await until(kube, "web", lambda pod: bool(pod.spec.nodeName))


@pytest.mark.parametrize("scheduler", ["another"])
async def test_pod_of_another_scheduler_is_left_alone(
    options: ServerOptions, scheduler: str
) -> None:
    async with scheduled(options) as kube:
        await add_node(kube, "node-a")
        await add_pod(kube, "theirs", scheduler=scheduler)
        await add_pod(kube, "ours")
        await until(kube, "ours", lambda pod: bool(pod.spec.nodeName))
        theirs = await kube.get(Pod, "theirs", "lab")
        assert theirs is not None
        assert (theirs.spec.nodeName, theirs.status.conditions) == ("", ())
