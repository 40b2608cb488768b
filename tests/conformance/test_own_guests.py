"""A handler's token against what is of another node, on both servers.

What is tried is taken from the rules of the rendered chart: a new rule without an object here
fails.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import httpx2
import pytest
from tests.conformance.charts import NAMESPACE, rendered
from tests.conformance.hosts import PATCHES, Fleet
from tests.conformance.permitted import granted, object_path, of_account
from tests.conformance.prepare import call, install_definitions
from tests.conformance.real import Server
from tests.conformance.wire import Body, Json

from hypercobalt.api.kubevirt import definition

pytestmark = pytest.mark.timeout(180)  # Go compiles its standard library the first time

ACCOUNT, SPACE = "kubevirt-handler", "people"
OWN, OTHER = "kvm-a", "kvm-b"
VMIS = f"/apis/kubevirt.io/v1/namespaces/{SPACE}/virtualmachineinstances"
NODES = "/api/v1/nodes"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
EVENTS = f"/apis/events.k8s.io/v1/namespaces/{SPACE}/events"
REVIEWS = {"tokenreviews", "subjectaccessreviews"}
"""Kinds that are answered, and never stored."""
WRITES = {"create", "update", "patch", "delete", "deletecollection"}


def vmi(name: str, label: str, node: str) -> Body:
    """An instance with a label and a status that name nodes; "" for neither."""
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {
            "name": name,
            "labels": {"kubevirt.io/nodeName": label} if label else {},
            "finalizers": ["foregroundDeleteVirtualMachine"],
        },
        "spec": {"domain": {"devices": {}, "memory": {"guest": "128Mi"}}},
        "status": {"phase": "Scheduled", **({"nodeName": node} if node else {})},
    }


def node(name: str) -> Body:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def lease(name: str) -> Body:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": f"virt-handler-{name}"},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40},
    }


def event(name: str, kind: str = "VirtualMachineInstance", by: str = "virt-handler") -> Body:
    about = {"apiVersion": "kubevirt.io/v1", "kind": kind, "name": name, "namespace": SPACE}
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{by}.{kind.lower()}"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": f"kubevirt.io/{by}",
        "reportingInstance": name,
        "action": "Synchronizing",
        "reason": "Started",
        "type": "Normal",
        "regarding": about,
    }


GUESTS = (
    vmi("own", OWN, OWN),
    vmi("given", OWN, ""),
    vmi("other", OTHER, OTHER),
    vmi("torn", OWN, OTHER),
    vmi("pending", "", ""),
)
OTHERS: dict[tuple[str, str], tuple[str, Body]] = {
    ("kubevirt.io", "virtualmachineinstances"): (VMIS, vmi("other", OTHER, OTHER)),
    ("", "nodes"): (NODES, node(OTHER)),
    ("coordination.k8s.io", "leases"): (LEASES, lease(OTHER)),
    ("events.k8s.io", "events"): (EVENTS, event("other", by="virt-controller")),
}
"""Where an object of another node's is, by group and resource of a rule."""


@pytest.fixture(scope="module")
def objects() -> list[Body]:
    made = of_account(rendered("hypercobalt-virt"), ACCOUNT)
    return [body for body in made if "webhooks" not in body and body["kind"] != "APIService"]


@dataclass
class Handlers:
    """The handlers of two nodes, and what they write to."""

    fleet: Fleet

    def patch(self, path: str, change: Json, *, of: str = OWN, how: str = "merge") -> int:
        return self.fleet.send(of, "PATCH", path, change, PATCHES[how])[0]

    def send(self, method: str, path: str, body: Json = None, *, of: str = OWN) -> int:
        return self.fleet.send(of, method, path, body)[0]


@pytest.fixture(scope="module", params=["real", "embedded"])
def handlers(
    request: pytest.FixtureRequest, servers: tuple[Server, Server], objects: list[Body]
) -> Iterator[Handlers]:
    server = servers[0 if request.param == "real" else 1]
    for one in servers:  # other tests compare the two
        install_definitions(one, [definition.manifest()])
    create = partial(call, server, "POST")
    spaces = {one["metadata"]["name"] for one in call(server, "GET", "/api/v1/namespaces")["items"]}
    for name in sorted({NAMESPACE, SPACE} - spaces):
        create("/api/v1/namespaces", {"metadata": {"name": name}})
    made = [(object_path(body), body) for body in objects if body["kind"] != "Deployment"]
    made += [(NODES, node(OWN)), *((VMIS, one) for one in GUESTS)]
    made += [one for one in OTHERS.values() if one[1] not in GUESTS]
    for path, body in made:
        create(path, body)
    client = httpx2.Client(
        base_url=server.url, verify=server.ssl_context(), timeout=30, trust_env=False
    )
    found = Handlers(Fleet(server, ACCOUNT, client))
    deadline = time.monotonic() + 30
    while found.patch(f"{NODES}/{OTHER}", {"metadata": {"labels": {"x": "y"}}}) != 403:
        assert time.monotonic() < deadline, "the policy did not come into force"
    yield found
    client.close()
    for path, body in reversed(made):  # all tests share the servers
        where = f"{path}/{body['metadata']['name']}"
        if path == VMIS:
            freed = {**call(server, "GET", where)}
            freed["metadata"].pop("finalizers", None)
            call(server, "PUT", where, freed)
        call(server, "DELETE", where)


