"""Reading bodies: JSON and YAML, hostile ones too."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.apiserver.errors import StatusError
from hypercobalt.apiserver.requests import bodies


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 2026-01-01", {"a": "2026-01-01"}),
        ("a: 2026-01-01T00:00:00Z", {"a": "2026-01-01T00:00:00Z"}),
        ("a: 12:30", {"a": "12:30"}),
        ("a: 1:30:00.5", {"a": "1:30:00.5"}),
        ("a: 012", {"a": 10}),
        ("a: 0x10", {"a": 16}),
        ("a: 1.5", {"a": 1.5}),
        ("a: yes", {"a": True}),
        ("a: 'yes'", {"a": "yes"}),
        ("a: ~", {"a": None}),
        ("1: a", {"1": "a"}),
        ("a: |\n  x\n  y\n", {"a": "x\ny\n"}),
        ("{a: [1, {b: c}]}", {"a": [1, {"b": "c"}]}),
        ('{"a": "\\u00e9"}', {"a": "é"}),
        ("a: '*'", {"a": "*"}),
    ],
)
def test_yaml_is_decoded_as_json_values(text: str, value: object) -> None:
    assert bodies.decode_yaml(text.encode()) == value


@pytest.mark.parametrize(
    "text",
    [
        "a: *x",
        "a: &x [*x]",
        "a: .nan",
        "a: .inf",
        "? [a]\n: b",
        "a: !!python/name:os.system ''",
        "a: 'b",
        "--- {}\n--- {}",
        "[" * (bodies.MAX_DEPTH + 1) + "]" * (bodies.MAX_DEPTH + 1),
    ],
)
def test_yaml_that_json_cannot_express_is_refused(text: str) -> None:
    with pytest.raises(StatusError) as refused:
        bodies.decode_yaml(text.encode())
    assert refused.value.code == 400


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=10,
)


@given(JSON_VALUES)
def test_json_is_read_back(value: object) -> None:
    assert bodies.decode(bodies.JSON_TYPE, msgspec.json.encode(value)).value == value


@given(
    st.binary(max_size=30) | st.text(st.sampled_from("{}[]:,-? &*!|>\"'ab\n \t#%@`"), max_size=30)
)
def test_any_body_is_read_or_refused(body: bytes | str) -> None:
    data = body.encode() if isinstance(body, str) else body
    for kind in (bodies.JSON_TYPE, bodies.YAML_TYPE):
        try:
            msgspec.json.encode(bodies.decode(kind, data).value)
        except StatusError as error:
            code = error.code
            assert code == 400  # either way is fine


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_depth_is_bounded() -> None:
    bodies.check_shape(nested(bodies.MAX_DEPTH))
    with pytest.raises(StatusError):
        bodies.check_shape(nested(bodies.MAX_DEPTH + 1))


@pytest.mark.parametrize(
    ("data", "twice"),
    [
        pytest.param(b'{"a":1,"a" \n:2}', ["a"], id="space-before-the-colon"),
        pytest.param(b'{"a":"\\":","a":2}', ["a"], id="colon-in-a-string"),
        pytest.param(b'{"a":{"b":1},"c":[{"b":1,"b":2}]}', ["c[0].b"], id="below"),
        pytest.param(b'{"a":"\\":","b":"\\" :"}', [], id="only-colons-in-strings"),
        pytest.param(b'{"a":{"a":{"a":1}}}', [], id="one-name-at-several-places"),
        pytest.param(b'{"\\u0061":1,"a":2}', ["a"], id="escaped-name"),
    ],
)
def test_a_name_that_stands_twice_is_found(data: bytes, twice: list[str]) -> None:
    assert list(bodies.decode(bodies.JSON_TYPE, data).duplicates) == twice


def test_fields_that_stand_twice_are_found() -> None:
    found = bodies.duplicate_fields(b'{"a":1,"b":{"c":1,"c":2},"a":2,"d":[{"e":1,"e":1}]}')
    assert [name.rpartition(".")[2] for name in found] == sorted(
        [name.rpartition(".")[2] for name in found], key="ace".index
    )
    assert len(found) == 3
    assert bodies.duplicate_fields(b"a: 1\na: 2\n") == []


@pytest.mark.parametrize("item", [b"1", b"[]"])
@pytest.mark.parametrize("kind", [bodies.JSON_TYPE, bodies.YAML_TYPE])
def test_the_number_of_values_is_bounded(kind: str, item: bytes) -> None:
    with pytest.raises(StatusError, match="holds more than") as refused:
        bodies.decode(kind, b"[" + b",".join([item] * (bodies.MAX_VALUES + 1)) + b"]")
    assert refused.value.code == 413


@pytest.mark.parametrize("kind", [bodies.JSON_TYPE, bodies.YAML_TYPE, bodies.APPLY_PATCH])
def test_bodies_of_hosts_hold_fewer_values(kind: str) -> None:
    for count in (bodies.MAX_VALUES_OF_A_HOST, bodies.MAX_VALUES_OF_A_HOST + 1):
        data = b'{"a":[' + b",".join([b"1"] * (count - 1)) + b"]}"
        if count == bodies.MAX_VALUES_OF_A_HOST:
            bodies.decode(kind, data, bodies.MAX_VALUES_OF_A_HOST)
        else:
            with pytest.raises(
                StatusError, match=f"more than {bodies.MAX_VALUES_OF_A_HOST} values"
            ):
                bodies.decode(kind, data, bodies.MAX_VALUES_OF_A_HOST)
        bodies.decode(kind, data)


def test_a_body_without_a_type_is_json() -> None:
    assert bodies.decode("", b'{"a":1,"a":2}') == bodies.Body({"a": 2}, ["a"])
