"""Schemas at work: what is pruned, defaulted, refused and with which words; rules in CEL."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cost import cpu

from hypercobalt.api import crd
from hypercobalt.apiserver.errors import JSONObject
from hypercobalt.apiserver.kinds.rules import check_rules
from hypercobalt.apiserver.schema.cel import RuleError, compile_rule
from hypercobalt.apiserver.schema.changing import apply_defaults, drop_nulls, prune
from hypercobalt.apiserver.schema.node import UNTYPED, Node, Rule, compile_schema
from hypercobalt.apiserver.schema.patterns import PatternError, compile_pattern
from hypercobalt.apiserver.schema.typed import mistyped
from hypercobalt.apiserver.schema.validation import validate

JSON = Any
Object = dict[str, Any]
TEXT, NUMBER, WHOLE = {"type": "string"}, {"type": "number"}, {"type": "integer"}


def schema(**properties: Object) -> Object:
    return {"type": "object", "properties": properties}


def messages(raw: Object, value: JSON, old: JSON = None) -> list[str]:
    """The messages about `value` in the field `a`."""
    node = compile_schema(schema(a=raw))
    if old is None:
        return [str(cause) for cause in validate(node, {"a": value})]
    return [str(cause) for cause in validate(node, {"a": value}, "", {"a": old})]


@pytest.mark.parametrize(
    ("raw", "value", "message"),
    [
        pytest.param(
            TEXT, 5, 'a: Invalid value: "integer": a in body must be of type string: "integer"',
            id="type",
        ),
        pytest.param(
            TEXT, None, 'a: Invalid value: "null": a in body must be of type string: "null"',
            id="null",
        ),
        pytest.param(
            {"type": "string", "maxLength": 2}, "abc",
            "a: Too long: may not be more than 2 bytes",
            id="max-length",
        ),
        pytest.param(
            {"type": "string", "minLength": 2}, "a",
            'a: Invalid value: "a": a in body should be at least 2 chars long',
            id="min-length",
        ),
        pytest.param(
            {"type": "string", "pattern": "^[ab]$"}, "c",
            "a: Invalid value: \"c\": a in body should match '^[ab]$'",
            id="pattern",
        ),
        pytest.param(
            {"type": "string", "enum": ["x", "y"]}, "z",
            'a: Unsupported value: "z": supported values: "x", "y"',
            id="enum",
        ),
        pytest.param(
            {"type": "string", "format": "uuid"}, "z",
            'a: Invalid value: "z": a in body must be of type uuid: "z"',
            id="format",
        ),
        pytest.param(
            {"type": "number", "minimum": 2}, 1,
            "a: Invalid value: 1: a in body should be greater than or equal to 2",
            id="minimum",
        ),
        pytest.param(
            {"type": "number", "minimum": 2, "exclusiveMinimum": True}, 2,
            "a: Invalid value: 2: a in body should be greater than 2",
            id="exclusive-minimum",
        ),
        pytest.param(
            {"type": "number", "maximum": 2}, 2.5,
            "a: Invalid value: 2.5: a in body should be less than or equal to 2",
            id="maximum",
        ),
        pytest.param(
            {"type": "number", "maximum": 2, "exclusiveMaximum": True}, 2,
            "a: Invalid value: 2: a in body should be less than 2",
            id="exclusive-maximum",
        ),
        pytest.param(
            {"type": "integer", "multipleOf": 3}, 4,
            "a: Invalid value: 4: a in body should be a multiple of 3",
            id="multiple-of",
        ),
        pytest.param(
            {"type": "array", "maxItems": 1, "items": TEXT}, ["x", "y"],
            "a: Too many: 2: must have at most 1 item",
            id="max-items",
        ),
        pytest.param(
            {"type": "array", "minItems": 1, "items": TEXT}, [],
            "a: Invalid value: 0: a in body should have at least 1 items",
            id="min-items",
        ),
        pytest.param(
            {"type": "object", "required": ["x"]}, {}, "a.x: Required value", id="required"
        ),
        pytest.param(
            {"type": "object", "maxProperties": 1, "additionalProperties": TEXT},
            {"x": "", "y": ""},
            "a: Too many: 2: must have at most 1 item",
            id="max-properties",
        ),
        pytest.param(
            {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"}, ["x", "x"],
            'a[1]: Duplicate value: "x"',
            id="set",
        ),
        pytest.param(
            {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k", "p"],
                "items": schema(k=TEXT, p={"type": "string", "default": "TCP"}),
            },
            [{"k": "x"}, {"k": "x", "p": "TCP"}],
            'a[1]: Duplicate value: {"k":"x","p":"TCP"}',
            id="map-with-a-default-key",
        ),
        pytest.param(
            {"type": "integer", "not": {"enum": [3]}}, 3,
            '"a" must not validate the schema (not)',
            id="not",
        ),
        pytest.param(
            {"type": "integer", "oneOf": [{"minimum": 1}, {"minimum": 2}]}, 3,
            "must validate one and only one schema (oneOf). Found 2 valid alternatives",
            id="one-of",
        ),
    ],
)  # fmt: skip
def test_invalid_value_is_refused_with_a_message(raw: Object, value: JSON, message: str) -> None:
    found = messages(raw, value)
    assert found
    assert any(message in text for text in found), found


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        pytest.param({"type": "string", "nullable": True}, None, id="nullable"),
        pytest.param({"x-kubernetes-int-or-string": True}, 5, id="int-or-string-as-int"),
        pytest.param({"x-kubernetes-int-or-string": True}, "50%", id="int-or-string-as-text"),
        pytest.param(WHOLE, 2**53, id="a-large-integer"),
        pytest.param(NUMBER, 5, id="an-integer-is-a-number"),
        pytest.param({"type": "integer", "multipleOf": 0}, 5, id="a-factor-of-zero"),
        pytest.param({"type": "string", "format": "unheard"}, "x", id="unknown-format"),
        pytest.param({"type": "string", "pattern": r"^a\z"}, "a", id="the-end-in-go"),
        pytest.param({"type": "array", "items": TEXT}, ["x", "x"], id="atomic-lists-may-repeat"),
        pytest.param(
            {"type": "integer", "anyOf": [{"minimum": 9}, {"maximum": 3}]}, 1, id="any-of"
        ),
    ],
)
def test_good_values_pass(raw: Object, value: JSON) -> None:
    assert messages(raw, value) == []


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date-time", ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5+02:00"], ["2026-01-01", "x"]),
        ("date", ["2026-02-28"], ["2026-02-30", "x"]),
        ("byte", ["", "YQ=="], ["a", "***"]),
        ("uuid", ["123e4567-e89b-12d3-a456-426614174000"], ["123"]),
        ("ipv4", ["10.0.0.1"], ["10.0.0", "::1"]),
        ("ipv6", ["::1"], ["10.0.0.1"]),
        ("cidr", ["10.0.0.0/8", "::/0"], ["10.0.0.0", "10.0.0.0/40"]),
        ("duration", ["1h2m3.5s", "0"], ["1 hour", ""]),
    ],
)
def test_format_accepts_good_and_refuses_bad_values(
    name: str, good: list[str], bad: list[str]
) -> None:
    raw = {"type": "string", "format": name}
    assert [value for value in good if messages(raw, value)] == []
    assert [value for value in bad if not messages(raw, value)] == []


def test_patterns_mean_what_they_mean_to_go() -> None:
    assert messages({"type": "string", "pattern": "^[ab]$"}, "a\n")  # Python's $ sees past it
    assert messages({"type": "string", "pattern": r"^a\z"}, "a\n")
    assert messages({"type": "string", "pattern": r"^\d+$"}, "٣")
    assert not messages({"type": "string", "pattern": "^[[:alpha:]]+$"}, "abc")
    assert messages({"type": "string", "pattern": "^[[:alpha:]]+$"}, "a1")


CATASTROPHIC = "^(([a-z])+.)+[A-Z]([a-z])+$"


def test_a_pattern_takes_time_in_proportion_to_the_text() -> None:
    """Backtracking would take exponential time."""
    text = "a" * 100_000
    rules = [{"rule": f"self.find('{CATASTROPHIC}') == ''"}, {"rule": "!self.matches('(a+)+$b')"}]
    raw = {"type": "string", "pattern": CATASTROPHIC, "x-kubernetes-validations": rules}
    with cpu() as used:
        (found,) = messages(raw, text)
    assert "should match" in found
    assert used.seconds < 1


@pytest.mark.parametrize("text", ["(", "(?=a)", r"(a)\1", "a{2000}", "(a{1000}){1000}", "(?!a)"])
def test_pattern_that_re2_lacks_is_refused(text: str) -> None:
    with pytest.raises(PatternError):
        compile_pattern(text)


def test_an_update_is_judged_where_it_changed() -> None:
    raw = schema(x={"type": "integer", "maximum": 5}, y=TEXT)
    assert messages(raw, {"x": 9, "y": "new"}, {"x": 9, "y": "old"}) == []
    assert messages(raw, {"x": 8, "y": "old"}, {"x": 9, "y": "old"})


def test_items_with_keys_are_judged_by_their_own_past() -> None:
    raw = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": schema(k=TEXT, n={"type": "integer", "maximum": 5}),
    }
    old = [{"k": "a", "n": 9}, {"k": "b", "n": 1}]
    assert messages(raw, [{"k": "b", "n": 2}, {"k": "a", "n": 9}], old) == []
    assert messages(raw, [{"k": "b", "n": 9}, {"k": "a", "n": 9}], old)


def test_long_lists_of_items_with_keys_are_judged_in_little_time() -> None:
    raw = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": schema(k=TEXT, n=WHOLE),
    }
    old = [{"k": f"k{number}", "n": 1} for number in range(10_000)]
    new = [{**item, "n": 2} for item in old]
    with cpu() as used:
        assert messages(raw, new, old) == []
    assert used.seconds < 1.5


# -- pruning, defaulting, decoding -------------------------------------------------------------


def test_unknown_fields_are_pruned_and_reported() -> None:
    raw = schema(
        known=TEXT,
        free={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        map={"type": "object", "additionalProperties": schema(x=TEXT)},
        list={"type": "array", "items": schema(x=TEXT)},
        embedded={"type": "object", "x-kubernetes-embedded-resource": True, "properties": {}},
    )
    value: Object = {
        "known": "a",
        "no": 1,
        "free": {"any": {"thing": 1}},
        "map": {"k": {"x": "a", "no": 1}},
        "list": [{"no": 1}],
        "embedded": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "no": 1},
    }
    assert sorted(prune(compile_schema(raw), value)) == [
        "embedded.no",
        "list[0].no",
        "map.k.no",
        "no",
    ]
    assert value["free"] == {"any": {"thing": 1}}
    assert value["map"] == {"k": {"x": "a"}}
    assert "no" not in value["embedded"]


def test_defaults_fill_what_is_missing_from_the_top() -> None:
    raw = schema(
        plain={"type": "string", "default": "d"},
        nullable={"type": "string", "nullable": True, "default": "d"},
        deep={**schema(x={"type": "integer", "default": 3}), "default": {}},
        absent=schema(x={"type": "integer", "default": 3}),
        list={"type": "array", "items": schema(x={"type": "integer", "default": 3})},
        map={"type": "object", "additionalProperties": schema(x={"type": "integer", "default": 3})},
    )
    value: Object = {"plain": None, "nullable": None, "list": [{}], "map": {"k": {}}}
    node = compile_schema(raw)
    apply_defaults(node, value)
    assert value == {
        "plain": "d",
        "nullable": None,
        "deep": {"x": 3},
        "list": [{"x": 3}],
        "map": {"k": {"x": 3}},
    }
    value["deep"]["x"] = 4
    again: Object = {}
    apply_defaults(node, again)
    assert again["deep"] == {"x": 3}, "a default is copied, not shared"


def test_null_is_read_as_a_typed_decoder_reads_it() -> None:
    raw = schema(
        text=TEXT,
        list={"type": "array", "items": TEXT},
        map={"type": "object", "additionalProperties": TEXT},
        maps={"type": "array", "items": schema(x=TEXT)},
        free={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    )
    value: Object = {
        "text": None,
        "list": [None, "a"],
        "map": {"k": None},
        "maps": [None, {"x": None}],
        "free": {"n": None},
    }
    drop_nulls(compile_schema(raw), value)
    assert value == {
        "list": ["", "a"],
        "map": {"k": ""},
        "maps": [{}, {}],
        "free": {"n": None},
    }


@pytest.mark.parametrize(
    ("raw", "value", "found"),
    [
        ({"type": "integer", "format": "int32"}, 2**31, ("a", "number 2147483648", "int32")),
        (
            {"type": "integer", "format": "int64"},
            2**63,
            ("a", "number 9223372036854775808", "int64"),
        ),
        (WHOLE, True, ("a", "bool", "int64")),
        (TEXT, [], ("a", "array", "string")),
        ({"type": "boolean"}, "x", ("a", "string", "bool")),
        (schema(x=TEXT), {"x": {}}, ("a.x", "object", "string")),
    ],
)
def test_value_that_go_could_not_decode_is_refused(
    raw: Object, value: JSON, found: tuple[str, str, str]
) -> None:
    assert list(mistyped(compile_schema(schema(a=raw)), {"a": value})) == [found]


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "spec", "status", "metadata"]), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(ANY)
def test_any_value_is_judged_against_our_kinds(value: JSON) -> None:
    for node in OURS.values():
        list(mistyped(node, value))
        if isinstance(value, dict):
            prune(node, value)
            apply_defaults(node, value)
        validate(node, value)


def test_schemas_that_hold_themselves_end() -> None:
    node = Node(type="object")
    node.fields["self"] = node
    value: Object = {"self": {"self": {"no": 1}}}
    assert prune(node, value) == ["self.self.no"]
    assert validate(node, value) == []
    assert not node.has_rules()


# -- rules -------------------------------------------------------------------------------------


def rule(text: str, **more: JSON) -> Object:
    return {"rule": text, **more}


def ruled(raw: Object, *rules: Object) -> Object:
    return {**raw, "x-kubernetes-validations": list(rules)}


@pytest.mark.parametrize(
    ("raw", "value", "message"),
    [
        pytest.param(
            ruled(WHOLE, rule("self > 3")),
            2,
            "failed rule: self > 3",
            id="plain",
        ),
        pytest.param(ruled(WHOLE, rule("self > 3", message="too few")), 2, "too few", id="message"),
        pytest.param(
            ruled(WHOLE, rule("self > 3", messageExpression="'got ' + string(self)")),
            2,
            "got 2",
            id="message-expression",
        ),
        pytest.param(
            ruled(WHOLE, rule("self > 3", message="m", messageExpression="'' + string(1/0)")),
            2,
            ": m",
            id="a-message-expression-that-fails",
        ),
        pytest.param(
            ruled(WHOLE, rule("self > 3", reason="FieldValueForbidden", message="m")),
            2,
            "a: Forbidden: m",
            id="reason",
        ),
        pytest.param(
            ruled(schema(x=WHOLE), rule("self.x > 3", fieldPath=".x", message="m")),
            {"x": 2},
            "a.x: Invalid value",
            id="field-path",
        ),
        pytest.param(
            ruled(schema(x=WHOLE), rule("has(self.x)")), {}, "failed rule: has(self.x)", id="has"
        ),
        pytest.param(
            {"type": "array", "items": ruled(WHOLE, rule("self > 3"))},
            [9, 2],
            "a[1]: Invalid value",
            id="in-a-list",
        ),
        pytest.param(ruled(WHOLE, rule("1 / self > 0")), 0, "a: Invalid value", id="it-fails"),
        pytest.param(
            ruled(TEXT, rule("self.find(self) == ''")),
            "(",
            "error parsing regexp",
            id="a-pattern-in-the-value",
        ),
        pytest.param(
            ruled({"type": "array", "items": WHOLE}, rule("self.all(x, x == 1)")),
            [1] * 20_000,
            "Iteration budget exceeded",
            id="too-many-turns",
        ),
    ],
)
def test_failed_rule_is_reported_with_its_message(raw: Object, value: JSON, message: str) -> None:
    (found,) = messages(raw, value)
    assert message in found


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (ruled(schema(namespace=TEXT), rule("self.__namespace__ == 'x'")), {"namespace": "x"}),
        (ruled(schema(**{"a-b": TEXT}), rule("self.a__dash__b == 'x'")), {"a-b": "x"}),
        (ruled(schema(**{"a.b": TEXT}), rule("self.a__dot__b == 'x'")), {"a.b": "x"}),
        (ruled(schema(**{"a/b": TEXT}), rule("self.a__slash__b == 'x'")), {"a/b": "x"}),
        (ruled(schema(a__b=TEXT), rule("self.a__underscores__b == 'x'")), {"a__b": "x"}),
        (ruled({"type": "array", "items": WHOLE}, rule("self.sum() == 6")), [1, 2, 3]),
        (ruled({"type": "array", "items": WHOLE}, rule("self.min() == 1")), [3, 1]),
        (ruled({"type": "array", "items": WHOLE}, rule("self.max() == 3")), [3, 1]),
        (ruled({"type": "array", "items": WHOLE}, rule("self.isSorted()")), [1, 2]),
        (ruled({"type": "array", "items": WHOLE}, rule("self.all(x, x > 0)")), [1, 2]),
        (ruled({"type": "array", "items": TEXT}, rule("self.exists_one(x, x == 'a')")), ["a", "b"]),
        (ruled(TEXT, rule("self.find('[0-9]+') == '42'")), "a42b"),
        (ruled(TEXT, rule("self.findAll('[0-9]') == ['4', '2']")), "a4b2"),
        (ruled(TEXT, rule("self.matches('^a+$')")), "aaa"),
        (ruled(TEXT, rule("self.split(',').size() == 2")), "a,b"),
        (ruled(TEXT, rule("self.lowerAscii() == 'ab'")), "AB"),
        (ruled(TEXT, rule("size(self) < 5")), "abc"),
        (ruled(NUMBER, rule("self < 2.5")), 2.25),
    ],
)
def test_rule_that_holds_reports_nothing(raw: Object, value: JSON) -> None:
    assert messages(raw, value) == []


@pytest.mark.parametrize(
    ("more", "text", "old", "new", "holds"),
    [
        pytest.param({}, "self >= oldSelf", 1, 2, True, id="grows"),
        pytest.param({}, "self >= oldSelf", 2, 1, False, id="shrinks"),
        pytest.param({}, "self > oldSelf", 2, 2, False, id="stays"),
        pytest.param({}, "self >= oldSelf", None, 1, True, id="not-evaluated-on-create"),
        pytest.param(
            {"optionalOldSelf": True}, "!oldSelf.hasValue() || oldSelf.value() < self", None, 1,
            True, id="optional-on-create",
        ),
        pytest.param(
            {"optionalOldSelf": True}, "!oldSelf.hasValue() || oldSelf.value() < self", 2, 1,
            False, id="optional-on-update",
        ),
        pytest.param(
            {"optionalOldSelf": True}, "oldSelf.orValue(5) < self", None, 1, False, id="or-value"
        ),
        pytest.param({}, "'oldSelf' != string(self)", None, 1, True, id="only-in-a-literal"),
    ],
)  # fmt: skip
def test_transition_rule_compares_with_the_old_value(
    more: Object, text: str, old: JSON, new: JSON, *, holds: bool
) -> None:
    found = messages(ruled(WHOLE, rule(text, **more)), new, old)
    assert (found == []) is holds


def test_rules_are_not_evaluated_for_mistyped_values() -> None:
    raw = ruled(schema(x=WHOLE), rule("self.x > 3"))
    (broken, unchecked) = messages(raw, {"x": "text"})
    assert "must be of type integer" in broken
    assert "some validation rules were not checked" in unchecked


@pytest.mark.parametrize(
    "text",
    ["self +", "self.", "unknown > 3", "self.nothing()", "(" * 500, "x" * 9000, ""],
)
def test_rule_that_does_not_compile_is_refused(text: str) -> None:
    with pytest.raises(RuleError):
        compile_rule(Rule(text), UNTYPED)


def _our_schemas() -> dict[str, Node]:
    found: dict[str, Node] = {}
    for kind in crd.KINDS:
        manifest: JSON = msgspec.json.decode(msgspec.json.encode(crd.manifest(kind)))
        for version in manifest["spec"]["versions"]:
            name = f"{manifest['spec']['names']['kind']}/{version['name']}"
            found[name] = compile_schema(version["schema"]["openAPIV3Schema"])
    return found


OURS = _our_schemas()


@pytest.mark.parametrize("name", OURS)
def test_the_rules_of_our_kinds_fit_their_schemas(name: str) -> None:
    OURS[name].embedded = True
    assert list(check_rules(OURS[name], "")) == []


def test_fields_of_a_time_format_are_times_in_rules() -> None:
    """A rule compares them as Kubernetes does; has() still checks for the field itself."""
    raw: JSONObject = {
        "type": "object",
        "properties": {
            "when": {"type": "string", "format": "date-time"},
            "long": {"type": "string", "format": "duration"},
        },
        "x-kubernetes-validations": [
            {"rule": "!has(self.when) || self.when > timestamp('2020-01-01T00:00:00Z')"},
            {"rule": "!has(self.long) || self.long < duration('1h')"},
        ],
    }
    node = compile_schema(raw)
    assert validate(node, {}) == []
    assert validate(node, {"when": "2021-01-01T00:00:00Z", "long": "5m"}) == []
    assert len(validate(node, {"when": "2019-01-01T00:00:00Z", "long": "2h"})) == 2
