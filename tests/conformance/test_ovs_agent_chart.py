"""The OVS agent's chart: what its pods are, and what the token of one may write.

The calls are those of the agent's frame, made as the chart's ServiceAccount in a pod on a Node.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator

import pytest
from msgspec.structs import replace
from tests.admission import admitted
from tests.conformance.charts import over, rendered
from tests.conformance.permitted import Cluster, Grant, granted, only, permitted
from tests.conformance.wire import Body
from tests.contracts.agent_access import answer
from tests.integration.runtime.scripted import eventually

from hypercobalt.agent.diagnostics.server import Subject, diagnostics
from hypercobalt.agent.diagnostics.use import Asked, Use
from hypercobalt.agent.lease import AgentLease
from hypercobalt.agent.settings import AgentSettings
from hypercobalt.api.conditions import set_condition
from hypercobalt.api.coordination import Event, Lease, ObjectReference
from hypercobalt.api.diagnostics import DiagnosticsEndpoint, path
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.ovsnode import NodeReference, OVSNode, OVSNodeSpec, OVSNodeStatus
from hypercobalt.api.times import micro_time
from hypercobalt.operator.agent_leases import OVS_AGENT
from hypercobalt.runtime import (
    Address,
    ForbiddenError,
    Informer,
    Kube,
    Manager,
    Metrics,
    SystemClock,
    load_connection,
)
from hypercobalt.runtime.client.auth import Credential
from hypercobalt.runtime.client.pinned import Pinned
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.events import Recorder
from hypercobalt.runtime.guard import guard
from hypercobalt.runtime.routes import Answer

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


async def diagnose(kube: Kube, own: OVSNode, cluster: Cluster) -> None:
    """The client CA is followed, and a use that is refused leaves an Event."""
    listening: asyncio.Future[DiagnosticsEndpoint] = asyncio.get_running_loop().create_future()
    settings = AgentSettings("kvm-a", namespace=SPACE, diagnostics=Address("127.0.0.1", 0))
    subject = Subject("ovs-agent", OVSNode, "kvm-a", SPACE, REPORTER, lambda: own)
    uses = (Use("echo", "diagnose", echo),)
    manager = Manager(kube, metrics=Metrics())
    serve = diagnostics(manager, settings, subject, uses, listening.set_result)
    assert serve is not None
    serving = asyncio.create_task(serve())
    try:
        endpoint = await asyncio.wait_for(listening, 20)
        server = Pinned(endpoint.url, endpoint.certificateSHA256)
        stranger = Credential("Bearer nobody's")
        assert (await answer(server, stranger, "GET", path(OVSNode, "kvm-a", "echo")))[0] == 401
        watches = "watch", "configmaps"
        await eventually(lambda: watches in verbs(cluster), seconds=20)
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def echo(_: Asked) -> Answer:
    return Answer(200)


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
        assert await admitted(guard(kube), "nobody's") == 401
        assert await admitted(guard(kube), cluster.token) == 403
        await diagnose(kube, made, cluster)
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


@pytest.mark.parametrize(
    ("values", "added"),
    [
        ({}, None),
        ({"byMirror": True}, None),
        ({"enabled": True}, ["NET_RAW", "SETUID", "SETGID", "SETPCAP", "KILL"]),
        (
            {"enabled": True, "byMirror": True},
            ["NET_RAW", "SETUID", "SETGID", "SETPCAP", "KILL", "NET_ADMIN"],
        ),
    ],
)
def test_captures_need_capabilities_that_a_value_gives(
    values: Body, added: list[str] | None
) -> None:
    pod = only(rendered(CHART, {"capture": values}), "DaemonSet")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["securityContext"]["capabilities"].get("add") == added
    assert "privileged" not in container["securityContext"]
    mirrors = "NET_ADMIN" in (added or ())
    assert ("--capture-by-mirror" in container["args"]) == mirrors


def test_files_of_tls_are_where_ovn_controller_has_them() -> None:
    made = rendered(CHART, over({}, {"directories": {"tls": "/etc/ovn/pki"}}))
    pod = only(made, "DaemonSet")["spec"]["template"]["spec"]
    (mount,) = (one for one in pod["containers"][0]["volumeMounts"] if one["name"] == "tls")
    (volume,) = (one for one in pod["volumes"] if one["name"] == "tls")
    assert mount == {"name": "tls", "mountPath": "/etc/ovn/pki", "readOnly": True}
    assert volume["hostPath"] == {"path": "/etc/ovn/pki"}


def test_rights_are_in_the_namespace_of_the_ovsnodes(objects: list[Body]) -> None:
    writes = {grant for grant in granted(objects) if grant[0] not in {"list", "watch"}}
    reviews = {"tokenreviews", "subjectaccessreviews"}
    assert {where for _, _, what, where in writes if what not in reviews} == {SPACE}
    elsewhere = rendered(CHART, over({}, {"env": {"namespace": "switches"}}))
    roles = [body["metadata"] for body in elsewhere if body["kind"] == "Role"]
    assert sorted(meta["namespace"] for meta in roles) == ["kube-system", "switches"]


def test_port_and_rights_of_diagnostics_are_gone_with_them(objects: list[Body]) -> None:
    """People's roles are bound to nobody by the chart."""
    roles = {body["metadata"]["name"] for body in objects if body["kind"] == "ClusterRole"}
    assert {f"op-{CHART}-diagnose", f"op-{CHART}-capture"} <= roles
    assert not any("/" in what and "status" not in what for _, _, what, _ in granted(objects))
    values: Body = {"diagnostics": {"enabled": False}, "metrics": {"secure": False}}
    bare = rendered(CHART, values)
    (container,) = only(bare, "DaemonSet")["spec"]["template"]["spec"]["containers"]
    assert "--diagnostics-bind-address=0" in container["args"]
    assert [one["name"] for one in container["ports"]] == ["health", "metrics"]
    kept = {what for _, _, what, _ in granted(bare)}
    assert not kept & {"tokenreviews", "subjectaccessreviews", "configmaps"}
    assert not any(body["metadata"]["name"].endswith("-capture") for body in bare)
