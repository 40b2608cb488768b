"""What a site lets the definitions of its instances name on a host; its administrator's choice."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from hypercobalt.adapters.libvirt.documents.portable.paths import is_plain

_FIRMWARE: Final = (
    "/usr/share/OVMF",
    "/usr/share/AAVMF",
    "/usr/share/edk2",
    "/usr/share/qemu",
    "/usr/share/seabios",
)
RAW: Final = "raw"
FORMATS: Final = (RAW, "qcow2")
_SYSTEM: Final = re.compile(
    "/|/(bin|boot|dev|etc|home|lib|lib64|opt|proc|root|run|sbin|srv|sys|tmp|usr|var)"
    "|/usr/share|/var/(lib|lib/libvirt|lib/libvirt/qemu|log|run|spool|tmp)|/(etc|proc|sys|boot)/.*"
)
"""Directories that hold more than files of instances."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """The paths are directories; what lies below them may be named, at any depth.

    Args:
        shared: of disks, firmware variables and console logs, the same storage on all hosts.
        local: of disks on the host itself, which a live migration copies; two hosts have
            different files there.
        consoles: of the sockets of serial ports.
        kernels: of kernels and initial RAM disks for direct boot.
        firmware: of firmware and of templates of its variables; nothing there is written.
        networks: bridges and libvirt networks.
        formats: of disk images. The header of a qcow2 image can name any file as its backing or
            data file, so it is trusted as much as whoever writes to the storage.
        storage_hosts: of Ceph monitors that a definition may name; without any, a disk in Ceph
            must leave them to the host's own configuration.
    """

    shared: tuple[str, ...] = ()
    local: tuple[str, ...] = ()
    consoles: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    firmware: tuple[str, ...] = _FIRMWARE
    networks: frozenset[str] = frozenset({"br-int"})
    formats: frozenset[str] = frozenset({RAW})
    storage_hosts: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for root in (*self.shared, *self.local, *self.consoles, *self.kernels, *self.firmware):
            _check_root(root)
        if unknown := self.formats - set(FORMATS):
            raise ValueError(f"format {sorted(unknown)[0]!r} of images: only {', '.join(FORMATS)}")

    @property
    def directories(self) -> tuple[str, ...]:
        """Below which files of disks may be looked up on a host."""
        return (*self.shared, *self.local)


def _check_root(root: str) -> None:
    if not is_plain(root):
        raise ValueError(f"{root[:100]!r} is no absolute path of plain components")
    if _SYSTEM.fullmatch(root):
        raise ValueError(f"{root} holds more than files of instances: name a directory below it")


def listed(text: str) -> tuple[str, ...]:
    """The members of a list with commas, without trailing slashes."""
    words = (word.strip() for word in text.split(","))
    return tuple(word.rstrip("/") or "/" for word in words if word)
