"""Where each disk is in the guest: its bus, and its name there.

Names count the disks of one prefix, so that a disk on sata and one on scsi are never both `sda`.

Source: kubevirt, pkg/virt-launcher, as recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hypercobalt.api.kubevirt.devices import CDRomTarget, DiskSpec, DiskTarget
from hypercobalt.vmi.unfit import UnfitVMIError

_DEFAULT_BUS: Final = "sata"
_PREFIXES: Final = {"virtio": "vd", "sata": "sd", "scsi": "sd", "usb": "sd"}
_LETTERS: Final = 26


@dataclass(frozen=True, slots=True)
class GuestDisk:
    """One disk, as the guest finds it.

    Attributes:
        spec: as given.
        field: its path in the object.
        target: the member that is given, disk or cdrom.
        bus: of the target, or the default one.
        index: among the disks whose names have the same prefix; from 0.
    """

    spec: DiskSpec
    field: str
    target: DiskTarget | CDRomTarget
    bus: str
    index: int

    @property
    def name(self) -> str:
        """Such as `vda`; an operating system may choose another one."""
        return _PREFIXES[self.bus] + _letters(self.index)

    @property
    def virtio(self) -> bool:
        return self.bus == "virtio"

    @property
    def cdrom(self) -> bool:
        return isinstance(self.target, CDRomTarget)

    @property
    def readonly(self) -> bool:
        if isinstance(self.target, CDRomTarget):
            return self.target.readonly is not False
        return self.target.readonly


def guest_disks(disks: Sequence[DiskSpec]) -> list[GuestDisk]:
    """Place the disks, in their order.

    Raises:
        UnfitVMIError: a disk is a LUN, or on an unknown bus.
    """
    taken: Counter[str] = Counter()
    placed: list[GuestDisk] = []
    for number, spec in enumerate(disks):
        field = f"spec.domain.devices.disks[{number}]"
        if spec.lun is not None:
            raise UnfitVMIError(f"{field}.lun", "not honoured by this version")
        target = spec.cdrom or spec.disk or DiskTarget()
        bus = target.bus or _DEFAULT_BUS
        prefix = _PREFIXES.get(bus)
        if prefix is None:
            raise UnfitVMIError(f"{field}.disk.bus", f"{bus[:64]!r} is unknown")
        placed.append(GuestDisk(spec, field, target, bus, taken[prefix]))
        taken[prefix] += 1
    return placed


def _letters(index: int) -> str:
    """`a` to `z`, then `aa` and so on."""
    text = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, _LETTERS)
        text = chr(ord("a") + rest) + text
    return text
