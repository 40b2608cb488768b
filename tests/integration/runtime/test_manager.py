"""A whole process: no reconcile is lost, and a process that does not lead does nothing."""

from __future__ import annotations

import asyncio
import io
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import httpx2
import pytest
from msgspec.structs import replace
from tests.integration.runtime.conftest import QUICK
from tests.integration.runtime.scripted import Drop, Reply, Request, ScriptedServer, eventually
from tests.sockets import left_to_the_collector
from tests.unit.runtime.memory import memory_kube

from hypercobalt.api.address import Address
from hypercobalt.api.core import Node
from hypercobalt.errors import ConfigurationError
from hypercobalt.runtime import (
    Connection,
    Controller,
    Election,
    KeyBackoff,
    Kube,
    LeadershipLostError,
    Limits,
    Manager,
    Metrics,
    NotLeadingError,
    Result,
    SystemClock,
    Timing,
    primary,
)
from hypercobalt.runtime.manager import Service

TIMING = Timing(
    duration=timedelta(seconds=2),
    renew_deadline=timedelta(seconds=1),
    retry_period=timedelta(milliseconds=100),
)
BACKOFF = KeyBackoff(base=timedelta(milliseconds=5), cap=timedelta(milliseconds=100))


class Copier:
    """Writes `spec.podCIDR` of each Node into the label `copied`; slow while `held`."""

    def __init__(self, kube: Kube, name: str = "") -> None:
        self.kube, self.name = kube, name
        self.held = asyncio.Event()
        self.held.set()
        self.inside = 0
        self.cancelled = 0

    async def reconcile(self, key: str, /) -> Result:
        node = await self.kube.get(Node, key)
        if node is None:
            return Result()
        self.inside += 1
        try:
            await self.held.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.inside -= 1
        labels = {**node.metadata.labels, "copied": node.spec.podCIDR, "by": self.name}
        if node.metadata.labels.get("copied") != node.spec.podCIDR:
            await self.kube.patch(
                node, replace(node, metadata=replace(node.metadata, labels=labels))
            )
        return Result()


class Process:
    """A manager with one controller, and its own client."""

    def __init__(self, server: ScriptedServer, name: str, *, elect: bool = True) -> None:
        self.metrics = Metrics()
        limits = Limits(
            deadline=timedelta(seconds=2), attempt=timedelta(milliseconds=500), backoff=QUICK
        )
        self.client = Kube(
            Connection(server.url), limits=limits, metrics=self.metrics, field_manager=name
        )
        self.manager = Manager(
            self.client,
            metrics=self.metrics,
            election=Election("lock", "ns", name, TIMING) if elect else None,
            address=Address(port=0),
            stop_deadline=timedelta(seconds=1),
            abort=lambda: None,
        )
        self.copier = Copier(self.manager.kube, name)
        nodes = self.manager.informer(Node)
        self.manager.add(
            Controller(
                "copier", self.copier, watches=[primary(nodes)], concurrency=2, backoff=BACKOFF
            )
        )
        self.task = asyncio.create_task(self.manager.run())

    async def end(self) -> None:
        self.manager.stop()
        async with asyncio.timeout(10):
            await asyncio.wait({self.task})
        await self.client.aclose()

    async def page(self, path: str) -> httpx2.Response:
        address = self.manager.address
        assert address is not None
        async with httpx2.AsyncClient() as client:
            return await client.get(f"http://127.0.0.1:{address.port}{path}")


@asynccontextmanager
async def process(
    server: ScriptedServer, name: str, *, elect: bool = True
) -> AsyncIterator[Process]:
    with left_to_the_collector():  # calls are cancelled in the middle
        made = Process(server, name, elect=elect)
        try:
            yield made
        finally:
            await made.end()


def put(server: ScriptedServer, name: str, cidr: str) -> None:
    known = server.objects.get("nodes", {}).get(name, {"metadata": {"name": name}})
    server.put("nodes", {**known, "spec": {"podCIDR": cidr}})


def all_copied(server: ScriptedServer) -> bool:
    return all(
        node["metadata"].get("labels", {}).get("copied") == node["spec"]["podCIDR"]  # type: ignore[attr-defined,index]
        for node in server.objects["nodes"].values()
    )


