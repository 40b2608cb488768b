"""The operator's controllers on a real API server: the embedded one, or a kube-apiserver.

`OPERATOR_TEST_API=real` runs the same tests on etcd and kube-apiserver, where the operator may do
what its chart allows, and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
import pytest_asyncio
from tests.conformance.charts import with_every_source
from tests.conformance.permitted import ACCOUNT, grant
from tests.conformance.prepare import install_definitions, own_definitions
from tests.conformance.real import real_server
from tests.conformance.wire import Body
from tests.integration.apiserver.conftest import certificates
from tests.integration.cert_manager import CERT_MANAGER, CERTIFICATE_REQUESTS
from tests.integration.controllers import abandoned_sockets, embedded, no_crashed_pass
from tests.integration.operator.documented import cloud
from tests.integration.runtime.scripted import eventually

from hypercobalt.adapters.fencing.agents import AgentDevice
from hypercobalt.api.address import Address
from hypercobalt.api.certificate import Certificate
from hypercobalt.api.coordination import Lease
from hypercobalt.api.core import Namespace, Node, NodeAddress, NodeCondition, NodeStatus
from hypercobalt.api.eviction import Eviction
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import Object, ObjectMeta
from hypercobalt.api.ovsnode import OVSNode
from hypercobalt.compute.port import ComputeService
from hypercobalt.operator.assembly import add_controllers
from hypercobalt.operator.certificates.settings import Issuing
from hypercobalt.operator.ha.devices.fences import Fences
from hypercobalt.operator.ha.devices.template_fences import Open
from hypercobalt.operator.settings import OperatorOptions
from hypercobalt.operator.shared.node_facts import HOSTNAME_LABEL, HYPERVISOR_LABEL, ZONE_LABEL
from hypercobalt.runtime import (
    Kube,
    Manager,
    Metrics,
    load_connection,
)

__all__ = ["abandoned_sockets", "certificates", "cloud", "no_crashed_pass"]

T = TypeVar("T", bound=Object)

REAL = os.environ.get("OPERATOR_TEST_API") == "real"
AGENTS = ("agents", "more-agents")
SWITCHES = "ovn-system"
"""Namespace of the OVSNodes and their agents' Leases."""
DEFAULTS = OperatorOptions(AGENTS, Issuing("monsoon3", "nova-hypervisor-agents-ca-issuer"))
DEADLINE = 45.0


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def kubeconfig(
    tmp_path_factory: pytest.TempPathFactory, certificates: Path
) -> AsyncIterator[Path]:
    """The kubeconfig of one server for the whole session."""
    directory = tmp_path_factory.mktemp("api")
    if REAL:
        with real_server(directory) as real:
            kinds = [*own_definitions(), CERT_MANAGER, CERTIFICATE_REQUESTS]
            await asyncio.to_thread(install_definitions, real, kinds)
            env = {"compute": "direct", "agentNamespaces": ",".join(AGENTS)}
            values: Body = {
                "controllerManager": {"manager": {"env": env}},
                "ovs": {"enabled": True},
            }
            objects = with_every_source("hypercobalt-operator", values)
            await asyncio.to_thread(grant, real, objects, {*AGENTS, "monsoon3", SWITCHES})
            yield real.kubeconfig
        return
    async with embedded(directory, certificates, CERT_MANAGER, CERTIFICATE_REQUESTS) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def kube(kubeconfig: Path) -> AsyncIterator[Kube]:
    """A person's client; leaves nothing behind."""
    async with Kube(load_connection(kubeconfig), field_manager="person") as made:
        for name in (*AGENTS, "monsoon3", "kube-system", SWITCHES):
            if await made.get(Namespace, name) is None:
                await made.create(Namespace(metadata=ObjectMeta(name=name)))
        yield made
        for type_ in (Node, Hypervisor, Eviction):
            for old in (await made.list(type_)).items:
                await made.delete(type_, old.metadata.name)
                await made.modify(type_, old.metadata.name, let_go)
        for left in (await made.list(OVSNode, SWITCHES)).items:
            await made.delete(OVSNode, left.metadata.name, SWITCHES)
        # One that runs out later would cost the next test's operator a pass.
        for namespace in (*AGENTS, "monsoon3", SWITCHES):
            for lease in (await made.list(Lease, namespace)).items:
                await made.delete(Lease, lease.metadata.name, namespace)


def let_go(deleted: T) -> T:
    """Remove finalizers, whose controllers do not run any more."""
    meta = msgspec.structs.replace(deleted.metadata, finalizers=())
    return msgspec.structs.replace(deleted, metadata=meta)


@pytest.fixture
def name() -> str:
    """A Node's name that no other test uses."""
    return f"kvm-{uuid.uuid4().hex[:8]}"


