"""The operator dies before any of its writes, and the next one finishes the work."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.integration.operator.conftest import (
    DEFAULTS,
    add_node,
    operator,
    reason,
    until,
    until_settled,
)
from tests.integration.operator.dying import Dying

from hypercobalt.api.workloads import Deployment, PodDisruptionBudget
from hypercobalt.operator.assembly import add_controllers
from hypercobalt.operator.shared.node_facts import LIFECYCLE_LABEL
from hypercobalt.runtime import Kube, Manager, Metrics, load_connection

pytestmark = pytest.mark.asyncio(loop_scope="session")

WRITES = 7  # that a Node with everything switched on costs at most
CERTAIN = 5  # of them, however many parts of the status go out together


async def run_until_death(kubeconfig: Path, writes: int) -> None:
    metrics, dying = Metrics(), Dying(writes)
    async with Kube(load_connection(kubeconfig), metrics=metrics) as client:
        manager = Manager(client.guarded(dying), metrics=metrics)
        add_controllers(manager, DEFAULTS, metrics)
        dying.task = asyncio.create_task(manager.run())
        # However it ends: the last error of a killed process does not count.
        await asyncio.wait_for(asyncio.gather(dying.task, return_exceptions=True), 10)


@pytest.mark.parametrize("writes", range(CERTAIN))
async def test_work_is_finished_after_a_crash_before_any_write(
    kube: Kube, kubeconfig: Path, name: str, writes: int
) -> None:
    await add_node(kube, name, labels={LIFECYCLE_LABEL: "true"})
    await run_until_death(kubeconfig, writes)
    async with operator(kubeconfig) as again:
        made = await until_settled(kube, name)
        for type_ in (Deployment, PodDisruptionBudget):
            await until(kube, type_, f"maint-{name}", lambda _: True, namespace="kube-system")
        assert again.writes <= WRITES
    assert made.spec.lifecycleEnabled
    assert reason(made, "Ready") == "False/Onboarding"
    assert made.metadata.labels["topology.kubernetes.io/zone"] == "zone-a"
