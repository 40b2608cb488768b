"""The OVS agent's chart: what its pods are, and what the token of one may write.

The calls are those of the agent's frame, made as the chart's ServiceAccount in a pod on a Node.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator

import pytest
from msgspec.structs import replace
from tests.conformance.charts import over, rendered
from tests.conformance.permitted import Cluster, Grant, granted, only, permitted
from tests.conformance.wire import Body
from tests.integration.runtime.scripted import eventually

from hypercobalt.agent.lease import AgentLease
from hypercobalt.api.conditions import set_condition
from hypercobalt.api.coordination import Event, Lease, ObjectReference
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.ovsnode import NodeReference, OVSNode, OVSNodeSpec, OVSNodeStatus
from hypercobalt.api.times import micro_time
from hypercobalt.operator.agent_leases import OVS_AGENT
from hypercobalt.runtime import (
    ForbiddenError,
    Informer,
    Kube,
    Metrics,
    SystemClock,
    load_connection,
)
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.events import Recorder
from hypercobalt.runtime.guard import guard

pytestmark = pytest.mark.timeout(180)  # Go compiles its standard library the first time

CHART, SPACE, NAME = "hypercobalt-ovs-agent", "ovn-system", "ovs-agent"
REPORTER = "ovs.c5c3.io/ovs-agent"
HIDDEN: set[Grant] = {
    ("delete", "coordination.k8s.io", "leases", SPACE),
    ("patch", "events.k8s.io", "events", SPACE),
}
"""What an admission plugin asks, and the repetition of an Event."""


@pytest.fixture(scope="module")
def objects() -> list[Body]:
    return rendered(CHART)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, objects: list[Body]) -> Iterator[Cluster]:
    with permitted(tmp_path_factory.mktemp("real"), objects, {SPACE}) as made:
        yield made


def switch(name: str) -> OVSNode:
    spec = OVSNodeSpec(nodeRef=NodeReference(name=name))
    return OVSNode(metadata=ObjectMeta(name=name, namespace=SPACE), spec=spec)


def lease(kube: Kube, node: str, owner: OVSNode | None) -> AgentLease:
    return AgentLease(
        kube,
        f"{OVS_AGENT}{node}",
        SPACE,
        "me",
        is_over=lambda _: False,
        owner=lambda: owner,
        clock=SystemClock(),
    )


def verbs(cluster: Cluster) -> set[tuple[str, str]]:
    """What was asked for, by verb and kind."""
    return {
        (entry["verb"], entry["objectRef"]["resource"])
        for entry in cluster.requests()
        if "objectRef" in entry
    }


async def report(kube: Kube, name: str) -> OVSNode:
    """All of the status, and what takes leftovers away, as the agent's applier writes them."""
    now = SystemClock().now()
    status = OVSNodeStatus(
        ovsVersion="3.1.0", conditions=set_condition((), "Ready", "True", "Fine", "", now=now)
    )
    made = replace(switch(name), status=status)
    await kube.as_manager(NAME).apply(made, force=True, subresource="status")
    patch = {"status": {"metrics": None}}
    return await kube.merge_patch(OVSNode, name, patch, SPACE, subresource="status")


async def test_agent_may_do_just_what_it_does(cluster: Cluster, objects: list[Body]) -> None:
    node = "kvm-a"
    async with Kube(load_connection(cluster.on(node)), field_manager=NAME) as kube:
        cluster.forget()
        for type_, where in ((OVSNode, SPACE), (Hypervisor, None)):
            selection = Selection(type_, where, "", f"metadata.name={node}")
            informer = Informer(kube, selection, metrics=Metrics())
            following = asyncio.create_task(informer.run())
            await asyncio.wait_for(informer.wait_synced(), 20)
            watch = "watch", type_.resource.plural
            await eventually(lambda: watch in verbs(cluster), seconds=20)  # noqa: B023 - awaited
            following.cancel()
        made = await kube.create(switch(node))
        await report(kube, node)
        held = lease(kube, node, None)
        renewing = asyncio.create_task(held.run())
        await asyncio.wait_for(held.held.wait(), 20)
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
        owned = lease(kube, node, made)  # with its OVSNode as owner, from the next renewal on
        renewing = asyncio.create_task(owned.run())
        await asyncio.wait_for(owned.held.wait(), 20)
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
        stop = asyncio.Event()
        recorder = Recorder(kube, REPORTER, "me", clock=SystemClock(), metrics=Metrics())
        recorder.record(made, "Warning", "BridgeDown", "br-int is down", action="Observing")
        writing = asyncio.create_task(recorder.run(stop))
        stop.set()
        await asyncio.wait_for(writing, 20)
        assert await guard(kube).admits("nobody's", "/metrics", "get") == 401
        assert await guard(kube).admits(cluster.token, "/metrics", "get") == 403
    assert cluster.forbidden() == []
    assert cluster.used(objects) | HIDDEN == granted(objects)


