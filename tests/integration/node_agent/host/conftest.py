"""The concerns about the host's system, on a host in memory and a real embedded API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
import pytest_asyncio
from tests.integration.apiserver.conftest import certificates, fresh
from tests.integration.cert_manager import CERT_MANAGER, CERTIFICATE_REQUESTS
from tests.sockets import left_to_the_collector

from hypercobalt.adapters.libvirt.model import (
    Domain,
    DomainCapabilities,
    DomainState,
    HostCapabilities,
    Versions,
)
from hypercobalt.agent.board import ConditionReport
from hypercobalt.api.certificate import Certificate, CertificateRequest
from hypercobalt.api.coordination import Lease
from hypercobalt.api.core import Namespace, Secret
from hypercobalt.api.eviction import Eviction
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.meta import Object, ObjectMeta
from hypercobalt.api.ovsnode import OVSNode
from hypercobalt.apiserver.server import Server, serve
from hypercobalt.node_agent.status.parts import Board, Inventory
from hypercobalt.runtime import Informer, Kube, Metrics, SystemClock, load_connection
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.write_cache import Latest

__all__ = ["certificates"]

T = TypeVar("T", bound=Object)

NODE = "kvm-a"
NAMESPACE = "agents"
DEADLINE = 30.0
MADE = (Hypervisor, Eviction, Secret, Certificate, CertificateRequest, Lease, OVSNode)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(
    tmp_path_factory: pytest.TempPathFactory, certificates: Path
) -> AsyncIterator[Server]:
    options = fresh(tmp_path_factory.mktemp("api"), certificates)
    added = (msgspec.json.encode(one) for one in (CERT_MANAGER, CERTIFICATE_REQUESTS))
    manifests = (*options.manifests, *added)
    async with serve(replace(options, manifests=manifests)) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def kube(server: Server) -> AsyncIterator[Kube]:
    """A client; leaves nothing behind."""
    with left_to_the_collector():
        async with Kube(load_connection(server.kubeconfig)) as made:
            if await made.get(Namespace, NAMESPACE) is None:
                await made.create(Namespace(metadata=ObjectMeta(name=NAMESPACE)))
            yield made
            await delete_all(made)


async def delete_all(kube: Kube) -> None:
    """Delete what tests and their agents have made.

    An agent that a failed test has killed holds its Lease for 40 s more, unless PID 1 is systemd.
    """
    for kind in MADE:
        for old in (await kube.list(kind)).items:
            meta = old.metadata
            await kube.delete(kind, meta.name, meta.namespace or None)


class Site:
    """What the concerns share in an agent."""

    def __init__(self, kube: Kube) -> None:
        self.kube, self.board = kube, Board(SystemClock())
        self._tasks: list[asyncio.Task[None]] = []
        self.hypervisor = self._latest(Hypervisor, NODE)
        self.secret = self._latest(Secret, f"tls-libvirt-{NODE}", NAMESPACE)

    def _latest(self, kind: type[T], name: str, namespace: str | None = None) -> Latest[T]:
        selection = Selection(kind, namespace, "", f"metadata.name={name}")
        informer = Informer(self.kube, selection, metrics=Metrics())
        latest = Latest(informer)
        self.start(informer.run)
        return latest

    def start(self, run: Callable[[], Coroutine[None, None, None]]) -> None:
        """Run something until the site is left."""
        self._tasks.append(asyncio.create_task(run()))

    async def stop(self) -> None:
        ended = [task for task in self._tasks if task.done()]
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        assert not ended, ended

    def put_instances(self, *, active: int, inactive: int = 0) -> None:
        """Have libvirt report so many instances."""
        states = [DomainState.RUNNING] * active + [DomainState.SHUTOFF] * inactive
        domains = tuple(
            Domain(f"u{number}", f"i{number}", state is DomainState.RUNNING, state)
            for number, state in enumerate(states)
        )
        inventory = Inventory(
            Versions("9.0.0", "7.2.0"),
            HostCapabilities("x86_64", ()),
            DomainCapabilities("x86_64", "kvm"),
            domains,
        )
        self.board.put(replace(self.board.parts, inventory=inventory))

    async def until(self, type_: str, reason: str) -> ConditionReport:
        """Wait until the board has a condition with this reason."""
        async with asyncio.timeout(DEADLINE):
            while True:
                parts = self.board.parts
                verdict = parts.conditions.get(type_)
                if verdict and verdict.reason == reason:
                    return verdict
                await self.board.changed(parts)


@pytest_asyncio.fixture(loop_scope="module")
async def site(kube: Kube) -> AsyncIterator[Site]:
    made = Site(kube)
    yield made
    await made.stop()


async def create_hypervisor(kube: Kube, **spec: object) -> Hypervisor:
    return await kube.create(
        Hypervisor(metadata=ObjectMeta(name=NODE), spec=HypervisorSpec(**spec))  # type: ignore[arg-type]
    )
