"""An agent's token against the objects of another host, on both servers.

What is tried is taken from the rules of the rendered chart: a new rule without a sample of its kind
in `hosts.KINDS` fails here.
"""

from __future__ import annotations

import time

import pytest
from tests.conformance.charts import NAMESPACE, RenderError, rendered
from tests.conformance.hosts import BY_NAME, KINDS, PATCHES, Fleet
from tests.conformance.own_host import OTHER, OWN, attempt, hosts, objects
from tests.conformance.prepare import call
from tests.conformance.wire import Body, Json

from hypercobalt.api.sealed_definitions import MOST_CHARACTERS

__all__ = ["hosts", "objects"]

pytestmark = pytest.mark.timeout(180)  # Go compiles its standard library the first time

NODE_NAME = "authentication.kubernetes.io/node-name"
WRITES = ("create", "update", "patch", "delete", "deletecollection")
QUESTIONS = {
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
}
"""Kinds that are answered, and never stored."""


def rules(objects: list[Body]) -> list[tuple[str, str, str]]:
    """Verb, group and resource of every rule of the agent's roles, but for reads of one name.

    A role that the chart binds to no subject is one for people.
    """
    bindings = {"RoleBinding", "ClusterRoleBinding"}
    bound = {
        (body["roleRef"]["kind"], body["roleRef"]["name"])
        for body in objects
        if body["kind"] in bindings
    }
    return sorted(
        {
            (verb, group, resource)
            for body in objects
            if (body["kind"], body["metadata"]["name"]) in bound
            for rule in body["rules"]
            for verb in rule["verbs"]
            for group in rule.get("apiGroups", ())
            for resource in rule.get("resources", ())
            if (group, resource) not in QUESTIONS
            and not ("resourceNames" in rule and verb not in WRITES)
        }
    )


def test_every_rule_has_an_object_to_be_tried_on(objects: list[Body]) -> None:
    named = {(group, resource.partition("/")[0]) for _, group, resource in rules(objects)}
    assert named <= BY_NAME.keys()


def test_no_verb_of_its_role_writes_to_another_host(hosts: Fleet, objects: list[Body]) -> None:
    before = hosts.state([OTHER])
    for verb, group, resource in rules(objects):
        plural, _, subresource = resource.partition("/")
        if verb in WRITES:
            code = attempt(hosts, OWN, verb, BY_NAME[group, plural], subresource)
            assert code == 403, f"{verb} {resource}"
    assert hosts.state([OTHER]) == before


def test_no_verb_beyond_its_role_writes_either(hosts: Fleet) -> None:
    before = hosts.state([OTHER])
    for kind in KINDS:
        for verb in WRITES:
            for subresource in ("", "status"):
                if verb in ("create", "deletecollection") and subresource:
                    continue
                if subresource and kind.plural in ("leases", "secrets"):
                    continue  # they have none
                code = attempt(hosts, OWN, verb, kind, subresource)
                assert code == 403, f"{verb} {kind.plural}/{subresource}"
    assert hosts.state([OTHER]) == before


def test_a_token_of_no_node_writes_nothing(hosts: Fleet) -> None:
    for kind in KINDS:
        for node in ("", f"x{OTHER}", f"{OTHER}x"):
            for verb in WRITES:
                assert attempt(hosts, node, verb, kind) == 403, f"{node}: {verb} {kind.plural}"


def test_reads_are_those_of_the_role(hosts: Fleet, objects: list[Body]) -> None:
    allowed = rules(objects)
    for kind in KINDS:
        for verb, path in (("get", kind.path(OTHER)), ("list", kind.path())):
            code, _ = hosts.send(OWN, "GET", path)
            expected = (verb, kind.group, kind.plural) in allowed
            assert (code == 200) == expected, f"{verb} {kind.plural}"


