"""What libvirt finds out about QEMU, once per host instead of once per pod.

libvirt starts each emulator to learn what that can do: 0.5 s without KVM, 9 s with it on a machine
whose CPUs differ. What it finds holds for the same binaries, kernel, user and devices, and libvirt
checks that itself. Each pod gets a copy: a file that pods share and may write would carry what a
launcher that was broken into puts there into all others. `warm` makes it.

Source: libvirt, src/qemu/qemu_capabilities.c (virQEMUCapsIsValid).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from hypercobalt.logs import get_logger

log = get_logger(__name__)

_MOST: Final = 64
_LARGEST: Final = 4 * 1024**2  # bytes; a file has some 100 KiB
_MODE: Final = 0o644  # holds no secret


def copy_cache(source: Path, target: Path) -> int:
    """Copy a cache of capabilities with its times, and return the number of files.

    What cannot be read is left out: libvirt then finds it out again.
    """
    copied = 0
    for file in sorted(source.glob("*.xml"))[:_MOST]:
        try:
            copied += _copy(file, target / file.name)
        except OSError as exc:
            log.warning("capabilities_not_copied", file=str(file), error=str(exc))
    return copied


def _copy(file: Path, copy: Path) -> bool:
    if file.is_symlink() or not file.is_file() or file.stat().st_size > _LARGEST:
        return False
    copy.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    copy.write_bytes(file.read_bytes())
    copy.chmod(_MODE)
    os.utime(copy, ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns))
    return True
