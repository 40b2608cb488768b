"""Admission policies: which writes they are about, what they see, and how they refuse."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from tests.conformance.samples import config_map
from tests.conformance.script import Api, scenario
from tests.conformance.wire import Body, Json

GROUP = "/apis/admissionregistration.k8s.io/v1"
POLICIES = f"{GROUP}/validatingadmissionpolicies"
BINDINGS = f"{GROUP}/validatingadmissionpolicybindings"
BOB = "conformance-bob"
TRIES = 150


def rule(resources: str = "configmaps", operations: str = "*", **more: Json) -> Body:
    groups = ["conformance.example.com"] if "gadgets" in resources else ["", "apps"]
    return {
        "apiGroups": groups,
        "apiVersions": ["*"],
        "operations": operations.split(),
        "resources": resources.split(),
        **more,
    }


def policy(api: Api, name: str, *validations: Body, **spec: Json) -> Body:
    """A policy about the scenario's own namespace only."""
    own: Body = {"matchLabels": {"kubernetes.io/metadata.name": api.namespace}}
    constraints: Body = {"resourceRules": [rule()], "namespaceSelector": own}
    given = spec.pop("matchConstraints", {})
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": f"{api.namespace}-{name}"},
        "spec": {
            "matchConstraints": {**constraints, **given},
            "validations": list(validations),
            **spec,
        },
    }


def binding(of: Body, *actions: str, **spec: Json) -> Body:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": of["metadata"]["name"]},
        "spec": {
            "policyName": of["metadata"]["name"],
            "validationActions": list(actions or ["Deny"]),
            **spec,
        },
    }


async def enforce(api: Api, made: Body, *actions: str, **spec: Json) -> None:
    """Make a policy with a binding, and wait until it is in force.

    The real server takes policies from a watch; a refusal that is there for the wait shows it.
    """
    sentinel = {"expression": "!request.name.startsWith('sentinel')", "message": "in force"}
    watched = policy(api, f"{made['metadata']['name'].rpartition('-')[2]}-sentinel", sentinel)
    await api.post(POLICIES, made)
    await api.post(BINDINGS, binding(made, *actions, **spec))
    for body, path in ((watched, POLICIES), (binding(watched), BINDINGS)):
        await api.request("POST", path, body)
    path = f"{api.at('configmaps')}?dryRun=All"
    for _ in range(TRIES):
        answer = await api.request("POST", path, config_map("sentinel"))
        if answer.status >= 400:  # by the sentinel, which comes last, or by the policy itself
            return
        await asyncio.sleep(0.1)
    api.record("the policy", "(waited in vain)")


async def forget(api: Api, made: Body) -> None:
    """Take a policy away, and wait until it is no longer in force."""
    for name in (made["metadata"]["name"], f"{made['metadata']['name']}-sentinel"):
        await api.request("DELETE", f"{BINDINGS}/{name}")
        await api.request("DELETE", f"{POLICIES}/{name}")
    for _ in range(TRIES):
        answer = await api.request(
            "POST", f"{api.at('configmaps')}?dryRun=All", config_map("sentinel")
        )
        if answer.status < 400:
            return
        await asyncio.sleep(0.1)
    api.record("the end of the policy", "(waited in vain)")


def labelled(name: str, **labels: str) -> Body:
    body = config_map(name)
    body["metadata"]["labels"] = labels
    return body


