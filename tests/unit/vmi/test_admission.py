"""Admission beside the recorded cases: accounts, status, refusals of our own."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
import yaml
from tests.unit.vmi.instances import (
    CLUSTER,
    JANE,
    NOW,
    UUID,
    fields,
    instance,
    mutated,
    review,
    stored,
)

from hypercobalt.vmi import admission
from hypercobalt.vmi.accounts import Account, account
from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.paths import POD_VOLUMES
from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import (
    MOST_CAUSES,
    CauseReason,
    FieldCause,
    Json,
    JsonObject,
    RequestUser,
    Review,
    ReviewRefusal,
    refusal,
)
from hypercobalt.vmi.rules.nonsense import nonsense

DISK, VOLUME = "spec.domain.devices.disks[0]", "spec.volumes[0].name"
CONTROLLER = RequestUser("system:serviceaccount:kubevirt:kubevirt-controller")
EXAMPLE = Path(__file__).parents[3] / "examples/vmi.yaml"


def named(name: str) -> dict[str, Json]:
    return {"spec__volumes__0__name": name, "spec__domain__devices__disks__0__name": name}


def virtio(address: str) -> Json:
    return {"bus": "virtio", "pciAddress": address}


def test_the_base_of_these_tests_is_allowed() -> None:
    assert fields(instance()) == []


def test_example_is_allowed() -> None:
    assert fields(yaml.safe_load(EXAMPLE.read_bytes())) == []


def test_a_person_hands_no_new_guest_to_a_node() -> None:
    made = stored(instance(status={"nodeName": "host-a", "phase": "Running"}))
    status = cast("JsonObject", made["status"])
    assert "nodeName" not in status
    assert status["phase"] == "Pending"
    assert status["phaseTransitionTimestamps"] == [
        {"phase": "Pending", "phaseTransitionTimestamp": "2026-01-02T03:04:05Z"}
    ]


def test_object_that_was_sent_is_left_as_it_was() -> None:
    sent = instance()
    stored(sent)
    assert sent == instance()


@pytest.mark.parametrize(
    ("sent", "held"),
    [
        ([], ["kubevirt.io/foregroundDeleteVirtualMachine"]),
        (["a"], ["a", "kubevirt.io/foregroundDeleteVirtualMachine"]),
        (
            ["foregroundDeleteVirtualMachine"],
            ["kubevirt.io/foregroundDeleteVirtualMachine"],
        ),
        (
            ["kubevirt.io/foregroundDeleteVirtualMachine"],
            ["kubevirt.io/foregroundDeleteVirtualMachine"],
        ),
    ],
)
def test_finalizer_is_there_once_and_in_its_present_spelling(
    sent: list[Json], held: list[Json]
) -> None:
    made = stored(instance(metadata__finalizers=sent))
    assert cast("JsonObject", made["metadata"])["finalizers"] == held


@pytest.mark.parametrize("status", [{"phase": "Failed"}, None], ids=["changed", "removed"])
def test_status_that_a_person_changes_is_reverted(status: Json) -> None:
    old = stored(instance())
    new = {**old, "status": status}
    assert cast("JsonObject", mutated(new, old))["status"] == old["status"]
    assert cast("JsonObject", mutated(new, old, CONTROLLER))["status"] == status


def test_status_that_a_person_adds_is_reverted() -> None:
    old = {name: value for name, value in stored(instance()).items() if name != "status"}
    assert "status" not in cast("JsonObject", mutated({**old, "status": {"phase": "x"}}, old))


@pytest.mark.parametrize(
    ("name", "who"),
    [
        ("system:serviceaccount:kubevirt:kubevirt-handler", Account.HANDLER),
        ("system:serviceaccount:kubevirt:kubevirt-apiserver", Account.API),
        ("system:serviceaccount:kubevirt:default", None),
        ("system:serviceaccount:other:kubevirt-handler", None),
        ("kubevirt-handler", None),
        ("jane", None),
    ],
)
def test_actors_of_kubevirt_are_known_by_their_service_accounts(
    name: str, who: Account | None
) -> None:
    assert account(RequestUser(name), CLUSTER) is who


def test_namespace_of_the_actors_is_a_setting() -> None:
    user = RequestUser("system:serviceaccount:virt:kubevirt-handler")
    assert account(user, ClusterConfig(namespace="virt")) is Account.HANDLER


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"spec__domain__memory__guest": "0"}, "spec.domain.memory.guest"),
        ({"spec__domain__memory__guest": "1"}, "spec.domain.memory.guest"),
        ({"spec__domain__memory__guest": "1023Ki"}, "spec.domain.memory.guest"),
        ({"spec__domain__memory__maxGuest": "-1"}, "spec.domain.memory.maxGuest"),
        ({"spec__domain__cpu": {"cores": 513}}, "spec.domain.cpu"),
        ({"spec__domain__cpu": {"sockets": 2, "cores": 16, "threads": 17}}, "spec.domain.cpu"),
        ({"spec__domain__cpu": {"cores": 2**31}}, "spec.domain.cpu"),
        ({"spec__terminationGracePeriodSeconds": -1}, "spec.terminationGracePeriodSeconds"),
        ({"spec__terminationGracePeriodSeconds": 2**31}, "spec.terminationGracePeriodSeconds"),
        ({"spec__terminationGracePeriodSeconds": 2**63 - 1}, "spec.terminationGracePeriodSeconds"),
        ({"spec__domain__clock__timezone": "../../etc/shadow"}, "spec.domain.clock.timezone"),
        ({"spec__domain__clock__timezone": "/etc/shadow"}, "spec.domain.clock.timezone"),
        ({"spec__domain__clock__timezone": ":/etc/shadow"}, "spec.domain.clock.timezone"),
        ({"spec__domain__clock__timezone": "Europe//Berlin"}, "spec.domain.clock.timezone"),
        ({"spec__domain__clock__timezone": "Europe/Ber\nlin"}, "spec.domain.clock.timezone"),
        ({"spec__domain__clock__timezone": "a" * 65}, "spec.domain.clock.timezone"),
        *(
            (
                {"spec__volumes__0__name": name, "spec__domain__devices__disks__0__name": name},
                VOLUME,
            )
            for name in sorted(POD_VOLUMES)
        ),
        *(
            ({"spec__domain__devices__disks__0__disk": virtio(address)}, f"{DISK}.disk.pciAddress")
            for address in ("0000:00:20.0", "0000:00:3f.7", "0001:00:01.0", "ffff:ff:ff.7")
        ),
        ({"spec__domain__firmware__uuid": "none"}, "spec.domain.firmware.uuid"),
        ({"spec__domain__firmware__uuid": "0" * 32}, "spec.domain.firmware.uuid"),
        ({"spec__domain__firmware__serial": "a\nb"}, "spec.domain.firmware.serial"),
        ({"spec__domain__cpu__model": "a\x7fb"}, "spec.domain.cpu.model"),
        ({"spec__domain__clock__timezone": "a\u2028b"}, "spec.domain.clock.timezone"),
        (
            {
                "spec__domain__firmware__kernelBoot": {
                    "container": {"image": "a", "kernelPath": "/k"},
                    "kernelArgs": "a\tb",
                }
            },
            "spec.domain.firmware.kernelBoot.kernelArgs",
        ),
        ({"spec__volumes__0__containerDisk": {}}, "spec.volumes[0].containerDisk.image"),
        (
            {"spec__volumes": [{"name": "root", "emptyDisk": {"capacity": 0}}]},
            "spec.volumes[0].emptyDisk.capacity",
        ),
        (
            {"spec__volumes": [{"name": "root", "emptyDisk": {"capacity": "-1Gi"}}]},
            "spec.volumes[0].emptyDisk.capacity",
        ),
    ],
)
def test_what_can_never_run_is_refused(changes: dict[str, Json], field: str) -> None:
    assert fields(instance(**changes)) == [field]


@pytest.mark.parametrize(
    "changes",
    [
        {"spec__domain__memory__guest": "1Mi"},
        {"spec__domain__memory__maxGuest": "0"},
        {"spec__domain__cpu": {"cores": 512}},
        {"spec__terminationGracePeriodSeconds": 0},
        {"spec__terminationGracePeriodSeconds": 2**31 - 1},
        {"spec__domain__clock__timezone": "America/Argentina/Buenos_Aires"},
        {"spec__domain__clock__timezone": "Etc/GMT+12"},
        {"spec__domain__clock__timezone": "UTC"},
        {"spec__domain__devices__disks__0__disk": virtio("0000:00:1f.7")},
        {"spec__domain__devices__disks__0__disk": virtio("0000:FF:0A.0")},
        {"spec__domain__firmware__serial": "a b/ä"},
        {"spec__domain__firmware__uuid": "7D0C3F5E-1C1F-4A54-9F3E-0D3B8A6A1C11"},
        {"spec__volumes": [{"name": "root", "emptyDisk": {"capacity": 1}}]},
    ],
)
def test_what_can_just_run_is_allowed(changes: dict[str, Json]) -> None:
    assert fields(instance(**changes)) == []


def test_interface_has_an_address_that_machines_have() -> None:
    path = "spec.domain.devices.interfaces[0].pciAddress"
    changes = {path.replace(".", "__").replace("[0]", "__0"): "0000:00:20.0"}
    assert fields(instance(**changes)) == [path]


def test_empty_disk_may_be_named_like_a_volume_of_the_pod() -> None:
    """An empty disk is a file in one of those volumes."""
    sent = instance(
        spec__volumes=[{"name": "private", "emptyDisk": {"capacity": "1Gi"}}],
        spec__domain__devices__disks__0__name="private",
    )
    assert fields(sent) == []


@pytest.mark.parametrize("cache", ["none", "writeback"])
def test_disk_that_guests_share_is_refused_whatever_its_cache(cache: str) -> None:
    sent = instance(
        spec__domain__devices__disks__0__shareable=True,
        spec__domain__devices__disks__0__cache=cache,
    )
    assert fields(sent) == [f"{DISK}.shareable"]


def test_host_passthrough_is_refused_where_there_is_no_kvm() -> None:
    sent = instance(spec__domain__cpu__model="host-passthrough")
    assert fields(sent) == []
    assert fields(sent, ClusterConfig(use_emulation=True)) == ["spec.domain.cpu.model"]


def test_object_without_defaults_is_no_nonsense() -> None:
    assert list(nonsense(At({"domain": {}}, "spec"), CLUSTER)) == []


def test_model_that_emulation_has_is_allowed_without_kvm() -> None:
    sent = instance(spec__domain__cpu__model="qemu64")
    assert fields(sent, ClusterConfig(use_emulation=True)) == []


def test_guest_of_huge_pages_alone_has_no_size_to_judge() -> None:
    pages: dict[str, Json] = {"hugepages": {"pageSize": "x"}}
    assert fields(instance(spec__domain__memory=pages)) == [
        "spec.domain.memory.hugepages.pageSize",
        "spec.domain.memory.hugepages",
    ]


@pytest.mark.parametrize(("name", "count"), [("sockets", 2**31), ("threads", 2**32 - 1)])
def test_count_that_the_definition_cannot_hold_is_refused_by_mutation(
    name: str, count: int
) -> None:
    made = mutated(instance(spec__domain__cpu={name: count}))
    assert isinstance(made, ReviewRefusal)
    assert [cause.field for cause in made.causes] == ["spec.domain.cpu"]


def test_count_is_judged_when_an_object_is_created_alone() -> None:
    old = stored(instance())
    new: JsonObject = {**old, "spec": instance(spec__domain__cpu={"cores": 2**31})["spec"]}
    assert not isinstance(mutated(new, old), ReviewRefusal)


def test_change_of_what_is_not_stored_raises_nothing() -> None:
    asked = Review("UPDATE", JANE, stored(instance()), None)
    assert "status" not in cast("JsonObject", admission.mutate(asked, CLUSTER, now=NOW, uuid=UUID))
    assert admission.validate(asked, CLUSTER) != ()


@pytest.mark.parametrize("count", [513, 2**31 - 1])
def test_count_that_the_definition_holds_is_refused_by_validation(count: int) -> None:
    sent = instance(spec__domain__cpu={"cores": count})
    assert not isinstance(mutated(sent), ReviewRefusal)
    assert fields(sent) == ["spec.domain.cpu"]


def test_nonsense_hides_no_cause_of_kubevirt() -> None:
    sent = instance(spec__hostname="A", spec__terminationGracePeriodSeconds=-1)
    assert fields(sent) == ["spec.hostname", "spec.hostname"]


def test_object_stored_with_too_many_cpus_can_still_be_changed() -> None:
    old = stored(instance(spec__domain__cpu={"cores": 512}))
    small = ClusterConfig(max_vcpus=4)
    new: JsonObject = {**old, "metadata": {"name": "one"}}
    assert not isinstance(mutated(new, old, JANE, small), ReviewRefusal)
    assert admission.validate(review(new, old), small) == ()


@pytest.mark.parametrize(("count", "more"), [(10, False), (11, True), (500, True)])
def test_answer_carries_ten_causes_and_how_many_more_there_are(*, count: int, more: bool) -> None:
    causes = [FieldCause(CauseReason.INVALID, f"f{n}", f"cause {n}") for n in range(count)]
    found = refusal(causes)
    assert (found.code, len(found.causes)) == (422, MOST_CAUSES)
    assert found.message.startswith("cause 0, cause 1, ")
    assert (f"and {count - MOST_CAUSES} more" in found.message) is more


@pytest.mark.parametrize("name", ["hooks.kubevirt.io/hookSidecars", "kubevirt.io/ignitiondata"])
def test_annotation_that_needs_a_gate_is_refused_unless_it_is_empty(name: str) -> None:
    assert fields(instance(metadata__annotations={name: "x"})) == ["metadata.annotations"]
    assert fields(instance(metadata__annotations={name: ""})) == []


@pytest.mark.parametrize(
    ("guest", "most"),
    [("1Gi", "4Gi"), ("1023Mi", None), ("1025Mi", None), ("2047Pi", "8188Pi"), ("2Ei", None)],
)
def test_guest_can_grow_as_far_as_an_amount_goes(guest: str, most: str | None) -> None:
    made = At(stored(instance(spec__domain__memory={"guest": guest})))
    assert made["spec.domain.memory.maxGuest"].value == most
