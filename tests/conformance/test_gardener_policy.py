"""The operator's token against Nodes, Deployments and budgets, on both servers.

What it writes for Gardener is allowed by its shape, so that what is tried here is refused for being
unknown, not for being listed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

import httpx2
import msgspec
import pytest
from tests.conformance.charts import NAMESPACE, over, rendered
from tests.conformance.permitted import object_path, only, token_of
from tests.conformance.prepare import call
from tests.conformance.real import Server
from tests.conformance.wire import Body, Json

from hypercobalt.api.codec import to_builtins
from hypercobalt.api.core import Node
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import Object, ObjectMeta
from hypercobalt.operator.nodes.gardener import GardenerSignal, decide
from hypercobalt.operator.settings import GARDENER_NAMESPACE as SPACE
from hypercobalt.operator.settings import SIGNAL_IMAGE as IMAGE
from hypercobalt.operator.shared.node_facts import HYPERVISOR_LABEL

pytestmark = pytest.mark.timeout(180)  # Go compiles its standard library the first time

HELD, OTHER = "held", "control-plane"
TAINT: Body = {"key": "kvm.cloud.sap/offboarding", "effect": "NoExecute"}
VALUES: Body = {
    "controllerManager": {"manager": {"env": {"agentNamespaces": "agents", "compute": "none"}}}
}
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{SPACE}/deployments"
BUDGETS = f"/apis/policy/v1/namespaces/{SPACE}/poddisruptionbudgets"


@dataclass(frozen=True, slots=True)
class Operator:
    """A server with a Node that is a hypervisor and one that is none, and the operator's token."""

    server: Server
    client: httpx2.Client
    token: str

    def send(self, method: str, path: str, body: Json, media: str = "json") -> int:
        headers = {
            "Authorization": f"Bearer {self.token}",
            "Content-Type": f"application/{media}",
        }
        content = json.dumps(body).encode()
        return self.client.request(method, path, content=content, headers=headers).status_code

    def create(self, path: str, body: Json) -> int:
        return self.send("POST", f"{path}?dryRun=All", body)

    def taint(self, node: str, **changes: Json) -> int:
        path = f"/api/v1/nodes/{node}?dryRun=All"
        return self.send("PATCH", path, changes, "merge-patch+json")