@scenario
async def test_a_policy_refuses_creates_updates_and_deletes(api: Api) -> None:
    await api.post(api.at("configmaps"), config_map("old"))
    made = policy(
        api,
        "all",
        {
            "expression": "(request.operation == 'DELETE' ? oldObject : object).metadata.name"
            ".startsWith('good')",
            "messageExpression": "request.operation + ' of ' + request.name + ' by ' +"
            " request.userInfo.username + string(request.dryRun)",
            "reason": "Forbidden",
        },
    )
    await enforce(api, made)
    one = api.at("configmaps", "old")
    await api.post(api.at("configmaps"), config_map("good"))
    await api.post(api.at("configmaps"), config_map("bad"))
    await api.post(f"{api.at('configmaps')}?dryRun=All", config_map("bad"))
    generated = {"metadata": {"generateName": "bad-"}}
    answer = await api.request("POST", api.at("configmaps"), generated)
    named = f"CREATE of {answer['details']['name']} by" in answer["message"]
    api.record("create with generateName", [answer.status, named])
    await api.patch(one, {"data": {"a": "1"}})
    await api.patch(one, {})
    await api.apply(one, {"apiVersion": "v1", "kind": "ConfigMap", "data": {"b": "1"}})
    new = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bad"}}
    await api.apply(api.at("configmaps", "bad"), new)
    await api.put(one, config_map("old"))
    await api.delete(one)
    await api.delete(one, {"dryRun": ["All"]})
    await api.delete(api.at("configmaps", "good"))
    await api.delete(api.at("configmaps", "missing"))
    await forget(api, made)


@scenario
async def test_collections_are_deleted_as_far_as_a_policy_allows(api: Api) -> None:
    await api.post(api.at("configmaps"), labelled("kept", group="one"))
    made = policy(api, "kept", {"expression": "oldObject.metadata.name != 'kept'"})
    made["spec"]["matchConstraints"]["resourceRules"] = [rule(operations="DELETE")]
    await enforce(api, made)
    answer = await api.request("DELETE", f"{api.at('configmaps')}?labelSelector=group%3Done")
    api.record("delete the collection", [answer.status, answer["reason"]])
    await api.get(api.at("configmaps", "kept"))
    await forget(api, made)


@scenario
async def test_match_constraints_limit_a_policy(api: Api) -> None:
    made = policy(
        api,
        "some",
        {"expression": "false", "message": "matched"},
        matchConstraints={
            "resourceRules": [rule("configmaps secrets", "CREATE", scope="Namespaced")],
            "excludeResourceRules": [rule("configmaps", "*", resourceNames=["spared"])],
            "objectSelector": {
                "matchExpressions": [{"key": "held", "operator": "NotIn", "values": ["no"]}]
            },
        },
    )
    await enforce(api, made)
    await api.post(api.at("configmaps"), config_map("one"))
    await api.post(api.at("configmaps"), config_map("spared"))
    await api.post(api.at("configmaps"), labelled("free", held="no"))
    await api.post(api.at("secrets"), {"metadata": {"name": "one"}})
    account = {"metadata": {"name": "one"}}
    await api.post(f"/api/v1/namespaces/{api.namespace}/serviceaccounts", account)
    await api.patch(api.at("configmaps", "spared"), {"data": {"x": "y"}})
    await forget(api, made)


@scenario
async def test_a_binding_narrows_a_policy(api: Api) -> None:
    made = policy(api, "narrow", {"expression": "false"})
    only = {
        "resourceRules": [rule("configmaps", "CREATE")],
        "objectSelector": {"matchLabels": {"bound": "yes"}},
    }
    await enforce(api, made, matchResources=only)
    await api.post(api.at("configmaps"), config_map("loose"))
    await api.post(api.at("configmaps"), labelled("held", bound="yes"))
    await forget(api, made)


@scenario
async def test_a_binding_warns(api: Api) -> None:
    made = policy(
        api,
        "warn",
        {"expression": "has(object.data.a)", "message": "no a"},
        {"expression": "has(object.data.b)"},
    )
    await enforce(api, made, "Warn", "Audit")
    await api.post(api.at("configmaps"), {"metadata": {"name": "one"}, "data": {"x": "1"}})
    await api.post(api.at("configmaps"), {"metadata": {"name": "two"}, "data": {"a": "1"}})
    await forget(api, made)


