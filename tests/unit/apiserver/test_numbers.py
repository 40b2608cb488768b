"""Numbers as Go writes them: one spelling of each, which is read as itself."""

from __future__ import annotations

import pytest

from hypercobalt.apiserver.errors import JSON, StatusError
from hypercobalt.apiserver.requests.bodies import APPLY_PATCH, JSON_TYPE, YAML_TYPE, decode
from hypercobalt.apiserver.schema.numbers import canonical, key_text, make_canonical

WRITTEN = [
    pytest.param(1.0, 1, id="whole-float"),
    pytest.param(-0.0, 0, id="negative-zero"),
    pytest.param(1.5, 1.5, id="fraction"),
    pytest.param(2**53 + 1, 2**53 + 1, id="integer-that-no-float-is"),
    pytest.param(2**63 - 1, 2**63 - 1, id="largest-integer"),
    pytest.param(2**63, 9223372036854776000, id="beyond-integers"),
    pytest.param(1e20, 10**20, id="large-float"),
    pytest.param(1e21, 1e21, id="float-with-an-exponent"),
    pytest.param(10**30, 1e30, id="digits-beyond-that"),
    pytest.param(True, True, id="truth"),
]


@pytest.mark.parametrize(("number", "written"), WRITTEN)
def test_each_number_has_one_spelling(number: float, written: float) -> None:
    shown = canonical(number)
    assert (type(shown), shown) == (type(written), written)
    assert canonical(shown) == shown


def test_numbers_change_at_any_depth() -> None:
    value: JSON = {"a": 1.0, "b": [2.0, {"c": [3.0, "4.0"]}], "d": None, "e": "1.0"}
    assert str(make_canonical(value)) == str(
        {"a": 1, "b": [2, {"c": [3, "4.0"]}], "d": None, "e": "1.0"}
    )


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        pytest.param({"id": 1, "at": "x"}, '{"at":"x","id":1}', id="sorted"),
        pytest.param({"id": 1.5}, '{"id":1.5}', id="fraction"),
        pytest.param({"id": 1e-7}, '{"id":1e-07}', id="small"),
        pytest.param({"id": 1e22}, '{"id":1e+22}', id="large"),
        pytest.param(0.00001, "0.00001", id="not-so-small"),
    ],
)
def test_keys_of_items_are_written_as_go_does(keys: JSON, text: str) -> None:
    assert key_text(keys) == text


@pytest.mark.parametrize(
    ("text", "number"),
    [
        pytest.param("1e3", 1000, id="exponent-without-point"),
        pytest.param("0o17", 15, id="octal"),
        pytest.param("1e400", "1e400", id="beyond-floats"),
        pytest.param("1" * 5000, "1" * 5000, id="thousands-of-digits"),
        pytest.param("1:30", "1:30", id="no-base-60"),
    ],
)
def test_numbers_of_yaml_are_those_of_kubernetes(text: str, number: JSON) -> None:
    assert decode(YAML_TYPE, f"a: {text}".encode()).value == {"a": number}
    assert decode(APPLY_PATCH, f'{{"a": {text}}}'.encode()).value == {"a": number}


@pytest.mark.parametrize("number", ["1e400", "1" * 310, "-" + "1" * 400])
def test_numbers_beyond_floats_are_refused_in_json(number: str) -> None:
    with pytest.raises(StatusError, match="out of range") as refused:
        decode(JSON_TYPE, f'{{"a": {number}}}'.encode())
    assert refused.value.code == 400
