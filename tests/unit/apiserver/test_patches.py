"""JSON, merge and strategic merge patches, by their standards' own examples."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cost import cpu

from hypercobalt.apiserver.decisions.patches import json_patch, merge_patch, strategic_merge
from hypercobalt.apiserver.errors import StatusError
from hypercobalt.apiserver.kinds.resources import Registry
from hypercobalt.apiserver.schema.node import Node

JSON = Any
Object = dict[str, Any]

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["a", "b"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3)
    ),
    max_leaves=8,
)


# -- merge patch -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        pytest.param({"a": "b"}, {"a": "c"}, {"a": "c"}, id="replaced"),
        pytest.param({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}, id="added"),
        pytest.param({"a": "b"}, {"a": None}, {}, id="removed"),
        pytest.param({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}, id="one-removed"),
        pytest.param({"a": ["b"]}, {"a": "c"}, {"a": "c"}, id="list-to-text"),
        pytest.param({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}, id="text-to-list"),
        pytest.param(
            {"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}, id="nested"
        ),
        pytest.param({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}, id="list-of-maps-replaced"),
        pytest.param(["a", "b"], ["c", "d"], ["c", "d"], id="lists-at-the-root"),
        pytest.param({"a": "b"}, ["c"], ["c"], id="map-to-list"),
        pytest.param({"a": "foo"}, None, None, id="null"),
        pytest.param({"a": "foo"}, "bar", "bar", id="text"),
        pytest.param({"e": None}, {"a": 1}, {"e": None, "a": 1}, id="a-null-that-was-there-stays"),
        pytest.param([1, 2], {"a": "b", "c": None}, {"a": "b"}, id="list-to-map"),
        pytest.param({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}, id="nulls-go"),
    ],
)
def test_merge_patch_follows_rfc_7386(target: JSON, patch: JSON, result: JSON) -> None:
    assert merge_patch(target, patch) == result


@given(VALUES, VALUES)
def test_a_merge_patch_applied_twice_is_applied_once(target: JSON, patch: JSON) -> None:
    once = merge_patch(target, patch)
    assert merge_patch(once, patch) == once


# -- JSON patch --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("obj", "operation", "result"),
    [
        pytest.param({"a": 1}, ("add", "/b", 2), {"a": 1, "b": 2}, id="add"),
        pytest.param({"a": [1]}, ("add", "/a/0", 2), {"a": [2, 1]}, id="insert"),
        pytest.param({"a": [1]}, ("add", "/a/-", 2), {"a": [1, 2]}, id="append"),
        pytest.param({"a": 1}, ("remove", "/a", None), {}, id="remove"),
        pytest.param({"a": 1}, ("replace", "/a", 2), {"a": 2}, id="replace"),
        pytest.param({"a": 1}, ("test", "/a", 1), {"a": 1}, id="test"),
        pytest.param({"a/b": 1}, ("replace", "/a~1b", 2), {"a/b": 2}, id="escaped-slash"),
        pytest.param({"a~b": 1}, ("replace", "/a~0b", 2), {"a~b": 2}, id="escaped-tilde"),
        pytest.param({"": 1}, ("replace", "/", 2), {"": 2}, id="empty-name"),
    ],
)
def test_json_patch_follows_rfc_6902(
    obj: Object, operation: tuple[str, str, JSON], result: Object
) -> None:
    op, path, value = operation
    assert json_patch(obj, [{"op": op, "path": path, "value": value}]) == result


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        pytest.param({}, 400, id="no-list"),
        pytest.param([1], 400, id="no-operation"),
        pytest.param([{"op": "add", "path": "/a/b/c", "value": 1}], 422, id="no-parent"),
        pytest.param([{"op": "add", "path": "/list/9", "value": 1}], 422, id="beyond-a-list"),
        pytest.param([{"op": "remove", "path": "/x"}], 422, id="nothing-to-remove"),
        pytest.param([{"op": "test", "path": "/a", "value": 2}], 422, id="failed-test"),
        pytest.param([{"op": "add", "path": "", "value": 1}], 400, id="no-object-left"),
        pytest.param([{"op": "copy", "from": "/x", "path": "/a"}], 422, id="nothing-to-copy"),
        pytest.param([{"op": "test", "path": "/a"}] * 10_001, 413, id="too-many"),
    ],
)
def test_a_bad_json_patch_is_refused(patch: JSON, code: int) -> None:
    with pytest.raises(StatusError) as refused:
        json_patch({"a": 1, "list": []}, patch)
    assert refused.value.code == code


@given(st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3), st.data())
def test_a_json_patch_gives_a_result_or_an_error(obj: Object, data: st.DataObject) -> None:
    paths = st.sampled_from(["", "/", "/a", "/b/a", "/a/0", "/a/-", "/c/a/b", "a", "/~2"])
    operations = st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "remove", "replace", "test", "copy", "move", "x"])},
        optional={"path": paths | st.integers(), "from": paths | st.none(), "value": VALUES},
    )
    patch: JSON = data.draw(st.lists(operations, max_size=4))
    with contextlib.suppress(StatusError):
        assert isinstance(json_patch(obj, patch), dict)


# -- strategic merge ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pod() -> Node:
    resource = Registry.load().find("", "v1", "pods")
    assert resource is not None
    return resource.schema.node


def containers(*names: str, **fields: JSON) -> Object:
    return {"spec": {"containers": [{"name": name, **fields} for name in names]}}


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        pytest.param(
            containers("a", image="1"),
            containers("a", image="2"),
            containers("a", image="2"),
            id="an-item-is-merged-by-its-key",
        ),
        pytest.param(
            containers("a", "b"),
            {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}},
            containers("b"),
            id="an-item-is-deleted",
        ),
        pytest.param(
            containers("a", "b"),
            {"spec": {"containers": [{"name": "z", "$patch": "delete"}]}},
            containers("a", "b"),
            id="an-item-that-is-not-there-is-deleted",
        ),
        pytest.param(
            containers("a", "b"),
            {"spec": {"containers": [{"$patch": "replace"}, {"name": "c"}]}},
            containers("c"),
            id="a-list-is-replaced",
        ),
        pytest.param(
            {"metadata": {"labels": {"a": "b"}}},
            {"metadata": {"labels": {"$patch": "replace", "c": "d"}}},
            {"metadata": {"labels": {"c": "d"}}},
            id="a-map-is-replaced",
        ),
        pytest.param(
            {"metadata": {"labels": {"a": "b"}}},
            {"metadata": {"labels": {"$patch": "delete"}}},
            {"metadata": {"labels": {}}},
            id="a-map-is-emptied",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["a", "b"]}},
            {"metadata": {"finalizers": ["c", "a"]}},
            {"metadata": {"finalizers": ["c", "a", "b"]}},
            id="texts-are-joined",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["a", "b", "c"]}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["b", "z"]}},
            {"metadata": {"finalizers": ["a", "c"]}},
            id="texts-are-taken-away",
        ),
        pytest.param(
            containers("a", "b", "c"),
            {"spec": {"$setElementOrder/containers": [{"name": n} for n in "cab"]}},
            containers("c", "a", "b"),
            id="items-are-put-in-order",
        ),
        pytest.param(
            {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
            {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "secret"], "secret": {}}]}},
            {"spec": {"volumes": [{"name": "v", "secret": {}}]}},
            id="only-some-keys-are-kept",
        ),
        pytest.param(
            {"metadata": {"labels": {"a": "b", "c": "d"}}},
            {"metadata": {"labels": {"a": None}}},
            {"metadata": {"labels": {"c": "d"}}},
            id="null-removes",
        ),
        pytest.param(
            {"spec": {"tolerations": [{"key": "a"}]}},
            {"spec": {"tolerations": [{"key": "b"}]}},
            {"spec": {"tolerations": [{"key": "b"}]}},
            id="a-list-without-a-key-is-replaced",
        ),
    ],
)
def test_strategic_merge_follows_the_patch_strategy_of_the_kind(
    pod: Node, target: Object, patch: Object, result: Object
) -> None:
    assert strategic_merge(pod, target, patch) == result


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param({"$patch": "dance"}, id="unknown-directive"),
        pytest.param({"spec": {"containers": [{"image": "x"}]}}, id="no-merge-key"),
        pytest.param({"spec": {"containers": ["x"]}}, id="no-object"),
    ],
)
def test_a_bad_strategic_patch_is_refused(pod: Node, patch: Object) -> None:
    with pytest.raises(StatusError) as refused:
        strategic_merge(pod, containers("a"), patch)
    assert refused.value.code == 400


def test_the_target_of_a_patch_stays_as_it_is(pod: Node) -> None:
    target = containers("a", image="1")
    strategic_merge(pod, target, containers("a", image="2"))
    assert target == containers("a", image="1")


def test_long_lists_are_merged_in_little_time(pod: Node) -> None:
    finalizers = [f"example.com/f{number}" for number in range(30_000)]
    names = [f"c{number}" for number in range(30_000)]
    target = {"metadata": {"finalizers": finalizers}, **containers(*names)}
    patch = {"metadata": {"finalizers": [*finalizers, "x"]}, **containers(*names, image="i")}
    patch["spec"]["$setElementOrder/containers"] = [{"name": name} for name in reversed(names)]
    with cpu() as used:
        merged = strategic_merge(pod, target, patch)
    assert used.seconds < 5
    assert merged["metadata"] == {"finalizers": [*finalizers, "x"]}
    assert merged["spec"] == containers(*reversed(names), image="i")["spec"]


def test_many_keys_are_retained_in_little_time(pod: Node) -> None:
    notes = {f"n{number}": "x" for number in range(15_000)}
    target: Object = {"metadata": {"annotations": {**notes, "gone": "x"}}}
    retained = [*reversed(notes), ["no", "key"]]
    patch: Object = {"metadata": {"annotations": {"$retainKeys": retained, "n0": "y"}}}
    with cpu() as used:
        merged = strategic_merge(pod, target, patch)
    assert used.seconds < 1
    assert merged["metadata"] == {"annotations": {**notes, "n0": "y"}}
