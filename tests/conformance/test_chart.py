"""The chart and the operator: it may do just what it does, and starts with what the chart gives.

A real kube-apiserver has in its audit log what the operator requests, as the ServiceAccount
of the chart, from the first Node to the last: every permission is used, and none is missing.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import json
import os
import re
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator

import httpx2
import pytest
from msgspec.structs import replace
from tests.admission import admitted
from tests.conformance.charts import NAMESPACE, RenderError, over, rendered
from tests.conformance.permitted import Cluster, Grant, granted, only, permitted, token_of
from tests.conformance.prepare import call
from tests.conformance.targets import COBALT
from tests.conformance.wire import Body
from tests.integration.apiserver.conftest import no_check
from tests.integration.cert_manager import request_of_agent
from tests.integration.operator.conftest import (
    AGENTS,
    DEFAULTS,
    SWITCHES,
    add_node,
    ready,
    reason,
    set_node_status,
    until,
)
from tests.integration.operator.lifecycle import QUICK, agent_reports, site
from tests.integration.operator.switches import OVSAgent
from tests.integration.runtime.scripted import eventually
from tests.sockets import left_to_the_collector

from hypercobalt.api.certificate import CertificateRequest
from hypercobalt.api.coordination import Lease
from hypercobalt.api.core import Node
from hypercobalt.api.eviction import Eviction
from hypercobalt.api.host_certificate import CertificateSource
from hypercobalt.api.hypervisor import Hypervisor, Maintenance
from hypercobalt.api.ovsnode import OVSNode
from hypercobalt.api.workloads import Deployment
from hypercobalt.compute.fake import FakeCompute
from hypercobalt.compute.model import Server as Instance
from hypercobalt.compute.model import Size
from hypercobalt.operator.assembly import add_controllers
from hypercobalt.operator.certificates.settings import Issuing
from hypercobalt.operator.election import election, lease_name
from hypercobalt.operator.shared.node_facts import (
    AGGREGATES_ANNOTATION,
    LIFECYCLE_LABEL,
    TRAITS_ANNOTATION,
    ZONE_LABEL,
)
from hypercobalt.runtime import Kube, Manager, Metrics, load_connection
from hypercobalt.runtime.guard import METRICS, guard

pytestmark = pytest.mark.timeout(180)  # Go compiles its standard library the first time

CHART = "hypercobalt-operator"
PASSWORD, PLACE, ISSUER = "correct-horse", "monsoon3", "some-issuer"
OPENSTACK: Body = {
    "controllerManager": {
        "manager": {
            # As values of the existing chart have them.
            "args": [
                "--leader-elect",
                "--metrics-bind-address=127.0.0.2:0",
                "--health-probe-bind-address=127.0.0.1:0",
                "--certificate-issuer-name=${CERTIFICATE_ISSUER_NAME}",
                "--label-selector=${LABEL_SELECTOR}",
            ],
            "env": {
                "agentNamespaces": ", ".join((*AGENTS, AGENTS[0], "")),
                "certificateIssuerName": ISSUER,
                "osAuthUrl": "http://127.0.0.1:9/v3",
                "osProjectDomainName": "default",
                "osProjectName": "service",
                "osUserDomainName": "default",
                "osUsername": "operator",
            },
        },
        "podSecurityContext": {"runAsNonRoot": True},
    },
    "secret": {"servicePassword": PASSWORD},
    "ovs": {"enabled": True},
}
HIDDEN: set[Grant] = {
    ("create", "apps", "deployments", "kube-system"),
    ("approve", "cert-manager.io", "signers", ""),  # for cert-manager's webhook, not here
    ("create", "policy", "poddisruptionbudgets", "kube-system"),
    ("update", "", "nodes/finalizers", ""),
    ("update", "kvm.cloud.sap", "hypervisors/finalizers", ""),
    ("update", "events.k8s.io", "events", SWITCHES),
}
"""What the server checks while it answers: an apply of what is not there yet is shown as a
patch, and owner references are looked at by an admission plugin. Without these it answers 403. And
the repetition of an Event."""


@pytest.fixture(scope="module")
def objects() -> list[Body]:
    return rendered(CHART, OPENSTACK)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, objects: list[Body]) -> Iterator[Cluster]:
    with permitted(
        tmp_path_factory.mktemp("real"), objects, {"monsoon3", *AGENTS, SWITCHES}
    ) as made:
        yield made


@contextlib.asynccontextmanager
async def operator(cluster: Cluster, compute: FakeCompute) -> AsyncIterator[Kube]:
    """Run the operator with all its parts, as the ServiceAccount; return its client."""
    metrics = Metrics()
    async with Kube(load_connection(cluster.kubeconfig), metrics=metrics) as client:
        manager = Manager(client, metrics=metrics, election=election("", client.namespace))
        issuing = Issuing(PLACE, ISSUER, source=CertificateSource.REQUEST)
        options = dataclasses.replace(
            DEFAULTS, lifecycle=QUICK, issuing=issuing, ovs_namespace=SWITCHES
        )
        add_controllers(manager, options, metrics, lambda *_: compute)
        running = asyncio.create_task(manager.run())
        try:
            yield client
        finally:
            manager.stop()
            await asyncio.wait_for(running, 20)


async def test_operator_may_do_just_what_it_does(cluster: Cluster, objects: list[Body]) -> None:
    cluster.forget()
    name = f"kvm-{uuid.uuid4().hex[:8]}"
    compute = site(name)
    big = Size(1000, 1_000_000, 0)
    compute.moves.hosts = {name: big, "other": big}
    with left_to_the_collector():
        async with (
            Kube(load_connection(cluster.server.kubeconfig), field_manager="person") as person,
            without_lease(person),
            operator(cluster, compute) as client,
        ):
            await through_its_life(person, name, compute)
            await vanish(person, f"{name}-b", compute)
            assert await admitted(guard(client, METRICS), "unknown") == 401
            token = cluster.token_for(METRICS)
            assert await admitted(guard(client, METRICS), token) == 403
    assert cluster.forbidden() == []
    assert cluster.used(objects) | HIDDEN == granted(objects)


@contextlib.asynccontextmanager
async def without_lease(person: Kube) -> AsyncIterator[None]:
    """Another test's operator may have left its own, and one that is there is not created."""
    await person.delete(Lease, lease_name(""), NAMESPACE)
    yield


