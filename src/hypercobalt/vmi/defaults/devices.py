"""Defaults of devices: disks for volumes, buses, inputs, the watchdog."""

from __future__ import annotations

from typing import Final

from hypercobalt.vmi.defaults.members import default, given, member, names, objects
from hypercobalt.vmi.review import JsonObject

_BUSES: Final = {"arm64": "virtio", "s390x": "virtio"}
_TARGETS: Final = ("disk", "lun", "cdrom")


def apply(spec: JsonObject) -> None:
    """Fill in the devices of a spec."""
    devices = member(member(spec, "domain"), "devices")
    _add_disks(spec, devices)
    bus = _BUSES.get(str(spec["architecture"]), "sata")
    for disk in objects(devices, "disks"):
        _fill_disk(disk, bus)
    for one in objects(devices, "inputs"):
        default(one, "bus", "usb")
        default(one, "type", "tablet")
    watchdog = given(devices, "watchdog")
    if watchdog is not None and spec["architecture"] not in _BUSES:
        default(member(watchdog, "i6300esb"), "action", "reset")


def _add_disks(spec: JsonObject, devices: JsonObject) -> None:
    """Add a disk for each volume that has neither disk nor file system."""
    used = names(devices, "disks") | names(devices, "filesystems")
    missing = [volume for volume in objects(spec, "volumes") if volume["name"] not in used]
    if missing:
        disks = devices.setdefault("disks", [])
        if isinstance(disks, list):
            disks.extend({"name": volume["name"], "disk": {}} for volume in missing)


def _fill_disk(disk: JsonObject, bus: str) -> None:
    if not any(name in disk for name in _TARGETS):
        disk["disk"] = {}
    for name in _TARGETS:
        target = given(disk, name)
        if target is not None:
            default(target, "bus", bus)
    match = given(disk, "blockSize", "matchVolume")
    if match is not None:
        match.setdefault("enabled", True)
    cdrom = given(disk, "cdrom")
    if cdrom is not None:
        cdrom.setdefault("readonly", True)
        default(cdrom, "tray", "closed")
