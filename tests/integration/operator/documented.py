"""What tests of documented behaviour share: Hypervisors by hand, and what OpenStack is sent.

The existing operator's own tests write ids, conditions and aggregates into the status of a
Hypervisor, often without a Node, and look at conditions, objects and HTTP requests. So do these.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import msgspec
import pytest
import pytest_asyncio
from tests.integration.operator.lifecycle import TEST_AGGREGATE
from tests.integration.operator.simulated import SimulatedCloud, served, world_of
from tests.simulated_openstack.http import Json, Request
from tests.simulated_openstack.script import Fault

from hypercobalt.api.conditions import Condition, set_condition
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.hypervisor_status import Aggregate, HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.operator.shared.node_facts import HOSTNAME_LABEL, ZONE_LABEL
from hypercobalt.runtime import Kube

MANAGED: Final = HypervisorSpec(lifecycleEnabled=True, highAvailability=False)
UNMANAGED: Final = HypervisorSpec(lifecycleEnabled=False, highAvailability=False)
IN_SERVICE: Final = "Onboarding=False/Succeeded"


@dataclass(frozen=True, slots=True)
class Change:
    """A request that changes something: `call` as the simulation names it, without its service."""

    call: str
    path: str
    body: Json


@dataclass(slots=True)
class Cloud(SimulatedCloud):
    """One that records the changes, with one host.

    Args:
        changes: that were carried out, in order.
    """

    changes: list[Change] = field(default_factory=list[Change])

    def fail(self, calls: str, code: int = 500) -> Fault:
        """Have calls of a kind answered by an error from now on."""
        return self.script.add(Fault(calls, code=code))

    def enter(self, *aggregates: str) -> None:
        """Have the host in aggregates."""
        for one in self.world.aggregates.values():
            if one.name in aggregates:
                one.hosts[self.name] = None

    def bodies(self, method: str, path: str) -> list[Json]:
        """What was sent by a method to paths like this."""
        return [
            one.body for one in self.changes if one.call == method and fnmatchcase(one.path, path)
        ]

    def note(self, request: Request) -> None:
        """Record a change."""
        if request.method == "GET" or request.service.name == "identity":
            return
        body = msgspec.json.decode(request.content) if request.content else None
        self.changes.append(Change(request.method, request.path, body))

    async def registered(
        self, *conditions: str, spec: HypervisorSpec = MANAGED, **status: object
    ) -> Hypervisor:
        """A Hypervisor by hand that has the ids of its host."""
        ids = {"hypervisorId": self.host.id, "serviceId": self.host.service_id}
        return await by_hand(self.kube, self.name, *conditions, spec=spec, **{**ids, **status})

    def aggregates(self, *names: str) -> tuple[Aggregate, ...]:
        """The aggregates in the status."""
        known = {one.name: one for one in self.world.aggregates.values()}
        return tuple(
            Aggregate(name=name, uuid=known[name].uuid, metadata=known[name].metadata)
            for name in names
        )


@pytest_asyncio.fixture(loop_scope="session")
async def cloud(
    kube: Kube, kubeconfig: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Cloud]:
    world = world_of(name, enabled=True, aggregates=(TEST_AGGREGATE, "general", "special"))
    async with served(monkeypatch, world) as simulation:
        made = Cloud(simulation, kube, kubeconfig, name)
        simulation.script.before("*", made.note)
        yield made


def conditions_of(*texts: str) -> tuple[Condition, ...]:
    """Conditions out of `Type=Status/Reason` or `Type=Status`."""
    made: tuple[Condition, ...] = ()
    for text in texts:
        type_, _, rest = text.partition("=")
        status, _, reason = rest.partition("/")
        now = datetime.now(UTC)
        made = set_condition(made, type_, status, reason or "Testing", "by hand", now=now)
    return made


async def by_hand(
    kube: Kube, name: str, *conditions: str, spec: HypervisorSpec = MANAGED, **status: object
) -> Hypervisor:
    """A Hypervisor without a Node, with a status as a test of the existing operator writes it.

    Args:
        kube: a person's.
        name: of it, and of its host.
        conditions: `Type=Status/Reason`, or `Type=Status`.
        spec: that people gave it.
        status: further fields of the status.
    """
    labels = {HOSTNAME_LABEL: name, ZONE_LABEL: "zone-a"}
    made = await kube.create(Hypervisor(metadata=ObjectMeta(name=name, labels=labels), spec=spec))
    fields = {"numInstances": 0, "conditions": conditions_of(*conditions), **status}
    return await kube.patch_status(made, HypervisorStatus(**fields))  # type: ignore[arg-type]
