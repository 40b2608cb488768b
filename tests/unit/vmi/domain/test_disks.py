"""Names of disks in the guest, their files, and how QEMU treats them."""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import Element

import pytest
from tests.unit.vmi.domain.reading import CONTEXT, made, one, refused
from tests.unit.vmi.guests import guest, with_disks

from hypercobalt.vmi.domain import DomainContext

Json = Any


def targets(root: Element) -> list[str | None]:
    return [it.get("dev") for it in root.findall("devices/disk/target")]


def test_disks_of_one_prefix_are_counted_together() -> None:
    buses = ["virtio", "sata", "scsi", "virtio", "usb", None]
    disks = [{"name": f"d{n}", "disk": {"bus": bus} if bus else {}} for n, bus in enumerate(buses)]
    root = made(with_disks(*disks))
    assert targets(root) == ["vda", "sda", "sdb", "vdb", "sdc", "sdd"]
    assert one(root, "devices/disk/address").attrib == {
        "type": "drive",
        "bus": "0",
        "controller": "0",
        "unit": "1",
    }


def test_names_go_on_after_z() -> None:
    disks = [{"name": f"d{number}", "disk": {"bus": "virtio"}} for number in range(256)]
    found = targets(made(with_disks(*disks)))
    some = [found[number] for number in (0, 25, 26, 51, 52, 255)]
    assert some == ["vda", "vdz", "vdaa", "vdaz", "vdba", "vdiv"]
    with refused("spec.domain.devices.disks: 257 are more than 256"):
        made(with_disks(*disks, {"name": "last", "disk": {}}))


def disk_of(disk: Json, context: DomainContext = CONTEXT, **devices: Json) -> Element:
    vmi = guest(
        {"volumes": [{"name": "root", "containerDisk": {"image": "i"}}]},
        devices={"disks": [{"name": "root"} | disk]} | devices,
    )
    return one(made(vmi, context), "devices/disk")


@pytest.mark.parametrize(
    ("disk", "direct_io", "cache"),
    [
        ({}, True, "none"),
        ({}, False, "writethrough"),
        ({"cache": "writeback"}, False, "writeback"),
        ({"cache": "none"}, False, "none"),
        ({"shareable": True}, False, "none"),
        ({"shareable": True, "cache": "none"}, True, "none"),
        ({"shareable": False, "cache": "writeback"}, True, "writeback"),
    ],
)
def test_cache_follows_the_file_system(disk: Json, *, direct_io: bool, cache: str) -> None:
    found = disk_of(disk, DomainContext(direct_io=direct_io))
    assert one(found, "driver").get("cache") == cache
    assert (found.find("shareable") is not None) == disk.get("shareable", False)


def test_what_guests_share_is_not_cached() -> None:
    with refused("spec.domain.devices.disks[0].cache: "):
        disk_of({"shareable": True, "cache": "writeback"})


def test_the_format_of_an_image_is_named() -> None:
    store = one(disk_of({}, DomainContext(formats={"root": "raw"})), "backingStore")
    assert one(store, "format").get("type") == "raw"
    assert one(disk_of({}), "backingStore/format").get("type") == "qcow2"
    assert one(disk_of({}), "driver").get("type") == "qcow2"


@pytest.mark.parametrize(
    ("disk", "device", "readonly"),
    [
        ({}, "disk", 0),
        ({"disk": {"readonly": True}}, "disk", 1),
        ({"cdrom": {}}, "cdrom", 1),
        ({"cdrom": {"readonly": True}}, "cdrom", 1),
        ({"cdrom": {"readonly": False}}, "cdrom", 0),
    ],
)
def test_a_cdrom_is_read_only_unless_its_spec_differs(
    disk: Json, device: str, readonly: int
) -> None:
    found = disk_of(disk)
    assert found.get("device") == device
    assert len(found.findall("readonly")) == readonly


def test_a_cdrom_has_a_tray_and_no_serial_number() -> None:
    found = disk_of({"cdrom": {"tray": "open", "bus": "scsi"}, "serial": "S"})
    assert one(found, "target").attrib == {"bus": "scsi", "dev": "sda", "tray": "open"}
    assert found.find("serial") is None
    assert found.find("address") is None
    assert one(disk_of({"serial": "S"}), "serial").text == "S"


