"""Admission policies: what matches, what refuses, and what a write costs under them."""

from __future__ import annotations

import time
from collections.abc import Callable
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
                "variables": [
                    {"name": "broken", "expression": "object.none"},
                    {"name": "more", "expression": "variables.broken + 1"},
                ],
                "validations": [{"expression": "variables.more == 1"}],
            },
            "422 expression 'variables.more == 1' resulted in error: composited variable \"more\" "
            'fails to evaluate: composited variable "broken" fails to evaluate: no such key: none',
            id="a broken variable that is needed",
        ),
        pytest.param(
            {
                "variables": [{"name": "fine", "expression": "1"}],
                "validations": [{"expression": "variables.fine + object.none == 1"}],
            },
            "422 expression 'variables.fine + object.none == 1' resulted in error: "
            "no such key: none",
            id="no answer beside a variable",
        ),
        pytest.param(
            {
                "variables": [
                    {"name": "a", "expression": "object.data.a // of the object"},
                    {"name": "a", "expression": "variables.a + 'variables.a'"},
                    {"name": "later", "expression": "has( variables.a ) && !has(object.none)"},
                ],
                "validations": [
                    {"expression": "variables.a == '1variables.a' // as declared last"},
                    {"expression": "variables.later && ['__at__0'].all(a, a == '__a' + 't__0')"},
                ],
            },
            "",
            id="variables by their names, and texts as they are",
        ),
        pytest.param(
            {
                "variables": [
                    {"name": "early", "expression": "variables.late"},
                    {"name": "late", "expression": "1"},
                ],
                "validations": [{"expression": "variables.early == 1"}],
            },
            "422",
            id="a variable that is declared later",
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


TEN = "[0,1,2,3,4,5,6,7,8,9]"
COSTLY = f"{TEN}.map(a, {TEN}.map(b, {TEN}.map(c, a + b + c))).size() == 10"


def validations(*expressions: str) -> list[JSONObject]:
    return [{"expression": expression} for expression in expressions]


def milliseconds(attributes: Callable[[], Attributes], *policies: JSONObject) -> float:
    """CPU time of reviewing a write that passes, at best."""
    together, looks = [bound(raw) for raw in policies], list[float]()
    for _ in range(7):
        reviewed = attributes()
        began = time.thread_time()
        assert review(together, reviewed) == []
        looks.append((time.thread_time() - began) * 1000)
    return min(looks)


def small() -> Attributes:
    return write(thing())


def large() -> Attributes:
    return write({**thing(), "data": {f"key-{number}": "value" * 9 for number in range(5000)}})


def test_variable_is_evaluated_once_for_all_validations() -> None:
    variables = [{"name": "costly", "expression": COSTLY}]
    one, many = (
        policy(variables=variables, validations=validations(*["variables.costly"] * count))
        for count in (1, 20)
    )
    assert milliseconds(small, many) < 3 * milliseconds(small, one)


def test_variable_is_not_evaluated_where_nothing_needs_it() -> None:
    variables = [{"name": "costly", "expression": COSTLY}]
    read, skipped = (
        policy(variables=variables, validations=validations(expression))
        for expression in ("variables.costly", "object.data.a == '1' || variables.costly")
    )
    assert milliseconds(small, skipped) < 0.5 * milliseconds(small, read)


def test_objects_are_converted_once_for_all_that_look_at_them() -> None:
    looks = [{"name": f"look{number}", "expression": "object.data"} for number in range(10)]
    one = policy(validations=validations("object.data.size() == 5000"))
    many = policy(
        variables=looks,
        validations=validations(*(f"variables.{look['name']}.size() == 5000" for look in looks)),
    )
    assert milliseconds(large, *[many] * 5) < 3 * milliseconds(large, one)


def test_object_is_not_converted_for_policies_that_leave_the_write_alone() -> None:
    looks = validations("object.data.size() == 5000")
    others = {"name": "c", "expression": "request.userInfo.username == 'someone'"}
    applied, excluded = (
        policy(validations=looks),
        policy(validations=looks, matchConditions=[others]),
    )
    assert milliseconds(large, *[excluded] * 5) < 0.5 * milliseconds(large, applied)


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
        ({"validations": [{"expression": "dyn(variables).a == 1"}]}, "variables"),
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