EVICTION = BY_NAME["kvm.cloud.sap", "evictions"]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"hypervisor": OTHER}, id="another host under the own name"),
        pytest.param({"trigger": "Maintenance"}, id="another trigger"),
        pytest.param({"trigger": None}, id="no trigger"),
        pytest.param({"instances": ["6f0f4b8e-0000-4000-8000-000000000000"]}, id="instances"),
    ],
)
def test_an_eviction_empties_the_own_host_for_its_shutdown_only(hosts: Fleet, spec: Body) -> None:
    body = EVICTION.body(OWN)
    hosts.send(OWN, "DELETE", EVICTION.path(OWN))
    given = {**body["spec"], **spec}
    wrong = {**body, "spec": {name: value for name, value in given.items() if value is not None}}
    code, answer = hosts.send(OWN, "POST", EVICTION.path(), wrong)
    assert (code, "evict its own host only" in answer["message"]) == (403, True)
    code, _ = hosts.send(OWN, "POST", EVICTION.path(), body)
    assert code == 201


FAILED = {
    "hypervisor": OWN,
    "reason": "HA: Crash of vm1",
    "instances": ["6f0f4b8e-0000-4000-8000-000000000000"],
    "trigger": "InstanceCrash",
    "mode": "auto",
}


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        pytest.param("ha-6f0f4b8e-0000000001", {"hypervisor": OTHER}, id="another host's instance"),
        pytest.param("ha-6f0f4b8e-0000000001", {"instances": []}, id="the whole host for a crash"),
        pytest.param("ha-6f0f4b8e-0000000001", {"trigger": "NodeFailure"}, id="the node"),
        pytest.param("ha-6f0f4b8e-0000000001", {"trigger": "HostShutdown"}, id="a shutdown"),
        pytest.param("ha-6f0f4b8e-0000000001", {"trigger": "Manual"}, id="by hand"),
        pytest.param("ha-6f0f4b8e-0000000001", {"mode": "evacuate"}, id="evacuation"),
        pytest.param("ha-6f0f4b8e-0000000001", {"mode": None}, id="no mode"),
        pytest.param("6f0f4b8e-01", {}, id="another name"),
        pytest.param("ha-kvm-b-1a2b3c4d", {}, id="the name of another host's recovery"),
        pytest.param("ha-kvm-b-1a2b3c4d5e", {}, id="another host's own name"),
        pytest.param("ha-kvm-a-b-1a2b3c4d5e", {}, id="the name of a host of longer name"),
        pytest.param("ha-6f0f4b8e-1a2b3c4d", {}, id="the recovery of a host named like a UUID"),
        pytest.param(OTHER, {}, id="another host's name"),
        pytest.param(OWN, {}, id="the own host's name"),
        pytest.param(
            "ha-kvm-a-0000000001",
            {"trigger": "MemoryFailure", "instances": [], "mode": "cold"},
            id="the whole host cold",
        ),
    ],
)
def test_an_agent_recovers_named_instances_of_its_own_host_only(
    hosts: Fleet, name: str, spec: Body
) -> None:
    given = {**FAILED, **spec}
    right = {**EVICTION.body(OWN), "metadata": {"name": "ha-6f0f4b8e-0000000002"}, "spec": FAILED}
    wrong = {**right, "metadata": {"name": name}}
    wrong["spec"] = {key: value for key, value in given.items() if value is not None}
    assert hosts.send(OWN, "POST", f"{EVICTION.path()}?dryRun=All", wrong)[0] == 403
    assert hosts.send(OWN, "POST", f"{EVICTION.path()}?dryRun=All", right)[0] == 201


def test_an_agent_empties_its_host_live_when_its_memory_fails(hosts: Fleet) -> None:
    spec = {**FAILED, "instances": [], "trigger": "MemoryFailure", "mode": "live"}
    body = {**EVICTION.body(OWN), "metadata": {"name": "ha-kvm-a-0000000001"}, "spec": spec}
    assert hosts.send(OWN, "POST", f"{EVICTION.path()}?dryRun=All", body)[0] == 201


def test_an_agent_deletes_only_evictions_that_it_may_make(hosts: Fleet) -> None:
    for name, trigger, code in (
        ("ha-kvm-a-0000000003", "NodeFailure", 403),
        ("by-hand", "Manual", 403),
        ("ha-6f0f4b8e-0000000004", "InstanceCrash", 200),
    ):
        spec = {**FAILED, "trigger": trigger}
        call(
            hosts.server,
            "POST",
            EVICTION.path(),
            {**EVICTION.body(OWN), "metadata": {"name": name}, "spec": spec},
        )
        path = f"{EVICTION.path()}/{name}"
        assert hosts.send(OWN, "DELETE", path)[0] == code, name
        if code == 403:
            call(hosts.server, "DELETE", path)


