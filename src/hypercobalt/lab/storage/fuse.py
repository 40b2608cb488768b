"""The part of the kernel's FUSE protocol that a directory of disks needs: pure.

Source: Linux, include/uapi/linux/fuse.h; fuse(4).
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class Op(IntEnum):
    """Operations that are served; all others are refused with ENOSYS."""

    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    SETATTR = 4
    MKDIR = 9
    UNLINK = 10
    RMDIR = 11
    RENAME = 12
    OPEN = 14
    READ = 15
    WRITE = 16
    STATFS = 17
    RELEASE = 18
    FSYNC = 20
    FLUSH = 25
    INIT = 26
    OPENDIR = 27
    READDIR = 28
    RELEASEDIR = 29
    FSYNCDIR = 30
    CREATE = 35
    INTERRUPT = 36
    BATCH_FORGET = 42
    FALLOCATE = 43
    RENAME2 = 45
    LSEEK = 46


WITHOUT_ANSWER: Final = frozenset({Op.FORGET, Op.BATCH_FORGET, Op.INTERRUPT})
ROOT: Final = 1
"""The node of the directory that is mounted."""
MAX_WRITE: Final = 1 << 20
MESSAGE_BYTES: Final = MAX_WRITE + 4096

_IN = struct.Struct("<IIQQIIIHxx")
_OUT = struct.Struct("<IiQ")
_ATTR = struct.Struct("<6Q10I")
_ENTRY = struct.Struct("<4Q2I")
_NANOSECONDS = 10**9
_VERSION, _MINOR = 7, 31
# Reads side by side, O_TRUNC in one, writes of more than a page, lookups side by side, MAX_WRITE.
# Not FUSE_ASYNC_DIO: a process that waits for such a request cannot be killed.
_FLAGS = 1 << 0 | 1 << 3 | 1 << 5 | 1 << 18 | 1 << 22
_WAITING = 64  # requests in the background


@dataclass(frozen=True, slots=True)
class FuseRequest:
    """A request of a process.

    Args:
        op: a number of `Op`, or one that is not served.
        unique: names the request in its answer.
        node: of the file.
        uid: of the process.
        gid: of the process.
        pid: of the thread, as the machine numbers it; 0 for the kernel itself.
        body: what follows.
    """

    op: int
    unique: int
    node: int
    uid: int
    gid: int
    pid: int
    body: bytes

    @classmethod
    def parse(cls, message: bytes | memoryview) -> FuseRequest:
        _, op, unique, node, uid, gid, pid, _ = _IN.unpack_from(message)
        return cls(op, unique, node, uid, gid, pid, bytes(message[_IN.size :]))

    def names(self, after: int = 0) -> list[bytes]:
        """The names in the body, from a position on."""
        return self.body[after:].split(b"\0")[:-1]


def answer(unique: int, data: bytes = b"", error: int = 0) -> bytes:
    """Answer to a request of the kernel.

    Args:
        unique: of the request.
        data: when it succeeded.
        error: an errno when it did not.
    """
    return _OUT.pack(_OUT.size + len(data), -error, unique) + data


def init(body: bytes) -> bytes:
    """The answer to INIT."""
    _, _, max_readahead, flags = struct.unpack_from("<4I", body)
    pages = MAX_WRITE // 4096
    return struct.pack(
        "<4I2H2I2H8I",
        *(_VERSION, _MINOR, max_readahead, flags & _FLAGS, _WAITING, _WAITING * 3 // 4),
        *(MAX_WRITE, 1, pages, 0, *[0] * 8),
    )


def attributes(seen: os.stat_result) -> bytes:
    """The answer to GETATTR: good for no time, for files change beside the mount."""
    return bytes(16) + _attr(seen)


def entry(node: int, seen: os.stat_result) -> bytes:
    """The answer to LOOKUP and to what makes a file."""
    return _ENTRY.pack(node, 0, 0, 0, 0, 0) + _attr(seen)


def opened(handle: int) -> bytes:
    """The answer to OPEN, and the end of that to CREATE."""
    return struct.pack("<QII", handle, 0, 0)


def statistics(seen: os.statvfs_result) -> bytes:
    """The answer to STATFS."""
    return struct.pack(
        "<5Q10I",
        *(seen.f_blocks, seen.f_bfree, seen.f_bavail, seen.f_files, seen.f_ffree),
        *(seen.f_bsize, seen.f_namemax, seen.f_frsize, *[0] * 7),
    )


def listing(names: list[tuple[bytes, int]], start: int, size: int) -> bytes:
    """The answer to READDIR.

    Args:
        names: of all files, each with its inode.
        start: how many the kernel has already.
        size: bytes that it takes.
    """
    found = b""
    for number, (name, inode) in enumerate(names[start:], start + 1):
        one = struct.pack("<QQII", inode, number, len(name), 0) + name
        one += bytes(-len(one) % 8)
        if len(found) + len(one) > size:
            break
        found += one
    return found


def _attr(seen: os.stat_result) -> bytes:
    times = (seen.st_atime_ns, seen.st_mtime_ns, seen.st_ctime_ns)
    return _ATTR.pack(
        *(seen.st_ino, seen.st_size, seen.st_blocks),
        *(time // _NANOSECONDS for time in times),
        *(time % _NANOSECONDS for time in times),
        *(seen.st_mode, seen.st_nlink, seen.st_uid, seen.st_gid, seen.st_rdev, seen.st_blksize, 0),
    )
