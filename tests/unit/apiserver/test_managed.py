"""Who owns which field: scenarios of updates and applies, as the documentation has them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from hypercobalt.apiserver.errors import StatusError
from hypercobalt.apiserver.kinds.resources import Registry
from hypercobalt.apiserver.ownership import managed
from hypercobalt.apiserver.ownership.managed import Manager
from hypercobalt.apiserver.schema.node import Node

Object = dict[str, Any]
T1, T2 = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


@pytest.fixture(scope="module")
def node() -> Node:
    resource = Registry.load().find("", "v1", "configmaps")
    assert resource is not None
    return resource.schema.node


def config(**data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}


def applier(name: str) -> Manager:
    return Manager(name, "Apply", "v1")


def updater(name: str, subresource: str = "") -> Manager:
    return Manager(name, "Update", "v1", subresource)


def apply(
    node: Node, live: Object | None, body: Object, name: str, *, force: bool = False, now: str = T1
) -> Object:
    return managed.apply(node, live, body, applier(name), now, force=force)


def update(node: Node, live: Object | None, body: Object, name: str, now: str = T1) -> Object:
    new = copy.deepcopy(body)
    if live is not None and "managedFields" in live["metadata"]:
        new["metadata"].setdefault("managedFields", live["metadata"]["managedFields"])
    managed.track_update(node, live, new, updater(name), now)
    return new


def owned(obj: Object) -> dict[str, set[str]]:
    """The data keys that each manager owns."""
    return {
        entry["manager"]: {
            key.removeprefix("f:") for key in entry["fieldsV1"].get("f:data", {}) if key != "."
        }
        for entry in obj["metadata"].get("managedFields", [])
    }


def test_an_apply_owns_what_it_names(node: Node) -> None:
    obj = apply(node, None, config(a="1", b="2"), "one")
    assert owned(obj) == {"one": {"a", "b"}}
    (entry,) = obj["metadata"]["managedFields"]
    assert (entry["operation"], entry["apiVersion"], entry["time"]) == ("Apply", "v1", T1)
    assert entry["fieldsV1"] == {"f:data": {"f:a": {}, "f:b": {}}}


def test_field_that_an_apply_no_longer_names_is_removed(node: Node) -> None:
    obj = apply(node, None, config(a="1", b="2"), "one")
    obj = apply(node, obj, config(a="1"), "one")
    assert (obj["data"], owned(obj)) == ({"a": "1"}, {"one": {"a"}})


def test_field_that_another_manager_owns_too_stays(node: Node) -> None:
    obj = apply(node, None, config(a="1", b="2"), "one")
    obj = apply(node, obj, config(b="2"), "two")
    obj = apply(node, obj, config(a="1"), "one")
    assert obj["data"] == {"a": "1", "b": "2"}
    assert owned(obj) == {"one": {"a"}, "two": {"b"}}


def test_another_value_is_a_conflict_that_is_reported(node: Node) -> None:
    obj = apply(node, None, config(a="1", b="2"), "one")
    with pytest.raises(StatusError) as refused:
        apply(node, obj, config(a="9"), "two")
    assert refused.value.code == 409
    assert refused.value.message == ('Apply failed with 1 conflict: conflict with "one": .data.a')
    with pytest.raises(StatusError) as refused:
        apply(node, obj, config(a="9", b="9"), "two")
    assert refused.value.message == (
        'Apply failed with 2 conflicts: conflicts with "one":\n- .data.a\n- .data.b'
    )
    details = refused.value.details
    assert details is not None
    assert details["causes"] == [
        {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "one"',
            "field": f".data.{name}",
        }
        for name in "ab"
    ]


def test_force_takes_the_field(node: Node) -> None:
    obj = apply(node, None, config(a="1", b="2"), "one")
    obj = apply(node, obj, config(a="9"), "two", force=True)
    assert obj["data"] == {"a": "9", "b": "2"}
    assert owned(obj) == {"one": {"b"}, "two": {"a"}}


def test_the_same_value_is_owned_together(node: Node) -> None:
    obj = apply(node, None, config(a="1"), "one")
    obj = apply(node, obj, config(a="1"), "two")
    assert owned(obj) == {"one": {"a"}, "two": {"a"}}


def test_an_update_takes_what_it_changes(node: Node) -> None:
    obj = apply(node, None, config(a="1", b="2"), "one")
    obj = update(node, obj, config(a="9", b="2"), "person", T2)
    assert owned(obj) == {"one": {"b"}, "person": {"a"}}
    with pytest.raises(StatusError) as refused:
        apply(node, obj, config(a="1", b="2"), "one")
    assert 'conflict with "person" using v1' in refused.value.message


def test_an_update_that_removes_a_field_leaves_no_owner(node: Node) -> None:
    obj = apply(node, None, config(a="1", b="2"), "one")
    obj = update(node, obj, config(b="2"), "person")
    assert owned(obj) == {"one": {"b"}}


def test_time_is_that_of_the_last_change(node: Node) -> None:
    def times(obj: Object) -> list[str]:
        return [entry["time"] for entry in obj["metadata"]["managedFields"]]

    obj = apply(node, None, config(a="1"), "one", now=T1)
    obj = apply(node, obj, config(a="1"), "one", now=T2)
    assert times(obj) == [T1]
    obj = apply(node, obj, config(a="2"), "one", now=T2)
    assert times(obj) == [T2]
    obj = update(node, None, config(a="1"), "person", T1)
    obj = update(node, obj, config(a="1"), "person", T2)
    assert times(obj) == [T1]
    obj = update(node, obj, config(a="2"), "person", T2)
    assert times(obj) == [T2]


def test_owners_are_forgotten_on_request_and_come_back_with_an_apply(node: Node) -> None:
    obj = apply(node, None, config(a="1"), "one")
    bare = copy.deepcopy(obj)
    managed.track_update(node, obj, bare, updater("person"), T1, reset=True)
    assert "managedFields" not in bare["metadata"]
    again = apply(node, bare, config(b="2"), "two")
    assert owned(again) == {"before-first-apply": {"a"}, "two": {"b"}}
    with pytest.raises(StatusError) as refused:
        apply(node, bare, config(a="9"), "two")
    assert 'conflict with "before-first-apply" using v1' in refused.value.message


@pytest.mark.parametrize("entries", [[], [{}]])
def test_a_reset_is_recognised(entries: Any) -> None:  # noqa: ANN401
    assert managed.is_reset({"managedFields": entries})
    assert not managed.is_reset({})


@pytest.mark.parametrize(
    "entry",
    [
        5,
        {},
        {"operation": "Dance"},
        {"operation": "Apply", "fieldsType": "FieldsV2"},
        {"operation": "Apply", "fieldsV1": {"bad": {}}},
        {"operation": "Apply", "fieldsV1": [1]},
    ],
)
def test_malformed_owners_are_none(entry: Any) -> None:  # noqa: ANN401
    assert managed.read({"managedFields": [entry]}) is None


def test_no_manager_owns_an_objects_identity(node: Node) -> None:
    body = config(a="1")
    body["metadata"] |= {"uid": "u", "namespace": "n", "labels": {"l": "v"}}
    (entry,) = apply(node, None, body, "one")["metadata"]["managedFields"]
    assert entry["fieldsV1"]["f:metadata"] == {"f:labels": {"f:l": {}}}


def test_arguments_stay_as_they_are(node: Node) -> None:
    live = apply(node, None, config(a="1"), "one")
    body = config(a="2")
    before = copy.deepcopy((live, body))
    apply(node, live, body, "two", force=True)
    assert (live, body) == before
