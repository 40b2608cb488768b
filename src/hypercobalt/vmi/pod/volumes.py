"""Volumes of a launcher pod, and where the compute container finds them.

A container disk is a volume of type `image` with the name of the VMI's volume, and so is the image
of a kernel. The other volumes are empty directories that the pod's processes share.

Source: kubevirt, pkg/virt-controller/services (rendervolumes), as recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hypercobalt.api.kubevirt.machine import KernelBootContainer
from hypercobalt.api.kubevirt.spec import VMISpec
from hypercobalt.api.kubevirt.volumes import ContainerDisk
from hypercobalt.api.pods import (
    EmptyDirVolumeSource,
    ImageVolumeSource,
    LocalObjectReference,
    Volume,
    VolumeMount,
)
from hypercobalt.vmi.paths import (
    KERNEL_VOLUME,
    POD_VOLUMES,
    PRIVATE_VOLUME,
    SOCKET_VOLUME,
    PodPaths,
)
from hypercobalt.vmi.unfit import UnfitVMIError, label

_PATHS: Final = PodPaths()
_DIRECTORIES: Final = {
    PRIVATE_VOLUME: _PATHS.private,
    "public": _PATHS.public,
    "ephemeral-disks": _PATHS.ephemeral,
    "libvirt-runtime": _PATHS.runtime,
    SOCKET_VOLUME: _PATHS.sockets,
}
"""Empty directories: name of the volume, and where it is mounted."""


def volumes(spec: VMISpec) -> tuple[Volume, ...]:
    """The pod's volumes.

    Raises:
        UnfitVMIError: a volume of the VMI has no source that is honoured, or a name that is taken.
    """
    _check(spec)
    kernel = _kernel(spec)
    return (
        *(Volume(name=name, emptyDir=EmptyDirVolumeSource()) for name in _DIRECTORIES),
        *(_image(name, disk) for _, name, disk in _container_disks(spec)),
        *((_image(KERNEL_VOLUME, kernel),) if kernel else ()),
    )


def mounts(spec: VMISpec) -> tuple[VolumeMount, ...]:
    """Where the compute container has them."""
    images = tuple(
        VolumeMount(name=name, mountPath=_PATHS.image(index), readOnly=True)
        for index, name, _ in _container_disks(spec)
    )
    kernel = VolumeMount(name=KERNEL_VOLUME, mountPath=_PATHS.kernel, readOnly=True)
    return (
        *(VolumeMount(name=name, mountPath=path) for name, path in _DIRECTORIES.items()),
        *images,
        *((kernel,) if _kernel(spec) else ()),
    )


def pull_secrets(spec: VMISpec) -> tuple[LocalObjectReference, ...]:
    """Secrets that the images need, each once."""
    kernel = _kernel(spec)
    found = [disk.imagePullSecret for _, _, disk in _container_disks(spec)]
    found += [kernel.imagePullSecret] if kernel else []
    return tuple(LocalObjectReference(name=name) for name in dict.fromkeys(found) if name)


def _container_disks(spec: VMISpec) -> Iterator[tuple[int, str, ContainerDisk]]:
    """Place in `spec.volumes`, name and source of each container disk."""
    for index, volume in enumerate(spec.volumes):
        if volume.containerDisk is not None:
            yield index, volume.name, volume.containerDisk


def _kernel(spec: VMISpec) -> KernelBootContainer | None:
    firmware = spec.domain.firmware
    return firmware.kernelBoot.container if firmware and firmware.kernelBoot else None


def _image(name: str, source: ContainerDisk | KernelBootContainer) -> Volume:
    image = ImageVolumeSource(reference=source.image, pullPolicy=source.imagePullPolicy)
    return Volume(name=name, image=image)


def _check(spec: VMISpec) -> None:
    taken = set(POD_VOLUMES)
    for index, volume in enumerate(spec.volumes):
        field = f"spec.volumes[{index}]"
        if volume.containerDisk is None and volume.emptyDisk is None:
            raise UnfitVMIError(field, "has no source that this version honours")
        if volume.containerDisk is None:
            continue
        if not volume.containerDisk.image:
            raise UnfitVMIError(f"{field}.containerDisk.image", "is empty")
        if label(volume.name, f"{field}.name") in taken:
            raise UnfitVMIError(f"{field}.name", f"{volume.name!r} is the name of another volume")
        taken.add(volume.name)
    kernel = _kernel(spec)
    if kernel is not None and not kernel.image:
        raise UnfitVMIError("spec.domain.firmware.kernelBoot.container.image", "is empty")
