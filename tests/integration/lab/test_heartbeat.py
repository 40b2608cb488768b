"""The heartbeat of a host as a process: what becomes of its Node while it stands still."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from hypercobalt import pki
from hypercobalt.api.coordination import Lease
from hypercobalt.api.core import Node, NodeSystemInfo
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.apiserver import node_lifecycle
from hypercobalt.apiserver.server import ServerOptions, serve
from hypercobalt.lab import heartbeat, rights
from hypercobalt.lab.control import lease
from hypercobalt.lab.heartbeat import HeartbeatError, ReportedMachine
from hypercobalt.pki.certificates import make_client
from hypercobalt.runtime import Kube, SystemClock, load_connection
from tests.following import follow

NAME = "kvm-1"
GRACE = timedelta(seconds=1.5)
INTERVAL = "0.1"
SOON = 30.0


@contextlib.asynccontextmanager
async def serving(data: Path, grace: timedelta = node_lifecycle.GRACE) -> AsyncIterator[Kube]:
    """An administrator's client of a server that has the Node and its Lease."""
    options = ServerOptions(data, port=0, node_grace=grace)
    async with serve(options) as server, Kube(load_connection(server.kubeconfig)) as client:
        node = await client.create(Node(metadata=ObjectMeta(name=NAME)))
        for obj in (lease(node), *rights.of_heartbeat(node)):
            await client.create(obj)
        yield client


def credentials(data: Path) -> Path:
    """A folder with what the lab gives a host."""
    folder = data.parent / "credentials"
    folder.mkdir()
    authority = pki.load(data / "pki", "ca")
    client = make_client(authority, rights.node_user(NAME), ("system:nodes",))
    (folder / heartbeat.CA).write_bytes(authority.certificate)
    (folder / heartbeat.CERTIFICATE).write_bytes(client.certificate)
    (folder / heartbeat.KEY).write_bytes(client.key)
    return folder


@contextlib.asynccontextmanager
async def beating(data: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    server = load_connection(data / "kubeconfig").server
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hypercobalt.lab.heartbeat", "--server", server),
        *("--credentials", str(credentials(data)), "--node", NAME, "--node-ip", "10.77.0.1"),
        *("--system-uuid", "uuid", "--interval", INTERVAL),
    )
    try:
        yield process
    finally:
        process.kill()
        await process.wait()


def ready(node: Node) -> str:
    return next((c.status for c in node.status.conditions if c.type == "Ready"), "")


async def shown(kube: Kube, right: Callable[[Node], bool]) -> Node:
    return await follow(kube, Node, NAME, right, seconds=SOON)


async def test_a_frozen_host_is_unreachable_and_ready_again_when_it_goes_on(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with serving(data, GRACE) as kube, beating(data) as process:
        node = await shown(kube, lambda node: ready(node) == "True" and not node.spec.taints)
        assert [one.address for one in node.status.addresses] == [NAME, "10.77.0.1"]

        process.send_signal(signal.SIGSTOP)
        node = await shown(kube, lambda node: len(node.spec.taints) == 2)
        assert ready(node) == "Unknown"
        assert {taint.key for taint in node.spec.taints} == {"node.kubernetes.io/unreachable"}

        process.send_signal(signal.SIGCONT)
        await shown(kube, lambda node: ready(node) == "True" and not node.spec.taints)


async def test_an_idle_heartbeat_writes_nothing_but_its_lease(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with serving(data) as kube, beating(data):
        node = await shown(kube, lambda node: ready(node) == "True")
        times = set[object]()
        async with (
            asyncio.timeout(SOON),
            kube.watch(Lease, heartbeat.LEASE_NAMESPACE) as events,
        ):
            async for event in events:
                times.add(event.object and event.object.spec.renewTime)
                if len(times) == 4:
                    break
        assert await kube.get(Node, NAME) == node


async def test_a_heartbeat_is_refused_the_node_of_another_host(tmp_path: Path) -> None:
    data = tmp_path / "data"
    other = ReportedMachine("kvm-2", "10.77.0.2", NodeSystemInfo())
    async with serving(data) as kube:
        await kube.create(Node(metadata=ObjectMeta(name=other.name)))
        server = load_connection(data / "kubeconfig").server
        with contextlib.closing(heartbeat.Api(server, credentials(data))) as api:
            for attempt in (
                partial(heartbeat.beat, api, other, SystemClock().now()),
                partial(api.get, "/api/v1/nodes/kvm-2"),
                partial(api.get, "/api/v1/nodes"),
                partial(api.patch, "/api/v1/nodes/kvm-1", "merge-patch+json", {"spec": {}}),
            ):
                with pytest.raises(HeartbeatError, match=" 403 "):
                    await asyncio.to_thread(attempt)
