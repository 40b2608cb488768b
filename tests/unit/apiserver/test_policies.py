"""Admission policies: what matches, what refuses, and what a write costs under them."""

from __future__ import annotations

from typing import Any, cast

import pytest

from hypercobalt.apiserver.errors import JSONObject, StatusError
from hypercobalt.apiserver.kinds.builtin.policies import check_binding, check_policy
from hypercobalt.apiserver.kinds.resources import Registry
from hypercobalt.apiserver.policies.attributes import Attributes, Endpoint
from hypercobalt.apiserver.policies.policy import Binding, Bound, Policy, review
from hypercobalt.apiserver.requests.bodies import Body
from hypercobalt.apiserver.requests.request import Call, Request, User

REGISTRY = Registry.load()
EVERY: JSONObject = {
    "apiGroups": ["*"],
    "apiVersions": ["*"],
    "operations": ["*"],
    "resources": ["*/*"],
}
USER = User("bob", groups=("devs",))


def policy(expression: str = "false", **spec: object) -> JSONObject:
    whole = {
        "matchConstraints": {"resourceRules": [EVERY]},
        "validations": [{"expression": expression}],
        **spec,
    }
    return cast("JSONObject", {"metadata": {"name": "p"}, "spec": whole})


def bound(raw: JSONObject, *actions: str, **spec: object) -> Bound:
    listed = {"policyName": "p", "validationActions": list(actions or ["Deny"]), **spec}
    binding = cast("JSONObject", {"metadata": {"name": "b"}, "spec": listed})
    return Bound(Policy.of(raw), (Binding.of(binding),))


def write(
    new: JSONObject | None,
    old: JSONObject | None = None,
    *,
    plural: str = "configmaps",
    namespace: str = "default",
    subresource: str = "",
) -> Attributes:
    resource = REGISTRY.find("", "v1", plural)
    assert resource is not None
    named = new or old or {}
    name = cast("dict[str, str]", named["metadata"])["name"]
    call = Call(Request("PUT", "", {}, {}, USER), resource, namespace, name, subresource, Body())
    space = b'{"metadata":{"name":"default","labels":{"team":"a"}}}' if namespace else b""
    return Attributes(call, new, old, (Endpoint.of(resource, subresource),), space)


def thing(name: str = "x", **labels: str) -> JSONObject:
    return {"metadata": {"name": name, "labels": cast("JSONObject", labels)}, "data": {"a": "1"}}


def refusal(raw: JSONObject, attributes: Attributes) -> str:
    try:
        review([bound(raw)], attributes)
    except StatusError as error:
        return f"{error.code} {error.message.partition('denied request: ')[2]}"
    return ""


@pytest.mark.parametrize(
    ("rule", "attributes", "matched"),
    [
        pytest.param({}, write(thing()), True, id="everything"),
        pytest.param({"operations": ["DELETE"]}, write(thing()), False, id="create, not delete"),
        pytest.param({"operations": ["DELETE"]}, write(None, thing()), True, id="delete"),
        pytest.param({"operations": ["UPDATE"]}, write(thing(), thing()), True, id="update"),
        pytest.param({"resources": ["pods"]}, write(thing()), False, id="another kind"),
        pytest.param(
            {"resources": ["*"]},
            write(thing(), thing(), plural="nodes", namespace="", subresource="status"),
            False,
            id="a subresource is not its resource",
        ),
        pytest.param(
            {"resources": ["nodes/status"]},
            write(thing(), thing(), plural="nodes", namespace="", subresource="status"),
            True,
            id="a subresource",
        ),
        pytest.param({"scope": "Cluster"}, write(thing()), False, id="namespaced, not cluster"),
        pytest.param({"resourceNames": ["y"]}, write(thing()), False, id="another name"),
    ],
)
def test_rules_choose_writes(rule: JSONObject, attributes: Attributes, *, matched: bool) -> None:
    raw = policy(matchConstraints={"resourceRules": [{**EVERY, **rule}]})
    assert bool(refusal(raw, attributes)) == matched


