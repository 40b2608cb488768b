"""Node to Hypervisor, on a real API server."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.integration.operator.conftest import (
    AGENTS,
    DEADLINE,
    REAL,
    add_node,
    address_of,
    let_go,
    operator,
    passes,
    ready,
    reason,
    set_node_status,
    settled,
    until,
    until_settled,
)
from tests.integration.runtime.scripted import eventually

from hypercobalt.api.certificate import Certificate
from hypercobalt.api.conditions import set_condition
from hypercobalt.api.coordination import Event
from hypercobalt.api.core import ConfigMap, Node, NodeAddress, NodeCondition, NodeStatus
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import ObjectMeta, owner_reference
from hypercobalt.api.workloads import Container, Pod, PodSpec
from hypercobalt.operator.nodes.from_node import RECORD
from hypercobalt.operator.shared.node_facts import (
    AGGREGATES_ANNOTATION,
    LIFECYCLE_LABEL,
    OFFBOARDING_TAINT,
)
from hypercobalt.runtime import Kube
from hypercobalt.runtime.client.watch import Change

pytestmark = pytest.mark.asyncio(loop_scope="session")

NEW = 30
"""Nodes at once, several times as many as passes."""
GROUP = "worker.garden.sapcloud.io/group"


async def test_new_node_becomes_a_hypervisor_with_few_writes(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with operator(kubeconfig) as running:
        await add_node(kube, name)
        made = await until_settled(kube, name)
        assert running.requests("PATCH", "409") == 0
    assert made.metadata.labels["topology.kubernetes.io/zone"] == "zone-a"
    assert made.metadata.ownerReferences[0].kind == "Node"
    assert (made.spec.lifecycleEnabled, made.spec.evacuateOnReboot) == (False, False)
    assert made.spec.maintenance is None
    assert made.status.internalIp == address_of(name)
    assert reason(made, "Ready") == "False/Onboarding"
    assert reason(made, "Tainted") == "False/NoKubectl"
    assert reason(made, "NodeHealthy") == "True/Healthy"


async def test_every_new_node_has_its_hypervisor_before_what_follows_is_made(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    names = {f"{name}-{number}" for number in range(NEW)}
    await asyncio.gather(*(add_node(kube, one) for one in names))
    listed = await kube.list(Hypervisor)
    made = dict[str, int]()
    since = listed.resource_version
    async with kube.watch(Hypervisor, resource_version=since) as events, operator(kubeconfig):
        async with asyncio.timeout(DEADLINE):
            async for event in events:
                if event.change is Change.ADDED and event.key in names:
                    made[event.key] = int(event.resource_version)
                if made.keys() == names:
                    break
        await asyncio.gather(*(until_settled(kube, one) for one in names))
    listed_after = await kube.list(Certificate, "monsoon3")
    issued = (one for one in listed_after.items if one.metadata.name.partition("-")[2] in names)
    followed = [int(one.metadata.resourceVersion) for one in issued]
    assert len(followed) == NEW
    assert max(made.values()) < min(followed), "the rest of one host came before another host"


async def test_restarted_operator_has_nothing_to_write(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with operator(kubeconfig):
        await add_node(kube, name)
        before = await until_settled(kube, name)
    async with operator(kubeconfig) as again:
        await passes(again, "hypervisor")
        await passes(again, "ready")
        await passes(again, "HypervisorTaint")
        assert again.writes == 0
    after = await kube.get(Hypervisor, name)
    assert after is not None
    assert after.metadata.resourceVersion == before.metadata.resourceVersion


async def test_label_that_the_node_loses_is_withdrawn_and_others_stay(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with operator(kubeconfig):
        await add_node(kube, name, labels={GROUP: "blue", LIFECYCLE_LABEL: "skip-tests"})
        made = await until(kube, Hypervisor, name, lambda hv: GROUP in hv.metadata.labels)
        assert (made.spec.lifecycleEnabled, made.spec.skipTests) == (True, True)
        await kube.merge_patch(Hypervisor, name, {"metadata": {"labels": {"mine": "yes"}}})
        await kube.merge_patch(
            Node, name, {"metadata": {"labels": {GROUP: None, LIFECYCLE_LABEL: None}}}
        )
        gone = await until(kube, Hypervisor, name, lambda hv: GROUP not in hv.metadata.labels)
    assert gone.metadata.labels["mine"] == "yes"
    assert (gone.spec.lifecycleEnabled, gone.spec.skipTests) == (False, False)
    assert GROUP not in gone.metadata.annotations[RECORD]


async def test_frozen_spec_does_not_hold_up_the_status(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with operator(kubeconfig):
        await add_node(kube, name)
        await until(kube, Hypervisor, name, lambda hv: bool(hv.status.internalIp))
        await kube.merge_patch(Hypervisor, name, {"spec": {"maintenance": "termination"}})
        await kube.merge_patch(
            Node, name, {"metadata": {"annotations": {AGGREGATES_ANNOTATION: "other"}}}
        )
        await set_node_status(
            kube,
            name,
            NodeStatus(
                addresses=(NodeAddress(type="InternalIP", address="192.0.2.9"),),
                conditions=(*ready(), NodeCondition(type="Terminating", status="True")),
            ),
        )
        found = await until(
            kube, Hypervisor, name, lambda hv: reason(hv, "Terminating") == "True/Terminating"
        )
        assert found.status.internalIp == "192.0.2.9"
        assert found.spec.aggregates == ()
        await set_node_status(kube, name, NodeStatus(conditions=ready()))
        found = await until(
            kube, Hypervisor, name, lambda hv: reason(hv, "Terminating").startswith("False")
        )


async def test_deleted_hypervisor_is_recreated(kube: Kube, kubeconfig: Path, name: str) -> None:
    async with operator(kubeconfig):
        await add_node(kube, name)
        first = await until(kube, Hypervisor, name, settled)
        await kube.delete(Hypervisor, name)
        again = await until(kube, Hypervisor, name, settled)
    assert again.metadata.uid != first.metadata.uid


async def test_node_that_waits_for_what_it_owns_to_go_gets_nothing_new(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with operator(kubeconfig) as running:
        node = await add_node(kube, name)
        await until_settled(kube, name)
        meta = ObjectMeta(
            name=name,
            namespace=AGENTS[0],
            ownerReferences=(owner_reference(node, blocks=True),),
            finalizers=("a.test/held",),
        )
        await kube.create(ConfigMap(metadata=meta))
        await kube.delete(Node, name, propagation="Foreground")
        if REAL:  # there is no collector beside the tests' kube-apiserver
            await kube.delete(Hypervisor, name)
        await eventually(partial(missing, kube, name))
        done = running.metrics.reconcile_total.labels("hypervisor", "success")
        before = done._value.get()
        await set_node_status(kube, name, NodeStatus(conditions=ready("False")))
        await eventually(lambda: done._value.get() > before)
        assert await missing(kube, name)
        await kube.modify(ConfigMap, name, let_go, namespace=AGENTS[0])
        await kube.modify(Node, name, let_go)


async def missing(kube: Kube, name: str) -> bool:
    return await kube.get(Hypervisor, name) is None


async def test_node_that_falls_silent_is_shown(kube: Kube, kubeconfig: Path, name: str) -> None:
    async with operator(kubeconfig):
        await add_node(kube, name)
        await until(kube, Hypervisor, name, lambda hv: reason(hv, "NodeHealthy") == "True/Healthy")
        await set_node_status(kube, name, NodeStatus(conditions=ready("Unknown")))
        lost = await until(
            kube, Hypervisor, name, lambda hv: reason(hv, "NodeHealthy") == "Unknown/Unreachable"
        )
        assert reason(lost, "AcceptsNewInstances") == "False/NodeUnhealthy"
        await eventually(lambda: event_recorded(kube, name, "NodeUnreachable"))


async def event_recorded(kube: Kube, name: str, why: str) -> bool:
    """Whether there is an Event about the Hypervisor."""
    events = (await kube.list(Event, "default")).items
    about = [event for event in events if event.regarding and event.regarding.name == name]
    return any((event.reason, event.type) == (why, "Warning") for event in about)


async def test_agents_leaving_is_seen_at_once(kube: Kube, kubeconfig: Path, name: str) -> None:
    agent = Pod(
        metadata=ObjectMeta(name=f"agent-{name}", namespace=AGENTS[1]),
        spec=PodSpec(nodeName=name, containers=(Container(name="agent", image="agent"),)),
    )
    async with operator(kubeconfig) as running:
        await add_node(kube, name)
        await kube.create(agent)
        hypervisor = await until(kube, Hypervisor, name, settled)
        await kube.merge_patch(Hypervisor, name, {"spec": {"maintenance": "termination"}})
        empty = set_condition(
            (), "Evicting", "False", "Succeeded", "Evicted", now=datetime.now(UTC)
        )
        only = replace(hypervisor.status, internalIp=None, conditions=empty)
        mine = Hypervisor(metadata=ObjectMeta(name=name), status=only)
        await kube.apply(mine, subresource="status")
        await kube.modify(Node, name, tainted)
        held = await until(
            kube,
            Hypervisor,
            name,
            lambda hv: reason(hv, "AgentPodsEvicted") == "False/AgentPodsRunning",
        )
        message = next(c.message for c in held.conditions if c.type == "AgentPodsEvicted")
        assert f"{AGENTS[1]}/agent-{name}" in message
        await kube.delete(Pod, agent.metadata.name, AGENTS[1])
        if pod := await kube.get(Pod, agent.metadata.name, AGENTS[1]):  # no kubelet ends it
            assert pod.metadata.deletionTimestamp
            await delete_now(kube, agent)
        await until(
            kube, Hypervisor, name, lambda hv: reason(hv, "AgentPodsEvicted") == "True/NoAgentPods"
        )
        assert running.requests("PATCH", "409") == 0


def tainted(node: Node) -> Node:
    taints = (*node.spec.taints, OFFBOARDING_TAINT)
    return replace(node, spec=replace(node.spec, taints=taints))


async def delete_now(kube: Kube, pod: Pod) -> None:
    await kube.delete(Pod, pod.metadata.name, pod.metadata.namespace, grace=timedelta(0))
