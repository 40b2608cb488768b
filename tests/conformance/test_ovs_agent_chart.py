"""The OVS agent's chart: what its pods are, and what the token of one may write.

An agent of a switch in memory goes through its work on a real kube-apiserver whose audit log has
what it requests, as the chart's ServiceAccount in a pod on its Node.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.admission import admitted
from tests.conformance.charts import over, rendered
from tests.conformance.permitted import Cluster, Grant, granted, only, permitted
from tests.conformance.wire import Body
from tests.contracts.agent_access import answer
from tests.integration.operator.conftest import until
from tests.integration.runtime.scripted import eventually

from hypercobalt.adapters.ovs.fake import FakeSwitch
from hypercobalt.api.address import Address
from hypercobalt.api.conditions import is_true, set_condition
from hypercobalt.api.coordination import Event, Lease, ObjectReference
from hypercobalt.api.diagnostics import path
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.ovsnode import NodeReference, OVSNode, OVSNodeSpec, OVSNodeStatus
from hypercobalt.api.times import micro_time
from hypercobalt.operator.agents.leases import OVS_AGENT
from hypercobalt.ovs_agent.agent import NAME, REPORTER, register
from hypercobalt.ovs_agent.settings import OVSAgentSettings
from hypercobalt.runtime import (
    ForbiddenError,
    Kube,
    Manager,
    Metrics,
    SystemClock,
    load_connection,
)
from hypercobalt.runtime.client.auth import Credential
from hypercobalt.runtime.client.pinned import Pinned
from hypercobalt.runtime.guard import METRICS, guard

pytestmark = pytest.mark.timeout(180)  # Go compiles its standard library the first time

CHART, SPACE = "hypercobalt-ovs-agent", "ovn-system"
DEADLINE = 45.0
HIDDEN: set[Grant] = {
    ("delete", "coordination.k8s.io", "leases", SPACE),
    ("update", "events.k8s.io", "events", SPACE),
}
"""The requests of an admission plugin, and the repetition of an Event."""


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


def verbs(cluster: Cluster) -> set[tuple[str, str]]:
    """The requests, by verb and kind."""
    return {
        (entry["verb"], entry["objectRef"]["resource"])
        for entry in cluster.requests()
        if "objectRef" in entry
    }


async def report(kube: Kube, name: str) -> OVSNode:
    """Apply the whole status and the removal of leftovers, as the agent's applier does."""
    now = SystemClock().now()
    status = OVSNodeStatus(
        ovsVersion="3.1.0", conditions=set_condition((), "Ready", "True", "Fine", "", now=now)
    )
    made = replace(switch(name), status=status)
    await kube.as_manager(NAME).apply(made, force=True, subresource="status")
    patch = {"status": {"metrics": None}}
    return await kube.merge_patch(OVSNode, name, patch, SPACE, subresource="status")


@contextlib.asynccontextmanager
async def agent(
    cluster: Cluster, node: str, switch: FakeSwitch, folder: Path
) -> AsyncIterator[None]:
    """Run an agent with all its parts, as the ServiceAccount in a pod on its Node."""
    given = OVSAgentSettings(
        node, namespace=SPACE, ovs_rundir=folder, diagnostics=Address("127.0.0.1", 0)
    )
    metrics = Metrics()
    async with Kube(
        load_connection(cluster.on(node)), field_manager=NAME, metrics=metrics
    ) as client:
        manager = Manager(client, metrics=metrics)
        register(given, manager, switch)
        running = asyncio.create_task(manager.run())
        try:
            yield
        finally:
            manager.stop()
            await asyncio.wait_for(running, DEADLINE)


async def test_agent_may_do_just_what_it_does(
    cluster: Cluster, objects: list[Body], tmp_path: Path
) -> None:
    """The agent makes its OVSNode, reports an issue, answers a trace request, and is scraped."""
    node = "kvm-a"
    cluster.forget()
    async with (
        Kube(load_connection(cluster.server.kubeconfig), field_manager="person") as person,
        agent(cluster, node, FakeSwitch(), tmp_path),
    ):
        await until(person, OVSNode, node, is_reported, namespace=SPACE)
        name = f"{OVS_AGENT}{node}"
        await until(person, Lease, name, owned, namespace=SPACE)
        await request_without_credentials(person, node)
        await scrape(cluster, node)
        await eventually(lambda: is_noted(person), seconds=DEADLINE)
        for watched in ("configmaps", "hypervisors", "ovsnodes"):
            assert ("watch", watched) in verbs(cluster)
    assert cluster.forbidden() == []
    assert cluster.used(objects) | HIDDEN == granted(objects)


def owned(lease: Lease) -> bool:
    return bool(lease.metadata.ownerReferences)


def is_reported(node: OVSNode) -> bool:
    return node.status.diagnostics is not None and is_true(
        node.status.conditions, "VswitchdResponding"
    )


async def is_noted(person: Kube) -> bool:
    """An Event of the OVN that is not configured."""
    events = (await person.list(Event, SPACE)).items
    about = [one.regarding for one in events if one.type == "Warning"]
    return any(one is not None and one.name == "kvm-a" for one in about)


async def request_without_credentials(person: Kube, node: str) -> None:
    """Call the address of the OVSNode with an invalid token, which the cluster reviews."""
    found = await person.get(OVSNode, node, SPACE)
    assert found is not None
    endpoint = found.status.diagnostics
    assert endpoint is not None
    server, stranger = (
        Pinned(endpoint.url, endpoint.certificateSHA256),
        Credential("Bearer unknown"),
    )
    assert (await answer(server, stranger, "POST", path(OVSNode, node, "trace")))[0] == 401


async def scrape(cluster: Cluster, node: str) -> None:
    """Scrape without a valid token, and without the right."""
    async with Kube(load_connection(cluster.on(node))) as client:
        assert await admitted(guard(client, METRICS), "unknown") == 401
        assert await admitted(guard(client, METRICS), cluster.token_for(METRICS)) == 403


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

        await eventually(in_force, seconds=DEADLINE)
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
        named = replace(event, regarding=replace(about, name="kvm-b"), related=about)
        with pytest.raises(ForbiddenError, match="its own OVSNode only"):
            await kube.create(named)
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

        await eventually(refused, seconds=DEADLINE)


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
    """The chart binds the roles for people to no subject."""
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
