"""What bringing hosts into service costs the API server and OpenStack."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.integration.compute.conftest import Adapter
from tests.integration.operator.conftest import add_node, operator, reason, until
from tests.integration.operator.lifecycle import agent_reports
from tests.openstack.environment import set_account
from tests.simulated_openstack.compute.aggregates import make
from tests.simulated_openstack.serve import serve
from tests.simulated_openstack.world import World

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.operator.node_facts import AGGREGATES_ANNOTATION, LIFECYCLE_LABEL
from hypercobalt.runtime import Kube

pytestmark = pytest.mark.asyncio(loop_scope="session")

NODES = 40
WRITES = 12
"""To the API server for a Node, at most; Events count."""
CALLS = 8
"""To OpenStack for a Node; 5.4 here, and more the slower the API server, since traits age."""


def in_service(hypervisor: Hypervisor) -> bool:
    said = {type_: reason(hypervisor, type_) for type_ in ("Ready", "Tainted", "AggregatesUpdated")}
    return said == {
        "Ready": "True/Ready",
        "Tainted": "False/NoKubectl",
        "AggregatesUpdated": "True/Succeeded",
    }


async def test_a_host_comes_into_service_with_few_writes_and_calls(
    kube: Kube, kubeconfig: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, world = [f"{name}-{number}" for number in range(NODES)], World()
    for host in names:
        world.add_host(host, enabled=False)
    make(world, "zone-a", "zone-a"), make(world, "general")

    async def bring(host: str) -> None:
        labels, wishes = {LIFECYCLE_LABEL: "skip-tests"}, {AGGREGATES_ANNOTATION: "general"}
        await add_node(kube, host, labels=labels, annotations=wishes)
        await until(kube, Hypervisor, host, lambda _: True)
        await agent_reports(kube, host)
        await until(kube, Hypervisor, host, in_service)

    async with serve(world) as simulation:
        set_account(monkeypatch, simulation.admin)
        async with operator(kubeconfig, Adapter(simulation).nova()) as running:
            await asyncio.gather(*(bring(host) for host in names))
            conflicts = sum(running.requests(method, "409") for method in ("PATCH", "POST"))
            writes = running.writes
        calls = simulation.script.calls.total()
    assert writes / NODES <= WRITES
    assert conflicts / writes < 0.01
    assert calls / NODES <= CALLS
