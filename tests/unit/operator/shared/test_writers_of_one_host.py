"""Controllers that write one Hypervisor at the same time: one its spec, one its status."""

from __future__ import annotations

import asyncio
from typing import cast

from msgspec.structs import replace
from tests.unit.operator.samples import LABELS, NOW, condition, hypervisor, node

from hypercobalt.api.core import Node
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.operator.agents.pods import AgentPods
from hypercobalt.operator.nodes.contested import Contested, Rivals
from hypercobalt.operator.nodes.reconciler import HypervisorReconciler
from hypercobalt.operator.shared.node_facts import AGGREGATES_ANNOTATION
from hypercobalt.operator.shared.status_writer import Part, StatusWriter
from hypercobalt.runtime import (
    Cache,
    ConflictError,
    Connection,
    FakeClock,
    Informer,
    Kube,
    ListResult,
    Metrics,
    Recorder,
)
from hypercobalt.runtime.client.errors import Status
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.precedence import Precedence
from hypercobalt.runtime.write_cache import WriteCache, version_of

OTHERS = Part(frozenset({"Registered"}), (condition("Registered", "True", "Registered"),))
NODE = node(annotations={AGGREGATES_ANNOTATION: "general"}, addresses=("10.0.0.1",))


class Server:
    """One Hypervisor and its Node; a status is stored sooner than a spec that came before it."""

    def __init__(self) -> None:
        self.stored = self._next(hypervisor(labels=LABELS), 1)
        self.applying = asyncio.Event()

    def as_manager(self, _name: str) -> Server:
        return self

    async def apply(self, mine: Hypervisor, *, force: bool, subresource: str) -> Hypervisor:
        assert (force, subresource) == (True, "status")
        self.applying.set()
        await asyncio.sleep(0)
        return self._store(replace(self.stored, status=mine.status))

    async def patch(self, old: Hypervisor, new: Hypervisor) -> Hypervisor:
        for _ in range(5):
            await asyncio.sleep(0)
        if version_of(old) != version_of(self.stored):
            raise ConflictError("the object has been modified", Status(code=409))
        return self._store(replace(new, status=self.stored.status))

    def _store(self, changed: Hypervisor) -> Hypervisor:
        self.stored = self._next(changed, version_of(self.stored) + 1)
        return self.stored

    @staticmethod
    def _next(made: Hypervisor, version: int) -> Hypervisor:
        return replace(made, metadata=replace(made.metadata, resourceVersion=str(version)))

    # What else the reconciler asks for.

    def get(self, _name: str) -> Node:
        return NODE

    def release(self, _name: str) -> None:
        """No pod is followed."""

    def rivals(self, _node: Node, _hypervisor: Hypervisor) -> Rivals:
        return Rivals()

    def record(self, *_about: object, **_words: object) -> None:
        """Events count for nothing here."""


async def test_spec_is_not_refused_because_another_controller_writes_the_status() -> None:
    server = Server()
    informer = Informer(
        Kube(Connection("http://127.0.0.1:1")), Selection(Hypervisor), metrics=Metrics()
    )
    hypervisors = WriteCache(informer)
    informer.load(ListResult([server.stored], "1"))
    statuses = StatusWriter(cast("Kube", server), hypervisors, lambda _: ())
    reconciler = HypervisorReconciler(
        cast("Kube", server),
        cast("Cache[Node]", server),
        hypervisors,
        statuses,
        cast("AgentPods", server),
        contested=cast("Contested", server),
        copied=(),
        recovers=True,
        precedence=Precedence(),
        clock=FakeClock(NOW),
        events=cast("Recorder", server),
    )

    async def other() -> None:
        await server.applying.wait()
        await statuses.put(server.stored, OTHERS)

    async with asyncio.TaskGroup() as controllers:
        controllers.create_task(reconciler.reconcile("kvm-a"))
        controllers.create_task(other())

    assert server.stored.spec.aggregates == ("general", "zone-a")
    assert {"NodeHealthy", "Registered"} <= {one.type for one in server.stored.conditions}
