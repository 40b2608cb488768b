"""Pods that a scheduler binds over HTTP: rights, policies, watchers."""

from __future__ import annotations

from typing import Any

from .conftest import Client

PODS = "/api/v1/namespaces/default/pods"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
Object = dict[str, Any]


def pod(name: str) -> Object:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "a", "image": "a"}]}}


def binding(name: str, node: str) -> Object:
    return {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}


async def test_scheduler_binds_a_pod_that_is_watched_by_its_node(api: Client) -> None:
    await api.post(PODS, json=pod("a"))
    async with api.watching(PODS, fieldSelector="spec.nodeName=node-a") as watch:
        bound = await api.post(f"{PODS}/a/binding", json=binding("a", "node-a"))
        assert (bound.status_code, bound.json()["status"]) == (201, "Success")
        event, seen = await watch.next()
    assert (event, seen["spec"]["nodeName"]) == ("ADDED", "node-a")
    again = await api.post(f"{PODS}/a/binding", json=binding("a", "node-b"))
    assert (again.status_code, again.json()["details"]["kind"]) == (409, "pods/binding")


async def test_binding_needs_its_own_right(api: Client) -> None:
    await api.post(PODS, json=pod("a"))
    async with Client(str(api.base_url), "secret-viewer") as viewer:
        refused = await viewer.post(f"{PODS}/a/binding", json=binding("a", "node-a"))
    assert refused.status_code == 403
    assert 'cannot create resource "pods/binding"' in refused.json()["message"]


async def test_policy_sees_the_binding(api: Client) -> None:
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods/binding"],
    }
    expression = "object.kind == 'Binding' && object.target.name != 'node-b'"
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": expression, "message": "not there"}],
    }
    await api.post(POLICIES, json={"metadata": {"name": "p"}, "spec": spec})
    bound = {"policyName": "p", "validationActions": ["Deny"]}
    await api.post(f"{POLICIES[:-3]}ybindings", json={"metadata": {"name": "p"}, "spec": bound})
    await api.post(PODS, json=pod("a"))
    refused = await api.post(f"{PODS}/a/binding", json=binding("a", "node-b"))
    assert (refused.status_code, "not there" in refused.json()["message"]) == (422, True)
    assert "nodeName" not in (await api.get(f"{PODS}/a")).json()["spec"]
    allowed = await api.post(f"{PODS}/a/binding", json=binding("a", "node-a"))
    assert allowed.status_code == 201
