"""What bringing hosts into service costs the API server and OpenStack."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.integration.compute.conftest import Adapter
from tests.integration.operator.conftest import add_node, operator, reason, until
from tests.integration.operator.lifecycle import TEST_AGGREGATE, agent_reports, set_spec
from tests.openstack.environment import set_account
from tests.simulated_openstack.compute.aggregates import make
from tests.simulated_openstack.pace import Pace
from tests.simulated_openstack.serve import serve
from tests.simulated_openstack.world import World

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.operator.eviction.model.policy import Policy
from hypercobalt.operator.shared.node_facts import AGGREGATES_ANNOTATION, LIFECYCLE_LABEL
from hypercobalt.runtime import Kube

pytestmark = pytest.mark.asyncio(loop_scope="session")

WITHIN = 50.0  # seconds, two and a half times as long as the moves take
NODES = 40
WRITES = 12
"""To the API server for a Node, at most; Events count."""
CALLS = 12
"""To OpenStack for a Node: four of them lead through the aggregates of the test."""


def in_service(hypervisor: Hypervisor) -> bool:
    states = {
        type_: reason(hypervisor, type_) for type_ in ("Ready", "Tainted", "AggregatesUpdated")
    }
    return states == {
        "Ready": "True/Ready",
        "Tainted": "False/NoKubectl",
        "AggregatesUpdated": "True/Succeeded",
    }


@pytest.mark.parametrize(
    ("instances", "targets", "limit", "most"),
    [
        # The existing operator makes 62 for 20, and 302 for 100; a busy machine polls more often.
        pytest.param(20, 6, 10, 62, id="20"),
        pytest.param(20, 1, 10, 62, id="20 to one target"),
        # 61 on a quiet machine: ten times two moves, each time with two looks.
        pytest.param(20, 1, 2, 75, id="20 to one target that bears two at once"),
        pytest.param(100, 6, 10, 200, id="100"),
    ],
)
async def test_emptying_a_host_takes_fewer_calls_than_the_existing_operator(
    kube: Kube,
    kubeconfig: Path,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    instances: int,
    targets: int,
    limit: int,
    most: int,
) -> None:
    """Calls of the whole operator, from the maintenance until the host is evicted."""
    world = World(Pace(live=2.0))
    for host in (name, *(f"{name}-{number}" for number in range(targets))):
        world.add_host(host)
    make(world, "zone-a", "zone-a"), make(world, "general"), make(world, TEST_AGGREGATE)
    labels, wishes = {LIFECYCLE_LABEL: "skip-tests"}, {AGGREGATES_ANNOTATION: "general"}
    async with serve(world) as simulation:
        set_account(monkeypatch, simulation.admin)
        limits = Policy(most_per_possible_target=limit)
        async with operator(kubeconfig, Adapter(simulation).nova(), eviction=limits):
            await add_node(kube, name, labels=labels, annotations=wishes)
            await until(kube, Hypervisor, name, lambda _: True)
            await agent_reports(kube, name)
            await until(kube, Hypervisor, name, in_service)
            for _ in range(instances):
                world.add_server(name)
            simulation.script.forget()
            await set_spec(kube, name, maintenance="manual", maintenanceReason="fan")
            await until(kube, Hypervisor, name, lambda hv: hv.status.evicted is True, within=WITHIN)
        calls = dict(simulation.script.calls)
    assert not world.hosts[name].servers
    assert sum(calls.values()) <= most, calls


async def test_a_host_comes_into_service_with_few_writes_and_calls(
    kube: Kube, kubeconfig: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, world = [f"{name}-{number}" for number in range(NODES)], World()
    for host in names:
        world.add_host(host, enabled=False)
    make(world, "zone-a", "zone-a"), make(world, "general"), make(world, "tenant_filter_tests")

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