async def through_its_life(person: Kube, name: str, compute: FakeCompute) -> None:
    """Onboarding with a test, maintenance and back, eviction, termination, offboarding."""
    labels = {LIFECYCLE_LABEL: "true"}
    annotations = {AGGREGATES_ANNOTATION: "general", TRAITS_ANNOTATION: "CUSTOM_A"}
    await add_node(person, name, labels=labels, annotations=annotations)
    await until(person, Hypervisor, name, lambda hv: bool(hv.status.serviceId))
    await agent_reports(person, name)
    await until(person, Hypervisor, name, lambda hv: reason(hv, "Ready") == "True/Ready")
    await certify(person, name)
    await fall_silent(person, name)
    await come_and_go(person, name)
    compute.moves.add(Instance("i1", "web", name, "ACTIVE", running=True, size=Size(1, 1024, 0)))
    await maintain(person, name, Maintenance.AUTO)
    await until(person, Hypervisor, name, lambda hv: reason(hv, "Ready") == "False/Evicted")
    await maintain(person, name, Maintenance.NONE)
    await until(person, Hypervisor, name, lambda hv: reason(hv, "Ready") == "True/Ready")
    assert await person.get(Eviction, name) is None
    await maintain(person, name, Maintenance.TERMINATION)
    await until(person, Hypervisor, name, lambda hv: reason(hv, "Offboarded").startswith("True"))
    await until(
        person,
        Deployment,
        f"maint-{name}",
        lambda it: it.spec.replicas == 0,
        namespace="kube-system",
    )


async def fall_silent(person: Kube, name: str) -> None:
    """An OVS agent reports, and dies."""
    agent = OVSAgent(person, name)
    await agent.appears()
    await agent.dies()
    await until(
        person,
        Hypervisor,
        name,
        lambda hv: reason(hv, "NetworkHealthy") == "Unknown/AgentSilent",
    )


async def certify(person: Kube, name: str) -> None:
    """A request of the host's agent, and one for an address of no host."""
    for made, expected in (
        (request_of_agent(name, issuer=ISSUER), "Approved"),
        (request_of_agent(name, "192.0.2.99", name="libvirt-x", issuer=ISSUER), "Denied"),
    ):
        await person.create(made)

        def is_decided(found: CertificateRequest, expected: str = expected) -> bool:
            return [c.type for c in found.status.conditions] == [expected]

        await until(person, CertificateRequest, made.metadata.name, is_decided, namespace=PLACE)