def test_every_write_of_the_role_is_tried(objects: list[Body]) -> None:
    written = {(group, resource) for verb, group, resource, _ in granted(objects) if verb in WRITES}
    assert {one for one in written if one[1] not in REVIEWS} == OTHERS.keys()


@pytest.mark.parametrize("about", OTHERS, ids=lambda about: about[1])
@pytest.mark.parametrize("verb", sorted(WRITES))
def test_no_verb_writes_what_is_another_nodes(
    handlers: Handlers, about: tuple[str, str], verb: str
) -> None:
    path, body = OTHERS[about]
    where = f"{path}/{body['metadata']['name']}"
    stored = call(handlers.fleet.server, "GET", where)
    renamed = {**body, "metadata": {**body["metadata"], "name": f"{body['metadata']['name']}-2"}}
    code = {
        "create": lambda: handlers.send("POST", path, renamed),
        "update": lambda: handlers.send("PUT", where, stored),
        "patch": lambda: handlers.patch(where, {"metadata": {"labels": {"taken": "over"}}}),
        "delete": lambda: handlers.send("DELETE", where),
        "deletecollection": lambda: handlers.send("DELETE", path),
    }[verb]()
    assert code == 403
    assert call(handlers.fleet.server, "GET", where) == stored


@pytest.mark.parametrize("name", ["own", "given"])
def test_handler_writes_the_status_of_its_own_guests(handlers: Handlers, name: str) -> None:
    running: Json = {"status": {"phase": "Running"}}
    assert handlers.patch(f"{VMIS}/{name}", running) == 200
    assert handlers.patch(f"{VMIS}/{name}", running, of=OTHER) == 403
    assert handlers.patch(f"{VMIS}/{name}", running, of="") == 403


@pytest.mark.parametrize("name", ["other", "torn", "pending"])
def test_handler_takes_no_guest_that_is_not_its_own(handlers: Handlers, name: str) -> None:
    taken: Json = {
        "metadata": {"labels": {"kubevirt.io/nodeName": OWN}},
        "status": {"nodeName": OWN},
    }
    assert handlers.patch(f"{VMIS}/{name}", {"status": {"phase": "Failed"}}) == 403
    assert handlers.patch(f"{VMIS}/{name}", taken) == 403


@pytest.mark.parametrize(
    "change",
    [
        {"status": {"nodeName": OTHER}},
        {"metadata": {"labels": {"kubevirt.io/nodeName": OTHER}}},
        {"metadata": {"labels": {"mine": "yes"}}},
        {"metadata": {"annotations": {"mine": "yes"}}},
        {"metadata": {"finalizers": None}},
        {"spec": {"domain": {"memory": {"guest": "1Gi"}}}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_handler_changes_nothing_but_the_status(handlers: Handlers, change: Body) -> None:
    assert handlers.patch(f"{VMIS}/own", change) == 403


def test_handler_labels_its_own_node_with_kubevirt_s_labels_alone(handlers: Handlers) -> None:
    own = f"{NODES}/{OWN}"
    for key in ("kubevirt.io/schedulable", "cpu-model.node.kubevirt.io/Haswell"):
        for value in ("true", None):
            assert handlers.patch(own, {"metadata": {"labels": {key: value}}}) == 200
    for key in ("zone", "node-role.kubernetes.io/control-plane", "x.kubevirt.io/y"):
        assert handlers.patch(own, {"metadata": {"labels": {key: "true"}}}) == 403
    for value in ("{}", None):
        annotated: Json = {"metadata": {"annotations": {"kubevirt.io/console-endpoint": value}}}
        assert handlers.patch(own, annotated) == 200
    taint = {"key": "a", "effect": "NoSchedule"}
    changes: tuple[Body, ...] = ({"spec": {"taints": [taint]}}, {"spec": {"unschedulable": True}})
    for change in (*changes, {"metadata": {"annotations": {"a": "b"}}}):
        assert handlers.patch(own, change) == 403


def test_handler_holds_the_lease_of_its_name(handlers: Handlers) -> None:
    own = lease(OWN)
    where = f"{LEASES}/{own['metadata']['name']}"
    uid = call(handlers.fleet.server, "GET", f"{NODES}/{OWN}")["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "uid": uid}
    assert handlers.send("POST", LEASES, own) == 201
    assert handlers.patch(where, {"spec": {"holderIdentity": "x"}}) == 200
    assert handlers.patch(where, {"spec": {"holderIdentity": "x"}}, of=OTHER) == 403
    for name, code in ((OTHER, 403), (OWN, 200)):
        owned: Json = {"metadata": {"ownerReferences": [{**owner, "name": name}]}}
        assert handlers.patch(where, owned) == code
    assert handlers.send("DELETE", where) == 200


def test_handler_reports_events_of_instances_alone(handlers: Handlers) -> None:
    assert handlers.send("POST", EVENTS, event("own")) == 201
    assert handlers.send("POST", EVENTS, event("own", kind="Pod")) == 403
    assert handlers.send("POST", EVENTS, event("own", by="virt-controller")) == 403
