"""Evictions on a real API server, with a compute service in memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.operator.eviction_world import (
    add_eviction_of,
    add_hypervisor,
    evicting,
    state,
    until_ended,
    until_it,
    words,
    world,
)

from hypercobalt.compute.fake.moves import Script
from hypercobalt.runtime import Kube

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_instances_leave_in_parallel(kube: Kube, kubeconfig: Path, name: str) -> None:
    compute = world(name)
    for server in compute.fill(12):
        compute.moves.script(server.id, Script(seconds=0.4))
    await add_hypervisor(kube, name)
    async with evicting(kubeconfig, compute) as running:
        await add_eviction_of(kube, name, parallelism=4)
        done = await until_ended(kube, name)
    assert state(done) == "False/Succeeded"
    assert "eviction completed successfully" in words(done)
    assert state(done, "PreflightChecksSucceeded") == "True/Succeeded"
    assert not compute.moves.on(name)
    assert compute.moves.most_at_once == 4
    assert set(compute.moves.started.values()) == {1}
    assert done.status.progress is not None
    assert (done.status.progress.total, done.status.progress.done) == (12, 12)
    assert running.writes < 20


async def test_nothing_moves_before_the_host_is_disabled(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    compute = world(name)
    compute.fill(2)
    await add_hypervisor(kube, name, disabled=False)
    async with evicting(kubeconfig, compute):
        await add_eviction_of(kube, name)
        waiting = await until_it(
            kube, name, lambda e: state(e, "PreflightChecksSucceeded") == "False/Failed"
        )
        assert "hypervisor not disabled" in words(waiting, "PreflightChecksSucceeded")
        assert state(waiting) == "True/Running"
        assert not compute.moves.started