def test_an_agent_reports_events_of_its_own_hypervisor_only(hosts: Fleet) -> None:
    kind = BY_NAME["events.k8s.io", "events"]
    own, other = kind.body(OWN), kind.body(OTHER)["regarding"]
    own["metadata"]["name"] = f"{OWN}.00"
    for wrong in (
        {"regarding": other},
        {"regarding": {**own["regarding"], "kind": "Node", "apiVersion": "v1"}},
        {"related": other},
        {"related": {**own["regarding"], "kind": "Node", "apiVersion": "v1"}},
        {"reportingController": "kvm.cloud.sap/operator"},
    ):
        path = f"{kind.path()}?dryRun=All"
        assert hosts.send(OWN, "POST", path, {**own, **wrong})[0] == 403, wrong
    for right in ({}, {"related": own["regarding"]}):
        body = {**own, **right}
        assert hosts.send(OWN, "POST", f"{kind.path()}?dryRun=All", body)[0] == 201, right


def test_an_agent_reads_its_own_configuration_and_no_other_config_map(hosts: Fleet) -> None:
    path = "/api/v1/namespaces/monsoon3/configmaps"
    named = f"{path}?fieldSelector=metadata.name%3Dhypercobalt-ha"
    assert hosts.send(OWN, "GET", named)[0] == 200
    assert hosts.send(OWN, "GET", f"{path}?fieldSelector=metadata.name%3Dother")[0] == 403
    assert hosts.send(OWN, "GET", path)[0] == 403


def test_the_own_host_s_objects_are_written(hosts: Fleet) -> None:
    """An agent can do its work, or the refusals would prove nothing."""
    hosts.add(OWN)
    hypervisor, lease, migration, definitions = (
        BY_NAME[key]
        for key in (
            ("kvm.cloud.sap", "hypervisors"),
            ("coordination.k8s.io", "leases"),
            ("kvm.cloud.sap", "migrations"),
            ("kvm.cloud.sap", "sealeddefinitions"),
        )
    )
    done = [
        hosts.send(OWN, *request)[0]
        for request in (
            ("PATCH", hypervisor.path(OWN, "status"), {"status": {"numInstances": 4}}, MERGE),
            ("DELETE", EVICTION.path(OWN)),
            ("PATCH", lease.path(OWN), {"spec": {"holderIdentity": "two"}}, MERGE),
            ("PATCH", migration.path(OWN, "status"), {"status": STARTED}, MERGE),
            ("DELETE", migration.path(OWN)),
            ("POST", migration.path(), migration.body(OWN)),
            ("PATCH", definitions.path(OWN), {"spec": {"sealed": "YW5ldw=="}}, MERGE),
        )
    ]
    assert done == [200, 200, 200, 200, 200, 201, 200]


def test_certificates_are_requested_under_the_own_name_and_of_the_own_issuer(hosts: Fleet) -> None:
    kind = BY_NAME["cert-manager.io", "certificaterequests"]
    hosts.send(OWN, "DELETE", kind.path(OWN))
    # As cert-manager's webhook stores it: with the requester.
    username, node = f"system:serviceaccount:{NAMESPACE}:{hosts.account}", {NODE_NAME: [OWN]}
    right = kind.body(OWN)
    right["spec"] |= {"username": username, "extra": {**node, "other": ["x"]}}
    for name, value in {
        "isCA": True,
        "request": "cGVt" * 3001,
        "issuerRef": {"name": "another", "kind": "Issuer"},
        "username": f"{username}-2",
        "extra": {NODE_NAME: [OTHER]},
    }.items():
        wrong = {**right, "spec": {**right["spec"], name: value}}
        assert hosts.send(OWN, "POST", kind.path(), wrong)[0] == 403, name
    wrong = {**right, "metadata": {"name": "libvirt-kvm-a-1-0123456789"}}
    assert hosts.send(OWN, "POST", kind.path(), wrong)[0] == 403
    assert hosts.send(OWN, "POST", kind.path(), right)[0] == 201
    approved = {"conditions": [{"type": "Approved", "status": "True"}]}
    path = kind.path(OWN, "status")
    assert hosts.send(OWN, "PATCH", path, {"status": approved}, MERGE)[0] == 403
    assert hosts.send(OWN, "DELETE", kind.path(OWN))[0] == 200


