"""Shards, two operators at once, and a cluster without cert-manager, on a real API server."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.apiserver.conftest import fresh
from tests.integration.operator.conftest import (
    add_node,
    operator,
    passes,
    settled,
    until,
    until_settled,
)

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.apiserver.server import serve
from hypercobalt.runtime import Kube, load_connection

pytestmark = pytest.mark.asyncio(loop_scope="session")

SHARD = "example.com/shard"


async def test_shard_takes_its_own_nodes_and_labels_their_hypervisors(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with operator(kubeconfig, label_selector=f"{SHARD}=one"):
        await add_node(kube, f"{name}-two", labels={SHARD: "two"})
        await add_node(kube, name, labels={SHARD: "one"})
        made = await until_settled(kube, name)
    assert made.metadata.labels[SHARD] == "one"
    assert await kube.get(Hypervisor, f"{name}-two") is None


async def test_hypervisor_that_has_lost_its_shard_gets_back(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with operator(kubeconfig, label_selector=SHARD):
        await add_node(kube, name, labels={SHARD: "one"})
        await until_settled(kube, name)
        await kube.merge_patch(Hypervisor, name, {"metadata": {"labels": {SHARD: None}}})
        await until(kube, Hypervisor, name, lambda hv: SHARD in hv.metadata.labels)


async def test_two_operators_at_once_do_no_harm(kube: Kube, kubeconfig: Path, name: str) -> None:
    async with operator(kubeconfig) as one, operator(kubeconfig) as two:
        await add_node(kube, name)
        await until_settled(kube, name)
        await passes(one, "ready")
        await passes(two, "ready")
        # What one wrote from an older view the other has put right.
        found = await until(kube, Hypervisor, name, settled)
    types = [condition.type for condition in found.conditions]
    assert len(types) == len(set(types))


async def test_cluster_without_cert_manager_has_everything_else(
    tmp_path: Path, certificates: Path, name: str
) -> None:
    options = fresh(tmp_path, certificates)
    async with (
        serve(options) as server,
        Kube(load_connection(server.kubeconfig)) as kube,
        operator(server.kubeconfig) as running,
    ):
        await add_node(kube, name)
        await until(kube, Hypervisor, name, settled)
        assert running.manager._unsynced() is None  # ready all the same
