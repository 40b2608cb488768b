"""Defaults of the machine: architecture, type, firmware, clock."""

from __future__ import annotations

from typing import Final

from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.defaults.members import default, given, member, objects
from hypercobalt.vmi.review import JsonObject

_TYPES: Final = {"arm64": "virt", "s390x": "s390-ccw-virtio"}
_TIMERS: Final = ("hpet", "hyperv", "kvm", "pit", "rtc")


def apply(spec: JsonObject, cluster: ClusterConfig, uuid: str) -> None:
    """Fill in architecture, machine type, UUID, timers, and when images are pulled."""
    domain = member(spec, "domain")
    default(spec, "architecture", cluster.architecture)
    type_ = _TYPES.get(str(spec["architecture"]), cluster.machine_type)
    default(member(domain, "machine"), "type", type_)
    firmware = member(domain, "firmware")
    default(firmware, "uuid", uuid)
    if spec["architecture"] == "arm64":  # which has no other firmware
        loader = member(firmware, "bootloader")
        if not {"bios", "efi"} & set(loader):
            loader["efi"] = {"secureBoot": False}
    timers = given(domain, "clock", "timer") or {}
    for name in _TIMERS:
        timer = given(timers, name)
        if timer is not None:
            timer.setdefault("present", True)
    for volume in objects(spec, "volumes"):
        _pull(given(volume, "containerDisk"))


def _pull(container: JsonObject | None) -> None:
    """Pull an image each time if its tag can move: it is `latest`, or there is none."""
    if container is not None and "imagePullPolicy" not in container:
        image = str(container.get("image", ""))
        moves = image.endswith(":latest") or not {":", "@"} & set(image)
        container["imagePullPolicy"] = "Always" if moves else "IfNotPresent"
