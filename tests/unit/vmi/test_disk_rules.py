"""Disks have a volume, one kind of target, sound settings, and a place of their own at boot."""

from __future__ import annotations

import pytest

from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import Json, JsonObject
from hypercobalt.vmi.rules import disks

DEVICES = "spec.domain.devices."
DISK = f"{DEVICES}disks[0]"
DISKS, NICS = f"{DEVICES}disks", f"{DEVICES}interfaces"
BAD_NICS = ["spec[0].bootOrder", "spec[1].bootOrder"]
QUIRK = f"{DEVICES}disks.domain.devices.disks"
GATED = ClusterConfig(feature_gates=frozenset({"PersistentReservation"}))
CLAIM: JsonObject = {"name": "d", "persistentVolumeClaim": {"claimName": "c"}}
IMAGE: JsonObject = {"name": "d", "containerDisk": {"image": "i"}}


def fields(
    disk: JsonObject, volume: JsonObject | None = IMAGE, cluster: ClusterConfig | None = None
) -> list[str]:
    devices: JsonObject = {"disks": [{"name": "d", **disk}]}
    volumes: list[Json] = [] if volume is None else [volume]
    spec = At({"domain": {"devices": devices}, "volumes": volumes}, "spec")
    return [cause.field for cause in disks.disks(spec, cluster or ClusterConfig())]


@pytest.mark.parametrize(
    ("disk", "volume", "named"),
    [
        ({}, IMAGE, []),
        ({"disk": {}}, IMAGE, []),
        ({"disk": {}}, None, [f"{DISK}.name"]),
        ({"cdrom": {}}, None, []),
        ({"disk": {}, "cdrom": {}}, IMAGE, [DISK]),
        ({"lun": {}}, IMAGE, [f"{DISK}.lun"]),
        ({"lun": {}}, CLAIM, []),
        ({"lun": {}}, None, [f"{DISK}.name"]),
        ({"lun": {"reservation": True}}, CLAIM, [f"{DEVICES}disks.luns.reservation"]),
        ({"disk": {"bus": "ide"}}, IMAGE, [f"{DISK}.disk.bus"]),
        ({"disk": {"bus": "scsi"}, "cdrom": {"bus": "virtio"}}, IMAGE, [DISK]),
        ({"lun": {"bus": "ide"}, "cdrom": {"bus": "ide"}}, CLAIM, [DISK, f"{DISK}.lun.bus"]),
        ({"disk": {"bus": "nvme"}}, IMAGE, [f"{DISK}.disk.bus"]),
        ({"cdrom": {"bus": "virtio"}}, IMAGE, [f"{DISK}.cdrom.bus"]),
        ({"disk": {"bus": "sata", "readonly": True}}, IMAGE, [f"{DISK}.disk.bus"]),
        ({"disk": {"bus": "virtio", "readonly": True}}, IMAGE, []),
        ({"dedicatedIOThread": True}, IMAGE, [f"{QUIRK}[0]"]),
        ({"dedicatedIOThread": True, "disk": {"bus": "virtio"}}, IMAGE, []),
    ],
)
def test_disk_has_a_volume_and_one_kind_of_target(
    disk: JsonObject, volume: JsonObject | None, named: list[str]
) -> None:
    assert fields(disk, volume) == named


def test_reservation_is_allowed_by_its_gate() -> None:
    assert fields({"lun": {"reservation": True}}, CLAIM, GATED) == []


@pytest.mark.parametrize(
    ("serial", "fits"),
    [("", True), ("Aa0_.+-", True), ("x" * 256, True), ("x" * 257, False), ("a b", False)],
)
def test_serial_has_few_letters(serial: str, *, fits: bool) -> None:
    assert fields({"serial": serial}) == ([] if fits else [f"{DISK}.serial"])


def blocks(logical: int, physical: int) -> JsonObject:
    return {"blockSize": {"custom": {"logical": logical, "physical": physical}}}


