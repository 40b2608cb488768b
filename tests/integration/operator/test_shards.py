"""Shards, two operators at once, and a cluster without cert-manager, on a real API server."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.apiserver.conftest import fresh
from tests.integration.operator.conftest import (
    add_node,
    operator,
    passes,
    reason,
    settled,
    until,
    until_settled,
)
from tests.integration.operator.lifecycle import message, site
from tests.integration.operator.service import SKIP, in_service, is_ready

from hypercobalt.api.core import Node
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.apiserver.server import serve
from hypercobalt.operator.shared.node_facts import HOSTNAME_LABEL
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


async def test_host_of_another_shard_is_not_taken_by_its_name(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    """A kubelet writes the labels of its Node: the hostname, and those that make the shard."""
    compute, victim, thief = site(name), f"{name}.z.example.org", f"a{name}.example.org"
    one, two = (SKIP | {SHARD: value} for value in ("one", "two"))
    async with (
        operator(kubeconfig, compute, label_selector=f"{SHARD}=one"),
        operator(kubeconfig, compute, label_selector=f"{SHARD}=two"),
    ):
        await in_service(kube, victim, labels=one)
        await add_node(kube, thief, labels=two)
        await until(kube, Hypervisor, thief, lambda hv: reason(hv, "Registered") != "")
        await kube.merge_patch(Node, thief, {"metadata": {"labels": {HOSTNAME_LABEL: name}}})
        claimed = await until(
            kube, Hypervisor, thief, lambda hv: name in message(hv, "Registered").split()
        )
        kept = await kube.get(Hypervisor, victim)
    assert reason(claimed, "Registered") == "False/Claimed"
    assert f"belongs to hypervisor {victim}" in message(claimed, "Registered")
    assert claimed.status.serviceId is None
    assert kept is not None
    assert is_ready(kept)


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