async def vanish(person: Kube, name: str, compute: FakeCompute) -> None:
    """A Node is gone before its host is empty, and leaves an OVSNode."""
    compute.world.add_host(name)
    compute.moves.add(Instance("i2", "web", name, "BUILD"))
    await add_node(person, name, labels={LIFECYCLE_LABEL: "skip-tests"})
    await until(person, Hypervisor, name, lambda hv: bool(hv.status.serviceId))
    agent = OVSAgent(person, name)
    await agent.appears()
    await agent.dies()
    await maintain(person, name, Maintenance.TERMINATION)
    await until(person, Hypervisor, name, lambda hv: reason(hv, "Evicting") == "True/Running")
    await person.delete(Node, name)
    await person.delete(Hypervisor, name)
    await until(person, Hypervisor, name, lambda hv: reason(hv, "AgentPodsEvicted") != "")
    compute.moves.remove("i2")
    await eventually(lambda: is_gone(person, name), seconds=45)


async def is_gone(person: Kube, name: str) -> bool:
    if await person.get(Hypervisor, name) is not None:
        return False
    return await person.get(OVSNode, name, SWITCHES) is None


async def come_and_go(person: Kube, name: str) -> None:
    """The Node is lost twice, which is one Event with a count, and gets another label."""
    node = await person.get(Node, name)
    assert node is not None
    for status in ("False", "True") * 2:
        lost = replace(node.status, conditions=ready(status))
        await set_node_status(person, name, lost)
        wanted = "True/Healthy" if status == "True" else "False/NotReady"
        await until(person, Hypervisor, name, functools.partial(has_message, wanted))
    await person.merge_patch(Node, name, {"metadata": {"labels": {ZONE_LABEL: "zone-b"}}})
    await until(person, Hypervisor, name, lambda hv: hv.metadata.labels.get(ZONE_LABEL) == "zone-b")


def has_message(wanted: str, hypervisor: Hypervisor) -> bool:
    return reason(hypervisor, "NodeHealthy") == wanted


async def maintain(person: Kube, name: str, mode: Maintenance) -> None:
    def changed(found: Hypervisor) -> Hypervisor:
        return replace(found, spec=replace(found.spec, maintenance=mode))

    assert await person.modify(Hypervisor, name, changed) is not None


@pytest.mark.parametrize(
    ("issuer", "allowed"),
    [
        (f"issuers.cert-manager.io/{PLACE}.{ISSUER}", True),
        (f"issuers.cert-manager.io/{PLACE}.another", False),
        (f"issuers.cert-manager.io/agents.{ISSUER}", False),
        (f"clusterissuers.cert-manager.io/{ISSUER}", False),
        ("issuers.cert-manager.io/*", False),
    ],
)
def test_operator_approves_for_the_hosts_issuer_only(
    cluster: Cluster, issuer: str, allowed: bool
) -> None:
    """What cert-manager's webhook requires of a client that writes a condition `Approved`."""
    about = {"group": "cert-manager.io", "resource": "signers", "verb": "approve", "name": issuer}
    review = {"spec": {"user": cluster.user, "resourceAttributes": about}}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    assert call(cluster.server, "POST", path, review)["status"]["allowed"] is allowed


def test_rights_are_those_of_the_source_of_certificates(objects: list[Body]) -> None:
    secret = granted(rendered(CHART, over(OPENSTACK, {"certificates": {"source": "secret"}})))
    request = granted(objects)
    assert {(*what, where) for *what, where in secret - request} == {
        (verb, "cert-manager.io", "certificates", PLACE)
        for verb in ("list", "watch", "create", "patch")
    }
    assert {resource for _, _, resource, _ in request - secret} == {
        "certificaterequests",
        "certificaterequests/status",
        "signers",
    }
    env = {"manager": {"env": {"certificateIssuerKind": "ClusterIssuer"}}}
    whole = rendered(CHART, over(OPENSTACK, {"controllerManager": env}))
    names = [
        rule["resourceNames"]
        for body in whole
        for rule in body.get("rules", ())
        if rule.get("resources") == ["signers"]
    ]
    assert names == [[f"clusterissuers.cert-manager.io/{ISSUER}"]]