MERGE = PATCHES["merge"]
STARTED: Body = {"origin": OWN, "started": "2026-01-01T00:00:00Z", "dataTotal": "1 B"}
MIGRATION = BY_NAME["kvm.cloud.sap", "migrations"]


def open_migration(hosts: Fleet, **status: Json) -> str:
    """Create a running migration of the other host; return the path of its status."""
    body = MIGRATION.body(OTHER)
    name = f"cccccccc-0000-4000-8000-{time.monotonic_ns() % 10**12:012}-20260101-000000"
    body["metadata"]["name"] = name
    call(hosts.server, "POST", MIGRATION.path(), body)
    path = f"{MIGRATION.path()}/{name}"
    stored = call(hosts.server, "GET", path)
    stored["status"] = {"origin": OTHER, "started": "2026-01-01T00:00:00Z", "type": "unbounded"}
    stored["status"] |= status
    call(hosts.server, "PUT", f"{path}/status", stored)
    return f"{path}/status"


@pytest.mark.parametrize(
    ("status", "change", "code"),
    [
        pytest.param({}, {"destination": OWN}, 200, id="the destination adds its name"),
        pytest.param({}, {"destination": OTHER}, 403, id="another's name"),
        pytest.param({}, {"destination": OWN, "origin": OWN}, 403, id="another origin"),
        pytest.param(
            {}, {"destination": OWN, "started": "2025-01-01T00:00:00Z"}, 403, id="another start"
        ),
        pytest.param({"destination": "kvm-c"}, {"destination": OWN}, 403, id="claimed by a third"),
        pytest.param({"destination": "kvm-c"}, {"type": "failed"}, 403, id="between others"),
        pytest.param(
            {"destination": OWN},
            {"type": "failed", "errMsg": "gone"},
            200,
            id="ended for its source",
        ),
        pytest.param(
            {"destination": OWN, "type": "completed"}, {"type": "failed"}, 403, id="history"
        ),
        pytest.param(
            {"type": "completed"}, {"destination": OWN}, 200, id="its agent was away at the end"
        ),
        pytest.param(
            {"type": "completed"},
            {"destination": OWN, "type": "failed"},
            403,
            id="history of a Migration without a destination",
        ),
        pytest.param(
            {"type": "completed"},
            {"destination": OWN, "errMsg": "x"},
            403,
            id="an addition to history",
        ),
    ],
)
def test_a_destination_adds_its_name_and_the_end(
    hosts: Fleet, status: Body, change: Body, code: int
) -> None:
    path = open_migration(hosts, **status)
    assert hosts.send(OWN, "PATCH", path, {"status": change}, MERGE)[0] == code


def test_another_host_s_migration_is_not_taken_over_by_its_label(hosts: Fleet) -> None:
    label = {"metadata": {"labels": {"kvm.cloud.sap/origin": OWN}}}
    for path in (MIGRATION.path(OTHER), open_migration(hosts).removesuffix("/status")):
        assert hosts.send(OWN, "PATCH", path, label, MERGE)[0] == 403


@pytest.mark.parametrize("kind", ["leases", "evictions", "migrations"])
def test_no_object_is_tied_to_another_host(hosts: Fleet, kind: str) -> None:
    """Garbage collection takes an object with its owner, and may hold the owner up."""
    found = next(known for known in KINDS if known.plural == kind)
    for host, code in ((OTHER, 403), (OWN, 201)):
        owner = call(hosts.server, "GET", f"/apis/kvm.cloud.sap/v1/hypervisors/{host}")
        body = found.body(OWN)
        body["metadata"]["ownerReferences"] = [
            {
                "apiVersion": "kvm.cloud.sap/v1",
                "kind": "Hypervisor",
                "name": host,
                "uid": owner["metadata"]["uid"],
            }
        ]
        hosts.send(OWN, "DELETE", found.path(OWN))
        assert hosts.send(OWN, "POST", found.path(), body)[0] == code


