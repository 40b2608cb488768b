"""What only the launcher pod knows of a domain that it starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from hypercobalt.vmi.paths import PodPaths

ImageFormat = Literal["qcow2", "raw"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tap:
    """The device that virt-handler has made in the pod for one interface.

    Attributes:
        device: such as `tap0`; it exists and belongs to the launcher's user.
        mac: of the guest's NIC; "" leaves it to the VMI, and then to libvirt.
        mtu: bytes; None leaves it to the driver.
    """

    device: str
    mac: str = ""
    mtu: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainContext:
    """Facts of pod and host.

    Attributes:
        emulation: there is no KVM, and the cluster permits to go without.
        taps: by name of the network; an interface without one is left to libvirt.
        formats: of the image below an overlay, by name of the volume, as qemu-img has found it.
        direct_io: the file systems of overlays and empty disks take O_DIRECT.
        vhost_net: the pod has /dev/vhost-net.
        paths: directories of the pod.
    """

    emulation: bool = False
    taps: Mapping[str, Tap] = field(default_factory=dict[str, Tap])
    formats: Mapping[str, ImageFormat] = field(default_factory=dict[str, ImageFormat])
    direct_io: bool = True
    vhost_net: bool = True
    paths: PodPaths = field(default_factory=PodPaths)