async def test_operator_starts_with_the_chart_s_arguments_and_environment(
    cluster: Cluster, objects: list[Body]
) -> None:
    """OpenStack is away, and its password's file too: it runs all the same."""
    (container,) = only(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    environment = {entry["name"]: entry["value"] for entry in container["env"]}
    command = [expanded(word, environment) for word in (*container["command"], *container["args"])]
    process = await asyncio.create_subprocess_exec(
        str(COBALT),
        *command[1:],
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **environment, "KUBECONFIG": str(cluster.kubeconfig)},
    )
    try:
        health, metrics = await ports(process)
        async with httpx2.AsyncClient(verify=no_check()) as client:
            async with asyncio.timeout(20):
                while "compute-nova" not in await text(client, f"{health}/readyz"):  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
            assert (await client.get(f"{health}/healthz")).status_code == 200
            for token, status in ((cluster.token, 401), (cluster.token_for(METRICS), 403)):
                headers = {"authorization": f"Bearer {token}"}
                answer = await client.get(f"{metrics}/metrics", headers=headers)
                assert answer.status_code == status
            headers = {"authorization": f"Bearer {scraper(cluster, objects)}"}
            answer = await client.get(f"{metrics}/metrics", headers=headers)
            assert (answer.status_code, "controller_runtime" in answer.text) == (200, True)
    finally:
        process.terminate()
        await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 0


async def text(client: httpx2.AsyncClient, url: str) -> str:
    return (await client.get(url)).text


def expanded(text: str, environment: dict[str, str]) -> str:
    """Expand `$(NAME)` as the kubelet does."""
    return re.sub(r"\$\((\w+)\)", lambda found: environment[found[1]], text)


async def ports(process: asyncio.subprocess.Process) -> tuple[str, str]:
    """Where the health pages and the metrics are."""
    assert process.stderr is not None
    found: list[int] = []
    async with asyncio.timeout(20):
        while len(found) < 2:
            line = await process.stderr.readline()
            assert line, "it ended"
            entry = json.loads(line)
            if entry["event"] == "endpoints_opened":
                found.append(entry["port"])
    return f"http://127.0.0.1:{found[0]}", f"https://127.0.0.2:{found[1]}"


def scraper(cluster: Cluster, objects: Iterable[Body]) -> str:
    """A token of a ServiceAccount with the chart's role of those who scrape."""
    name = next(
        body["metadata"]["name"]
        for body in objects
        if body["kind"] == "ClusterRole" and body["metadata"]["name"].endswith("metrics-reader")
    )
    group, accounts = "rbac.authorization.k8s.io", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    call(cluster.server, "POST", accounts, {"metadata": {"name": "scraper"}})
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "scraper", "namespace": NAMESPACE}],
    }
    call(cluster.server, "POST", f"/apis/{group}/v1/clusterrolebindings", binding)
    return token_of(cluster.server, "scraper", audiences=(METRICS,))


