"""Volumes and disks that a running guest can get or lose."""

from __future__ import annotations

import pytest

from hypercobalt.vmi.hotplug import causes_of_hotplug
from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import Json, JsonObject

ROOT: JsonObject = {"name": "root", "containerDisk": {"image": "a"}}
OTHER_ROOT: JsonObject = {"name": "root", "containerDisk": {"image": "b"}}
ROOT_DISK: JsonObject = {"name": "root", "disk": {"bus": "virtio"}}
DISK: JsonObject = {"name": "data", "disk": {"bus": "scsi"}}
DUMP: JsonObject = {"name": "dump", "memoryDump": {"claimName": "c"}}
SERIAL: JsonObject = {"serial": "2"}


def claim(name: str = "data", of: str = "c") -> JsonObject:
    return {"name": name, "persistentVolumeClaim": {"claimName": of}}


def guest(*parts: JsonObject, moved: str = "", hot: tuple[str, ...] = ()) -> At:
    """An instance of volumes, disks and file systems, told apart by what they hold."""
    disks = [one for one in parts if {"disk", "lun", "cdrom"} & one.keys()]
    systems = [one for one in parts if "virtiofs" in one]
    volumes = [one for one in parts if one not in disks + systems]
    devices: JsonObject = {"disks": list[Json](disks), "filesystems": list[Json](systems)}
    shown: list[Json] = [
        {"name": one["name"], "hotplugVolume": {} if one["name"] in hot else None}
        for one in volumes
    ]
    status: JsonObject = {"volumeStatus": shown}
    status["migratedVolumes"] = [{"volumeName": moved}] if moved else []
    spec: JsonObject = {"volumes": list[Json](volumes), "domain": {"devices": devices}}
    return At({"spec": spec, "status": status})


LASTING = guest(ROOT, ROOT_DISK, claim(), DISK)
PLUGGED = guest(ROOT, ROOT_DISK, claim(), DISK, hot=("data",))
ALONE = guest(ROOT, ROOT_DISK)
UNSHOWN = guest(ROOT, ROOT_DISK, hot=("root",))
SHARED = guest(ROOT, ROOT_DISK, claim(), {"name": "data", "virtiofs": {}})


@pytest.mark.parametrize(
    ("old", "new", "allowed"),
    [
        (LASTING, LASTING, True),
        (LASTING, guest(ROOT, ROOT_DISK), False),
        (LASTING, guest(ROOT, ROOT_DISK, claim(of="d"), DISK), False),
        (LASTING, guest(ROOT, ROOT_DISK, claim(of="d"), DISK, moved="data"), True),
        (LASTING, guest(ROOT, ROOT_DISK, claim(), {**DISK, **SERIAL}), False),
        (
            LASTING,
            guest({**ROOT, "containerDisk": {"image": "b"}}, ROOT_DISK, claim(), DISK),
            False,
        ),
        (PLUGGED, guest(ROOT, ROOT_DISK), True),
        (PLUGGED, guest(ROOT, ROOT_DISK, claim()), False),
        (PLUGGED, guest(ROOT, ROOT_DISK, DISK), False),
        (PLUGGED, guest(ROOT, ROOT_DISK, claim(of="d"), DISK), False),
        (PLUGGED, guest(ROOT, ROOT_DISK, claim(of="d"), DISK, moved="data"), True),
        (PLUGGED, guest(ROOT, ROOT_DISK, claim(), {**DISK, **SERIAL}), False),
        (ALONE, guest(ROOT, ROOT_DISK, claim(), DISK), True),
        (ALONE, guest(ROOT, ROOT_DISK, claim(), {"name": "data", "virtiofs": {}}), False),
        (ALONE, guest(ROOT, ROOT_DISK, {"name": "data", "emptyDisk": {}}, DISK), False),
        (ALONE, guest(ROOT, ROOT_DISK, {"name": "data", "dataVolume": {}}, DISK), True),
        (ALONE, guest(ROOT, ROOT_DISK, DUMP), True),
        (ALONE, guest(ROOT, ROOT_DISK, {"name": "empty", "cdrom": {}}), True),
        (ALONE, guest(ROOT, ROOT_DISK, {"name": "empty", "disk": {}}), False),
        (ALONE, guest(ROOT, ROOT_DISK, ROOT_DISK), False),
        (SHARED, SHARED, True),
        (SHARED, ALONE, False),
        (UNSHOWN, UNSHOWN, True),
        (UNSHOWN, guest(OTHER_ROOT, ROOT_DISK), False),
    ],
)
def test_permanent_volumes_stay_and_claims_come_and_go(old: At, new: At, *, allowed: bool) -> None:
    assert (not list(causes_of_hotplug(new, old))) is allowed


@pytest.mark.parametrize(
    ("disk", "allowed"),
    [
        ({"disk": {"bus": "scsi"}}, True),
        ({"disk": {"bus": "virtio"}}, True),
        ({"disk": {"bus": "sata"}}, False),
        ({"lun": {"bus": "scsi"}}, True),
        ({"lun": {"bus": "virtio"}}, False),
        ({"cdrom": {"bus": "scsi"}}, False),
        ({"disk": {"bus": "virtio"}, "dedicatedIOThread": True}, True),
        ({"disk": {"bus": "scsi"}, "dedicatedIOThread": True}, False),
        ({"disk": {"bus": "scsi"}, "dedicatedIOThread": False}, True),
        ({"disk": {"bus": "scsi"}, "bootOrder": 1}, True),
    ],
)
def test_disk_that_is_added_is_on_a_bus_that_takes_it(disk: JsonObject, *, allowed: bool) -> None:
    new = guest(ROOT, ROOT_DISK, claim(), {"name": "data", **disk})
    assert (not list(causes_of_hotplug(new, ALONE))) is allowed


def test_disk_that_is_added_has_a_place_of_1_or_above_at_boot() -> None:
    new = guest(ROOT, ROOT_DISK, claim(), {**DISK, "bootOrder": 0})
    found = [cause.field for cause in causes_of_hotplug(new, ALONE)]
    assert found == ["spec.domain.devices.disks[1].bootOrder"]


def test_empty_cdrom_gets_a_claim() -> None:
    drive: JsonObject = {"name": "data", "cdrom": {"bus": "sata"}}
    new = guest(ROOT, ROOT_DISK, claim(), drive)
    assert not list(causes_of_hotplug(new, guest(ROOT, ROOT_DISK, drive)))


def test_volumes_for_tools_need_their_gate() -> None:
    new = At({"spec": {"utilityVolumes": [{"name": "a", "claimName": "c"}]}})
    found = [cause.field for cause in causes_of_hotplug(new, At({}))]
    assert found == ["spec.utilityVolumes"]


def test_one_cause_is_enough() -> None:
    new = guest(OTHER_ROOT, ROOT_DISK, claim(of="d"), DISK)
    assert len(list(causes_of_hotplug(new, PLUGGED))) == 1