@scenario
async def test_variables_and_match_conditions_are_evaluated(api: Api) -> None:
    made = policy(
        api,
        "bound",
        {"expression": "variables.ok || !variables.big", "messageExpression": "variables.text"},
        {"expression": "variables.ok || variables.broken == 1", "reason": "RequestEntityTooLarge"},
        matchConditions=[
            {"name": "bob", "expression": "request.userInfo.username == 'bob'"},
            {"name": "in-group", "expression": "'devs' in request.userInfo.groups"},
        ],
        variables=[
            {"name": "size", "expression": "has(object.data) ? object.data.size() : 0"},
            {"name": "big", "expression": "variables.size > 1"},
            {"name": "ok", "expression": "object.metadata.name.startsWith('ok')"},
            {"name": "broken", "expression": "object.spec.none"},
            {
                "name": "text",
                "expression": "string(variables.size) + ' in ' + namespaceObject.metadata.name",
            },
        ],
    )
    for verb in ("Role", "RoleBinding"):
        await api.request("POST", api.at(f"{verb.lower()}s"), _right(verb))
    await enforce(api, made)
    await api.post(api.at("configmaps"), config_map("admin"))
    for name, data in (("ok", {"a": "1", "b": "2"}), ("big", {"a": "1", "b": "2"}), ("small", {})):
        body = {"metadata": {"name": name}, "data": data}
        await api.post(api.at("configmaps"), body, token=BOB)
    await forget(api, made)


@scenario
async def test_variables_that_fail_are_named_where_they_are_needed(api: Api) -> None:
    made = policy(
        api,
        "named",
        {"expression": "has(object.data) || variables.more"},
        {"expression": "has(variables.size) && variables.size < 2", "message": "too large"},
        {"expression": "variables.size == 0 || variables.more"},
        {"expression": "object.data.a == '1' || variables.more && object.data.none == '1'"},
        variables=[
            {"name": "size", "expression": "has(object.data) ? object.data.size() : 0 // or none"},
            {"name": "broken", "expression": "object.data.none == '2'"},
            {"name": "more", "expression": "variables.size > 0 && variables.broken"},
        ],
    )
    await enforce(api, made)
    for name, data in (("none", {}), ("one", {"a": "1"}), ("two", {"a": "1", "b": "2"})):
        await api.post(api.at("configmaps"), {"metadata": {"name": name}, "data": data})
    await forget(api, made)


def _right(kind: str) -> Body:
    group = "rbac.authorization.k8s.io"
    if kind == "Role":
        every = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
        return {"metadata": {"name": "all"}, "rules": [every]}
    return {
        "metadata": {"name": "all"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "all"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "bob"}],
    }


@scenario
async def test_failed_expression_refuses_unless_failures_are_ignored(api: Api) -> None:
    for fails in ("Fail", "Ignore"):
        made = policy(
            api, fails.lower(), {"expression": "object.data.none == '1'"}, failurePolicy=fails
        )
        await enforce(api, made)
        await api.post(api.at("configmaps"), config_map("one"))
        await forget(api, made)
        made = policy(
            api,
            f"{fails.lower()}s",
            {"expression": "false", "message": "never read"},
            failurePolicy=fails,
            matchConditions=[{"name": "none", "expression": "object.data.none == '1'"}],
        )
        await enforce(api, made)
        await api.post(api.at("configmaps"), config_map("two"))
        await forget(api, made)


@scenario
async def test_policies_apply_to_subresources_and_custom_kinds(api: Api) -> None:
    path = api.at("gadgets")
    body = {
        "apiVersion": "conformance.example.com/v1",
        "kind": "Gadget",
        "metadata": {"name": "one"},
        "spec": {"size": 1},
    }
    await api.post(path, body)
    made = policy(
        api,
        "status",
        {
            "expression": "object.metadata.name != 'one'",
            "messageExpression": "request.resource.resource + '/' + request.subResource + ' ' +"
            " request.kind.kind + ' ' + object.kind + ' ' + object.apiVersion",
        },
        matchConstraints={"resourceRules": [rule("gadgets/status", "UPDATE")]},
    )
    await enforce(api, made)
    await api.patch(f"{path}/one/status", {"status": {"phase": "New"}})
    await api.patch(f"{path}/one", {"metadata": {"labels": {"a": "b"}}})
    await forget(api, made)