async def test_no_reconcile_is_lost_in_storms_drops_and_restarts(server: ScriptedServer) -> None:
    async with process(server, "one", elect=False):
        for turn in range(6):
            for number in range(8):
                put(server, f"n{number}", f"10.{turn}.0.0/16")
            if turn % 3 == 0:
                server.fail(500, times=5)
                server.fail(429, times=5)
            elif turn % 3 == 1:
                server.drop_watches()
                server.compact()
            else:
                await server.stop()
                await server.start()
            answered = len(server.requests)
            await eventually(lambda: len(server.requests) > answered)  # noqa: B023 - used at once
        await eventually(lambda: all_copied(server))


async def test_leader_that_loses_its_lease_in_the_middle_of_a_pass_writes_nothing(
    server: ScriptedServer,
) -> None:
    put(server, "n", "10.0.0.0/16")
    async with process(server, "one") as one:
        one.copier.held.clear()
        await eventually(lambda: one.copier.inside == 1)
        async with process(server, "two") as two:

            def cut_off(request: Request) -> Reply | None:
                if request.headers["user-agent"] == "one":
                    raise Drop
                return None

            server.faults.append(cut_off)
            await eventually(lambda: two.copier.inside == 1 or all_copied(server))
            assert one.copier.inside == 0, "the old leader's pass ended before the new one's began"
            assert one.copier.cancelled == 1
            await eventually(lambda: all_copied(server))
            labels = server.objects["nodes"]["n"]["metadata"]["labels"]  # type: ignore[index]
            assert labels["by"] == "two"
            with pytest.raises(LeadershipLostError):
                await one.task
            with pytest.raises(NotLeadingError):
                await one.manager.kube.delete(Node, "n")


async def test_sigterm_finishes_the_pass_and_frees_the_lease(
    server: ScriptedServer, written_logs: io.StringIO
) -> None:
    put(server, "n", "10.0.0.0/16")
    async with process(server, "one") as one:
        one.copier.held.clear()
        await eventually(lambda: one.copier.inside == 1)
        os.kill(os.getpid(), signal.SIGTERM)
        await eventually(lambda: '"stop_requested"' in written_logs.getvalue())
        one.copier.held.set()
        async with asyncio.timeout(5):
            await one.task
    assert all_copied(server)
    assert server.objects["leases"]["ns/lock"]["spec"]["holderIdentity"] == ""  # type: ignore[index]


async def test_stop_cancels_a_pass_that_outlasts_the_deadline(server: ScriptedServer) -> None:
    put(server, "n", "10.0.0.0/16")
    async with process(server, "one") as one:
        one.copier.held.clear()
        await eventually(lambda: one.copier.inside == 1)
        one.manager.stop()
        async with asyncio.timeout(5):
            await asyncio.wait({one.task})
        assert one.copier.cancelled == 1


async def test_manager_serves_health_readiness_and_metrics(server: ScriptedServer) -> None:
    broken = ["disk is full"]
    server.fail(500, times=1000, verbs=("list",))
    async with process(server, "one", elect=False) as one:
        one.manager.add_check("disk", lambda: broken[0])
        await eventually(lambda: one.manager.address is not None)
        health, ready = await one.page("/healthz"), await one.page("/readyz?verbose")
        assert (health.status_code, ready.status_code) == (500, 500)
        assert "disk is full" in health.text
        assert "not read yet: Node" in ready.text
        broken[0] = ""
        server.faults.clear()
        put(server, "n", "10.0.0.0/16")
        await eventually(lambda: all_copied(server))
        health, ready = await one.page("/healthz"), await one.page("/readyz")
        assert (health.status_code, ready.status_code) == (200, 200)
        metrics = (await one.page("/metrics")).text
        assert (await one.page("/other")).status_code == 404
    for name in (
        'controller_runtime_reconcile_total{controller="copier",result="success"}',
        'controller_runtime_reconcile_errors_total{controller="copier"}',
        'controller_runtime_reconcile_time_seconds_bucket{controller="copier"',
        'controller_runtime_active_workers{controller="copier"}',
        'controller_runtime_max_concurrent_reconciles{controller="copier"} 2.0',
        'workqueue_depth{name="copier"}',
        'workqueue_adds_total{name="copier"}',
        "workqueue_queue_duration_seconds_bucket{le=",
        "workqueue_work_duration_seconds_bucket{le=",
        'workqueue_retries_total{name="copier"}',
        'rest_client_requests_total{code="200",host="127.0.0.1:',
    ):
        assert name in metrics


async def test_a_taken_port_is_named(server: ScriptedServer, kube: Kube, metrics: Metrics) -> None:
    manager = Manager(kube, metrics=metrics, address=Address(port=server.port))
    with pytest.raises(ConfigurationError, match=f":{server.port}: Address already in use$"):
        await manager.run()