@pytest.mark.parametrize(
    ("name", "code"),
    [
        pytest.param(OWN, 201, id="its own"),
        pytest.param(OTHER, 403, id="of another host"),
        pytest.param("kvm-c", 403, id="of a host that is not there"),
        pytest.param("kvm-a-2", 403, id="of a host that is named like it"),
    ],
)
def test_an_agent_applies_the_definitions_of_its_own_host_only(
    hosts: Fleet, name: str, code: int
) -> None:
    definitions = BY_NAME["kvm.cloud.sap", "sealeddefinitions"]
    call(hosts.server, "DELETE", definitions.path(OWN))
    body = definitions.body(OWN)
    body["metadata"]["name"] = name
    path = f"{definitions.path()}/{name}?fieldManager=a&force=true"

    got, answer = hosts.send(OWN, "PATCH", path, body, PATCHES["apply"])

    assert got == code, answer
    hosts.add(OWN)


def test_an_agent_stores_no_more_than_the_operator_reads(hosts: Fleet) -> None:
    definitions = BY_NAME["kvm.cloud.sap", "sealeddefinitions"]
    body = definitions.body(OWN)
    for length, code in ((MOST_CHARACTERS, 200), (MOST_CHARACTERS + 1, 422)):
        body["spec"]["sealed"] = "A" * length
        path = f"{definitions.path(OWN)}?fieldManager=a&force=true"
        assert hosts.send(OWN, "PATCH", path, body, PATCHES["apply"])[0] == code
    hosts.renew(OWN)


def test_keys_from_secrets_are_refused() -> None:
    values: Body = {"certificates": {"enabled": True, "source": "secret"}}
    with pytest.raises(RenderError, match=r"certificates\.source: must be request"):
        rendered("hypercobalt-node-agent", values)


def test_definitions_need_the_policy() -> None:
    values: Body = {"storeDefinitions": True, "ownHostOnly": False}
    with pytest.raises(RenderError, match="storeDefinitions: needs ownHostOnly"):
        rendered("hypercobalt-node-agent", values)


@pytest.mark.parametrize("media", ["merge", "json"])
def test_event_of_another_host_does_not_become_an_own_one(hosts: Fleet, media: str) -> None:
    kind = BY_NAME["events.k8s.io", "events"]
    changes: dict[str, list[Json]] = {
        "merge": [
            {"regarding": {"name": OWN}},
            {"regarding": {"name": OWN}, "note": "other", "type": "Normal"},
            {"regarding": {"name": OWN}, "metadata": {"labels": {"a": "b"}}},
        ],
        "json": [[{"op": "replace", "path": "/regarding/name", "value": OWN}]],
    }
    paths = {kind.path(OTHER), kind.path(OTHER).replace("/apis/events.k8s.io/v1", "/api/v1")}
    before = hosts.state([OTHER])
    for path in paths:
        for change in changes[media]:
            code, _ = hosts.send(OWN, "PATCH", path, change, PATCHES[media])
            assert code in {403, 422}, path
        whole = call(hosts.server, "GET", path)
        about = "regarding" if "regarding" in whole else "involvedObject"
        whole[about] = {**whole[about], "name": OWN}
        assert hosts.send(OWN, "PUT", path, whole)[0] in {403, 422}, path
    assert hosts.state([OTHER]) == before


def test_repetition_of_an_own_event_is_written(hosts: Fleet) -> None:
    kind = BY_NAME["events.k8s.io", "events"]
    series = {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}
    whole = {**kind.body(OWN), "series": series}
    assert hosts.send(OWN, "PUT", kind.path(OWN), whole)[0] == 200


def test_an_agent_follows_no_eviction_of_another_host(hosts: Fleet) -> None:
    """A role cannot limit a watch to a name that differs on each host, so there is none."""
    for query in ("", "?watch=true", f"?watch=true&fieldSelector=metadata.name%3D{OWN}"):
        assert hosts.send(OWN, "GET", f"{EVICTION.path()}{query}")[0] == 403, query
    hosts.add(OWN, [EVICTION])
    assert hosts.send(OWN, "GET", EVICTION.path(OWN))[0] == 200
