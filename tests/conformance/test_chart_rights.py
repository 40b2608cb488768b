"""The roles of all charts: nobody patches what it may not read.

The answer to a patch has the whole object. A refused one has it too, before any policy is asked: a
JSON patch that copies one value to where another type belongs is refused with that value.
"""

from __future__ import annotations

import pytest
from tests.conformance.charts import NAMESPACE, rendered
from tests.conformance.hosts import BY_NAME, PATCHES, Fleet
from tests.conformance.own_host import OTHER, OWN, hosts, objects
from tests.conformance.permitted import Grant, granted
from tests.conformance.prepare import call
from tests.conformance.wire import Body, Json
from tests.pages import ROOT, section

__all__ = ["hosts", "objects"]

pytestmark = pytest.mark.timeout(180)  # Go compiles its standard library the first time

_AGENT: Body = {
    "certificates": {"enabled": True},
    "env": {"issuerName": "nova-ca"},
    "storeDefinitions": True,
}
FENCES = "fences"
_OPERATOR: Body = {
    "controllerManager": {"manager": {"env": {"agentNamespaces": "agents", "compute": "direct"}}},
    "ovs": {"enabled": True},
    "ha": {
        "mode": "internal",
        "fenceDevices": "devices: []",
        "fenceNamespace": FENCES,
        "service": {"enabled": True},
    },
}
CHARTS: dict[str, tuple[str, Body]] = {
    "node agent": ("hypercobalt-node-agent", _AGENT),
    "OVS agent": ("hypercobalt-ovs-agent", {}),
    "virt": ("hypercobalt-virt", {}),
    "operator, requests": ("hypercobalt-operator", _OPERATOR),
    "operator, Secrets": (
        "hypercobalt-operator",
        {**_OPERATOR, "certificates": {"source": "secret"}},
    ),
}
ANSWERS_WITH_THE_OBJECT = {"patch", "delete", "deletecollection"}
READS = {"get", "list"}


def unread(grants: set[Grant]) -> set[Grant]:
    """The patches and deletes of what the same account may not read there.

    The answer to the delete of an object with a finalizer has the object.
    """
    readable = {
        (group, resource, space) for verb, group, resource, space in grants if verb in READS
    }
    return {
        (verb, group, resource, space)
        for verb, group, resource, space in grants
        if verb in ANSWERS_WITH_THE_OBJECT
        and not {(group, resource.partition("/")[0], where) for where in (space, "")} & readable
    }


def every_name(objects: list[Body]) -> list[Body]:
    """The objects without the rules that are about single names: who reads one reads no other."""
    return [
        {**body, "rules": [rule for rule in body["rules"] if "resourceNames" not in rule]}
        if "rules" in body
        else body
        for body in objects
    ]


@pytest.mark.parametrize("name", CHARTS)
def test_no_role_patches_what_it_may_not_read(name: str) -> None:
    chart, values = CHARTS[name]
    objects = rendered(chart, values)
    assert unread(granted(every_name(objects))) == set()
    assert {grant for grant in granted(objects) if grant[2] == "secrets"} <= {
        (verb, "", "secrets", where) for where in (NAMESPACE, FENCES) for verb in ("get", "create")
    }


PAGE = (ROOT / "docs/security.md").read_text()
SECTIONS = {
    "node agent": "### Node agent of host A",
    "OVS agent": "### OVS agent of host A",
    "virt": "### The actors of VirtualMachineInstances",
    "operator, requests": "### Operator",
    "operator, Secrets": "### Operator",
}
WORDS = {
    "configmaps": "ConfigMap",
    "pods": "pods",
    "poddisruptionbudgets": "PodDisruptionBudgets",
    "sealeddefinitions": "SealedDefinitions",
    "signers": "signers",
    "subjectaccessreviews": "SubjectAccessReview",
    "tokenreviews": "TokenReview",
    "certificaterequests": "CertificateRequests",
    "ovsnodes": "OVSNode",
    "virtualmachineinstances": "VirtualMachineInstance",
    "mutatingwebhookconfigurations": "MutatingWebhookConfiguration",
    "apiservices": "APIService",
    "serviceaccounts": "ServiceAccount",
    "validatingwebhookconfigurations": "ValidatingWebhookConfiguration",
}


@pytest.mark.parametrize("name", CHARTS)
def test_the_page_names_every_kind_of_an_identity(name: str) -> None:
    chart, values = CHARTS[name]
    text = section(PAGE, SECTIONS[name])
    kinds = {resource.partition("/")[0] for _, _, resource, _ in granted(rendered(chart, values))}
    words = {WORDS.get(kind) or kind.removesuffix("s").capitalize() for kind in kinds}
    assert [word for word in sorted(words) if word not in text] == []


def test_the_operator_runs_on_no_hypervisor() -> None:
    """A kubelet gets the tokens of the pods on its Node."""
    label = "nova.openstack.cloud.sap/virt-driver"
    (found,) = (
        body for body in rendered("hypercobalt-operator", _OPERATOR) if body["kind"] == "Deployment"
    )
    required = found["spec"]["template"]["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    (term,) = required["nodeSelectorTerms"]
    assert term == {"matchExpressions": [{"key": label, "operator": "DoesNotExist"}]}


@pytest.mark.parametrize("name", CHARTS)
def test_no_role_has_verbs_by_star(name: str) -> None:
    """A star would grant `patch` as well."""
    chart, values = CHARTS[name]
    assert not [grant for grant in granted(rendered(chart, values)) if "*" in grant]


def test_a_patch_without_the_right_to_read_is_found() -> None:
    secret = ("patch", "", "secrets", "agents")
    assert unread({secret, ("get", "", "secrets", "other")}) == {secret}
    assert unread({secret, ("list", "", "secrets", "")}) == set()
    status = ("patch", "kvm.cloud.sap", "hypervisors/status", "")
    assert unread({status, ("list", "kvm.cloud.sap", "hypervisors", "")}) == set()


EVENTS = BY_NAME["events.k8s.io", "events"]


def test_no_answer_has_an_event_of_another_host(hosts: Fleet) -> None:
    secret = "a note about another host"
    path = EVENTS.path(OTHER)
    stored = {**EVENTS.body(OTHER), "note": secret}
    call(hosts.server, "DELETE", path)
    call(hosts.server, "POST", EVENTS.path(), stored)
    tried: list[tuple[str, Json, str]] = [
        ("PATCH", [{"op": "copy", "from": "/note", "path": "/series"}], PATCHES["json"]),
        ("PATCH", [{"op": "test", "path": "/note", "value": "x"}], PATCHES["json"]),
        ("PATCH", {}, PATCHES["merge"]),
        ("PATCH", {"type": []}, PATCHES["merge"]),
        ("PUT", {**stored, "note": "x"}, "application/json"),
        ("PUT", {**EVENTS.body(OWN), "metadata": stored["metadata"]}, "application/json"),
    ]
    for method, body, media in tried:
        code, answer = hosts.send(OWN, method, path, body, media)
        assert code >= 400
        assert secret not in str(answer)
    assert call(hosts.server, "GET", path)["note"] == secret


def test_an_agent_counts_its_own_event(hosts: Fleet) -> None:
    whole = EVENTS.body(OWN)
    hosts.send(OWN, "POST", EVENTS.path(), whole)
    whole["series"] = {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}
    for _ in range(2):  # with no version, so that it need not be read
        code, answer = hosts.send(OWN, "PUT", EVENTS.path(OWN), whole)
        assert (code, answer["series"]["count"]) == (200, 2)
