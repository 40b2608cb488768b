"""The images that pods of a lab can have: directories, where a container runtime has layers.

| Image | What is in it |
| --- | --- |
| `linux` | `/boot/vmlinux` and `/boot/initrd.gz`: Linux with login, DHCP, a page at 80 |
| `boot-sector` | `/disk/disk.img`: says on the serial console that it is up, and idles |
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from hypercobalt.lab.guest import bootsector
from hypercobalt.lab.guest.image import Image

LINUX: Final = "linux"
BOOT_SECTOR: Final = "boot-sector"
_KEY: Final = ".key"
"""File that tells which image a directory was made from; written last."""


def lay_out(directory: Path, guest: Image | None) -> None:
    """Make the images in a directory, or find them there.

    Args:
        directory: a directory for each image is made in it.
        guest: what the small Linux is made from; None where it cannot be built.

    Raises:
        OSError: the disk is full, or refuses.
    """
    disk = directory / BOOT_SECTOR / "disk"
    disk.mkdir(parents=True, exist_ok=True)
    (disk / "disk.img").write_bytes(bootsector.image("idle"))
    if guest is not None:
        _linux(directory / LINUX, guest)


def _linux(image: Path, guest: Image) -> None:
    key = image / _KEY
    if key.exists() and key.read_text(encoding="ascii") == guest.key:
        return
    boot = image / "boot"
    boot.mkdir(parents=True, exist_ok=True)
    key.unlink(missing_ok=True)
    for name, source in (("vmlinux", guest.kernel), ("initrd.gz", guest.linux)):
        # A guest that runs has the old file open.
        (boot / name).unlink(missing_ok=True)
        shutil.copyfile(source, boot / name)
        (boot / name).chmod(0o644)
    key.write_text(guest.key, encoding="ascii")
