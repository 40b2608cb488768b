"""Rules of definitions: which fit their schema, what they cost, and what their functions say."""

from __future__ import annotations

import gc
import time
from typing import Any

import pytest

from hypercobalt.apiserver.kinds.rules import check_rules
from hypercobalt.apiserver.schema import validation
from hypercobalt.apiserver.schema.cel import CompiledRule, compile_rule
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
        "url(self.s).getQuery()['a'][0] == (ip('::1').family() > 4 ? 'a' : 'b')",
    ],
)
def test_rules_that_fit(expression: str) -> None:
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
        ("ip(self.s).isGreaterThan(quantity('1'))", "no matching overload for 'isGreaterThan'"),
    ],
)
def test_rules_that_do_not_fit(expression: str, why: str) -> None:
    (found,) = faults(expression)
    assert why in found


def test_a_message_is_text() -> None:
    assert faults("self.n > 1", messageExpression="'got ' + string(self.n)") == []
    (found,) = faults("self.n > 1", messageExpression="self.n")
    assert "messageExpression must evaluate to a string" in found


UNBOUNDED: Object = {"type": "array", "items": TEXT}
BOUNDED: Object = {"type": "array", "items": {"type": "string", "maxLength": 10}, "maxItems": 50}
NESTED = "self.all(a, self.all(b, a == b))"


@pytest.mark.parametrize(
    ("schema", "expression", "factor"),
    [
        (UNBOUNDED, "self.all(a, a == 'x')", ""),
        (UNBOUNDED, NESTED, "more than 100x"),
        (BOUNDED, NESTED, ""),
        (BOUNDED, f"self.all(c, self.all(d, {NESTED}))", "5.7x"),
        (TEXT, "self.matches('^[a-z]*$')", ""),
        (UNBOUNDED, "self.all(a, a.matches('^[a-z]*$'))", "more than 100x"),
    ],
)
def test_a_rule_that_could_cost_too_much_is_refused(
    schema: Object, expression: str, factor: str
) -> None:
    found = " ".join(faults(expression, schema))
    assert ("exceeds budget" in found) is bool(factor)
    assert factor in found


def test_all_rules_of_a_schema_count_together() -> None:
    ruled: Object = {**BOUNDED, "x-kubernetes-validations": [{"rule": NESTED}]}
    outer: Object = {"type": "array", "items": ruled, "maxItems": 300}

    def found(fields: int) -> str:
        raw: Object = {"type": "object", "properties": {f"f{n}": outer for n in range(fields)}}
        node = compile_schema(raw)
        return " ".join(str(cause) for cause in check_rules(node, "at"))

    assert found(5) == ""
    assert "cost total for entire OpenAPIv3 schema exceeds budget" in found(50)


def test_an_object_with_too_many_fields_for_the_checker_is_refused_by_name() -> None:
    raw: Object = {"type": "object", "properties": {f"f{number}": TEXT for number in range(9_000)}}
    (found,) = faults("self.f1 == 'a'", raw)
    assert "at: Forbidden: an object has too many fields" in found


def test_many_maps_are_checked_in_little_time() -> None:
    maps = {f"f{n}": {"type": "object", "additionalProperties": TEXT} for n in range(4_000)}
    start = time.process_time()
    assert faults("has(self.f1)", {"type": "object", "properties": maps}) == []
    assert time.process_time() - start < 3


def holds(expression: str, value: Any) -> bool:  # noqa: ANN401  # any JSON
    node = compile_schema({"type": "object", "properties": {"v": {}}})
    return compile_rule(Rule(expression), node).failure({"v": value}, None) is None


def test_compiled_rules_go_with_their_definition() -> None:
    expression = "self.v != 'compiled once'"
    assert holds(expression, "x")
    gc.collect()

    left = [found for found in gc.get_objects() if isinstance(found, CompiledRule)]

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
        ("lots", "!isQuantity(self.v) && !isURL(self.v) && !isIP(self.v) && !isCIDR(self.v)"),
        ("https://u@H:8/a%20b?x=1&x=2", "url(self.v).getHost() == 'H:8'"),
        ("https://u@H:8/a%20b?x=1&x=2", "url(self.v).getQuery()['x'] == ['1', '2']"),
        ("http://[::1]/", "url(self.v).getHostname() == '::1' && url(self.v).getPort() == ''"),
        ("http://a:port/", "!isURL(self.v) && !isURL('/a%zz') && isURL('/a')"),
        ("::FFFF:1.2.3.4", "!isIP(self.v) && !isIP('fe80::1%eth0') && !isIP('1.2.3.04')"),
        ("2001:db8::0:1", "ip(self.v) == ip('2001:db8::1') && ip(self.v).isGlobalUnicast()"),
        ("127.0.0.1", "ip(self.v).isLoopback() && ip(self.v).family() == 4"),
        ("10.1.0.0/8", "cidr(self.v).masked() == cidr('10.0.0.0/8')"),
        ("10.0.0.0/8", "cidr(self.v).containsIP('10.2.3.4') && !cidr(self.v).containsIP('::1')"),
        ("10.0.0.0/8", "cidr(self.v).containsCIDR('10.2.0.0/16') && !isCIDR('10.0.0.0')"),
        ("10.0.0.0/8", "cidr(self.v).ip() == ip('10.0.0.0') && cidr(self.v).prefixLength() == 8"),
    ],
)
def test_functions(value: object, expression: str) -> None:
    assert holds(expression, value)


def test_rules_are_asked_for_a_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(10_000))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock) * 0.5)
    items: Object = {**WHOLE, "x-kubernetes-validations": [{"rule": "self != 5"}]}
    node = compile_schema({"type": "array", "items": items})
    (found,) = validation.validate(node, [5] * 100)[-1:]
    assert "running out of cost budget" in str(found)
