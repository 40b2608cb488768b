"""Which volumes and disks a running guest can get or lose.

Permanent are the volumes that the status of before shows and that were not plugged in: they stay as
they are, with their disks. Every other one is of a claim, and comes with a disk on a bus that takes
it. What moves to another claim (`status.migratedVolumes`) may change.

Source: kubevirt, pkg/storage/admitters, as observed (KubeVirt v1.8).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from hypercobalt.api.kubevirt.schema import ITEMS, virtual_machine_instance
from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import FieldCause
from hypercobalt.vmi.rules.causes import invalid
from hypercobalt.vmi.rules.disks import TARGETS
from hypercobalt.vmi.same import same

_PLUGGED: Final = ("persistentVolumeClaim", "dataVolume", "memoryDump")
_BUSES: Final = {"disk": ("scsi", "virtio"), "lun": ("scsi",)}
_DISKS: Final = "spec.domain.devices.disks"


@dataclass(frozen=True, slots=True)
class _Storage:
    """Volumes by name, permanent and plugged in, and disks by the name of their volume."""

    permanent: dict[str, At]
    plugged: dict[str, At]
    disks: dict[str, At]


def causes_of_hotplug(new: At, old: At) -> Iterator[FieldCause]:
    """The first reason why a guest cannot follow a change of its volumes and disks.

    Args:
        new: the instance as sent.
        old: as it is stored, with the volumes of the guest in its status.
    """
    spec = new["spec"]
    if spec["utilityVolumes"].items:
        yield invalid(spec["utilityVolumes"], "needs a feature gate that is off")
    elif not _is_matched(spec):
        yield invalid("", "each volume must have one disk or file system, and each of them one")
    else:
        lasting = {
            one["name"].text for one in old["status.volumeStatus"] if not one["hotplugVolume"]
        }
        moved = {one["volumeName"].text for one in new["status.migratedVolumes"]}
        after, before = (_storage(one["spec"], lasting) for one in (new, old))
        yield from _first(_of_permanent(after, before, moved), _of_plugged(after, before, moved))


def _first(*found: Iterator[FieldCause]) -> Iterator[FieldCause]:
    cause = next((cause for causes in found for cause in causes), None)
    if cause is not None:
        yield cause


def _is_matched(spec: At) -> bool:
    """Whether there are as many disks and file systems as volumes; a CD-ROM may be empty."""
    volumes = {one["name"].text for one in spec["volumes"] if not one["memoryDump"]}
    disks = [
        one
        for one in spec["domain.devices.disks"]
        if one["name"].text in volumes or not one["cdrom"]
    ]
    return len(disks) + len(spec["domain.devices.filesystems"].items) == len(volumes)


def _storage(spec: At, lasting: set[str]) -> _Storage:
    volumes = {one["name"].text: one for one in spec["volumes"]}
    return _Storage(
        {name: one for name, one in volumes.items() if name in lasting},
        {name: one for name, one in volumes.items() if name not in lasting},
        {one["name"].text: one for one in spec["domain.devices.disks"] if one["name"].text},
    )


def _of_permanent(after: _Storage, before: _Storage, moved: set[str]) -> Iterator[FieldCause]:
    if after.permanent.keys() != before.permanent.keys():
        yield invalid("", "permanent volumes cannot be taken out")
        return
    for name in after.permanent.keys() - moved:
        if not _same_volume(after.permanent[name], before.permanent[name]):
            yield invalid("", f"the permanent volume {name[:63]!r} cannot be changed")
        elif not _same_disk(after.disks.get(name), before.disks.get(name)):
            yield invalid("", f"the disk of the permanent volume {name[:63]!r} cannot be changed")


def _of_plugged(after: _Storage, before: _Storage, moved: set[str]) -> Iterator[FieldCause]:
    for name, volume in after.plugged.items():
        disk, shown = after.disks.get(name), repr(name[:63])
        known = before.plugged.get(name)
        if known is None and not volume.holds(*_PLUGGED):
            yield invalid("", f"the volume {shown} is of no claim: it cannot be added")
        elif known is not None and name not in moved and not _same_volume(volume, known):
            yield invalid("", f"the volume {shown} cannot be changed")
        elif volume["memoryDump"]:
            continue
        elif disk is None:
            yield invalid("", f"the volume {shown} has no disk")
        elif known is not None and not _same_disk(disk, before.disks.get(name)):
            yield invalid("", f"the disk {shown} cannot be changed")
        elif known is None and name not in before.disks:
            yield from _of_new_disk(disk, shown)


def _of_new_disk(disk: At, shown: str) -> Iterator[FieldCause]:
    """Whether a running guest can get a disk; it is of the first kind that is set."""
    kind = next(iter(disk.holds(*TARGETS)), "")
    bus = disk[kind]["bus"].text
    if bus not in _BUSES.get(kind, ()):
        yield invalid("", f"the disk {shown} must be on scsi, or a hard disk on virtio")
    elif disk["dedicatedIOThread"].flag and bus != "virtio":
        yield invalid("", f"the disk {shown} has a thread of its own on virtio alone")
    elif disk["bootOrder"] and disk["bootOrder"].number < 1:
        yield invalid(f"{_DISKS}[1].bootOrder", "must be 1 or above")  # as KubeVirt names it


def _same_volume(one: At, other: At) -> bool:
    schema = virtual_machine_instance().fields["spec"].fields["volumes"].fields[ITEMS]
    return same(one.value, other.value, schema)


def _same_disk(one: At | None, other: At | None) -> bool:
    devices = virtual_machine_instance().fields["spec"].fields["domain"].fields["devices"]
    schema = devices.fields["disks"].fields[ITEMS]
    left, right = (at.value if at is not None else {} for at in (one, other))
    return same(left, right, schema)