async def test_a_broken_service_ends_the_process(kube: Kube, metrics: Metrics) -> None:
    async def broken(_: asyncio.Event) -> None:
        raise ValueError("a bug")

    manager = Manager(kube, metrics=metrics)
    manager.add_service("broken", broken)
    with pytest.raises(ValueError, match="a bug"):
        await manager.run()


@pytest.mark.looptime
async def test_a_service_that_does_not_stop_is_cancelled(metrics: Metrics) -> None:
    loop = asyncio.get_running_loop()
    ends: list[float] = []

    async def stubborn(_: asyncio.Event) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ends.append(loop.time() - started)

    manager = Manager(memory_kube(ScriptedServer(), SystemClock()), metrics=metrics)
    manager.add_service("stubborn", stubborn)
    manager.stop()
    started = loop.time()
    await manager.run()
    assert ends == [pytest.approx(5)]


def uncancellable(ended: asyncio.Event) -> Service:
    """A service that ignores every call to end, for some minutes or until `ended`."""

    async def service(_stop: asyncio.Event) -> None:
        for _ in range(10):
            with suppress(asyncio.CancelledError, TimeoutError):
                async with asyncio.timeout(60):
                    await ended.wait()
                    return

    return service


@pytest.mark.looptime
async def test_work_that_ignores_cancellation_ends_with_the_process(metrics: Metrics) -> None:
    loop = asyncio.get_running_loop()
    aborts: list[float] = []
    ended = asyncio.Event()

    def abort() -> None:  # ends the process, and so everything in it
        aborts.append(loop.time() - started)
        ended.set()

    manager = Manager(memory_kube(ScriptedServer(), SystemClock()), metrics=metrics, abort=abort)
    manager.add_service("uncancellable", uncancellable(ended))
    manager.stop()
    started = loop.time()
    await manager.run()
    assert aborts == [pytest.approx(20 + 5 + 3)]


@pytest.mark.looptime
async def test_work_that_a_crash_leaves_running_ends_with_the_process(metrics: Metrics) -> None:
    async def broken(_: asyncio.Event) -> None:
        raise ValueError("a bug")

    ended = asyncio.Event()
    kube = memory_kube(ScriptedServer(), SystemClock())
    manager = Manager(kube, metrics=metrics, abort=ended.set)
    manager.add_service("uncancellable", uncancellable(ended))
    manager.add_service("broken", broken)
    with pytest.raises(ValueError, match="a bug"):
        await manager.run()
    assert ended.is_set()


async def test_a_page_whose_check_fails_closes_its_connection(kube: Kube, metrics: Metrics) -> None:
    async def get(path: str) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
        try:
            return await reader.read()
        finally:
            writer.close()

    manager = Manager(kube, metrics=metrics, address=Address(port=0))
    manager.add_check("broken", lambda: str(1 / 0))
    task = asyncio.create_task(manager.run())
    await eventually(lambda: manager.address is not None)
    assert manager.address is not None
    port = manager.address.port
    async with asyncio.timeout(5):
        answer = await get("/healthz")
    manager.stop()
    await task
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert b"broken failed: ZeroDivisionError" in answer


async def test_each_selection_has_one_informer(kube: Kube, metrics: Metrics) -> None:
    manager = Manager(kube, metrics=metrics)
    first = manager.informer(Node)
    assert manager.informer(Node) is first
    assert manager.informer(Node, labels="a=b") is not first
    with pytest.raises(ConfigurationError, match="indexes"):
        manager.informer(Node, indexes={"x": lambda _: ()})


async def test_leader_only_service_runs_in_the_leader_alone(server: ScriptedServer) -> None:
    running: set[str] = set()

    def service(name: str) -> Service:
        async def run(stop: asyncio.Event) -> None:
            running.add(name)
            await stop.wait()
            running.discard(name)

        return run

    one, two = Process(server, "one"), Process(server, "two")
    try:
        for made, name in ((one, "one"), (two, "two")):
            made.manager.add_service("fleet", service(name), leader_only=True)
            with pytest.raises(ConfigurationError, match="fleet"):
                made.manager.add_service("fleet", service(name))
        await eventually(lambda: len(running) == 1)
        (leader,) = running
        await (one if leader == "one" else two).end()
        await eventually(lambda: running == {"one", "two"} - {leader})
    finally:
        await one.end()
        await two.end()
