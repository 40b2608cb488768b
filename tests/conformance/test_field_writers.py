"""An agent's token against the operator's fields of its own objects, on both servers.

Each field of a status has one writer (`api/writers.py`). What is held here is the effect: however
an agent writes, what is not its own is as it was.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest
from tests.conformance.charts import NAMESPACE
from tests.conformance.hosts import BY_NAME, KINDS, PATCHES, Fleet
from tests.conformance.own_host import OWN, hosts, objects
from tests.conformance.prepare import call
from tests.conformance.wire import Body, Json

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import (
    MOST_UNITS,
    NODE_AGENT_TYPES,
    HypervisorConditionType,
)
from hypercobalt.api.schema import Writer
from hypercobalt.api.writers import writers, written_by

__all__ = ["hosts", "objects"]

pytestmark = pytest.mark.timeout(180)  # Go compiles its standard library the first time

HYPERVISOR = BY_NAME["kvm.cloud.sap", "hypervisors"]
PATH, STATUS = HYPERVISOR.path(OWN), HYPERVISOR.path(OWN, "status")
WHEN = "2026-01-01T00:00:00Z"
WAYS = ("put", "merge", "json", "apply")
BOOT = "6f0f4b8e-0000-4000-8000-000000000001"

STORED: Body = {
    "fencing": {"phase": "Released", "bootID": BOOT, "startedAt": WHEN},
    "assertion": {"by": "a person", "seenAt": WHEN},
    "recovery": {"phase": "Blocked"},
    "hypervisorId": "h1",
    "serviceId": "s1",
    "traits": ["A"],
    "appliedTraits": ["A"],
    "aggregates": [{"name": "a", "uuid": "u"}],
    "smokeTest": {"attempts": 1},
    "internalIp": "10.0.0.1",
    "evicted": False,
    "unhealthySince": WHEN,
    "failingStorage": ["s"],
    "waits": [{"condition": "Ready", "waitsFor": "x", "since": WHEN}],
    "specHash": "x",
    "definitionsKey": "a",
    "fenceDevices": [{"device": "d", "proven": False, "systemUUID": "u"}],
}
FORGED: Body = {
    "fencing": {
        "phase": "Fenced",
        "method": "Agent",
        "bootID": BOOT,
        "startedAt": WHEN,
        "fencedAt": WHEN,
        "forcedDownAt": WHEN,
    },
    "assertion": {"by": "an agent", "seenAt": WHEN},
    "recovery": {"phase": "Recovering"},
    "hypervisorId": "h2",
    "serviceId": "s2",
    "traits": ["A", "B"],
    "appliedTraits": [],
    "aggregates": [{"name": "b", "uuid": "v"}],
    "smokeTest": {"attempts": 0, "server": "x"},
    "internalIp": "10.0.0.2",
    "evicted": True,
    "unhealthySince": "2026-01-02T00:00:00Z",
    "failingStorage": [],
    "waits": [],
    "specHash": "y",
    "definitionsKey": "b",
    "fenceDevices": [{"device": "d", "proven": True, "systemUUID": "v"}],
}


def condition(type_: str, status: str = "True", message: str = "") -> Body:
    return {
        "type": type_,
        "status": status,
        "reason": "Given",
        "message": message,
        "lastTransitionTime": WHEN,
    }


CONDITIONS: Json = [condition("Ready", "False"), condition("Fenced", "False")]
"""The operator's, beside one of the agent's."""


@pytest.fixture(scope="module", autouse=True)
def _all_verbs(hosts: Fleet) -> Iterator[None]:
    """Let the roles allow everything, so that the policy alone holds."""
    group = "rbac.authorization.k8s.io"
    kinds = {"kvm.cloud.sap": ["*"], "ovs.c5c3.io": ["*"]}
    rules = [{"apiGroups": [name], "resources": it, "verbs": ["*"]} for name, it in kinds.items()]
    account = {"kind": "ServiceAccount", "name": hosts.account, "namespace": NAMESPACE}
    name = f"{hosts.account}-all-verbs"
    role: Body = {"metadata": {"name": name}, "rules": rules}
    binding: Body = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [account],
    }
    made = (("clusterroles", role), ("clusterrolebindings", binding))
    for plural, body in made:
        call(hosts.server, "POST", f"/apis/{group}/v1/{plural}", body)
    yield
    for plural, _ in made:  # all tests share the servers
        call(hosts.server, "DELETE", f"/apis/{group}/v1/{plural}/{name}")


@pytest.fixture(autouse=True)
def _stored(hosts: Fleet) -> None:
    """The Hypervisor as the operator and the agent have left it."""
    hosts.add(OWN)
    mine = condition(NODE_AGENT_TYPES[0])
    whole = call(hosts.server, "GET", PATH)
    whole["status"] = {**STORED, "numInstances": 3, "conditions": [*CONDITIONS, mine]}
    call(hosts.server, "PUT", STATUS, whole)


def write(hosts: Fleet, way: str, status: Body) -> int:
    """Write fields of the status as the agent, in one of the ways of the API."""
    match way:
        case "put":
            whole = call(hosts.server, "GET", PATH)
            whole["status"] = {**whole["status"], **status}
            return hosts.send(OWN, "PUT", STATUS, whole)[0]
        case "merge":
            return hosts.send(OWN, "PATCH", STATUS, {"status": status}, PATCHES[way])[0]
        case "json":
            change = [
                {"op": "add", "path": f"/status/{name}", "value": value}
                for name, value in status.items()
            ]
            return hosts.send(OWN, "PATCH", STATUS, change, PATCHES[way])[0]
        case _:
            body = {**HYPERVISOR.body(OWN), "status": status}
            del body["spec"]
            path = f"{STATUS}?fieldManager=kvm-node-agent&force=true"
            return hosts.send(OWN, "PATCH", path, body, PATCHES[way])[0]


def state(hosts: Fleet) -> Body:
    """The status, and of the metadata what a writer can give."""
    found = call(hosts.server, "GET", PATH)
    kept = {"labels", "annotations", "finalizers", "ownerReferences"}
    meta = {name: value for name, value in found["metadata"].items() if name in kept}
    return {"status": found.get("status", {}), "metadata": meta}


def test_there_is_a_forgery_of_each_field_that_is_not_an_agent_s() -> None:
    mine = {*written_by(Hypervisor, Writer.NODE_AGENT), "conditions"}
    assert FORGED.keys() == STORED.keys() == writers(Hypervisor).keys() - mine


@pytest.mark.parametrize("way", WAYS)
def test_an_agent_changes_no_field_of_the_operator(hosts: Fleet, way: str) -> None:
    before = state(hosts)
    codes = {name: write(hosts, way, {name: value}) for name, value in FORGED.items()}
    assert state(hosts) == before
    # An apply of an empty list of objects with keys asks for nothing.
    assert codes == {**dict.fromkeys(FORGED, 403), **({"waits": 200} if way == "apply" else {})}


@pytest.mark.parametrize("way", ["put", "merge", "json"])
def test_an_agent_removes_no_field_of_the_operator(hosts: Fleet, way: str) -> None:
    before, codes = state(hosts), dict[str, int]()
    for name in STORED:
        if way == "put":
            whole = copy.deepcopy(call(hosts.server, "GET", PATH))
            del whole["status"][name]
            codes[name] = hosts.send(OWN, "PUT", STATUS, whole)[0]
        elif way == "merge":
            codes[name] = write(hosts, way, {name: None})
        else:
            change: Json = [{"op": "remove", "path": f"/status/{name}"}]
            codes[name] = hosts.send(OWN, "PATCH", STATUS, change, PATCHES[way])[0]
    assert state(hosts) == before
    assert codes == dict.fromkeys(STORED, 403)


@pytest.mark.parametrize("way", WAYS)
def test_an_agent_gives_the_operator_no_field(hosts: Fleet, way: str) -> None:
    """Where the operator has written nothing yet, there is nothing to be kept."""
    bare: Body = {**call(hosts.server, "GET", PATH), "status": {"numInstances": 3}}
    call(hosts.server, "PUT", STATUS, bare)
    codes = {name: write(hosts, way, {name: value}) for name, value in FORGED.items() if value}
    assert not STORED.keys() & state(hosts)["status"].keys()
    assert set(codes.values()) == {403}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "forged",
    [
        pytest.param([condition("Ready"), CONDITIONS[1]], id="changes one"),
        pytest.param([CONDITIONS[0], condition("Fenced", "False", "x")], id="changes a message"),
        pytest.param([*CONDITIONS, condition("HaEnabled")], id="adds one"),
        pytest.param([*CONDITIONS, condition("Ready.Service")], id="adds one of no unit"),
        pytest.param([*CONDITIONS, condition("a/x.service")], id="adds one of another domain"),
        pytest.param([*CONDITIONS, CONDITIONS[0]], id="doubles one"),
        pytest.param(CONDITIONS[1:], id="removes one"),
        pytest.param([], id="removes all"),
        pytest.param(
            [*CONDITIONS, *(condition(f"u{n}.service") for n in range(MOST_UNITS + 1))],
            id="leaves no room",
        ),
        pytest.param(
            [*CONDITIONS, condition("libvirtd.service", message="x" * 5000)],
            id="has a long message",
        ),
    ],
)
def test_an_agent_changes_no_condition_of_the_operator(
    hosts: Fleet, way: str, forged: list[Body]
) -> None:
    before = state(hosts)
    code = write(hosts, way, {"conditions": forged})
    if way == "apply" and len(forged) < len(CONDITIONS):
        assert code == 200  # an apply removes what its manager owns
    else:
        assert code in (400, 403, 422, 500)  # two of one type: by the schema, or by the apply
    assert operators(state(hosts)) == operators(before)


def operators(found: Body) -> list[Body]:
    mine = {*NODE_AGENT_TYPES}
    return [one for one in found["status"]["conditions"] if one["type"] not in mine]


def test_no_type_of_the_operator_is_the_agent_s(hosts: Fleet) -> None:
    others = set(HypervisorConditionType) - {*NODE_AGENT_TYPES}
    for type_ in sorted(one for one in others if "." not in one):
        given = [*(one for one in CONDITIONS if one["type"] != type_), condition(type_)]
        assert write(hosts, "merge", {"conditions": given}) == 403, type_


@pytest.mark.parametrize("way", WAYS)
def test_an_agent_changes_no_metadata(hosts: Fleet, way: str) -> None:
    """Annotations that the operator trusts, labels that choose, finalizers, owners."""
    forged: Body = {
        "annotations": {"kvm.cloud.sap/ha-enabled": "false", "kvm.cloud.sap/fenced": BOOT},
        "labels": {"kubernetes.io/hostname": "kvm-b"},
        "finalizers": ["example.org/keep"],
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": "x", "uid": BOOT},
        ],
    }
    before = state(hosts)
    whole = call(hosts.server, "GET", PATH)
    for path in (STATUS, PATH):
        for name, value in forged.items():
            meta: Body = {name: value}
            if way == "put":
                given = {**whole, "metadata": {**whole["metadata"], **meta}}
                hosts.send(OWN, "PUT", path, given)
            elif way == "json":
                add: Json = [{"op": "add", "path": f"/metadata/{name}", "value": value}]
                hosts.send(OWN, "PATCH", path, add, PATCHES[way])
            else:
                body = {**HYPERVISOR.body(OWN), "metadata": {"name": OWN, **meta}}
                query = "?fieldManager=x&force=true" if way == "apply" else ""
                hosts.send(OWN, "PATCH", path + query, body, PATCHES[way])
    assert state(hosts) == before


@pytest.mark.parametrize("way", WAYS)
def test_an_agent_writes_its_own_fields_and_conditions(hosts: Fleet, way: str) -> None:
    own: Body = {
        "bootID": BOOT,
        "guestsStopped": {"bootID": BOOT},
        "instances": [{"id": "i", "name": "n", "active": True}],
        "allocation": {"cpu": "1"},
        "numInstances": 1,
    }
    units = [condition("libvirtd.service"), condition("getty.tty1.service")]
    ours = [condition(type_, "False", "changed") for type_ in NODE_AGENT_TYPES]
    theirs = [] if way == "apply" else CONDITIONS
    assert write(hosts, way, {**own, "conditions": [*ours, *theirs, *units]}) == 200
    found = state(hosts)["status"]
    assert {name: found[name] for name in own} == own
    types = {one["type"] for one in found["conditions"]}
    assert types >= {*NODE_AGENT_TYPES, "libvirtd.service", "Ready", "Fenced"}
    assert write(hosts, "merge", {"conditions": CONDITIONS, "guestsStopped": None}) == 200
    assert state(hosts)["status"]["conditions"] == CONDITIONS


FAILED: Body = {
    "hypervisor": OWN,
    "reason": "HA: Crash of vm1",
    "instances": ["6f0f4b8e-0000-4000-8000-000000000000"],
    "trigger": "InstanceCrash",
    "mode": "auto",
}
MARKED: dict[str, tuple[Body, Body]] = {
    "evictions": ({"kvm.cloud.sap/incident": "i"}, {"kvm.cloud.sap/incident-since": WHEN}),
    "migrations": ({"kvm.cloud.sap/origin": OWN, "kvm.cloud.sap/server": "s"}, {}),
    "leases": ({}, {}),
    "certificaterequests": ({"app.kubernetes.io/managed-by": "hypercobalt-node-agent"}, {}),
}
"""Labels and annotations that an agent gives what it makes."""


@pytest.mark.parametrize("plural", MARKED)
def test_an_agent_marks_what_it_makes_with_its_own_labels_only(hosts: Fleet, plural: str) -> None:
    (kind,) = (one for one in KINDS if one.plural == plural)
    whole = kind.body(OWN)
    hosts.send(OWN, "DELETE", kind.path(OWN))
    if plural == "evictions":
        whole |= {"metadata": {"name": "ha-6f0f4b8e-0000000002"}, "spec": FAILED}
    labels, annotations = MARKED[plural]
    right: Body = {**whole["metadata"], "labels": labels, "annotations": annotations}

    def code(meta: Body) -> int:
        given = {**whole, "metadata": {**right, **meta}}
        return hosts.send(OWN, "POST", f"{kind.path()}?dryRun=All", given)[0]

    assert code({}) == 201
    assert code({"labels": {**labels, "kubernetes.io/hostname": "kvm-b"}}) == 403
    assert code({"annotations": {**annotations, "kvm.cloud.sap/pause-recovery": "x"}}) == 403
    assert code({"finalizers": ["example.org/keep"]}) == 403
    owner = call(hosts.server, "GET", PATH)
    reference = {"apiVersion": "kvm.cloud.sap/v1", "kind": "Hypervisor", "name": OWN}
    reference["uid"] = owner["metadata"]["uid"]
    assert code({"ownerReferences": [reference]}) == 201
    assert code({"ownerReferences": [{**reference, "blockOwnerDeletion": True}]}) == 403


def test_an_agent_s_eviction_has_no_say_about_other_hosts(hosts: Fleet) -> None:
    kind = BY_NAME["kvm.cloud.sap", "evictions"]
    whole = {**kind.body(OWN), "metadata": {"name": "ha-6f0f4b8e-0000000003"}, "spec": FAILED}
    faster = {**whole, "spec": {**FAILED, "parallelism": 1000}}
    assert hosts.send(OWN, "POST", f"{kind.path()}?dryRun=All", faster)[0] == 403
    assert hosts.send(OWN, "POST", kind.path(), whole)[0] == 201
    path = f"{kind.path()}/ha-6f0f4b8e-0000000003"
    change: Body = {"spec": {"instances": ["6f0f4b8e-0000-4000-8000-000000000009"]}}
    assert hosts.send(OWN, "PATCH", path, change, PATCHES["merge"])[0] == 403
    done: Body = {"status": {"conditions": [condition("Evicting", "False")]}}
    assert hosts.send(OWN, "PATCH", f"{path}/status", done, PATCHES["merge"])[0] == 403
    assert hosts.send(OWN, "DELETE", path)[0] == 200


BIG = "x" * 2_000_000
ONE: Body = {"id": "i", "name": "n", "active": True}


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"hostUUID": BIG}, id="text"),
        pytest.param({"bootedAt": f"2026-01-01T00:00:00.{'0' * 1_000_000}Z"}, id="time"),
        pytest.param({"capabilities": {"memory": "1" * 1_000_000}}, id="quantity"),
        pytest.param({"instances": [ONE] * 5000}, id="list"),
        pytest.param({"instances": [{**ONE, "name": BIG}]}, id="text in a list"),
        pytest.param({"allocation": {f"r{n}": "1" for n in range(1000)}}, id="map"),
        pytest.param({"allocation": {BIG: "1"}}, id="key of a map"),
        pytest.param({"cells": [{"cellID": 0, "capacity": {BIG: "1"}}]}, id="key in a list"),
    ],
)
def test_an_agent_s_status_is_bounded(hosts: Fleet, status: Body) -> None:
    before = state(hosts)
    assert write(hosts, "merge", status) in (403, 422)
    assert state(hosts) == before


def test_an_agent_s_other_objects_are_bounded(hosts: Fleet) -> None:
    evictions, leases = (
        BY_NAME["kvm.cloud.sap", "evictions"],
        BY_NAME["coordination.k8s.io", "leases"],
    )
    named: Body = {"name": "ha-6f0f4b8e-0000000005"}
    for body in (
        {"metadata": named, "spec": {**FAILED, "reason": BIG}},
        {"metadata": named, "spec": {**FAILED, "instances": ["i" * 60] * 5000}},
        {
            "metadata": {**named, "annotations": {"kvm.cloud.sap/incident-since": "x" * 10_000}},
            "spec": FAILED,
        },
    ):
        whole = {**evictions.body(OWN), **body}
        assert hosts.send(OWN, "POST", evictions.path(), whole)[0] in (403, 422)
    change: Body = {"spec": {"holderIdentity": "x" * 100_000}}
    assert hosts.send(OWN, "PATCH", leases.path(OWN), change, PATCHES["merge"])[0] in (403, 422)