async def test_agent_writes_objects_of_its_own_host_only(cluster: Cluster) -> None:
    async with (
        Kube(load_connection(cluster.server.kubeconfig), field_manager="person") as person,
        Kube(load_connection(cluster.on("kvm-b")), field_manager=NAME) as kube,
    ):
        await person.create(switch("kvm-c"))

        async def in_force() -> bool:
            try:
                await report(kube, "kvm-c")
            except ForbiddenError as error:
                return "of its own host only" in str(error)
            return False

        await eventually(in_force, seconds=20)
        with pytest.raises(ForbiddenError, match="of its own host only"):
            await kube.create(switch("kvm-d"))
        foreign = replace(switch("kvm-b"), spec=OVSNodeSpec(nodeRef=NodeReference(name="kvm-c")))
        with pytest.raises(ForbiddenError, match="of its own host only"):
            await kube.create(foreign)
        other = Lease(metadata=ObjectMeta(name=f"{OVS_AGENT}kvm-c", namespace=SPACE))
        with pytest.raises(ForbiddenError, match="only the Lease ovs-agent-kvm-b"):
            await kube.create(other)
        about = ObjectReference(
            apiVersion="ovs.c5c3.io/v1alpha1", kind="OVSNode", namespace=SPACE, name="kvm-c"
        )
        event = Event(
            metadata=ObjectMeta(name="made-up", namespace=SPACE),
            eventTime=micro_time(SystemClock().now()),
            reportingController=REPORTER,
            reportingInstance="me",
            action="Observing",
            reason="BridgeDown",
            regarding=about,
            type="Warning",
        )
        with pytest.raises(ForbiddenError, match="its own OVSNode only"):
            await kube.create(event)
        await kube.create(switch("kvm-b"))
        assert (await report(kube, "kvm-b")).status.ovsVersion == "3.1.0"


async def test_token_of_no_pod_writes_nothing(cluster: Cluster) -> None:
    async with Kube(load_connection(cluster.kubeconfig), field_manager=NAME) as kube:

        async def refused() -> bool:
            """The first ones may come before the policy is in force."""
            try:
                await kube.create(switch(f"kvm-{uuid.uuid4().hex[:8]}"))
            except ForbiddenError as error:
                return "bound to no Node" in str(error)
            return False

        await eventually(refused, seconds=20)


def test_pod_is_as_the_documentation_has_it(objects: list[Body]) -> None:
    pod = only(objects, "DaemonSet")["spec"]["template"]["spec"]
    assert (pod["hostNetwork"], pod["hostPID"]) == (True, True)
    (container,) = pod["containers"]
    assert container["command"] == ["cobalt", "ovs-agent"]
    assert container["resources"] == {
        "requests": {"memory": "128Mi", "cpu": "50m"},
        "limits": {"memory": "256Mi", "cpu": "200m"},
    }
    mounts = {one["mountPath"]: one.get("readOnly") for one in container["volumeMounts"]}
    assert mounts == dict.fromkeys(
        ("/var/run/openvswitch", "/var/run/ovn", "/etc/openvswitch"), True
    )
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term["matchExpressions"] == [
        {"key": "nova.openstack.cloud.sap/virt-driver", "operator": "Exists"}
    ]


def test_rights_are_in_the_namespace_of_the_ovsnodes(objects: list[Body]) -> None:
    writes = {grant for grant in granted(objects) if grant[0] not in {"list", "watch"}}
    reviews = {"tokenreviews", "subjectaccessreviews"}
    assert {where for _, _, what, where in writes if what not in reviews} == {SPACE}
    elsewhere = rendered(CHART, over({}, {"env": {"namespace": "switches"}}))
    assert only(elsewhere, "Role")["metadata"]["namespace"] == "switches"
