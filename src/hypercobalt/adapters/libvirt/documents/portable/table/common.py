"""Elements that many devices have."""

from __future__ import annotations

from typing import Final

from hypercobalt.adapters.libvirt.documents.portable.rules import Dropped, Entry, Optional, element
from hypercobalt.adapters.libvirt.documents.portable.values import (
    HEX,
    NUMBER,
    ON_OFF,
    SMALL,
    TYPE,
    YES_NO,
    form,
    one_of,
)

_USER_ALIAS: Final = form("an alias of the user's own", r"ua-[A-Za-z0-9_-]{1,60}")

ALIAS: Final = Optional(element(name=_USER_ALIAS, required="name"))
"""An alias of the user's own; libvirt makes all others again at each start."""

ADDRESS: Final = element(
    {"zpci": element(uid=HEX, fid=HEX)},
    type=one_of("pci drive usb virtio-serial isa ccid ccw dimm virtio-mmio spapr-vio unassigned"),
    domain=HEX,
    bus=form("a bus", r"0x[0-9A-Fa-f]{1,8}|[0-9]{1,8}"),
    slot=HEX,
    function=HEX,
    multifunction=ON_OFF,
    controller=NUMBER,
    target=NUMBER,
    unit=NUMBER,
    port=form("a port", r"0x[0-9A-Fa-f]{1,8}|[0-9]{1,4}(\.[0-9]{1,4}){0,3}"),
    iobase=HEX,
    irq=HEX,
    cssid=HEX,
    ssid=HEX,
    devno=HEX,
    base=HEX,
    reg=HEX,
    required="type",
)
ACPI: Final = element(index=SMALL)
BOOT: Final = element(order=SMALL, loadparm=TYPE, required="order")
ROM: Final = element(bar=ON_OFF, enabled=YES_NO)
"""Without `file`, which QEMU reads on the host."""

VIRTIO_DRIVER: Final = {
    "iommu": ON_OFF,
    "ats": ON_OFF,
    "packed": ON_OFF,
    "page_per_vq": ON_OFF,
}
DEVICE: Final[dict[str, Entry]] = {"alias": ALIAS, "address": ADDRESS, "acpi": ACPI}
LABEL: Final = Dropped()
"""Label of a running domain; a host's security driver sets a new one."""
