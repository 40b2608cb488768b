"""Directories of a launcher pod, and the files that launcher, libvirt and virt-handler meet in.

The names are KubeVirt's, so that whoever looks into a pod finds what is known from there.

Source: kubevirt, pkg/util and pkg/virt-controller/services/template.go, as recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hypercobalt.vmi.unfit import label, segment

SOCKET_VOLUME: Final = "sockets"
"""emptyDir that holds the launcher's command socket."""
COMMAND_SOCKET: Final = "launcher-sock"
PRIVATE_VOLUME: Final = "private"
"""emptyDir that holds the guest's sockets, in a directory named by the VMI's UID."""
KERNEL_VOLUME: Final = "kernel-boot-volume"
"""Volume of the image that holds kernel and initial ramdisk."""

POD_VOLUMES: Final = frozenset(
    {
        *(PRIVATE_VOLUME, "public", "ephemeral-disks", "libvirt-runtime"),
        *(SOCKET_VOLUME, KERNEL_VOLUME),
    }
)
"""Volumes that a launcher pod has beside those of its VMI."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPaths:
    """Where things lie in a launcher pod; a test may put them elsewhere.

    Attributes:
        private: what only this pod's launcher uses: sockets of the guest, configuration, caches.
        public: what virt-handler and the launcher share.
        ephemeral: overlays over images.
        runtime: libvirt's own, and empty disks.
        images: an image volume for each container disk.
        kernel: the image volume of kernel and initial ramdisk.
    """

    private: str = "/var/run/kubevirt-private"
    public: str = "/var/run/kubevirt"
    ephemeral: str = "/var/run/kubevirt-ephemeral-disks"
    runtime: str = "/var/run/libvirt"
    images: str = "/var/run/kubevirt-image-volume"
    kernel: str = "/var/run/kubevirt-kernel-boot"

    @property
    def sockets(self) -> str:
        return f"{self.public}/{SOCKET_VOLUME}"

    @property
    def command_socket(self) -> str:
        return f"{self.sockets}/{COMMAND_SOCKET}"

    def image(self, index: int) -> str:
        """Where the image of `spec.volumes[index]` is mounted."""
        return f"{self.images}/disk_{index}"

    def container_disk(self, index: int) -> str:
        """The launcher's link to the disk file in that image."""
        return f"{self.public}/container-disks/disk_{index}.img"

    def overlay(self, volume: str) -> str:
        """The overlay of a container disk, lost with the pod."""
        return f"{self.ephemeral}/disk-data/{label(volume, 'spec.volumes')}/disk.qcow2"

    def empty_disk(self, volume: str) -> str:
        return f"{self.runtime}/empty-disks/{label(volume, 'spec.volumes')}.qcow2"

    def kernel_file(self, path_in_image: str, field: str) -> str:
        """The launcher's link to kernel or initial ramdisk.

        Raises:
            UnfitVMIError: the path ends in no name of a file.
        """
        name = segment(path_in_image.rstrip("/").rpartition("/")[2], field)
        return f"{self.public}/container-disks/kernel-boot/{name}"

    def guest_socket(self, uid: str, name: str) -> str:
        """A socket of the guest, such as `virt-serial0` or `virt-vnc`."""
        return f"{self.private}/{segment(uid, 'metadata.uid')}/{name}"
