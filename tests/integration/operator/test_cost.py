"""What bringing hosts into service costs the API server and OpenStack."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.integration.compute.conftest import Adapter
from tests.integration.operator.conftest import add_node, operator, reason, until
from tests.integration.operator.lifecycle import agent_reports, set_spec
from tests.integration.operator.service import GENERAL, SKIP, begun
from tests.integration.operator.simulated import served, world_of
from tests.simulated_openstack.pace import Pace

from hypercobalt.api.holders import ADDRESS
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.operator.eviction.model.policy import Policy
from hypercobalt.runtime import Kube

pytestmark = pytest.mark.asyncio(loop_scope="session")

WITHIN = 50.0  # seconds, two and a half times as long as the moves take
NODES = 40
WHOLE_FLEET = 120
"""Seconds until all are in service on a machine that others keep busy; five on a quiet one."""
WRITES = 13
"""Writes to the API server for a Node, at most; Events count. A busy machine joins fewer changes
into one: 12.1 were seen on the real API server."""
CALLS = 12
"""Calls to OpenStack for a Node: four of them lead through the aggregates of the test."""


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
    hosts = (name, *(f"{name}-{number}" for number in range(targets)))
    world = world_of(*hosts, enabled=True, pace=Pace(live=2.0))
    async with served(monkeypatch, world) as simulation:
        limits = Policy(most_per_possible_target=limit)
        async with operator(kubeconfig, Adapter(simulation).nova(), eviction=limits):
            await begun(kube, name)
            await until(kube, Hypervisor, name, in_service)
            for _ in range(instances):
                world.add_server(name)
            simulation.script.forget()
            await set_spec(kube, name, maintenance="manual", maintenanceReason="fan")
            await until(kube, Hypervisor, name, lambda hv: hv.status.evicted is True, within=WITHIN)
        calls = dict(simulation.script.calls)
    assert not world.hosts[name].servers
    assert sum(calls.values()) <= most, calls


async def all_come_into_service(kube: Kube, names: list[str]) -> None:
    """Bring up the Nodes together, and wait until each host is in service.

    A host's node agent reports once its address is known, as a pod that a kubelet has started: then
    the operator is the only writer, and has nobody but itself to be in conflict with.
    """
    silent, waited_for = set(names), set(names)
    async with (
        asyncio.timeout(WHOLE_FLEET),
        kube.watch(Hypervisor) as events,
        asyncio.TaskGroup() as fleet,
    ):
        for host in names:
            fleet.create_task(add_node(kube, host, labels=SKIP, annotations=GENERAL))
        async for event in events:
            if (found := event.object) is None or (host := found.metadata.name) not in waited_for:
                continue
            if host in silent and found.metadata.annotations.get(ADDRESS):
                silent.discard(host)
                fleet.create_task(agent_reports(kube, host))
            elif in_service(found):
                waited_for.discard(host)
            if not waited_for:
                break
    assert not waited_for, "the watch ended"


@pytest.mark.timeout(WHOLE_FLEET + 60)
async def test_a_host_comes_into_service_with_few_writes_and_calls(
    kube: Kube, kubeconfig: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted, and not timed: a busy machine takes longer, and makes as many."""
    names = [f"{name}-{number}" for number in range(NODES)]
    async with served(monkeypatch, world_of(*names)) as simulation:
        async with operator(kubeconfig, Adapter(simulation).nova()) as running:
            await all_come_into_service(kube, names)
            conflicts = sum(running.requests(method, "409") for method in ("PATCH", "POST"))
            writes = running.writes
        calls = simulation.script.calls.total()
    assert writes / NODES <= WRITES, running.calls
    assert conflicts == 0, running.calls
    assert calls / NODES <= CALLS, dict(simulation.script.calls)