@pytest.mark.parametrize(
    ("constraint", "attributes", "matched"),
    [
        ({"objectSelector": {"matchLabels": {"a": "1"}}}, write(thing(a="1")), True),
        ({"objectSelector": {"matchLabels": {"a": "1"}}}, write(thing()), False),
        ({"objectSelector": {"matchLabels": {"a": "1"}}}, write(thing(), thing(a="1")), True),
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, write(thing()), True),
        ({"namespaceSelector": {"matchLabels": {"team": "b"}}}, write(thing()), False),
        ({"excludeResourceRules": [EVERY]}, write(thing()), False),
    ],
)
def test_selectors_choose_writes(
    constraint: JSONObject, attributes: Attributes, *, matched: bool
) -> None:
    raw = policy(matchConstraints={"resourceRules": [EVERY], **constraint})
    assert bool(refusal(raw, attributes)) == matched


@pytest.mark.parametrize(
    ("spec", "answer"),
    [
        pytest.param({"validations": [{"expression": "true"}]}, "", id="holds"),
        pytest.param(
            {"validations": [{"expression": "false", "message": " no "}]}, "422 no", id="message"
        ),
        pytest.param(
            {
                "validations": [
                    {
                        "expression": "false",
                        "messageExpression": "request.userInfo.username + request.operation",
                        "reason": "Forbidden",
                    }
                ]
            },
            "403 bobCREATE",
            id="message expression",
        ),
        pytest.param(
            {"validations": [{"expression": "false", "messageExpression": "object.none"}]},
            "422 failed expression: false",
            id="a message expression that fails",
        ),
        pytest.param(
            {"validations": [{"expression": "object.none == 1"}]},
            "422 expression 'object.none == 1' resulted in error: no such key: none",
            id="no answer",
        ),
        pytest.param(
            {"validations": [{"expression": "object.none == 1"}], "failurePolicy": "Ignore"},
            "",
            id="no answer, ignored",
        ),
        pytest.param(
            {"matchConditions": [{"name": "c", "expression": "request.name == 'y'"}]},
            "",
            id="not its concern",
        ),
        pytest.param(
            {
                "matchConditions": [
                    {"name": "c", "expression": "object.none == 1"},
                    {"name": "d", "expression": "false"},
                ]
            },
            "",
            id="a condition that does not hold outweighs one without an answer",
        ),
        pytest.param(
            {
                "variables": [
                    {"name": "broken", "expression": "object.none"},
                    {"name": "ok", "expression": "object.data.size() == 1"},
                ],
                "validations": [{"expression": "variables.ok || variables.broken"}],
            },
            "",
            id="a broken variable that nothing needs",
        ),
        pytest.param(
            {
                "variables": [{"name": "long", "expression": "duration('1h')"}],
                "validations": [{"expression": "variables.long < duration('1m')"}],
            },
            "422 failed expression: variables.long < duration('1m')",
            id="times as variables",
        ),
        pytest.param(
            {"validations": [{"expression": "object.metadata.name.find('[a-z') == ''"}]},
            "422",
            id="a function that fails",
        ),
        pytest.param(
            {"validations": [{"expression": "syntax &&"}]}, "422", id="one that does not compile"
        ),
    ],
)
def test_policies_decide(spec: JSONObject, answer: str) -> None:
    found = refusal(policy(**cast("dict[str, Any]", spec)), write(thing()))
    assert found == answer or (answer == "422" and found.startswith("422 "))


def test_a_binding_that_warns_lets_the_write_pass() -> None:
    assert review([bound(policy(), "Warn", "Audit")], write(thing())) == [
        "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': "
        "failed expression: false"
    ]


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({"paramKind": {"kind": "ConfigMap"}}, "paramKind"),
        ({"auditAnnotations": [{"key": "a", "valueExpression": "'b'"}]}, "auditAnnotations"),
        ({"validations": [{"expression": "params.a == 1"}]}, "params"),
        (
            {"validations": [{"expression": "authorizer.path('/x').check('get').allowed()"}]},
            "authorizer",
        ),
    ],
)
def test_unsupported_field_is_refused_by_name(spec: JSONObject, named: str) -> None:
    with pytest.raises(StatusError, match=named) as refused:
        check_policy(policy(**cast("dict[str, Any]", spec)), None)
    assert refused.value.code == 501


def test_parameters_of_bindings_are_refused_by_name() -> None:
    with pytest.raises(StatusError, match="paramRef"):
        check_binding({"spec": {"paramRef": {"name": "x"}}}, None)


def test_text_that_looks_like_an_unsupported_name_is_none() -> None:
    assert check_policy(policy("object.params == 'authorizer'"), None) == []
