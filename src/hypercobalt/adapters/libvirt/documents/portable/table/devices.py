"""All devices that a portable definition may have.

Not here, and so refused: devices of the host (hostdev, filesystem, redirdev, smartcard, shmem,
nvram, lease, crypto), a TPM (its state lies on the host), an emulator's path (dropped: the new host
has its own).
"""

from __future__ import annotations

from typing import Final

from hypercobalt.adapters.libvirt.documents.portable.rules import (
    Choice,
    Dropped,
    Entry,
    Rule,
    element,
)
from hypercobalt.adapters.libvirt.documents.portable.table.characters import CHANNEL, PORT
from hypercobalt.adapters.libvirt.documents.portable.table.common import (
    ADDRESS,
    DEVICE,
    VIRTIO_DRIVER,
)
from hypercobalt.adapters.libvirt.documents.portable.table.disks import DISK
from hypercobalt.adapters.libvirt.documents.portable.table.interfaces import INTERFACE
from hypercobalt.adapters.libvirt.documents.portable.table.screens import (
    AUDIO,
    GRAPHICS,
    SOUND,
    VIDEO,
)
from hypercobalt.adapters.libvirt.documents.portable.values import (
    CPUS,
    HEX,
    NUMBER,
    ON_OFF,
    SMALL,
    TYPE,
    UNIT,
    YES,
    YES_NO,
    one_of,
)

_VIRTIO: Final = element(None, VIRTIO_DRIVER)
SIZE: Final = element(text=NUMBER, unit=UNIT)

_CONTROLLER: Final = element(
    {
        **DEVICE,
        "driver": element(
            None,
            VIRTIO_DRIVER,
            queues=SMALL,
            cmd_per_lun=SMALL,
            max_sectors=SMALL,
            ioeventfd=ON_OFF,
            iothread=SMALL,
        ),
        "model": element(name=TYPE, required="name"),
        "target": element(
            {"node": element(text=SMALL)},
            chassisNr=SMALL,
            chassis=SMALL,
            port=HEX,
            busNr=SMALL,
            index=SMALL,
            hotplug=ON_OFF,
        ),
        "master": element(startport=SMALL, required="startport"),
        "pcihole64": SIZE,
    },
    type=one_of("ide fdc scsi sata virtio-serial usb pci ccid"),
    index=SMALL,
    model=TYPE,
    ports=SMALL,
    vectors=SMALL,
    maxGrantFrames=NUMBER,
    required="type",
    most=512,
)
_INPUT: Final = element(
    {**DEVICE, "driver": _VIRTIO},
    type=one_of("mouse tablet keyboard"),
    bus=one_of("ps2 usb virtio"),
    model=TYPE,
    required="type",
    most=16,
)
_BALLOON: Final = element(
    {**DEVICE, "stats": element(period=NUMBER, required="period"), "driver": _VIRTIO},
    model=TYPE,
    autodeflate=ON_OFF,
    freePageReporting=ON_OFF,
    required="model",
)
_RNG: Final = element(
    {
        **DEVICE,
        "driver": _VIRTIO,
        "rate": element(period=NUMBER, bytes=NUMBER, required="bytes"),
        "backend": Choice(
            "model",
            {
                "random": element(
                    text=one_of("/dev/urandom /dev/random"),
                    model=one_of("random"),
                    required="model",
                ),
                "builtin": element(model=one_of("builtin"), required="model"),
            },
        ),
    },
    model=TYPE,
    required="model",
    most=4,
)
_WATCHDOG: Final = element(
    DEVICE,
    model=TYPE,
    # `dump` writes the guest's memory to the host's disk each time.
    action=one_of("reset shutdown poweroff pause none inject-nmi"),
    required="model",
    most=4,
)
_VSOCK: Final = element(
    {
        **DEVICE,
        "cid": element(auto=YES, required="auto", dropped="address"),
        "driver": _VIRTIO,
    },
    model=TYPE,
)
_MEMORY: Final = element(
    {
        "alias": DEVICE["alias"],
        "address": ADDRESS,
        "source": element(
            {"pagesize": SIZE, "nodemask": element(text=CPUS)},
        ),
        "target": element({"size": SIZE, "node": element(text=SMALL)}),
    },
    model=one_of("dimm"),
    access=one_of("shared private"),
    discard=YES_NO,
    required="model",
    most=256,
)
_IOMMU: Final = element(
    {
        **DEVICE,
        "driver": element(
            intremap=ON_OFF, caching_mode=ON_OFF, eim=ON_OFF, iotlb=ON_OFF, aw_bits=SMALL
        ),
    },
    model=one_of("intel smmuv3 virtio"),
    required="model",
)

_DEVICES: Final[dict[str, Entry]] = {
    "emulator": Dropped(1),
    "disk": DISK,
    "interface": INTERFACE,
    "controller": _CONTROLLER,
    "serial": PORT,
    "parallel": PORT,
    "console": PORT,
    "channel": CHANNEL,
    "graphics": GRAPHICS,
    "video": VIDEO,
    "audio": AUDIO,
    "sound": SOUND,
    "input": _INPUT,
    "memballoon": _BALLOON,
    "rng": _RNG,
    "watchdog": _WATCHDOG,
    "panic": element(DEVICE, model=TYPE, most=4),
    "vsock": _VSOCK,
    "hub": element(DEVICE, type=one_of("usb"), required="type", most=16),
    "memory": _MEMORY,
    "iommu": _IOMMU,
}
DEVICES: Final = Rule(children=_DEVICES)
