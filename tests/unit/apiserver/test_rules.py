"""Rules of definitions: which fit their schema, and what their functions return."""

from __future__ import annotations

import gc
import time
from typing import Any

import pytest
from tests.cost import cpu

from hypercobalt.apiserver.kinds.rules import check_rules
from hypercobalt.apiserver.schema import validation
from hypercobalt.apiserver.schema.cel import CelRule, compile_rule
from hypercobalt.apiserver.schema.node import Rule, compile_schema

Object = dict[str, Any]
TEXT: Object = {"type": "string"}
WHOLE: Object = {"type": "integer"}
SCHEMA: Object = {
    "type": "object",
    "properties": {
        "n": WHOLE,
        "x": {"type": "number"},
        "s": {"type": "string", "maxLength": 20},
        "l": {"type": "array", "items": {"type": "string", "maxLength": 20}, "maxItems": 10},
        "m": {"type": "object", "additionalProperties": WHOLE, "maxProperties": 5},
        "a_b": {"type": "object", "additionalProperties": WHOLE, "maxProperties": 5},
        "aB": {"type": "object", "additionalProperties": WHOLE, "maxProperties": 5},
        "o": {"type": "object", "properties": {"k": WHOLE}},
        "when": {"type": "string", "format": "date-time"},
        "const": WHOLE,
        "a-b": WHOLE,
        "free": {"x-kubernetes-preserve-unknown-fields": True},
    },
}


def faults(expression: str, schema: Object = SCHEMA, **more: str) -> list[str]:
    raw: Object = {**schema, "x-kubernetes-validations": [{"rule": expression, **more}]}
    node = compile_schema(raw)
    return [str(cause) for cause in check_rules(node, "at")]


@pytest.mark.parametrize(
    "expression",
    [
        "self.n > 1 && self.x > 1 && self.x > 1.5 && self.n < 2.5",
        "self.l.all(w, w.startsWith('a')) && self.l.indexOf('a') < self.s.indexOf('a')",
        "self.m.all(k, self.m[k] > 1) && self.m.a > 1",
        "self.a_b.a > 1 || self.aB.a > 1",
        "self.o.k == 1 && self.when > timestamp('2020-01-01T00:00:00Z')",
        "self.const == 1 && self.__const__ == 1 && self.a__dash__b == 1",
        "self == oldSelf || oldSelf.n < self.n",
        "self.s == 'it reads self.nothing and oldSelf.indexOf(x)'",
        "quantity(self.s).add(quantity('1')).isLessThan(quantity('2'))",
    ],
)
def test_rule_that_fits_the_schema_is_accepted(expression: str) -> None:
    assert faults(expression) == []


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("self.nothing == 1", "undefined field 'nothing'"),
        ("self.o.nothing == 1", "undefined field 'nothing'"),
        ("has(self.nothing)", "undefined field 'nothing'"),
        ("self.free.a == 1", "undefined field 'free'"),
        ("self.l.all(w, w.nothing == 1)", "of type 'string' cannot be the operand of a select"),
        ("self.s == 1", "no matching overload for '_==_' applied to '(string, int)'"),
        ("self.when > 'x'", "applied to '(timestamp, string)'"),
        ("self.s.indexOf(1) == 1", "no matching overload for 'indexOf'"),
        ("self.n > 1.5 && self.s > 1", "applied to '(string, int)'"),
        ("self.s", "must evaluate to a bool"),
        ("quantity(self.s)", "must evaluate to a bool"),
        ("'1'.isGreaterThan(quantity('1'))", "no matching overload for 'isGreaterThan'"),
    ],
)
def test_rule_that_does_not_fit_the_schema_is_refused(expression: str, why: str) -> None:
    (found,) = faults(expression)
    assert why in found


def test_a_message_is_text() -> None:
    assert faults("self.n > 1", messageExpression="'got ' + string(self.n)") == []
    (found,) = faults("self.n > 1", messageExpression="self.n")
    assert "messageExpression must evaluate to a string" in found


@pytest.mark.parametrize(
    ("expression", "functions"),
    [
        ("isIP(self.s) && ip(self.s).family() == 4", "ip, isIP"),
        ("cidr(self.s).containsIP('10.2.3.4')", "cidr"),
        ("url(self.s).getScheme() == 'https'", "url"),
        ("sets.contains(self.l, ['a'])", "sets"),
    ],
)
def test_a_rule_with_a_function_that_is_not_served_is_refused_by_name(
    expression: str, functions: str
) -> None:
    (found,) = faults(expression)
    assert f"the embedded API server does not serve the CEL function {functions}" in found


def test_an_object_with_too_many_fields_for_the_checker_is_refused_by_name() -> None:
    raw: Object = {"type": "object", "properties": {f"f{number}": TEXT for number in range(9_000)}}
    (found,) = faults("self.f1 == 'a'", raw)
    assert "at: Forbidden: an object has too many fields" in found


def test_many_maps_are_checked_in_little_time() -> None:
    maps = {f"f{n}": {"type": "object", "additionalProperties": TEXT} for n in range(4_000)}
    with cpu() as used:
        assert faults("has(self.f1)", {"type": "object", "properties": maps}) == []
    assert used.seconds < 5


def holds(expression: str, value: Any) -> bool:  # noqa: ANN401  # any JSON
    node = compile_schema({"type": "object", "properties": {"v": {}}})
    return compile_rule(Rule(expression), node).failure({"v": value}, None) is None


def test_compiled_rules_go_with_their_definition() -> None:
    expression = "self.v != 'compiled once'"
    assert holds(expression, "x")
    gc.collect()

    left = [found for found in gc.get_objects() if isinstance(found, CelRule)]

    assert expression not in [found.source.rule for found in left]


@pytest.mark.parametrize(
    ("value", "expression"),
    [
        (["a", "b", "a"], "self.v.indexOf('a') == 0 && self.v.lastIndexOf('a') == 2"),
        (["a"], "self.v.indexOf('x') == -1 && self.v.lastIndexOf('x') == -1"),
        ("abcb", "self.v.indexOf('b') == 1 && self.v.indexOf('b', 2) == 3"),
        ("abcb", "self.v.lastIndexOf('b') == 3 && self.v.lastIndexOf('b', 2) == 1"),
        ("1500m", "quantity(self.v).isGreaterThan(quantity('1')) && sign(quantity(self.v)) == 1"),
        ("1Ki", "quantity(self.v) == quantity('1024') && quantity(self.v).asInteger() == 1024"),
        ("1Ki", "quantity(self.v).sub(24).compareTo(quantity('1k')) == 0"),
        ("1m", "!quantity(self.v).isInteger() && quantity(self.v).asApproximateFloat() == 0.001"),
        ("lots", "!isQuantity(self.v)"),
    ],
)
def test_functions_of_cel_are_evaluated(value: object, expression: str) -> None:
    assert holds(expression, value)


def test_rules_are_evaluated_for_a_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(10_000))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock) * 0.5)
    items: Object = {**WHOLE, "x-kubernetes-validations": [{"rule": "self != 5"}]}
    node = compile_schema({"type": "array", "items": items})
    (found,) = validation.validate(node, [5] * 100)[-1:]
    assert "running out of cost budget" in str(found)
