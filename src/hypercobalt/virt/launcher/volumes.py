"""The files behind a guest's disks: links to what images hold, overlays over it, empty disks.

An image is mounted read-only and comes from anybody: a link in it may lead anywhere, and its disk
may be none. Each problem names the field of the VMI.

Source: KubeVirt, pkg/container-disk and pkg/emptydisk.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from hypercobalt.adapters.disks.port import Disks, ImageError
from hypercobalt.api.kubevirt.machine import KernelBootContainer
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.kubevirt.volumes import ContainerDisk
from hypercobalt.vmi.domain import ImageFormat
from hypercobalt.vmi.paths import PodPaths
from hypercobalt.vmi.unfit import UnfitVMIError

_DISKS: Final = "disk"
"""Directory of an image that holds its one disk."""
_KERNEL: Final = "spec.domain.firmware.kernelBoot.container"


async def prepare_volumes(
    vmi: VirtualMachineInstance, paths: PodPaths, disks: Disks
) -> dict[str, ImageFormat]:
    """Make what is missing, and return the format of each container disk by its volume.

    Raises:
        UnfitVMIError: an image has no disk that a guest may have, or a size cannot be.
        DiskFailureError: a disk cannot be made now.
    """
    formats: dict[str, ImageFormat] = {}
    for index, volume in enumerate(vmi.spec.volumes):
        field = f"spec.volumes[{index}]"
        try:
            if volume.containerDisk is not None:
                root, link = Path(paths.image(index)), Path(paths.container_disk(index))
                file = _disk_file(root, volume.containerDisk, f"{field}.containerDisk")
                found = await disks.inspect(file)
                _link(link, file)
                await disks.overlay(Path(paths.overlay(volume.name)), link, found)
                formats[volume.name] = found.format
            elif volume.emptyDisk is not None:
                size = volume.emptyDisk.capacity.value
                await disks.empty(Path(paths.empty_disk(volume.name)), size)
        except ImageError as exc:
            raise UnfitVMIError(field, str(exc)) from exc
    _prepare_kernel(vmi, paths)
    return formats


def takes_direct_io(directory: Path) -> bool:
    """Whether files in a directory can be read past the host's page cache."""
    probe = directory / ".direct-io"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        os.close(os.open(probe, os.O_CREAT | os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC, 0o600))
    except OSError as exc:
        return exc.errno != errno.EINVAL
    finally:
        probe.unlink(missing_ok=True)
    return True


def _disk_file(root: Path, disk: ContainerDisk, field: str) -> Path:
    if disk.path:
        return _inside(root, disk.path, f"{field}.path")
    try:
        found = [one.name for one in os.scandir(root / _DISKS) if not one.is_dir()]
    except OSError as exc:
        raise UnfitVMIError(field, f"its image has no directory /{_DISKS}") from exc
    if len(found) != 1:
        raise UnfitVMIError(field, f"/{_DISKS} of its image holds {len(found)} files, not one")
    return _inside(root, f"{_DISKS}/{found[0]}", field)


def _inside(root: Path, path: str, field: str) -> Path:
    """A file of an image, with all links followed.

    Raises:
        UnfitVMIError: it leads out of the image, or is not there.
    """
    try:
        file = (root / path.lstrip("/")).resolve(strict=True)
    except (OSError, ValueError, RuntimeError) as exc:
        raise UnfitVMIError(field, f"{path[:64]!r} is not in its image") from exc
    if not file.is_relative_to(root.resolve()):
        raise UnfitVMIError(field, f"{path[:64]!r} leads out of its image")
    return file


def _prepare_kernel(vmi: VirtualMachineInstance, paths: PodPaths) -> None:
    firmware = vmi.spec.domain.firmware
    boot = firmware.kernelBoot if firmware else None
    files = (boot.container if boot else None) or KernelBootContainer()
    for name in ("kernelPath", "initrdPath"):
        path, field = str(getattr(files, name)), f"{_KERNEL}.{name}"
        if path:
            link = Path(paths.kernel_file(path, field))
            _link(link, _inside(Path(paths.kernel), path, field))


def _link(link: Path, target: Path) -> None:
    """Make a link, in place of one that is there."""
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(target)
