"""Disks: which file each one has, and how QEMU treats it.

A container disk is an overlay that is lost with the pod, over the file of the image. The document
names the file below it and its format, so that QEMU probes none: a guest could otherwise write
another header into its disk, and read a file of its choice at the next start.

Source: libvirt, formatdomain, hard drives; kubevirt, pkg/virt-launcher, as recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from xml.etree.ElementTree import Element

from hypercobalt.api.kubevirt.devices import CDRomTarget, DiskSpec
from hypercobalt.api.kubevirt.spec import VMISpec
from hypercobalt.vmi.domain.addresses import pci_address
from hypercobalt.vmi.domain.context import DomainContext
from hypercobalt.vmi.domain.elements import alias, element
from hypercobalt.vmi.domain.models import virtio_model
from hypercobalt.vmi.domain.targets import GuestDisk
from hypercobalt.vmi.iothreads import IOThreads
from hypercobalt.vmi.topology import topology
from hypercobalt.vmi.unfit import UnfitVMIError, label

MOST: Final = 256
"""Disks of one guest."""


@dataclass(frozen=True, slots=True)
class _Content:
    """The file of a disk, and the element of what lies below it; no file: an empty drive."""

    file: str = ""
    backing: Element | None = None


@dataclass(frozen=True, slots=True)
class _Common:
    """What all disks of a guest have in common."""

    model: str
    queues: int | None
    direct_io: bool
    threads: IOThreads


def disk_elements(
    spec: VMISpec, disks: Sequence[GuestDisk], context: DomainContext, threads: IOThreads
) -> list[Element]:
    """An element `disk` for each disk, in their order.

    Raises:
        UnfitVMIError: a disk has no volume that is honoured, or asks for what cannot be.
    """
    if len(disks) > MOST:
        raise UnfitVMIError("spec.domain.devices.disks", f"{len(disks)} are more than {MOST}")
    devices = spec.domain.devices
    queues = topology(spec.domain.cpu).vcpus if devices.blockMultiQueue else None
    common = _Common(virtio_model(devices), queues, context.direct_io, threads)
    contents = _contents(spec, context)
    made: list[Element] = []
    for disk in disks:
        content = contents.get(disk.spec.name) or _empty(disk, spec)
        made.append(_disk(disk, content, common))
    return made


def _empty(disk: GuestDisk, spec: VMISpec) -> _Content:
    """A CD-ROM drive without a volume: without a medium."""
    name = disk.spec.name
    if disk.cdrom and all(volume.name != name for volume in spec.volumes):
        return _Content()
    raise UnfitVMIError(f"{disk.field}.name", f"{name[:64]!r} has no volume that is honoured")


def _contents(spec: VMISpec, context: DomainContext) -> dict[str, _Content]:
    paths, found = context.paths, dict[str, _Content]()
    for index, volume in enumerate(spec.volumes):
        name = label(volume.name, f"spec.volumes[{index}].name")
        if volume.containerDisk is not None:
            found[name] = _Content(paths.overlay(name), _backing(index, name, context))
        elif volume.emptyDisk is not None:
            found[name] = _Content(paths.empty_disk(name))
    return found


def _backing(index: int, name: str, context: DomainContext) -> Element:
    return element(
        "backingStore",
        element("format", type=context.formats.get(name, "qcow2")),
        element("source", file=context.paths.container_disk(index)),
        type="file",
    )


def _disk(disk: GuestDisk, content: _Content, common: _Common) -> Element:
    spec = disk.spec
    return element(
        "disk",
        element("source", file=content.file) if content.file else None,
        _target(disk),
        element("serial", text=spec.serial) if spec.serial and not disk.cdrom else None,
        _driver(disk, common, empty=not content.file),
        element("readonly") if disk.readonly else None,
        alias(spec.name),
        content.backing,
        element("boot", order=spec.bootOrder) if spec.bootOrder else None,
        _address(disk),
        element("shareable") if spec.shareable else None,
        _block_size(disk),
        device="cdrom" if disk.cdrom else "disk",
        type="file" if content.file else "block",
        model=common.model if disk.virtio else None,
    )


def _target(disk: GuestDisk) -> Element:
    tray = disk.target.tray if isinstance(disk.target, CDRomTarget) else ""
    return element("target", bus=disk.bus, dev=disk.name, tray=tray or None)


def _driver(disk: GuestDisk, common: _Common, *, empty: bool) -> Element:
    spec, virtio = disk.spec, disk.virtio
    pool = [element("iothread", id=number) for number in common.threads.pool] if virtio else []
    return element(
        "driver",
        element("iothreads", *pool) if pool else None,
        name="qemu",
        type="raw" if empty else "qcow2",  # overlays and empty disks are the launcher's own
        cache=None if empty else _cache(spec, disk.field, direct_io=common.direct_io),
        error_policy=spec.errorPolicy or "stop",
        io=spec.io or None,
        discard="unmap",
        queues=common.queues if virtio else None,
        iothread=common.threads.of.get(spec.name),
    )


def _cache(spec: DiskSpec, field: str, *, direct_io: bool) -> str:
    """How the host caches: not at all, unless its file system cannot do without."""
    if not spec.shareable:
        return spec.cache or ("none" if direct_io else "writethrough")
    if spec.cache not in {"", "none"}:
        raise UnfitVMIError(f"{field}.cache", "a shareable disk needs the cache none")
    return "none"


def _address(disk: GuestDisk) -> Element | None:
    if isinstance(disk.target, CDRomTarget):
        return None
    if disk.target.pciAddress:
        return pci_address(disk.target.pciAddress, f"{disk.field}.disk.pciAddress")
    if disk.bus == "scsi":
        return element("address", type="drive", bus=0, controller=0, unit=disk.index)
    return None


def _block_size(disk: GuestDisk) -> Element | None:
    given = disk.spec.blockSize
    if given is None:
        return None
    if given.matchVolume is not None and given.matchVolume.enabled is not False:
        raise UnfitVMIError(f"{disk.field}.blockSize.matchVolume", "not honoured by this version")
    if given.custom is None:
        return None
    return element(
        "blockio",
        logical_block_size=given.custom.logical,
        physical_block_size=given.custom.physical,
        discard_granularity=given.custom.discardGranularity,
    )
