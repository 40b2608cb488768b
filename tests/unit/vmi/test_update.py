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


def test_memory_for_hotplug_may_be_added_and_taken_away_by_kubevirt() -> None:
    with_most = held(spec__domain__memory={"guest": "1Gi", "maxGuest": "4Gi"})
    without = with_domain(with_most, memory={"guest": "1Gi"})
    assert is_allowed(with_most, without, CONTROLLER)
    assert is_allowed(without, with_most, CONTROLLER)


def test_sockets_for_hotplug_are_fixed() -> None:
    old = held()
    cpu = cast("dict[str, JsonObject]", spec_of(old)["domain"])["cpu"]
    assert is_allowed(old, with_domain(old, cpu={**cpu, "sockets": 2}), CONTROLLER)
    assert not is_allowed(old, with_domain(old, cpu={**cpu, "maxSockets": 3}), CONTROLLER)


def test_spec_that_stays_as_it_was_is_not_judged_again() -> None:
    odd = with_domain(changed(held(), volumes=[]), cpu=None)
    assert is_allowed(odd, odd, CONTROLLER)


@pytest.mark.parametrize(
    ("before", "after", "allowed"),
    [
        ("", "", True),
        ("", "host-a", False),
        ("", "host-b", False),
        ("host-a", "host-a", True),
        ("host-b", "", True),
        ("host-b", "host-c", True),
    ],
)
def test_handler_chooses_no_target_of_a_migration(
    before: str, after: str, *, allowed: bool
) -> None:
    old, new = held(), held()
    old["status"] = {"nodeName": "host-a", "migrationState": {"targetNode": before}}
    new["status"] = {"nodeName": "host-a", "migrationState": {"targetNode": after}}
    assert is_allowed(old, new, RequestUser(HANDLER, node="host-a")) is allowed


@pytest.mark.parametrize("value", ["", "x"])
def test_reserved_label_that_a_person_adds_or_takes_away_is_refused(value: str) -> None:
    old = held()
    new: JsonObject = {**old, "metadata": {"labels": {"kubevirt.io/nodeName": value}}}
    assert not is_allowed(old, new, JANE)
    assert not is_allowed(new, old, JANE)
    assert is_allowed(old, new, CONTROLLER)


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
