"""Storage that fails on several hosts: each of them has it in its status, for its agent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.integration.operator.agents import Agent
from tests.integration.operator.conftest import add_node, operator, reason, until

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.incident import Incident, IncidentType, Severity
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.operator.nodes.shared_storage import ALONE
from hypercobalt.runtime import Kube

pytestmark = pytest.mark.asyncio(loop_scope="session")

POOL, OTHER = "/var/lib/nova/mnt/1", "/var/lib/nova/mnt/2"


async def reports(kube: Kube, name: str, *storages: str, since: timedelta = timedelta(0)) -> None:
    """What the host's node agent writes of its instances."""
    incidents = tuple(
        Incident(
            id=f"i-{number}",
            type=IncidentType.IO_ERROR,
            severity=Severity.CRITICAL,
            storage=storage,
            firstSeen=datetime.now(UTC) - since,
        )
        for number, storage in enumerate(storages)
    )
    mine = Hypervisor(
        metadata=ObjectMeta(name=name), status=HypervisorStatus(numInstances=1, incidents=incidents)
    )
    await kube.as_manager("kvm-node-agent").apply(mine, force=True, subresource="status")


async def until_failing(kube: Kube, name: str, *storages: str) -> Hypervisor:
    return await until(kube, Hypervisor, name, lambda hv: hv.status.failingStorage == storages)


async def test_storage_is_noted_while_it_fails_on_another_host_too(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    first, second, third = hosts = [f"{name}-{number}" for number in range(3)]
    async with operator(kubeconfig):
        for host in hosts:
            await add_node(kube, host)
            await until(kube, Hypervisor, host, lambda hv: bool(hv.conditions))
        await reports(kube, first, POOL)
        await reports(kube, third, OTHER)
        await reports(kube, second, POOL, OTHER)
        await until_failing(kube, second, POOL, OTHER)
        await until_failing(kube, first, POOL)
        await until_failing(kube, third, OTHER)

        await reports(kube, first)
        await until_failing(kube, first)
        await until_failing(kube, second, OTHER)


async def test_storage_of_a_host_whose_agent_is_silent_does_not_count(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    alive, dead = f"{name}-alive", f"{name}-dead"
    async with operator(kubeconfig):
        for host in (alive, dead):
            await add_node(kube, host)
            await until(kube, Hypervisor, host, lambda hv: bool(hv.conditions))
            await reports(kube, host, POOL)
        await until_failing(kube, alive, POOL)
        await Agent(kube, dead).renews(lasts=1)
        silent = "False/AgentSilent"
        await until(kube, Hypervisor, dead, lambda hv: reason(hv, "AgentReporting") == silent)
        await until_failing(kube, alive)


async def test_one_host_that_claims_anothers_storage_stops_no_move_for_long(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    victim, captured, third = hosts = [f"{name}-{number}" for number in range(3)]
    async with operator(kubeconfig):
        for host in hosts:
            await add_node(kube, host)
            await until(kube, Hypervisor, host, lambda hv: bool(hv.conditions))
        await reports(kube, victim, POOL, since=ALONE - timedelta(seconds=3))
        await reports(kube, captured, POOL)
        await until_failing(kube, victim, POOL)
        await until_failing(kube, victim)  # nothing has changed but the time

        await reports(kube, third, POOL)
        await until_failing(kube, victim, POOL)  # of several hosts it holds without an end
