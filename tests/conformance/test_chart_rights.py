"""The roles of all charts: nobody patches what it may not read.

The answer to a patch has the whole object. A refused one has it too, before any policy is asked: a
JSON patch that copies one value to where another type belongs is refused with that value.
"""

from __future__ import annotations

import pytest
from tests.conformance.charts import rendered
from tests.conformance.hosts import BY_NAME, PATCHES, Fleet
from tests.conformance.own_host import OTHER, OWN, hosts, objects
from tests.conformance.permitted import Grant, granted
from tests.conformance.prepare import call
from tests.conformance.wire import Body, Json

__all__ = ["hosts", "objects"]

pytestmark = pytest.mark.timeout(180)  # Go compiles its standard library the first time

_AGENT: Body = {
    "certificates": {"enabled": True},
    "env": {"issuerName": "nova-ca"},
    "storeDefinitions": True,
}
_OPERATOR: Body = {
    "controllerManager": {"manager": {"env": {"agentNamespaces": "agents", "compute": "direct"}}},
    "ovs": {"enabled": True},
    "ha": {"mode": "internal", "fenceDevices": "devices: []", "service": {"enabled": True}},
}
CHARTS: dict[str, tuple[str, Body]] = {
    "node agent": ("hypercobalt-node-agent", _AGENT),
    "OVS agent": ("hypercobalt-ovs-agent", {}),
    "operator, requests": ("hypercobalt-operator", _OPERATOR),
    "operator, Secrets": (
        "hypercobalt-operator",
        {**_OPERATOR, "certificates": {"source": "secret"}},
    ),
}
ANSWERS_WITH_THE_OBJECT = {"patch"}
READS = {"get", "list"}


def unread(grants: set[Grant]) -> set[Grant]:
    """The patches of what the same account may not read there."""
    readable = {
        (group, resource, space) for verb, group, resource, space in grants if verb in READS
    }
    return {
        (verb, group, resource, space)
        for verb, group, resource, space in grants
        if verb in ANSWERS_WITH_THE_OBJECT
        and not {(group, resource.partition("/")[0], where) for where in (space, "")} & readable
    }


@pytest.mark.parametrize("name", CHARTS)
def test_no_role_patches_what_it_may_not_read(name: str) -> None:
    chart, values = CHARTS[name]
    assert unread(granted(rendered(chart, values))) == set()


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
