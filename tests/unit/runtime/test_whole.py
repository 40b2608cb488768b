"""Writes of whole objects keep what our types lack."""

from __future__ import annotations

import jsonpatch
import msgspec
import pytest
from msgspec.structs import replace

from hypercobalt.api.kubevirt.status import VMICondition
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.runtime.client.whole import changed, checked_patch, read_whole

STORED = {
    "apiVersion": "kubevirt.io/v1",
    "kind": "VirtualMachineInstance",
    "metadata": {
        "name": "vm",
        "namespace": "lab",
        "uid": "u1",
        "resourceVersion": "7",
        "labels": {"a/b": "c"},
        "finalizers": ["mine"],
        "selfLink": "unknown",
    },
    "spec": {"domain": {"devices": {}, "unknown": [1]}, "unknown": {"x": None}},
    "status": {
        "phase": "Pending",
        "unknown": "kept",
        "conditions": [
            {"type": "Ready", "status": "False", "lastProbeTime": None, "unknown": 1},
            {"type": "Paused", "status": "True"},
        ],
    },
}
WHOLE = read_whole(msgspec.json.encode(STORED), VirtualMachineInstance)


def with_status(**fields: object) -> VirtualMachineInstance:
    vmi = WHOLE.obj
    return replace(vmi, status=replace(vmi.status, **fields))


def test_nothing_changed_is_what_was_read() -> None:
    assert changed(WHOLE, WHOLE.obj) == STORED
    assert checked_patch(WHOLE, WHOLE.obj) == []


def test_fields_and_items_that_the_type_lacks_survive() -> None:
    ready, paused = WHOLE.obj.status.conditions
    new = with_status(
        phase="Scheduling",
        conditions=(replace(ready, status="True"), VMICondition(type="New", status="True")),
        nodeName="a",
    )
    found = changed(WHOLE, new)
    assert paused.type == "Paused"
    assert found["status"] == {
        "phase": "Scheduling",
        "unknown": "kept",
        "nodeName": "a",
        "conditions": [
            {"type": "Ready", "status": "True", "lastProbeTime": None, "unknown": 1},
            {"type": "New", "status": "True"},
        ],
    }
    assert found["spec"] == STORED["spec"]
    assert STORED["status"]["phase"] == "Pending"  # type: ignore[index]


def test_order_of_items_changes() -> None:
    ready, paused = WHOLE.obj.status.conditions
    found = changed(WHOLE, with_status(conditions=(paused, ready)))
    (first, second) = found["status"]["conditions"]  # type: ignore[index]
    assert (first["type"], second.get("unknown")) == ("Paused", 1)


def test_object_of_which_the_type_shows_nothing_is_merged() -> None:
    stored = {"metadata": {"name": "vm"}, "status": {"unknown": {"a": 1}}}
    whole = read_whole(msgspec.json.encode(stored), VirtualMachineInstance)
    new = replace(whole.obj, status=replace(whole.obj.status, phase="Pending"))
    assert changed(whole, new)["status"] == {"unknown": {"a": 1}, "phase": "Pending"}


def test_patch_tests_each_field_that_it_replaces() -> None:
    assert checked_patch(WHOLE, with_status(phase="Failed")) == [
        {"op": "test", "path": "/metadata/uid", "value": "u1"},
        {"op": "test", "path": "/status/phase", "value": "Pending"},
        {"op": "add", "path": "/status/phase", "value": "Failed"},
    ]


def test_patch_that_adds_a_field_needs_the_version_that_was_read() -> None:
    paths = [one["path"] for one in checked_patch(WHOLE, with_status(nodeName="a"))]
    assert paths == ["/metadata/uid", "/metadata/resourceVersion", "/status/nodeName"]


def test_version_is_tested_whatever_else_changes() -> None:
    paths = {one["path"] for one in checked_patch(WHOLE, with_status(nodeName="a", phase="x"))}
    assert {"/metadata/resourceVersion", "/status/nodeName", "/status/phase"} <= paths


def test_patch_removes_what_is_gone() -> None:
    meta = replace(WHOLE.obj.metadata, finalizers=())
    patch = checked_patch(WHOLE, replace(WHOLE.obj, metadata=meta))
    assert patch[1:] == [
        {"op": "test", "path": "/metadata/finalizers", "value": ["mine"]},
        {"op": "remove", "path": "/metadata/finalizers"},
    ]


@pytest.mark.parametrize(
    "new",
    [
        with_status(phase="", conditions=()),
        with_status(activePods={"p": "n"}, phase="Failed"),
        replace(WHOLE.obj, metadata=replace(WHOLE.obj.metadata, labels={"a/b": "d", "e~f": "g"})),
    ],
)
def test_patch_makes_what_a_put_would_write(new: VirtualMachineInstance) -> None:
    assert jsonpatch.apply_patch(STORED, checked_patch(WHOLE, new)) == changed(WHOLE, new)
