"""The signal to Gardener, on a real API server."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.integration.apiserver.conftest import fresh
from tests.integration.operator.conftest import add_node, operator, passes, until, until_settled

from hypercobalt.api.conditions import set_condition
from hypercobalt.api.core import Node
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.workloads import Deployment, PodDisruptionBudget
from hypercobalt.apiserver.server import serve
from hypercobalt.operator.shared.node_facts import LIFECYCLE_LABEL, is_offboarding
from hypercobalt.runtime import Kube, load_connection

pytestmark = pytest.mark.asyncio(loop_scope="session")

PLACE = "kube-system"


async def set_conditions(kube: Kube, name: str, **conditions: str) -> None:
    """Set conditions as the controllers do that are not part of this test."""
    found = await kube.get(Hypervisor, name)
    assert found is not None
    merged = tuple(c for c in found.conditions if c.type in conditions)
    for type_, status in conditions.items():
        merged = set_condition(merged, type_, status, "Succeeded", "", now=datetime.now(UTC))
    mine = Hypervisor(metadata=ObjectMeta(name=name), status=HypervisorStatus(conditions=merged))
    await kube.apply(mine, force=True, subresource="status")


async def test_node_is_held_until_the_host_is_offboarded(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    mine = f"maint-{name}"
    async with operator(kubeconfig) as running:
        await add_node(kube, name, labels={LIFECYCLE_LABEL: "true"})
        held = await until(kube, Deployment, mine, lambda _: True, namespace=PLACE)
        assert held.spec.replicas == 1
        await until(kube, PodDisruptionBudget, mine, lambda _: True, namespace=PLACE)
        await kube.delete(PodDisruptionBudget, mine, PLACE)
        await until(kube, PodDisruptionBudget, mine, lambda _: True, namespace=PLACE)

        await kube.merge_patch(Hypervisor, name, {"spec": {"maintenance": "termination"}})
        await set_conditions(kube, name, Evicting="False", Onboarding="False", HaEnabled="True")
        await until(kube, Node, name, is_offboarding)
        await set_conditions(
            kube, name, Evicting="False", Onboarding="False", HaEnabled="False", Offboarded="True"
        )
        await until(kube, Deployment, mine, lambda d: d.spec.replicas == 0, namespace=PLACE)
        await until(
            kube, PodDisruptionBudget, mine, lambda b: b.spec.minAvailable == 0, namespace=PLACE
        )
        node = await kube.get(Node, name)
        assert node is not None
        assert len(node.spec.taints) == 1
        assert running.requests("PATCH", "409") == 0


async def test_node_that_loses_its_lifecycle_label_can_be_drained(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    mine = f"maint-{name}"
    async with operator(kubeconfig):
        await add_node(kube, name, labels={LIFECYCLE_LABEL: "true"})
        await until(
            kube, PodDisruptionBudget, mine, lambda b: b.spec.minAvailable == 1, namespace=PLACE
        )
        await kube.merge_patch(Node, name, {"metadata": {"labels": {LIFECYCLE_LABEL: None}}})
        await until(
            kube, PodDisruptionBudget, mine, lambda b: b.spec.minAvailable == 0, namespace=PLACE
        )
        await until(kube, Deployment, mine, lambda d: d.spec.replicas == 0, namespace=PLACE)
        await kube.merge_patch(Node, name, {"metadata": {"labels": {LIFECYCLE_LABEL: "true"}}})
        await until(
            kube, PodDisruptionBudget, mine, lambda b: b.spec.minAvailable == 1, namespace=PLACE
        )


async def test_restarted_operator_finds_the_signal_as_it_should_be(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with operator(kubeconfig):
        await add_node(kube, name, labels={LIFECYCLE_LABEL: "true"})
        for type_ in (Deployment, PodDisruptionBudget):
            await until(kube, type_, f"maint-{name}", lambda _: True, namespace=PLACE)
        await until_settled(kube, name)
    async with operator(kubeconfig) as again:
        await passes(again, "maintenance")
        await passes(again, "certificate")
        assert again.writes == 0


async def test_without_gardener_no_node_is_written_and_no_pod_holds_it(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with operator(kubeconfig, gardener_namespace=""):
        await add_node(kube, name, labels={LIFECYCLE_LABEL: "true"})
        await until_settled(kube, name)
        await kube.merge_patch(Hypervisor, name, {"spec": {"maintenance": "termination"}})
        await set_conditions(kube, name, Evicting="False", Onboarding="False", HaEnabled="False")
    assert await kube.get(Deployment, f"maint-{name}", PLACE) is None
    assert await kube.get(PodDisruptionBudget, f"maint-{name}", PLACE) is None
    node = await kube.get(Node, name)
    assert node is not None
    assert not is_offboarding(node)


async def test_the_pod_that_holds_a_node_is_in_the_configured_namespace(
    tmp_path: Path, certificates: Path, name: str
) -> None:
    # A server of its own: the chart's rights and policy are for one namespace.
    async with (
        serve(fresh(tmp_path, certificates)) as server,
        Kube(load_connection(server.kubeconfig)) as kube,
        operator(server.kubeconfig, gardener_namespace="default"),
    ):
        await add_node(kube, name, labels={LIFECYCLE_LABEL: "true"})
        for type_ in (Deployment, PodDisruptionBudget):
            await until(kube, type_, f"maint-{name}", lambda _: True, namespace="default")
        assert await kube.get(Deployment, f"maint-{name}", PLACE) is None
