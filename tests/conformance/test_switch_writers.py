"""An OVS agent's token against what is not its own in its OVSNode, on both servers."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from tests.conformance.charts import rendered
from tests.conformance.hosts import BY_NAME, PATCHES, SPACE, Fleet, fleet
from tests.conformance.own_host import OTHER, OWN
from tests.conformance.permitted import object_path
from tests.conformance.prepare import call, install_definitions
from tests.conformance.real import Server
from tests.conformance.wire import Body
from tests.integration.cert_manager import CERT_MANAGER, CERTIFICATE_REQUESTS

from hypercobalt.api.ovsnode import OVSNodeConditionType

pytestmark = pytest.mark.timeout(180)  # Go compiles its standard library the first time

SWITCH, EVENTS = BY_NAME["ovs.c5c3.io", "ovsnodes"], BY_NAME["events.k8s.io", "events"]
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


def condition(type_: str) -> Body:
    return {
        "type": type_,
        "status": "True",
        "reason": "Given",
        "message": "",
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


def test_an_ovs_agent_changes_no_metadata(hosts: Fleet) -> None:
    for meta in ({"labels": {"a": "b"}}, {"annotations": {"a": "b"}}, {"finalizers": ["a.b/c"]}):
        made = {**SWITCH.body("kvm-c"), "metadata": {"name": "kvm-c", **meta}}
        made["spec"] = {"nodeRef": {"name": "kvm-c"}}
        assert hosts.send("kvm-c", "POST", f"{SWITCH.path()}?dryRun=All", made)[0] == 403, meta
    bare = SWITCH.body("kvm-c")
    assert hosts.send("kvm-c", "POST", f"{SWITCH.path()}?dryRun=All", bare)[0] == 201