def test_ha_service_is_served_only_where_it_is_switched_on(objects: list[Body]) -> None:
    assert "ha-service" not in json.dumps(objects)
    values: Body = {"ha": {"mode": "internal", "service": {"enabled": True, "port": 9000}}}
    served = rendered(CHART, over(OPENSTACK, values))
    (container,) = only(served, "Deployment")["spec"]["template"]["spec"]["containers"]
    given = ["--ha-service-bind-address=:9000", "--ha-service-secure=true"]
    assert [one for one in container["args"] if "ha-service" in one] == given
    named = {
        (body["kind"], json.dumps(body.get("rules") or body["spec"]["ports"]))
        for body in served
        if "-ha-service" in body["metadata"]["name"]
    }
    port = [{"name": "ha-service", "port": 9000, "targetPort": "ha-service"}]
    rule = [{"nonResourceURLs": ["/api/hypervisors/*"], "verbs": ["post"]}]
    assert named == {("Service", json.dumps(port)), ("ClusterRole", json.dumps(rule))}
    assert granted(served) == granted(objects)  # the HA service needs no further permissions
    values["ha"]["service"]["certificateSecret"] = "ha-tls"
    pod = only(rendered(CHART, over(OPENSTACK, values)), "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert "--ha-service-cert-path=/etc/hypercobalt/ha-service" in container["args"]
    assert "/etc/hypercobalt/ha-service" in {one["mountPath"] for one in container["volumeMounts"]}
    assert "ha-tls" in {one.get("secret", {}).get("secretName") for one in pod["volumes"]}


def test_password_is_in_the_secret_only(objects: list[Body]) -> None:
    holders = [body["kind"] for body in objects if PASSWORD in json.dumps(body)]
    assert holders == ["Secret"]
    mounted = rendered(CHART, {**OPENSTACK, "secret": {"existingSecret": "mine"}})
    assert "Secret" not in {body["kind"] for body in mounted}
    (volume,) = only(mounted, "Deployment")["spec"]["template"]["spec"]["volumes"]
    assert volume["secret"] == {"secretName": "mine", "defaultMode": 0o440}


def test_pod_has_no_privilege_also_with_the_existing_chart_s_values(objects: list[Body]) -> None:
    pod = only(objects, "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


@pytest.mark.parametrize(
    ("missing", "named"),
    [
        (
            {"controllerManager": {"manager": {"env": {"agentNamespaces": ""}}}},
            "env.agentNamespaces",
        ),
        ({"controllerManager": {"manager": {"env": {"osAuthUrl": ""}}}}, "env.osAuthUrl"),
        ({"secret": {"servicePassword": ""}}, "secret.servicePassword"),
    ],
)
def test_value_that_is_missing_is_named(missing: Body, named: str) -> None:
    with pytest.raises(RenderError, match=re.escape(named)):
        rendered(CHART, over(OPENSTACK, missing))


def test_cloud_of_a_clouds_yaml_is_enough() -> None:
    values = over(OPENSTACK, {"openstack": {"cloudsSecret": "clouds", "cloud": "site"}})
    values = over(values, {"controllerManager": {"manager": {"env": {"osAuthUrl": ""}}}})
    values = over(values, {"secret": {"servicePassword": ""}})
    (container,) = only(rendered(CHART, values), "Deployment")["spec"]["template"]["spec"][
        "containers"
    ]
    named = {entry["name"] for entry in container["env"] if entry["name"].startswith("OS_")}
    assert named == {"OS_CLOUD"}
    assert container["volumeMounts"][0]["mountPath"] == "/etc/openstack"


def test_alerts_are_opt_in_and_name_the_runbook_and_the_namespace() -> None:
    assert "PrometheusRule" not in {body["kind"] for body in rendered(CHART, OPENSTACK)}
    wanted = {"enabled": True, "labels": {"release": "prometheus"}, "runbookUrl": "https://site/x"}
    rule = only(rendered(CHART, over(OPENSTACK, {"prometheusRule": wanted})), "PrometheusRule")
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    alerts = [alert for group in rule["spec"]["groups"] for alert in group["rules"]]
    assert alerts
    for alert in alerts:
        assert alert["annotations"]["runbook_url"].startswith("https://site/x#")
        assert "{{" not in json.dumps(alert)
    commands = " ".join(alert["annotations"]["command"] for alert in alerts)
    assert f"-n {NAMESPACE} " in commands


def test_without_ovs_agents_the_operator_has_no_rights_in_their_namespace() -> None:
    plain = rendered(CHART, over(OPENSTACK, {"ovs": {"enabled": False}}))
    assert not any(space == SWITCHES for *_, space in granted(plain))
    (container,) = only(plain, "Deployment")["spec"]["template"]["spec"]["containers"]
    environment = {entry["name"]: entry["value"] for entry in container["env"]}
    assert environment["OVS_AGENT_NAMESPACE"] == ""


def test_without_gardener_no_node_and_nothing_of_its_namespace_is_written() -> None:
    plain = rendered(CHART, over(OPENSTACK, {"gardener": {"enabled": False}}))
    may = granted(plain)
    assert not any(space == "kube-system" for *_, space in may)
    assert ("patch", "", "nodes", "") not in may
    (container,) = only(plain, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert "--no-gardener" in container["args"]


@pytest.mark.parametrize("role", ["viewer", "editor"])
def test_roles_for_people_are_part_of_the_cluster_s_own(objects: list[Body], role: str) -> None:
    found = [body for body in objects if body["metadata"]["name"].endswith(f"-{role}-role")]
    assert len(found) == 4
    label = f"rbac.authorization.k8s.io/aggregate-to-{'view' if role == 'viewer' else 'edit'}"
    assert all(body["metadata"]["labels"][label] == "true" for body in found)
