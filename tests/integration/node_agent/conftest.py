"""An agent's parts on a real embedded API server and a libvirt in memory."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
import pytest_asyncio
from tests.following import background, follow
from tests.integration.apiserver.conftest import certificates, fresh
from tests.integration.runtime.scripted import eventually
from tests.sockets import left_to_the_collector

from hypercobalt.adapters.libvirt.fake import FakeLibvirt
from hypercobalt.adapters.libvirt.model import Domain, DomainState
from hypercobalt.agent.applier import REFUSED, Applier
from hypercobalt.api import crd
from hypercobalt.api.coordination import Lease
from hypercobalt.api.definition import CustomResourceDefinition
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import NODE_AGENT_TYPES
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.apiserver.server import Server, serve
from hypercobalt.node_agent.agent import report
from hypercobalt.node_agent.libvirt.state import LibvirtState
from hypercobalt.node_agent.status.parts import Board, Parts
from hypercobalt.runtime import (
    Backoff,
    Connection,
    Informer,
    Kube,
    Limits,
    Metrics,
    SystemClock,
    load_connection,
)
from hypercobalt.runtime.client.requests import Selection

__all__ = ["certificates"]

NODE = "kvm-a"
UNITS = ("libvirtd.service", "openvswitch-switch.service")
DEADLINE = 30.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(
    tmp_path_factory: pytest.TempPathFactory, certificates: Path
) -> AsyncIterator[Server]:
    options = fresh(tmp_path_factory.mktemp("api"), certificates)
    async with serve(options) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def kube(server: Server) -> AsyncIterator[Kube]:
    """A person's client; leaves neither a Hypervisor nor the Lease of a killed agent behind."""
    async with Kube(load_connection(server.kubeconfig), field_manager="person") as made:
        yield made
        for old in (await made.list(Hypervisor)).items:
            await made.delete(Hypervisor, old.metadata.name)
        for lease in (await made.list(Lease)).items:
            await made.delete(Lease, lease.metadata.name, lease.metadata.namespace)


def boot(
    libvirt: FakeLibvirt,
    uuid: str,
    name: str = "",
    *,
    detail: int = 0,
    memory_bytes: int = 0,
    vcpus: int = 1,
) -> None:
    """Start a transient domain."""
    domain = Domain(uuid, name or uuid, True, DomainState.RUNNING, memory_bytes, vcpus)
    libvirt.create(domain, detail)


@dataclass
class Agent:
    """The running writer of the Hypervisor's status."""

    libvirt: FakeLibvirt
    board: Board
    applier: Applier[Hypervisor, Parts, HypervisorStatus]
    writes: list[HypervisorStatus]

    async def wrote(self, good: Callable[[HypervisorStatus], bool]) -> None:
        """Wait until the agent has written such a status."""
        await eventually(lambda: bool(self.writes) and good(self.writes[-1]), seconds=DEADLINE)


@contextlib.asynccontextmanager
async def running(
    server: Server | Connection,
    libvirt: FakeLibvirt,
    *,
    node: str = NODE,
    limits: Limits | None = None,
    refused: Backoff = REFUSED,
) -> AsyncIterator[Agent]:
    connection = server if isinstance(server, Connection) else load_connection(server.kubeconfig)
    metrics = Metrics()
    limits = limits or Limits(attempt=timedelta(seconds=2))
    with left_to_the_collector():
        async with Kube(connection, metrics=metrics, limits=limits) as kube:
            board = Board(SystemClock())
            selection = Selection(Hypervisor, None, "", f"metadata.name={node}")
            informer = Informer(kube, selection, metrics=metrics)
            writes: list[HypervisorStatus] = []
            how = report(node, (*NODE_AGENT_TYPES, *UNITS))
            applier = Applier(kube, how, board, informer, on_written=writes.append, refused=refused)
            state = LibvirtState(libvirt, board, units=UNITS)
            async with background(informer.run, applier.run, state.run):
                yield Agent(libvirt, board, applier, writes)


async def create(kube: Kube, name: str = NODE, **fields: object) -> Hypervisor:
    return await kube.create(Hypervisor(metadata=ObjectMeta(name=name), **fields))  # type: ignore[arg-type]


async def until(
    kube: Kube, good: Callable[[Hypervisor], bool], *, name: str = NODE, deadline: float = DEADLINE
) -> Hypervisor:
    return await follow(kube, Hypervisor, name, good, seconds=deadline)


def definition(*rules: dict[str, str]) -> dict[str, object]:
    """A patch of the Hypervisor's definition: ours, with more rules for the status."""
    spec = cast("dict[str, Any]", copy.deepcopy(crd.manifest(Hypervisor)["spec"]))
    root = spec["versions"][0]["schema"]["openAPIV3Schema"]
    root["properties"]["status"]["x-kubernetes-validations"] = list(rules)
    return {"spec": {"versions": spec["versions"]}}


@contextlib.asynccontextmanager
async def refusing_instances(kube: Kube) -> AsyncIterator[Callable[[], Awaitable[object]]]:
    """Have a definition that refuses a status with instances, and yield its repair."""
    name = "hypervisors.kvm.cloud.sap"

    async def repair() -> None:
        await kube.merge_patch(CustomResourceDefinition, name, definition())

    without = "!has(self.instances) || size(self.instances) == 0"
    rules = definition({"rule": without, "message": "no instances for now"})
    await kube.merge_patch(CustomResourceDefinition, name, rules)
    try:
        yield repair
    finally:
        await repair()
