"""What a guest of arm64 cannot have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import FieldCause
from hypercobalt.vmi.rules.causes import invalid, unsupported
from hypercobalt.vmi.rules.disks import TARGETS

_BUSES: Final = frozenset({"", "virtio", "scsi"})


def arm64(spec: At) -> Iterator[FieldCause]:
    """Whether a guest of arm64 keeps to what that architecture has; none of another one."""
    if spec["architecture"].text != "arm64":
        return
    domain = spec["domain"]
    devices, model, loader = domain["devices"], domain["cpu.model"], domain["firmware.bootloader"]
    if loader["bios"]:
        yield unsupported(loader["bios"], "is not there on arm64")
    if model.text and model.text != "host-passthrough":
        yield unsupported(model, "must be host-passthrough on arm64")
    if domain["cpu.dedicatedCpuPlacement"].flag and domain["cpu.threads"].number > 1:
        yield invalid(spec["architecture"], "has one thread for each core")
    for name in devices.holds("watchdog", "sound"):
        yield unsupported(devices[name], "is not there on arm64")
    for disk in devices["disks"]:
        for kind in disk.holds(*TARGETS):
            if disk[kind]["bus"].text not in _BUSES:
                yield unsupported(disk[kind]["bus"], "must be virtio or scsi on arm64")