BAD: Mapping[str, Body] = {
    "syntax": {"expression": "object.data &&"},
    "type": {"expression": "request.name"},
    "request-field": {"expression": "request.nothing == 'a'"},
    "unknown-variable": {"expression": "variables.nothing == 'a'"},
    "unknown-name": {"expression": "nothing == 'a'"},
    "empty": {"expression": " "},
    "message": {"expression": "true", "message": "two\nlines"},
    "message-type": {"expression": "true", "messageExpression": "1"},
    "reason": {"expression": "true", "reason": "Other"},
    "namespace-field": {"expression": "namespaceObject.spec.nothing == 'a'"},
}


@scenario
async def test_bad_policies_are_refused(api: Api) -> None:
    for name, validation in BAD.items():
        answer = await api.request("POST", POLICIES, policy(api, name, validation))
        fields = [cause["field"] for cause in answer["details"]["causes"]]
        api.record(f"create {name}", [answer.status, answer["reason"], fields])
    await api.post(POLICIES, policy(api, "none"))
    unmatched = policy(api, "unmatched", {"expression": "true"})
    del unmatched["spec"]["matchConstraints"]
    await api.post(POLICIES, unmatched)
    unruled = policy(api, "unruled", {"expression": "true"}, matchConstraints={"resourceRules": []})
    await api.post(POLICIES, unruled)
    never = policy(api, "never", {"expression": "true"}, failurePolicy="Never")
    answer = await api.request("POST", POLICIES, never)
    api.record("create never", [answer.status, answer["reason"]])
    early = [{"name": "b", "expression": "variables.a"}, {"name": "a", "expression": "1"}]
    answer = await api.request(
        "POST", POLICIES, policy(api, "early", {"expression": "true"}, variables=early)
    )
    api.record("create early", [answer.status, answer["details"]["causes"][0]["field"]])
    twice = [{"name": "a", "expression": "1"}, {"name": "a", "expression": "variables.a + 1"}]
    answer = await api.request(
        "POST", POLICIES, policy(api, "again", {"expression": "variables.a == 2"}, variables=twice)
    )
    api.record("create again", answer.status)
    twice = [{"name": "a", "expression": "true"}] * 2
    answer = await api.request(
        "POST", POLICIES, policy(api, "twice", {"expression": "true"}, matchConditions=twice)
    )
    api.record("create twice", [answer.status, answer["details"]["causes"][0]["field"]])


@scenario
async def test_bad_bindings_are_refused(api: Api) -> None:
    made = policy(api, "bound", {"expression": "true"})
    for actions in ((), ("Deny", "Warn"), ("Deny", "Deny"), ("Refuse",)):
        body = binding(made)
        body["spec"]["validationActions"] = list(actions)
        await api.post(BINDINGS, body)
    body = binding(made)
    del body["spec"]["policyName"]
    await api.post(BINDINGS, body)


@scenario
async def test_policies_are_objects_like_others(api: Api) -> None:
    made = policy(
        api, "object", {"expression": "object.metadata.name != 'x'", "message": " spaced "}
    )
    name = made["metadata"]["name"]
    await api.post(POLICIES, made)
    await api.post(BINDINGS, binding(made))
    await api.get(f"{POLICIES}/{name}")
    await api.patch(f"{POLICIES}/{name}", {"spec": {"failurePolicy": "Ignore"}})
    await api.patch(f"{POLICIES}/{name}", {"metadata": {"labels": {"a": "b"}}})
    await api.patch(f"{BINDINGS}/{name}", {"spec": {"validationActions": ["Audit"]}})
    await api.apply(f"{POLICIES}/{name}", {**made, "metadata": {"name": name}}, force=True)
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    for path in (POLICIES, BINDINGS):
        await api.get(f"{path}/{name}", accept=table)
    await api.delete(f"{BINDINGS}/{name}")
    await api.delete(f"{POLICIES}/{name}")
