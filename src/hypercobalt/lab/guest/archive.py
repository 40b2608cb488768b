"""The initramfs: a cpio archive in the kernel's `newc` form, gzipped, the same bytes every time.

Source: Linux, Documentation/driver-api/early-userspace/buffer-format.rst.
"""

from __future__ import annotations

import gzip
import stat
from collections.abc import Iterable
from dataclasses import dataclass

_ALIGN = 4
_TRAILER = "TRAILER!!!"


@dataclass(frozen=True, slots=True)
class ArchiveEntry:
    """One file, directory or symbolic link.

    Args:
        path: without a leading slash; its directories come before it.
        mode: type and permissions, as in `st_mode`.
        data: the content, or where the link points.
    """

    path: str
    mode: int
    data: bytes = b""


def directory(path: str) -> ArchiveEntry:
    """An empty directory, 0755."""
    return ArchiveEntry(path, stat.S_IFDIR | 0o755)


def file(path: str, data: bytes, *, executable: bool = False) -> ArchiveEntry:
    """A file, 0644 or 0755."""
    return ArchiveEntry(path, stat.S_IFREG | (0o755 if executable else 0o644), data)


def initramfs(entries: Iterable[ArchiveEntry]) -> bytes:
    """The gzipped archive of `entries`, in their order; owner root, time 0."""
    records = [_record(entry, number) for number, entry in enumerate(entries, 1)]
    records.append(_record(ArchiveEntry(_TRAILER, 0), 0))
    return gzip.compress(b"".join(records), compresslevel=9, mtime=0)


def _record(entry: ArchiveEntry, inode: int) -> bytes:
    name = entry.path.encode() + b"\0"
    # inode, mode, uid, gid, links, mtime, size, device of the file, device it is, name, checksum
    numbers = (inode, entry.mode, 0, 0, 1, 0, len(entry.data), 0, 0, 0, 0, len(name), 0)
    header = b"070701" + b"".join(b"%08X" % number for number in numbers)
    return _padded(header + name) + _padded(entry.data)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % _ALIGN)