@pytest.mark.parametrize(
    ("disk", "named"),
    [
        (blocks(512, 4096), []),
        (blocks(2097152, 2097152), []),
        (blocks(256, 512), ["logical"]),
        (blocks(512, 4194304), ["physical"]),
        (blocks(1024, 512), ["logical"]),
        (blocks(512, 1536), ["physical"]),
        (blocks(768, 1536), ["logical", "physical"]),
        ({**blocks(512, 4096), "disk": {"bus": "sata"}}, []),
        ({**blocks(1024, 4096), "disk": {"bus": "sata"}}, ["logical"]),
        ({**blocks(1024, 4096), "disk": {"bus": "scsi"}}, []),
    ],
)
def test_blocks_are_powers_of_two_and_small_on_sata(disk: JsonObject, named: list[str]) -> None:
    assert fields(disk) == [f"{DISK}.blockSize.custom.{name}" for name in named]


@pytest.mark.parametrize(
    ("granularity", "logical", "fits"),
    [(None, 512, True), (0, 512, True), (1024, 512, True), (512, 1024, False), (513, 512, False)],
)
def test_granularity_of_discards_is_a_multiple_of_the_block(
    granularity: int | None, logical: int, *, fits: bool
) -> None:
    custom: JsonObject = {"logical": logical, "physical": 4096, "discardGranularity": granularity}
    at = f"{DISK}.blockSize.custom.discardGranularity"
    assert fields({"blockSize": {"custom": custom}}) == ([] if fits else [at])
    nothing: JsonObject = {**custom, "logical": 0}
    expected = [f"{DISK}.blockSize.custom.logical"]
    assert fields({"blockSize": {"custom": nothing}}) == expected


def test_blocks_are_as_on_sata_for_the_first_kind_of_target_alone() -> None:
    two: JsonObject = {"disk": {"bus": "virtio"}, "cdrom": {"bus": "sata"}}
    assert fields({**two, **blocks(1024, 1024)}) == [DISK]


@pytest.mark.parametrize(
    ("match", "fits"), [({}, False), ({"enabled": True}, False), ({"enabled": False}, True)]
)
def test_blocks_are_custom_or_of_the_volume(match: JsonObject, *, fits: bool) -> None:
    both: JsonObject = {"custom": {"logical": 512, "physical": 512}, "matchVolume": match}
    assert fields({"blockSize": both}) == ([] if fits else [f"{DISK}.blockSize"])


@pytest.mark.parametrize(
    ("of_disks", "of_interfaces", "named"),
    [
        ([None, None], [None], []),
        ([1, 2], [3], []),
        ([1, 1], [], [f"{DEVICES}disks[1].bootOrder"]),
        ([1], [1], [f"{DEVICES}interfaces[0].bootOrder"]),
        ([None, 0], [], []),  # what is below 1 has a cause of its own
        ([], [0], ["spec[0].bootOrder"]),
        ([0, 0], [0, 0, 1, 1], [*BAD_NICS, f"{DISKS}[1].bootOrder", f"{NICS}[3].bootOrder"]),
        ([], [2, 1], []),
    ],
)
def test_each_device_has_a_place_of_its_own_at_boot(
    of_disks: list[int | None], of_interfaces: list[int | None], named: list[str]
) -> None:
    found: JsonObject = {
        "disks": [{"bootOrder": one} for one in of_disks],
        "interfaces": [{"bootOrder": one} for one in of_interfaces],
    }
    causes = disks.boot_order(At(found, "spec.domain.devices"))
    assert [cause.field for cause in causes] == named


@pytest.mark.parametrize(("order", "fits"), [(None, True), (1, True), (0, False), (-1, False)])
def test_place_of_a_disk_is_1_or_above(order: int | None, *, fits: bool) -> None:
    assert fields({"bootOrder": order}) == ([] if fits else [f"{DISK}.bootOrder"])
