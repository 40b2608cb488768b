from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError
from hypercobalt.adapters.ovs.schema import Column, Value, parse_schema

SETS = st.frozensets(st.text(max_size=3), max_size=5)
MAPS = st.dictionaries(st.text(max_size=3), st.integers(), max_size=5)
UUID = "7c2f1f3e-0e0a-4a93-8a4e-1d6c3a6f6f10"


def sent_set(value: frozenset[str]) -> object:
    """A set as servers send it: one atom stands alone."""
    atoms = sorted(value)
    return atoms[0] if len(atoms) == 1 else ["set", atoms]


def sent_map(value: dict[str, int]) -> object:
    return ["map", [[key, one] for key, one in value.items()]]


@given(SETS, SETS)
def test_a_set_changes_by_what_differs(old: frozenset[str], new: frozenset[str]) -> None:
    column = Column("string", is_set=True, is_optional=True)
    assert column.decode(sent_set(new)) == new
    assert column.change(old, sent_set(old ^ new)) == new


@given(MAPS, MAPS)
def test_a_map_changes_by_what_differs(old: dict[str, int], new: dict[str, int]) -> None:
    column = Column("string", is_map=True)
    assert column.decode(sent_map(new)) == new
    changed = {key: one for key, one in new.items() if old.get(key, object()) != one}
    removed = {key: one for key, one in old.items() if key not in new}
    assert column.change(old, sent_map(changed | removed)) == new


@pytest.mark.parametrize(
    ("column", "sent", "value"),
    [
        (Column("string"), "up", "up"),
        (Column("boolean"), True, True),
        (Column("uuid"), ["uuid", UUID], UUID),
        (Column("integer", is_optional=True), ["set", []], None),
        (Column("integer", is_optional=True), 7, 7),
        (Column("integer", is_optional=True), ["set", [7]], 7),
        (Column("uuid", is_set=True), ["uuid", UUID], frozenset({UUID})),
        (Column("uuid", is_set=True), ["set", [["uuid", UUID]]], frozenset({UUID})),
        (Column("integer", is_map=True), ["map", [[1, "a"]]], {"1": "a"}),
    ],
)
def test_values_are_read(column: Column, sent: object, value: Value) -> None:
    assert column.decode(sent) == value
    assert column.change(column.default, sent) == value


@pytest.mark.parametrize(
    ("column", "sent"),
    [
        (Column("string"), ["set", []]),
        (Column("string"), ["set", ["a", "b"]]),
        (Column("string"), {"a": 1}),
        (Column("string"), None),
        (Column("string", is_map=True), "a"),
        (Column("string", is_map=True), ["map", [["a"]]]),
        (Column("string", is_map=True), ["map", [["a", ["set", ["b", "c"]]]]]),
        (Column("uuid"), ["uuid", 7]),
    ],
)
def test_text_that_is_no_value_is_refused(column: Column, sent: object) -> None:
    with pytest.raises(ValueError, match=r"value|pair|map|values"):
        column.decode(sent)


def test_types_of_a_schema_are_read() -> None:
    kinds: dict[str, object] = {
        "plain": "string",
        "wrapped": {"key": {"type": "integer", "minInteger": 1}},
        "optional": {"key": "boolean", "min": 0},
        "several": {"key": {"type": "uuid", "refTable": "Port"}, "min": 0, "max": "unlimited"},
        "pair": {"key": {"type": "uuid", "refTable": "Port"}, "min": 0, "max": 2},
        "map": {"key": "string", "value": "string", "min": 0, "max": "unlimited"},
    }
    columns = {name: {"type": kind, "ephemeral": True} for name, kind in kinds.items()}
    tables = {"Bridge": {"columns": columns, "isRoot": True}}
    schema = parse_schema(json.dumps({"name": "x", "version": "8.3.1", "tables": tables}).encode())
    assert schema.version == "8.3.1"
    assert schema.tables["Bridge"] == {
        "plain": Column("string"),
        "wrapped": Column("integer"),
        "optional": Column("boolean", is_optional=True),
        "several": Column("uuid", is_set=True, is_optional=True),
        "pair": Column("uuid", is_set=True, is_optional=True),
        "map": Column("string", is_map=True, is_optional=True),
    }
    assert schema.only({"Bridge": ("plain", "gone"), "Gone": ("x",)}).tables == {
        "Bridge": {"plain": Column("string")}
    }


@pytest.mark.parametrize("text", [b"[]", b'{"version":"1"}', b'{"version":"1","tables":[]}'])
def test_text_that_is_no_schema_is_refused(text: bytes) -> None:
    with pytest.raises(SwitchError) as failed:
        parse_schema(text)
    assert failed.value.fault is ProducerFault.SCHEMA_UNSUPPORTED