def test_a_plain_disk_has_no_more_than_its_spec_requests() -> None:
    found = disk_of({"disk": {"bus": "virtio"}})
    parts = [it.tag for it in found]
    assert parts == ["source", "target", "driver", "alias", "backingStore"]
    assert one(disk_of({"bootOrder": 2}), "boot").get("order") == "2"
    assert list(one(found, "driver")) == []


@pytest.mark.parametrize(("bus", "threads"), [("virtio", ["1", "2"]), ("sata", [])])
def test_a_pool_of_threads_serves_disks_on_virtio(bus: str, threads: list[str]) -> None:
    vmi = with_disks(
        {"name": "root", "disk": {"bus": bus}},
        ioThreadsPolicy="supplementalPool",
        ioThreads={"supplementalPoolThreadCount": 2},
    )
    root = made(vmi)
    pool = root.findall("devices/disk/driver/iothreads/iothread")
    assert [it.get("id") for it in pool] == threads
    assert len(root.findall("devices/disk/driver/iothreads")) == bool(threads)
    assert one(root, "iothreads").text == "2"


def test_a_cdrom_without_a_volume_is_an_empty_drive() -> None:
    drive = one(made(guest(devices={"disks": [{"name": "cd", "cdrom": {}}]})), "devices/disk")
    assert (drive.get("type"), drive.find("source")) == ("block", None)
    assert one(drive, "driver").attrib == {
        "name": "qemu",
        "type": "raw",
        "error_policy": "stop",
        "discard": "unmap",
    }


@pytest.mark.parametrize(
    ("spec", "disk", "message"),
    [
        ({}, {"disk": {}}, "[0].name: 'root' has no volume"),
        ({"volumes": [{"name": "root"}]}, {"cdrom": {}}, "[0].name: 'root' has no volume"),
        ({}, {"lun": {}}, "[0].lun: not honoured"),
        ({}, {"disk": {"bus": "ide"}}, "[0].disk.bus: 'ide' is unknown"),
    ],
)
def test_disks_that_cannot_be_are_refused(spec: Json, disk: Json, message: str) -> None:
    with refused(f"spec.domain.devices.disks{message}"):
        made(guest(spec, devices={"disks": [{"name": "root"} | disk]}))


def test_a_volume_with_the_name_of_a_path_is_refused() -> None:
    volume = {"name": "../a", "emptyDisk": {"capacity": "1Gi"}}
    with refused("spec.volumes[0].name: '../a' is no DNS label"):
        made(guest({"volumes": [volume]}))


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ({}, None),
        ({"matchVolume": {"enabled": False}}, None),
        (
            {"custom": {"logical": 512, "physical": 4096}},
            {"logical_block_size": "512", "physical_block_size": "4096"},
        ),
    ],
)
def test_block_sizes_are_those_that_are_given(size: Json, expected: Json) -> None:
    found = disk_of({"blockSize": size}).find("blockio")
    assert (None if found is None else found.attrib) == expected


@pytest.mark.parametrize("match", [{}, {"enabled": True}])
def test_block_size_of_a_volume_is_not_honoured(match: Json) -> None:
    with refused("spec.domain.devices.disks[0].blockSize.matchVolume: not honoured"):
        disk_of({"blockSize": {"matchVolume": match}})


def test_a_disk_has_the_pci_address_of_its_spec() -> None:
    found = disk_of({"disk": {"bus": "virtio", "pciAddress": "0000:3F:1a.7"}})
    assert one(found, "address").attrib == {
        "type": "pci",
        "domain": "0x0000",
        "bus": "0x3F",
        "slot": "0x1a",
        "function": "0x7",
    }
    with refused("spec.domain.devices.disks[0].disk.pciAddress: "):
        disk_of({"disk": {"bus": "virtio", "pciAddress": "0000:00:40.0"}})


@pytest.mark.parametrize(
    ("disk", "expected"),
    [
        ({"io": "native", "errorPolicy": "ignore"}, {"io": "native", "error_policy": "ignore"}),
        ({}, {"io": None, "error_policy": "stop", "queues": "1"}),
        ({"disk": {"bus": "sata"}}, {"queues": None, "iothread": None}),
        ({"dedicatedIOThread": True}, {"iothread": "1"}),
    ],
)
def test_qemu_treats_a_disk_as_it_is_asked_to(disk: Json, expected: Json) -> None:
    found = one(disk_of({"disk": {"bus": "virtio"}} | disk, blockMultiQueue=True), "driver")
    assert {key: found.get(key) for key in expected} == expected
