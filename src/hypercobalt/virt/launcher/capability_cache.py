"""What libvirt finds out about QEMU, once per host instead of once per pod.

libvirt starts each emulator to learn what that can do: 0.5 s without KVM, 9 s with it on a machine
whose CPUs differ. What it finds holds for the same binaries, kernel, user and devices, and libvirt
checks that itself. Each pod gets a copy: a file that pods share and may write would carry what a
launcher that was broken into puts there into all others. `warm` makes it.

Source: libvirt, src/qemu/qemu_capabilities.c (virQEMUCapsIsValid).
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

_MOST: Final = 64
_LARGEST: Final = 4 * 1024**2  # bytes; a file has some 100 KiB


def copy_cache(source: Path, target: Path) -> int:
    """Copy a cache of capabilities, and return the number of files; nothing is no error."""
    copied = 0
    for file in sorted(source.glob("*.xml"))[:_MOST]:
        with suppress(OSError):
            if not file.is_symlink() and file.is_file() and file.stat().st_size <= _LARGEST:
                target.mkdir(parents=True, exist_ok=True, mode=0o700)
                (target / file.name).write_bytes(file.read_bytes())
                copied += 1
    return copied