@pytest.fixture(scope="module", params=["real", "embedded"])
def operator(request: pytest.FixtureRequest, servers: tuple[Server, Server]) -> Iterator[Operator]:
    server = servers[0 if request.param == "real" else 1]
    objects = [
        body
        for body in rendered("hypercobalt-operator", VALUES)
        if body["kind"] == "ServiceAccount" or body["metadata"]["name"].endswith("gardener")
    ]
    account = only(objects, "ServiceAccount")["metadata"]["name"]
    ensure(server, "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    ensure(server, "/api/v1/namespaces", {"metadata": {"name": SPACE}})
    group = "rbac.authorization.k8s.io"
    # Whatever a later role allows: the policy alone holds.
    binding: Body = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "operator-all-verbs"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}],
    }
    for body in (*objects, binding):
        ensure(server, object_path(body), body)
    for name, labels in ((HELD, {HYPERVISOR_LABEL: "kvm"}), (OTHER, {})):
        ensure(server, "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
    client = httpx2.Client(
        base_url=server.url, verify=server.ssl_context(), timeout=30, trust_env=False
    )
    made = Operator(server, client, token_of(server, account))
    deadline = time.monotonic() + 30
    while made.taint(HELD, metadata={"labels": {"a": "b"}}) != 403:
        assert time.monotonic() < deadline, "the policy did not come into force"
    yield made
    client.close()
    for body in (*objects, binding):  # all tests share the servers
        if body["kind"].endswith("Binding"):
            call(server, "DELETE", f"{object_path(body)}/{body['metadata']['name']}")


def ensure(server: Server, path: str, body: Body) -> None:
    try:
        call(server, "POST", path, body)
    except RuntimeError as error:
        if ": 409: " not in str(error):
            raise


@pytest.fixture
def signal(operator: Operator) -> GardenerSignal:
    """What the operator itself writes for a Node."""
    found = call(operator.server, "GET", f"/api/v1/nodes/{HELD}")["metadata"]
    node = Node(metadata=ObjectMeta(name=HELD, uid=found["uid"]))
    hypervisor = Hypervisor(metadata=ObjectMeta(name=HELD))
    lives = over(to_builtins(hypervisor), {"spec": {"lifecycleEnabled": True}})
    plan = decide(node, msgspec.convert(lives, Hypervisor), IMAGE, SPACE, signalled=False)
    assert isinstance(plan, GardenerSignal)
    return plan


def body_of(obj: Object) -> Body:
    found: Body = json.loads(json.dumps(to_builtins(obj)))
    return found


def with_pod(whole: Body, **changes: Json) -> Json:
    return over(whole, {"spec": {"template": {"spec": changes}}})


def with_container(whole: Body, **changes: Json) -> Json:
    (container,) = whole["spec"]["template"]["spec"]["containers"]
    return with_pod(whole, containers=[{**container, **changes}])


def test_what_the_operator_writes_is_taken(operator: Operator, signal: GardenerSignal) -> None:
    for path, obj in ((DEPLOYMENTS, signal.deployment), (BUDGETS, signal.budget)):
        named = f"{path}/{obj.metadata.name}?fieldManager=maintenance&force=true"
        for code in (201, 200):
            assert operator.send("PATCH", named, body_of(obj), "apply-patch+yaml") == code
    call(operator.server, "PUT", f"{DEPLOYMENTS}/maint-{HELD}", rolled(operator))
    named = f"{DEPLOYMENTS}/maint-{HELD}?fieldManager=maintenance&force=true"
    assert operator.send("PATCH", named, body_of(signal.deployment), "apply-patch+yaml") == 200
    for path in (DEPLOYMENTS, BUDGETS):
        call(operator.server, "DELETE", f"{path}/maint-{HELD}")


def rolled(operator: Operator) -> Json:
    """The Deployment with what its controller and `kubectl rollout restart` add."""
    found = call(operator.server, "GET", f"{DEPLOYMENTS}/maint-{HELD}")
    notes: Body = {"metadata": {"annotations": {"deployment.kubernetes.io/revision": "1"}}}
    pod: Body = {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}
    return over(over(found, notes), {"spec": {"template": pod}})


PODS: dict[str, Body] = {
    "host network": {"hostNetwork": True},
    "host processes": {"hostPID": True},
    "host IPC": {"hostIPC": True},
    "priority": {"priorityClassName": "system-node-critical"},
    "volume": {"volumes": [{"name": "host", "hostPath": {"path": "/"}}]},
    "account": {"serviceAccountName": "x"},
    "old account": {"serviceAccount": "x"},
    "token": {"automountServiceAccountToken": True},
    "node": {"nodeName": OTHER},
    "any node": {"nodeSelector": {"a": "b"}},
    "affinity": {"affinity": {}},
    "scheduler": {"schedulerName": "x"},
    "runtime": {"runtimeClassName": "x"},
    "user": {"securityContext": {"runAsUser": 0}},
    "sysctls": {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}},
    "aliases": {"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}]},
    "init container": {"initContainers": [{"name": "a", "image": IMAGE}]},
    "pull secret": {"imagePullSecrets": [{"name": "a"}]},
    "DNS": {"dnsPolicy": "Default"},
    "long grace": {"terminationGracePeriodSeconds": 100_000},
    "toleration": {"tolerations": [{"key": "a", "operator": "Exists"}]},
}
CONTAINERS: dict[str, Body] = {
    "host port": {"ports": [{"containerPort": 1, "hostPort": 1}]},
    "port": {"ports": [{"containerPort": 1}]},
    "image": {"image": "attacker:1"},
    "command": {"command": ["sleep", "1"]},
    "arguments": {"args": ["x"]},
    "environment": {"env": [{"name": "a", "value": "b"}]},
    "user": {"securityContext": {"runAsUser": 0}},
    "resources": {"resources": {"requests": {"cpu": "1000"}}},
    "message path": {"terminationMessagePath": "/etc/passwd"},
    "hook": {"lifecycle": {"postStart": {"exec": {"command": ["x"]}}}},
    "liveness": {"livenessProbe": {"exec": {"command": ["x"]}}},
    "probe by network": {"startupProbe": {"httpGet": {"port": 1, "host": "10.0.0.1"}}},
    "probe": {"startupProbe": {"exec": {"command": ["/bin/sh"]}}},
    "terminal": {"stdin": True},
    "directory": {"workingDir": "/x"},
}


@pytest.mark.parametrize("name", PODS)
def test_a_pod_has_nothing_but_what_the_operator_gives_it(
    operator: Operator, signal: GardenerSignal, name: str
) -> None:
    assert operator.create(DEPLOYMENTS, with_pod(body_of(signal.deployment), **PODS[name])) == 403


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_container_has_nothing_but_what_the_operator_gives_it(
    operator: Operator, signal: GardenerSignal, name: str
) -> None:
    whole = with_container(body_of(signal.deployment), **CONTAINERS[name])
    assert operator.create(DEPLOYMENTS, whole) == 403


def test_a_deployment_and_a_budget_are_those_of_a_node(
    operator: Operator, signal: GardenerSignal
) -> None:
    good, budget = body_of(signal.deployment), body_of(signal.budget)
    labels = {"cobaltcore-maintenance-controller": f"maint-{HELD}"}
    wrong: list[tuple[str, Body]] = [
        (DEPLOYMENTS, {"metadata": {"ownerReferences": []}}),
        (DEPLOYMENTS, {"metadata": {"name": f"maint-{OTHER}"}}),
        (DEPLOYMENTS, {"metadata": {"name": HELD}}),
        (DEPLOYMENTS, {"metadata": {"labels": {"a": "b"}}}),
        (DEPLOYMENTS, {"metadata": {"annotations": {"a": "b"}}}),
        (DEPLOYMENTS, {"metadata": {"finalizers": ["a.b/c"]}}),
        (DEPLOYMENTS, {"spec": {"replicas": 9}}),
        (DEPLOYMENTS, {"spec": {"paused": True}}),
        (DEPLOYMENTS, {"spec": {"strategy": {"rollingUpdate": {"maxSurge": 1000}}}}),
        (DEPLOYMENTS, {"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}}),
        (DEPLOYMENTS, {"spec": {"template": {"metadata": {"labels": {"app": "x"}}}}}),
        (BUDGETS, {"metadata": {"name": f"maint-{OTHER}"}}),
        (BUDGETS, {"spec": {"minAvailable": 2}}),
        (BUDGETS, {"spec": {"minAvailable": "100%"}}),
        (BUDGETS, {"spec": {"minAvailable": None, "maxUnavailable": 0}}),
        (BUDGETS, {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}),
        (BUDGETS, {"spec": {"selector": {"matchLabels": {"app": "dns"}}}}),
        (
            BUDGETS,
            {
                "spec": {
                    "selector": {
                        "matchLabels": labels,
                        "matchExpressions": [{"key": "app", "operator": "Exists"}],
                    }
                }
            },
        ),
    ]
    for path, change in wrong:
        whole = over(good if path == DEPLOYMENTS else budget, change)
        assert operator.create(path, whole) == 403, change
    elsewhere = {**good, "metadata": {**good["metadata"], "namespace": "default"}}
    assert operator.create("/apis/apps/v1/namespaces/default/deployments", elsewhere) == 403


def test_the_operator_gives_one_taint_to_hypervisors_alone(operator: Operator) -> None:
    assert operator.taint(HELD, spec={"taints": [TAINT]}) == 200
    assert operator.taint(OTHER, spec={"taints": [TAINT]}) == 403
    for taint in (
        {"key": "other", "effect": "NoExecute"},
        {**TAINT, "effect": "NoSchedule"},
        {**TAINT, "value": "x"},
    ):
        assert operator.taint(HELD, spec={"taints": [taint]}) == 403, taint
    labelled: Body = {"metadata": {"labels": {HYPERVISOR_LABEL: "kvm"}}}
    for change in (
        labelled,
        {**labelled, "spec": {"taints": [TAINT]}},
        {"metadata": {"annotations": {"a": "b"}}},
        {"spec": {"unschedulable": True}},
    ):
        assert operator.taint(OTHER, **change) == 403, change
    path = f"/api/v1/nodes/{OTHER}"
    for subresource in ("", "/status"):
        body: Body = {"metadata": {"labels": {HYPERVISOR_LABEL: "kvm"}}}
        assert operator.send("PATCH", path + subresource, body, "merge-patch+json") == 403
    assert operator.send("DELETE", path, {}) == 403
    assert HYPERVISOR_LABEL not in call(operator.server, "GET", path)["metadata"].get("labels", {})
