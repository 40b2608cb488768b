"""Field sets obey the laws of sets; comparing, merging and removing undo each other."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.apiserver.ownership import fieldset
from hypercobalt.apiserver.ownership.fieldset import HERE, Fields
from hypercobalt.apiserver.schema.node import Node, compile_schema
from hypercobalt.apiserver.values import same

JSON = Any
Object = dict[str, Any]

SCHEMA: Object = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "free": {"type": "object", "additionalProperties": {"type": "string"}},
        "atomic": {"type": "array", "items": {"type": "string"}},
        "whole": {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "properties": {"a": {"type": "string"}},
        },
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {
                "type": "object",
                "properties": {"k": {"type": "string"}, "v": {"type": "string"}},
            },
        },
    },
}
NODE = compile_schema(SCHEMA)
WORD = st.sampled_from("abcd")


def items() -> st.SearchStrategy[list[Object]]:
    one = st.fixed_dictionaries({"k": WORD}, optional={"v": WORD})
    return st.lists(one, max_size=4, unique_by=lambda item: item["k"])


OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "text": WORD,
        "free": st.dictionaries(WORD, WORD, max_size=3),
        "atomic": st.lists(WORD, max_size=3),
        "whole": st.fixed_dictionaries({}, optional={"a": WORD}),
        "set": st.lists(WORD, max_size=4, unique=True),
        "map": items(),
    },
)
ELEMENTS = st.sampled_from(["f:a", "f:b", 'k:{"k":"a"}', 'v:"a"', "v:1", "i:0"])


def _inner(below: st.SearchStrategy[Fields]) -> st.SearchStrategy[Fields]:
    return st.builds(
        lambda inner, here: {**inner, **({HERE: {}} if here or not inner else {})},
        st.dictionaries(ELEMENTS, below, max_size=3),
        st.booleans(),
    )


MEMBER: st.SearchStrategy[Fields] = st.recursive(st.just({HERE: {}}), _inner, max_leaves=8)
SETS: st.SearchStrategy[Fields] = st.dictionaries(ELEMENTS, MEMBER, max_size=4)


@given(SETS)
def test_a_set_is_read_back_from_the_wire(a: Fields) -> None:
    assert fieldset.decode(fieldset.encode(a)) == a


@given(SETS, SETS, SETS)
def test_unions_and_intersections_follow_the_laws_of_sets(a: Fields, b: Fields, c: Fields) -> None:
    union, intersection = fieldset.union, fieldset.intersection
    assert union(a, b) == union(b, a)
    assert intersection(a, b) == intersection(b, a)
    assert union(a, union(b, c)) == union(union(a, b), c)
    assert union(a, a) == intersection(a, a) == union(a, {}) == a
    assert intersection(a, union(b, c)) == union(intersection(a, b), intersection(a, c))


@given(SETS, SETS)
def test_differences_follow_the_laws_of_sets(a: Fields, b: Fields) -> None:
    left, shared = fieldset.difference(a, b), fieldset.intersection(a, b)
    assert fieldset.union(left, shared) == a
    assert fieldset.intersection(left, b) == {}
    assert fieldset.difference(a, a) == {}
    assert fieldset.difference(a, {}) == a


@given(SETS, SETS)
def test_operations_leave_their_arguments_alone(a: Fields, b: Fields) -> None:
    before = copy.deepcopy((a, b))
    for operation in (fieldset.union, fieldset.intersection, fieldset.difference):
        operation(a, b)
    assert (a, b) == before


@given(SETS)
def test_every_member_has_a_path(a: Fields) -> None:
    def count(fields: Fields) -> int:
        return sum(1 if name == HERE else count(below) for name, below in fields.items())

    assert len(list(fieldset.paths(a))) == count(a)


@pytest.mark.parametrize(
    "wire",
    [
        pytest.param([], id="a-list"),
        pytest.param({"f:a": 5}, id="a-number-below"),
        pytest.param({"a": {}}, id="no-kind"),
        pytest.param({"x:a": {}}, id="unknown-kind"),
        pytest.param({"k:{": {}}, id="a-broken-key"),
        pytest.param({"k:[1]": {}}, id="a-key-that-is-a-list"),
        pytest.param({"v:{": {}}, id="a-broken-value"),
    ],
)
def test_malformed_sets_are_refused(wire: JSON) -> None:
    with pytest.raises(ValueError, match=r"field|element"):
        fieldset.decode(wire)


def test_paths_are_printed_as_kubernetes_prints_them() -> None:
    fields = fieldset.fields_of(
        NODE, {"text": "a", "set": ["x"], "map": [{"k": "a", "v": "b"}], "atomic": ["y"]}
    )
    assert list(fieldset.paths(fields)) == [
        ".atomic",
        '.map[k="a"]',
        '.map[k="a"].k',
        '.map[k="a"].v',
        '.set[="x"]',
        ".text",
    ]


# -- values ------------------------------------------------------------------------------------


@given(OBJECTS, OBJECTS)
def test_comparing_gives_what_changed(old: Object, new: Object) -> None:
    found = fieldset.compare(NODE, old, new)
    assert found.same() == (_unordered(old) == _unordered(new))
    back = fieldset.compare(NODE, new, old)
    assert (found.added, found.removed, found.modified) == (back.removed, back.added, back.modified)
    assert fieldset.intersection(found.added, found.removed) == {}


def _unordered(obj: Object) -> Object:
    """Objects that differ in the order of granular lists compare the same, as in Kubernetes."""
    changed = dict(obj)
    for name in ("set", "map"):
        if name in obj:
            changed[name] = sorted(obj[name], key=str)
    return changed


@given(OBJECTS)
def test_an_object_compared_with_nothing_is_all_added(obj: Object) -> None:
    added = fieldset.compare(NODE, {}, obj).added
    named = fieldset.fields_of(NODE, obj)
    assert fieldset.difference(named, added) == {}


@given(OBJECTS, OBJECTS)
def test_a_merge_contains_what_was_applied_and_keeps_the_rest(live: Object, config: Object) -> None:
    before = copy.deepcopy((live, config))
    merged = fieldset.merge(NODE, live, config)
    assert (live, config) == before
    assert fieldset.merge(NODE, merged, config) == merged
    difference = fieldset.compare(NODE, config, merged)
    assert (difference.modified, difference.removed) == ({}, {})
    assert fieldset.compare(NODE, live, merged).removed == {} or _atomic_changed(live, config)


def _atomic_changed(live: Object, config: Object) -> bool:
    return any(name in config and name in live for name in ("atomic", "whole"))


def _holding(listed: list[Object]) -> JSON:
    return {"map": listed}


@given(items(), items())
def test_merged_lists_keep_both_orders(live: list[Object], config: list[Object]) -> None:
    merged: JSON = fieldset.merge(NODE, _holding(live), _holding(config))
    names = [item["k"] for item in merged["map"]]
    applied = [item["k"] for item in config]
    assert [name for name in names if name in applied] == applied
    only = [item["k"] for item in live if item["k"] not in applied]
    assert [name for name in names if name not in applied] == only


@given(OBJECTS)
def test_removing_all_fields_leaves_no_leaf(obj: Object) -> None:
    left = fieldset.remove(NODE, obj, fieldset.compare(NODE, {}, obj).added)
    assert fieldset.fields_of(NODE, left) == {}


@given(OBJECTS, OBJECTS)
def test_added_fields_can_be_removed(old: Object, new: Object) -> None:
    added = fieldset.compare(NODE, old, new).added
    left = fieldset.remove(NODE, new, added)
    assert fieldset.compare(NODE, old, left).added == {}


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        (1, True, False),
        (1, 1.0, False),
        ({"a": [0]}, {"a": [False]}, False),
        ({"a": [{"b": None}]}, {"a": [{"b": None}]}, True),
        ([], {}, False),
    ],
)
def test_values_of_different_types_differ(a: JSON, b: JSON, *, equal: bool) -> None:
    assert same(a, b) is equal
    assert fieldset.compare(Node(opaque=True), {"x": a}, {"x": b}).same() is equal
