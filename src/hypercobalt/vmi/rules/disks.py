"""Rules about disks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import FieldCause
from hypercobalt.vmi.rules.causes import invalid, required, unsupported
from hypercobalt.vmi.rules.networks import PCI_ADDRESS
from hypercobalt.vmi.rules.syntax import is_label

TARGETS: Final = ("disk", "lun", "cdrom")

_BUSES: Final = frozenset({"", "virtio", "scsi", "sata", "usb"})
_CACHES: Final = frozenset({"", "none", "writethrough", "writeback"})
_IO: Final = frozenset({"", "native", "threads"})
_ERROR_POLICIES: Final = frozenset({"", "stop", "ignore", "report", "enospace"})
_SERIAL: Final = re.compile(r"[A-Za-z0-9_.+-]*", re.ASCII)
_LONGEST_SERIAL: Final = 256
_LEAST_BLOCK: Final = 512
_MOST_BLOCK: Final = 2 * 1024**2
_QUIRK: Final = "domain.devices.disks"


def disks(spec: At, cluster: ClusterConfig) -> Iterator[FieldCause]:
    """Whether each disk has a volume, one kind of target, and sound settings."""
    found = spec["domain.devices.disks"]
    volumes = {one["name"].text: one for one in spec["volumes"]}
    seen = set[str]()
    for index, disk in enumerate(found):
        name = disk["name"]
        volume = volumes.get(name.text)
        if volume is None and not disk["cdrom"]:
            yield invalid(name, "must be the name of a volume")
        if name.text in seen:
            yield invalid(name, "is the name of another disk")
        seen.add(name.text)
        if not is_label(name.text):
            # KubeVirt names the list twice.
            yield invalid(f"{found.path}.{_QUIRK}[{index}].name", "must be a DNS label")
        yield from _target(disk, volume, index, found.path, cluster)
        yield from _settings(disk, index, found.path)


def _target(
    disk: At, volume: At | None, index: int, list_: str, cluster: ClusterConfig
) -> Iterator[FieldCause]:
    kinds = disk.holds(*TARGETS)
    if len(kinds) > 1:
        yield invalid(disk, "must be one of disk, lun and cdrom")
    if disk["lun"] and volume is not None:
        if not volume.holds("persistentVolumeClaim", "dataVolume"):
            yield invalid(disk["lun"], "must be on a claim")
        if disk["lun.reservation"].flag and "PersistentReservation" not in cluster.feature_gates:
            yield invalid(f"{list_}.luns.reservation", "needs a feature gate that is off")
    if kinds:  # the first of several alone
        yield from _bus(disk, kinds[0])
    if volume is not None and volume["downwardMetrics"]:
        yield from _metrics(disk)
    bus = disk[kinds[0]]["bus"].text if kinds else ""
    if disk["dedicatedIOThread"].flag and bus != "virtio":
        yield unsupported(f"{list_}.{_QUIRK}[{index}]", "has a thread of its own on virtio alone")
    address = disk["disk.pciAddress"].text
    if address and (bus != "virtio" or not PCI_ADDRESS.fullmatch(address)):
        yield invalid(
            f"{list_}.{_QUIRK}.disk[{index}].pciAddress", "must look like 0000:81:11.1, on virtio"
        )


def _metrics(disk: At) -> Iterator[FieldCause]:
    if not disk["disk"]:
        yield required(disk["disk"], "is required for downwardMetrics")
    elif disk["disk.bus"].text != "virtio":
        yield invalid(disk["disk.bus"], "must be virtio for downwardMetrics")


def _bus(disk: At, kind: str) -> Iterator[FieldCause]:
    bus = disk[kind]["bus"]
    if bus.text not in _BUSES:
        yield invalid(bus, "must be virtio, scsi, sata or usb")
    elif kind == "cdrom" and bus.text == "virtio":
        yield invalid(bus, "must not be virtio for a CD-ROM")
    elif kind == "disk" and bus.text == "sata" and disk["disk.readonly"].flag:
        yield invalid(bus, "must not be sata for a hard disk that is read only")


def _settings(disk: At, index: int, list_: str) -> Iterator[FieldCause]:
    if disk["bootOrder"] and disk["bootOrder"].number < 1:
        yield invalid(disk["bootOrder"], "must be 1 or above")
    serial = disk["serial"]
    if len(serial.text) > _LONGEST_SERIAL or not _SERIAL.fullmatch(serial.text):
        yield invalid(serial, "must have at most 256 letters, digits, _, ., + and -")
    if disk["cache"].text not in _CACHES:
        yield invalid(disk["cache"], "must be none, writethrough or writeback")
    if disk["io"].text not in _IO:
        yield unsupported(f"{list_}.{_QUIRK}[{index}].io", "must be native or threads")
    if disk["errorPolicy"].text not in _ERROR_POLICIES:
        yield invalid(disk["errorPolicy"], "must be stop, ignore, report or enospace")
    yield from _blocks(disk)


def _blocks(disk: At) -> Iterator[FieldCause]:
    size = disk["blockSize"]
    custom = size["custom"]
    if not custom:
        return
    match = size["matchVolume"]
    if match and match["enabled"].value is not False:
        yield invalid(size, "must be custom or matchVolume, not both")
        return
    logical, physical = custom["logical"], custom["physical"]
    discarded = custom["discardGranularity"].number
    on_sata = [disk[kind]["bus"].text for kind in disk.holds(*TARGETS)][:1] == ["sata"]
    if on_sata and logical.number != _LEAST_BLOCK:
        yield invalid(logical, "must be 512 on sata")
    elif logical.number > physical.number:
        yield invalid(logical, "must not be above the physical size")
    elif logical.number and discarded % logical.number:
        yield invalid(custom["discardGranularity"], "must be a multiple of the logical size")
    else:
        for one in (logical, physical):
            if not _is_block(one.number):
                yield invalid(one, "must be a power of 2 from 512 to 2097152")


def _is_block(size: int) -> bool:
    return _LEAST_BLOCK <= size <= _MOST_BLOCK and size & (size - 1) == 0


def boot_order(devices: At) -> Iterator[FieldCause]:
    """Whether no two disks and interfaces have the same place."""
    seen = set[int]()
    bad = set[str]()
    for index, interface in enumerate(devices["interfaces"]):
        order = interface["bootOrder"]
        if order and order.number < 1:
            yield invalid(f"spec[{index}].bootOrder", "must be 1 or above")  # as KubeVirt names it
            bad.add(order.path)
    for device in (*devices["disks"], *devices["interfaces"]):
        order = device["bootOrder"]
        if not order or order.path in bad:
            continue
        if order.number in seen:
            yield invalid(order, "is the place of another device")
        seen.add(order.number)
