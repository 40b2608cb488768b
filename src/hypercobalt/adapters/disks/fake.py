"""Images and disks in memory: for tests of what uses them."""

from __future__ import annotations

from pathlib import Path

from hypercobalt.adapters.disks.port import LARGEST, MIB, DiskFailureError, DiskImage, ImageError


class FakeDisks:
    """In-memory `Disks`.

    Attributes:
        images: by path; an absent one cannot be opened, a text is the problem of one.
        made: disks by path, each with the image below it and its size in bytes.
        full: no further disk can be made.
    """

    def __init__(self) -> None:
        self.images: dict[Path, DiskImage | str] = {}
        self.made: dict[Path, tuple[Path | None, int]] = {}
        self.full = False

    async def inspect(self, image: Path) -> DiskImage:
        found = self.images.get(image)
        if found is None:
            raise DiskFailureError(
                f"image {image.name!r} cannot be opened: No such file or directory"
            )
        if isinstance(found, str):
            raise ImageError(image, found)
        return found

    async def overlay(self, path: Path, image: Path, found: DiskImage) -> None:
        self._make(path, image, found.size_bytes)

    async def empty(self, path: Path, size_bytes: int) -> None:
        size = size_bytes // MIB * MIB
        if not 0 < size <= LARGEST:
            raise ImageError(path, f"{size_bytes} bytes: must be 1 MiB to {LARGEST} bytes")
        self._make(path, None, size)

    def _make(self, path: Path, image: Path | None, size_bytes: int) -> None:
        if self.full and path not in self.made:
            raise DiskFailureError(f"disk {path.name!r} cannot be made: No space left on device")
        self.made.setdefault(path, (image, size_bytes))
