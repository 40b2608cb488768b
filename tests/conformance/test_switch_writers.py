"""An OVS agent's token against what is not its own, on both servers."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from tests.conformance.charts import rendered
from tests.conformance.hosts import BY_NAME, KINDS, PATCHES, SPACE, Fleet, fleet
from tests.conformance.own_host import OTHER, OWN, attempt
from tests.conformance.permitted import object_path
from tests.conformance.prepare import call, install_definitions
from tests.conformance.real import Server
from tests.conformance.wire import Body
from tests.integration.cert_manager import CERT_MANAGER, CERTIFICATE_REQUESTS

from hypercobalt.api.conditions import AGENT_MESSAGE, AGENT_REASON
from hypercobalt.api.ovsnode import OVSNodeConditionType
from hypercobalt.api.writers import MOST_OWNED

pytestmark = pytest.mark.timeout(180)  # Go compiles its standard library the first time

SWITCH, EVENTS = BY_NAME["ovs.c5c3.io", "ovsnodes"], BY_NAME["events.k8s.io", "events"]
LEASE = BY_NAME["coordination.k8s.io", "leases"]
STATUS = SWITCH.path(OWN, "status")
WHEN = "2026-01-01T00:00:00Z"


@pytest.fixture(scope="module", params=["real", "embedded"])
def hosts(request: pytest.FixtureRequest, servers: tuple[Server, Server]) -> Iterator[Fleet]:
    server = servers[0 if request.param == "real" else 1]
    install_definitions(server, [CERT_MANAGER, CERTIFICATE_REQUESTS])
    objects = rendered("hypercobalt-ovs-agent", {"env": {"namespace": SPACE}})
    made = fleet(server, objects)
    deadline = time.monotonic() + 30
    while report(made, OTHER, {"ovsVersion": "1"}) != 403:
        assert time.monotonic() < deadline, "the policy did not come into force"
    yield made
    made.close()
    for body in objects:  # all tests share the servers
        if body["kind"] in {"ValidatingAdmissionPolicyBinding", "ClusterRoleBinding"}:
            call(server, "DELETE", f"{object_path(body)}/{body['metadata']['name']}")


@pytest.fixture(autouse=True)
def _bare(hosts: Fleet) -> None:
    """Forget what another test has left in the status."""
    call(hosts.server, "PUT", STATUS, {**call(hosts.server, "GET", SWITCH.path(OWN)), "status": {}})


def report(hosts: Fleet, host: str, status: Body) -> int:
    path = SWITCH.path(host, "status")
    return hosts.send(OWN, "PATCH", path, {"status": status}, PATCHES["merge"])[0]


def condition(type_: str, reason: str = "Given", message: str = "") -> Body:
    return {
        "type": type_,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": WHEN,
    }


def test_an_ovs_agent_writes_all_of_its_status(hosts: Fleet) -> None:
    status: Body = {
        "ovsVersion": "3.1.0",
        "bridges": [{"name": "br-int"}],
        "conditions": [condition(type_) for type_ in OVSNodeConditionType],
    }
    assert report(hosts, OWN, status) == 200


def test_an_ovs_agent_changes_no_other_condition(hosts: Fleet) -> None:
    theirs = condition("Judged")
    whole = call(hosts.server, "GET", SWITCH.path(OWN))
    whole["status"] = {"conditions": [theirs]}
    call(hosts.server, "PUT", STATUS, whole)
    ready = condition("Ready")
    for given in ([ready], [ready, {**theirs, "status": "False"}], [theirs, condition("Other")]):
        assert report(hosts, OWN, {"conditions": given}) == 403
    assert report(hosts, OWN, {"conditions": [ready, theirs]}) == 200


def test_an_ovs_agent_writes_no_long_texts_into_its_conditions(hosts: Fleet) -> None:
    within = condition("Ready", "R" * AGENT_REASON, "\U0001f600" * AGENT_MESSAGE)
    assert report(hosts, OWN, {"conditions": [within]}) == 200
    for beyond in ({"message": "x" * (AGENT_MESSAGE + 1)}, {"reason": "R" * (AGENT_REASON + 1)}):
        assert report(hosts, OWN, {"conditions": [within | beyond]}) == 403


def test_an_ovs_agent_changes_no_metadata(hosts: Fleet) -> None:
    for meta in ({"labels": {"a": "b"}}, {"annotations": {"a": "b"}}, {"finalizers": ["a.b/c"]}):
        made = {**SWITCH.body("kvm-c"), "metadata": {"name": "kvm-c", **meta}}
        made["spec"] = {"nodeRef": {"name": "kvm-c"}}
        assert hosts.send("kvm-c", "POST", f"{SWITCH.path()}?dryRun=All", made)[0] == 403, meta
    bare = SWITCH.body("kvm-c")
    assert hosts.send("kvm-c", "POST", f"{SWITCH.path()}?dryRun=All", bare)[0] == 201


READS = {
    ("list", "kvm.cloud.sap", "hypervisors"),
    ("list", "ovs.c5c3.io", "ovsnodes"),
    ("get", "coordination.k8s.io", "leases"),
}


def test_an_ovs_agent_reads_what_its_role_has(hosts: Fleet) -> None:
    for kind in KINDS:
        for verb, path in (("get", kind.path(OTHER)), ("list", kind.path())):
            code = hosts.send(OWN, "GET", path)[0]
            assert (code == 200) == ((verb, kind.group, kind.plural) in READS), f"{verb} {path}"


def test_an_ovs_agent_writes_nothing_of_another_host(hosts: Fleet) -> None:
    before = hosts.state([OTHER])
    for kind in KINDS:
        for verb in ("create", "update", "patch", "delete", "deletecollection"):
            assert attempt(hosts, OWN, verb, kind) == 403, f"{verb} {kind.plural}"
    assert attempt(hosts, OWN, "patch", SWITCH, "status") == 403
    assert attempt(hosts, OWN, "patch", BY_NAME["kvm.cloud.sap", "hypervisors"], "status") == 403
    assert hosts.state([OTHER]) == before


def test_a_token_of_no_node_writes_no_switch(hosts: Fleet) -> None:
    for node in ("", f"x{OTHER}", f"{OTHER}x"):
        for verb in ("create", "update", "patch", "delete"):
            assert attempt(hosts, node, verb, SWITCH) == 403, f"{node}: {verb}"


def test_an_ovs_agent_renews_its_own_lease_only(hosts: Fleet) -> None:
    kind = BY_NAME["coordination.k8s.io", "leases"]
    for name, holder, code in (
        (f"ovs-agent-{OWN}", "me", 201),
        (f"ovs-agent-{OWN}", "x" * 513, 403),
        (f"ovs-agent-{OTHER}", "me", 403),
        (f"node-agent-{OWN}", "me", 403),
        ("4c28796a.cloud.sap", "me", 403),  # the operator's
    ):
        body = {**kind.body(OWN), "metadata": {"name": name}, "spec": {"holderIdentity": holder}}
        made = hosts.send(OWN, "POST", f"{kind.path()}?dryRun=All", body)
        assert made[0] == code, (name, made)


def test_an_ovs_agent_reports_events_of_its_own_switch_only(hosts: Fleet) -> None:
    path = f"/apis/events.k8s.io/v1/namespaces/{SPACE}/events"
    about = {"apiVersion": "ovs.c5c3.io/v1alpha1", "kind": "OVSNode", "namespace": SPACE}
    own, other = {**about, "name": OWN}, {**about, "name": OTHER}
    node = {"apiVersion": "v1", "kind": "Node", "name": OWN}
    event: Body = {
        **EVENTS.body(OWN),
        "metadata": {"name": f"{OWN}.switch"},
        "reportingController": "ovs.c5c3.io/ovs-agent",
        "regarding": own,
    }
    for wrong in (
        {"regarding": other},
        {"regarding": {**own, "kind": "Hypervisor", "apiVersion": "kvm.cloud.sap/v1"}},
        {"related": other},
        {"related": node},
        {"related": {**own, "kind": "Hypervisor", "apiVersion": "kvm.cloud.sap/v1"}},
        {"reportingController": "kvm.cloud.sap/node-agent"},
    ):
        code, answer = hosts.send(OWN, "POST", f"{path}?dryRun=All", {**event, **wrong})
        assert (code, "its own OVSNode only" in answer["message"]) == (403, True), wrong
    for right in ({}, {"related": own}):
        assert hosts.send(OWN, "POST", f"{path}?dryRun=All", {**event, **right})[0] == 201, right


def test_an_ovs_agent_makes_no_event_of_another_its_own(hosts: Fleet) -> None:
    path = f"/apis/events.k8s.io/v1/namespaces/{SPACE}/events"
    about = {"apiVersion": "ovs.c5c3.io/v1alpha1", "kind": "OVSNode", "namespace": SPACE}
    theirs: Body = {
        **EVENTS.body(OTHER),
        "metadata": {"name": f"{OTHER}.{time.monotonic_ns():x}"},
        "reportingController": "ovs.c5c3.io/ovs-agent",
        "regarding": {**about, "name": OTHER},
        "note": "theirs",
    }
    call(hosts.server, "POST", path, theirs)
    named = f"{path}/{theirs['metadata']['name']}"
    before = call(hosts.server, "GET", named)
    for change in ({"note": "x"}, {"regarding": {**about, "name": OWN}}, {"related": None}):
        assert hosts.send(OWN, "PUT", named, {**theirs, **change})[0] in {403, 422}, change
        assert hosts.send(OWN, "PATCH", named, change, PATCHES["merge"])[0] == 403, change
    assert hosts.send(OWN, "DELETE", named)[0] == 403
    assert call(hosts.server, "GET", named) == before


def test_an_ovs_agent_stores_nothing_in_managed_fields(hosts: Fleet) -> None:
    stamp: Body = {"manager": "x", "operation": "Update", "fieldsType": "FieldsV1", "time": WHEN}
    wrong: Body = {"f:spec": {"f:" + "z" * MOST_OWNED: {}}}
    for fields, expected in ((wrong, 403), ({"f:spec": {"f:a": {}}}, 201)):
        body = LEASE.body(OWN)
        body["metadata"] |= {
            "name": f"ovs-agent-{OWN}",
            "managedFields": [{**stamp, "apiVersion": body["apiVersion"], "fieldsV1": fields}],
        }
        code, _ = hosts.send(OWN, "POST", LEASE.path() + "?dryRun=All", body)
        assert code == expected
