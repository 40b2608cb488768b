"""Changes of VirtualMachineInstances beside the recorded ones."""

from __future__ import annotations

from typing import cast

import pytest
from tests.unit.vmi.instances import CLUSTER, JANE, instance, review, stored

from hypercobalt.vmi import admission
from hypercobalt.vmi.review import Json, JsonObject, RequestUser

CONTROLLER = RequestUser("system:serviceaccount:kubevirt:kubevirt-controller")
HANDLER = "system:serviceaccount:kubevirt:kubevirt-handler"


def held(**changes: Json) -> JsonObject:
    """A stored object, of host-a."""
    status: JsonObject = {"phase": "Running", "nodeName": "host-a"}
    return {**stored(instance(**changes)), "status": status}


def is_allowed(old: JsonObject, new: JsonObject, user: RequestUser) -> bool:
    return admission.validate(review(new, old, user), CLUSTER) == ()


def spec_of(obj: JsonObject) -> JsonObject:
    return cast("JsonObject", obj["spec"])


def changed(old: JsonObject, **spec: Json) -> JsonObject:
    """The object with members of its spec replaced."""
    return {**old, "spec": {**spec_of(old), **spec}}


def with_domain(old: JsonObject, **domain: Json) -> JsonObject:
    """The object with members of its domain replaced."""
    return changed(old, domain={**cast("JsonObject", spec_of(old)["domain"]), **domain})


def volumes_of(obj: JsonObject) -> list[Json]:
    return cast("list[Json]", spec_of(obj)["volumes"])


@pytest.mark.parametrize(
    ("node", "owner", "allowed"),
    [
        ("host-a", "host-a", True),
        ("host-b", "host-a", False),
        (None, "host-a", False),
        (None, "", False),
        ("", "", False),
    ],
)
def test_handler_changes_what_is_on_the_node_of_its_token(
    node: str | None, owner: str, *, allowed: bool
) -> None:
    old: JsonObject = {**held(), "status": {"nodeName": owner}}
    assert is_allowed(old, old, RequestUser(HANDLER, node=node)) is allowed


def test_memory_for_hotplug_is_fixed_once_it_is_there() -> None:
    old = held(spec__domain__memory={"guest": "1Gi", "maxGuest": "4Gi"})
    for most, allowed in (("4096Mi", True), ("8Gi", False)):
        new = with_domain(old, memory={"guest": "1Gi", "maxGuest": most})
        assert is_allowed(old, new, CONTROLLER) is allowed


@pytest.mark.parametrize("hot", [True, False], ids=["hot", "permanent"])
def test_volume_of_a_claim_can_be_taken_out_if_it_was_plugged_in(*, hot: bool) -> None:
    claim: JsonObject = {"claimName": "c", "hotpluggable": hot}
    root: JsonObject = {"name": "root", "containerDisk": {"image": "a"}}
    old = held(spec__volumes=[root, {"name": "data", "persistentVolumeClaim": claim}])
    devices: JsonObject = {"disks": [{"name": "root", "disk": {"bus": "virtio"}}]}
    new = with_domain(changed(old, volumes=volumes_of(old)[:1]), devices=devices)
    assert is_allowed(old, new, CONTROLLER) is hot


def test_volume_that_never_had_a_device_needs_none_now() -> None:
    old = held()
    spare: JsonObject = {"name": "spare", "emptyDisk": {"capacity": "1Gi"}}
    old = changed(old, volumes=[*volumes_of(old), spare])
    assert is_allowed(old, old, CONTROLLER)


@pytest.mark.parametrize("system", [True, False], ids=["with a file system", "with nothing"])
def test_claim_that_is_added_needs_a_device(*, system: bool) -> None:
    old = held()
    claim: JsonObject = {"name": "more", "persistentVolumeClaim": {"claimName": "c"}}
    devices = cast("dict[str, JsonObject]", spec_of(old)["domain"])["devices"]
    systems: list[Json] = [{"name": "more", "virtiofs": {}}] if system else []
    new = with_domain(
        changed(old, volumes=[*volumes_of(old), claim]),
        devices={**devices, "filesystems": systems},
    )
    assert is_allowed(old, new, CONTROLLER) is system


@pytest.mark.parametrize(
    ("old", "new", "allowed"),
    [
        ({"hostname": "a"}, {"hostname": "b"}, False),
        ({"hostname": "a"}, {"hostname": ""}, False),
        ({}, {"hostname": ""}, True),
        ({}, {"nodeSelector": {}}, True),
        ({}, {"tolerations": []}, True),
        ({}, {"livenessProbe": {}}, False),
        ({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "a", "value": ""}]}, True),
        ({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]}, False),
        ({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "a"}, {}]}, False),
        ({"nodeSelector": {"a": "b"}}, {"nodeSelector": {"a": "c"}}, False),
        ({"nodeSelector": {"a": "b"}}, {"nodeSelector": {"a": "b", "c": ""}}, True),
    ],
)
def test_spec_of_a_person_is_compared_as_typed_structures(
    old: JsonObject, new: JsonObject, *, allowed: bool
) -> None:
    before = held()
    assert is_allowed(changed(before, **old), changed(before, **new), JANE) is allowed


def test_amounts_of_a_person_are_compared_as_amounts() -> None:
    old = held(spec__domain__memory={"guest": "1Gi", "maxGuest": "4Gi"})
    same = with_domain(old, memory={"guest": "1024Mi", "maxGuest": 4 * 1024**3})
    other = with_domain(old, memory={"guest": "1025Mi", "maxGuest": "4Gi"})
    assert is_allowed(old, same, JANE)
    assert not is_allowed(old, other, JANE)
