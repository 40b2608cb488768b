"""What the rooms above use of disk images. One fake implements all of it (`fake.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Protocol

from hypercobalt.errors import TerminalError, TransientError

ImageFormat = Literal["qcow2", "raw"]

MIB: Final = 1024**2
LARGEST: Final = 64 * 1024**4
"""Bytes of a disk as the guest sees it; a header may claim any number."""


class ImageError(TerminalError):
    """qemu-img or our own check refuses an image; the message names the file and the fault."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"image {path.name[:64]!r}: {problem}", reason="InvalidImage")


class DiskFailureError(TransientError):
    """A disk cannot be made or read now: no space, no program, no answer in time."""


@dataclass(frozen=True, slots=True)
class DiskImage:
    """An image that stands by itself: it names no other file.

    Args:
        format: of its content.
        size_bytes: as the guest sees it.
    """

    format: ImageFormat
    size_bytes: int


class Disks(Protocol):
    """Reads images and makes disks. What was made is whole: a stop in between leaves none."""

    async def inspect(self, image: Path) -> DiskImage:
        """Read what an image is, before an emulator opens it.

        Raises:
            ImageError: it is damaged, names another file, or claims a size that cannot be.
            DiskFailureError: it could not be read.
        """
        ...

    async def overlay(self, path: Path, image: Path, found: DiskImage) -> None:
        """Make a qcow2 file over an image that is never written; one that is there is kept.

        Args:
            path: of the new file.
            image: the file below it.
            found: what `inspect` found of that.

        Raises:
            DiskFailureError: it could not be made.
        """
        ...

    async def empty(self, path: Path, size_bytes: int) -> None:
        """Make a sparse qcow2 file, of whole MiB, rounded down; one that is there is kept.

        Raises:
            ImageError: the size is under a MiB, or none that can be.
            DiskFailureError: it could not be made.
        """
        ...