@dataclass
class Operator:
    """A running operator and its requests to the server."""

    metrics: Metrics
    manager: Manager

    def requests(self, method: str, code: str | None = None) -> int:
        """Requests of a method that were answered, with that code or with any."""
        found = 0.0
        for family in self.metrics.requests.collect():
            for sample in family.samples:
                labels = sample.labels
                counts = sample.name.endswith("_total") and labels["method"] == method
                if counts and code in (None, labels["code"]):
                    found += sample.value
        return int(found)

    @property
    def writes(self) -> int:
        """Requested changes of objects, conflicts included, Events excluded."""
        return self.requests("PATCH") + self.requests("POST") + self.requests("DELETE")

    @property
    def calls(self) -> str:
        """How often each call was made, by verb, resource and code: to explain a count."""
        return ", ".join(
            f"{int(sample.value)} {' '.join(sample.labels.values())}"
            for family in self.metrics.call_seconds.collect()
            for sample in family.samples
            if sample.name.endswith("_count")
        )


@asynccontextmanager
async def operator(
    kubeconfig: Path,
    compute: ComputeService | None = None,
    fences: Fences | None = None,
    *,
    address: Address | None = None,
    open_device: Open = AgentDevice,
    **options: object,
) -> AsyncIterator[Operator]:
    """Run every controller until the block is left."""
    metrics = Metrics()
    settings = replace(DEFAULTS, **options)  # type: ignore[arg-type]
    account = kubeconfig.with_name(ACCOUNT)  # a server that a test has made for itself has none
    mine = account if account.exists() else kubeconfig
    async with Kube(load_connection(mine), metrics=metrics) as client:
        manager = Manager(client, metrics=metrics, address=address)
        connect = (lambda *_: compute) if compute else None
        add_controllers(manager, settings, metrics, connect, fences, open_device=open_device)
        made = Operator(metrics, manager)
        running = asyncio.create_task(manager.run())
        try:
            yield made
        finally:
            manager.stop()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait_for(running, DEADLINE)
    for method in ("GET", "PATCH", "POST", "DELETE") if REAL else ():
        assert made.requests(method, "403") == 0, f"the chart does not allow some {method}"


def ready(status: str = "True", **pressures: str) -> tuple[NodeCondition, ...]:
    found = {"Ready": status, **pressures}
    return tuple(NodeCondition(type=type_, status=value) for type_, value in found.items())


def address_of(name: str) -> str:
    """The address that a Node has unless a test gives it others: its own, as those of hosts are."""
    return f"10.{'.'.join(str(part) for part in hashlib.sha256(name.encode()).digest()[:3])}"


async def add_node(
    kube: Kube,
    name: str,
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    addresses: tuple[str, ...] | None = None,
    conditions: tuple[NodeCondition, ...] | None = None,
) -> Node:
    """A Node with the label of hypervisors, as a kubelet would report it."""
    always = {HYPERVISOR_LABEL: "libvirt", HOSTNAME_LABEL: name, ZONE_LABEL: "zone-a"}
    meta = ObjectMeta(name=name, labels={**always, **(labels or {})}, annotations=annotations or {})
    await kube.create(Node(metadata=meta))
    listed = (address_of(name),) if addresses is None else addresses
    status = NodeStatus(
        addresses=tuple(NodeAddress(type="InternalIP", address=a) for a in listed),
        conditions=ready() if conditions is None else conditions,
    )
    return await set_node_status(kube, name, status)


async def set_node_status(kube: Kube, name: str, status: NodeStatus) -> Node:
    found = await kube.modify(
        Node, name, lambda node: msgspec.structs.replace(node, status=status), subresource="status"
    )
    assert found is not None
    return found


async def until(
    kube: Kube,
    type_: type[T],
    name: str,
    good: Callable[[T], bool],
    *,
    namespace: str | None = None,
    doing: Callable[[], Awaitable[object]] | None = None,
    within: float = DEADLINE,
) -> T:
    """Follow an object until it is as wanted."""
    last: T | None = None
    try:
        async with (
            asyncio.timeout(within),
            kube.watch(type_, namespace, fields=f"metadata.name={name}") as events,
        ):
            if doing is not None:
                await doing()
            async for event in events:
                last = event.object or last
                if event.object is not None and good(event.object):
                    return event.object
    except TimeoutError:
        raise AssertionError(f"not in {within} s; last: {last}") from None
    raise AssertionError(f"the watch ended; last: {last}")


def reason(hypervisor: Hypervisor, type_: str) -> str:
    """`status/reason` of a condition, empty if there is none."""
    found = next((c for c in hypervisor.conditions if c.type == type_), None)
    return f"{found.status}/{found.reason}" if found else ""


async def passes(running: Operator, controller: str) -> None:
    """Wait until a controller has made a pass."""
    total = running.metrics.reconcile_total.labels(controller, "success")
    await eventually(lambda: total._value.get() > 0)


def settled(hypervisor: Hypervisor) -> bool:
    """Whether every controller that works on a fresh Hypervisor has written its part.

    The address is the last that a new Node gets: it is made first, and then gets its status.
    """
    types = {condition.type for condition in hypervisor.conditions}
    wanted = {"Ready", "Tainted", "NodeHealthy", "AgentReporting"}
    return wanted <= types and hypervisor.status.internalIp is not None


async def until_settled(kube: Kube, name: str) -> Hypervisor:
    """Wait until a Node has all that it gets at first."""
    certificate = f"libvirt-{name}"
    await until(kube, Certificate, certificate, lambda _: True, namespace="monsoon3")
    return await until(kube, Hypervisor, name, settled)
