"""A directory of the machine behind the FUSE protocol: each request is done on the file itself.

A node is an open descriptor, so that a file that is renamed or removed stays what it was. Nothing
is flushed to the machine's disk: a power cut of a host leaves the machine's cache alone.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hypercobalt.lab.storage import fuse
from hypercobalt.lab.storage.fuse import ROOT, FuseRequest, Op

DISKS: Final = b"vms"
"""The directory whose files are disks; beside it lie the logs of consoles."""
_MODE, _UID, _GID, _SIZE, _ATIME, _MTIME, _ATIME_NOW, _MTIME_NOW = 1, 2, 4, 8, 16, 32, 128, 256
_SETATTR = struct.Struct("<2I6Q8I")
# The kernel gives the place of each write, and some file systems cannot do without their cache.
_NOT_OPENED_WITH = os.O_APPEND | os.O_DIRECT | os.O_NOFOLLOW | os.O_CREAT | os.O_EXCL


@dataclass(slots=True)
class _Node:
    descriptor: int
    key: tuple[int, int]
    is_disk: bool
    lookups: int = 0

    @property
    def path(self) -> Path:
        return Path(f"/proc/self/fd/{self.descriptor}")


class Files:
    """Files of one directory.

    Args:
        folder: of the machine.
    """

    def __init__(self, folder: Path) -> None:
        root = _Node(os.open(folder, os.O_PATH), (0, 0), is_disk=False)
        self._nodes = {ROOT: root}
        self._known: dict[tuple[int, int], int] = {}
        self._listings: dict[int, list[tuple[bytes, int]]] = {}
        self._next = ROOT + 1
        self._does: Mapping[int, Callable[[FuseRequest], bytes]] = {
            Op.INIT: lambda request: fuse.init(request.body),
            Op.LOOKUP: lambda request: self._enter(request.node, request.names()[0]),
            Op.FORGET: self._forget,
            Op.BATCH_FORGET: self._forget_many,
            Op.GETATTR: lambda request: fuse.attributes(os.fstat(self._node(request).descriptor)),
            Op.SETATTR: self._set_attributes,
            Op.MKDIR: self._make_directory,
            Op.UNLINK: self._unlink,
            Op.RMDIR: self._remove_directory,
            Op.RENAME: lambda request: self._rename(request, 8),
            Op.RENAME2: self._rename_with_flags,
            Op.OPEN: self._open,
            Op.CREATE: self._create,
            Op.READ: self._read,
            Op.WRITE: self._write,
            Op.LSEEK: self._seek,
            Op.FALLOCATE: self._allocate,
            Op.STATFS: lambda request: fuse.statistics(os.statvfs(self._node(request).path)),
            Op.RELEASE: self._close,
            Op.FSYNC: _nothing,
            Op.FSYNCDIR: _nothing,
            Op.FLUSH: _nothing,
            Op.OPENDIR: self._open_directory,
            Op.READDIR: self._read_directory,
            Op.RELEASEDIR: self._close_directory,
        }

    def do(self, request: FuseRequest) -> bytes:
        """Serve a request, and return the body of its answer.

        Raises:
            OSError: the kernel refuses, or the request is not served (ENOSYS).
        """
        act = self._does.get(request.op)
        if act is None:
            raise _error(errno.ENOSYS)
        return act(request)

    def is_disk(self, request: FuseRequest) -> bool:
        """Whether a request is about a disk or the directory of disks."""
        node = self._nodes.get(request.node)
        return node is not None and node.is_disk

    def needs_space(self, request: FuseRequest) -> bool:
        """Whether a request takes space of the pool that its file does not have yet."""
        if request.op in {Op.CREATE, Op.FALLOCATE, Op.MKDIR}:
            return True
        if request.op != Op.WRITE:
            return False
        handle, offset, size = struct.unpack_from("<QQI", request.body)
        try:
            hole = os.lseek(handle, offset, os.SEEK_HOLE)
        except OSError:  # it begins behind the end
            return True
        return hole < int(offset) + int(size)

    # -- nodes ---------------------------------------------------------------------------------

    def _node(self, request: FuseRequest) -> _Node:
        return self._by_number(request.node)

    def _by_number(self, number: int) -> _Node:
        try:
            return self._nodes[number]
        except KeyError:
            raise _error(errno.ESTALE) from None

    def _enter(self, parent: int, name: bytes) -> bytes:
        folder = self._by_number(parent)
        descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=folder.descriptor)
        seen = os.fstat(descriptor)
        key = (seen.st_dev, seen.st_ino)
        number = self._known.get(key)
        if number is None:
            number, self._next = self._next, self._next + 1
            is_disk = folder.is_disk or (parent == ROOT and name == DISKS)
            self._nodes[number] = _Node(descriptor, key, is_disk)
            self._known[key] = number
        else:
            os.close(descriptor)
        self._nodes[number].lookups += 1
        return fuse.entry(number, seen)

    def _drop(self, number: int, lookups: int) -> None:
        node = self._nodes.get(number)
        if node is None or number == ROOT:
            return
        node.lookups -= lookups
        if node.lookups <= 0:
            del self._nodes[number], self._known[node.key]
            os.close(node.descriptor)

    def _forget(self, request: FuseRequest) -> bytes:
        self._drop(request.node, *struct.unpack_from("<Q", request.body))
        return b""

    def _forget_many(self, request: FuseRequest) -> bytes:
        for number, lookups in struct.iter_unpack("<QQ", request.body[8:]):
            self._drop(number, lookups)
        return b""

    # -- names ---------------------------------------------------------------------------------

    def _make_directory(self, request: FuseRequest) -> bytes:
        (mode,) = struct.unpack_from("<I", request.body)
        (name,) = request.names(8)
        folder = self._node(request).descriptor
        os.mkdir(name, mode, dir_fd=folder)
        os.chown(name, request.uid, request.gid, dir_fd=folder)
        return self._enter(request.node, name)

    def _unlink(self, request: FuseRequest) -> bytes:
        os.unlink(request.names()[0], dir_fd=self._node(request).descriptor)
        return b""

    def _remove_directory(self, request: FuseRequest) -> bytes:
        os.rmdir(request.names()[0], dir_fd=self._node(request).descriptor)
        return b""

    def _rename_with_flags(self, request: FuseRequest) -> bytes:
        (flags,) = struct.unpack_from("<8xI", request.body)
        if flags:
            raise _error(errno.EINVAL)  # as where the file system lacks them
        return self._rename(request, 16)

    def _rename(self, request: FuseRequest, names: int) -> bytes:
        (target,) = struct.unpack_from("<Q", request.body)
        old, new = request.names(names)
        os.replace(
            old,
            new,
            src_dir_fd=self._node(request).descriptor,
            dst_dir_fd=self._by_number(target).descriptor,
        )
        return b""

    def _open_directory(self, request: FuseRequest) -> bytes:
        descriptor = os.open(self._node(request).path, os.O_RDONLY | os.O_DIRECTORY)
        with os.scandir(descriptor) as entries:
            self._listings[descriptor] = [(os.fsencode(one.name), one.inode()) for one in entries]
        return fuse.opened(descriptor)

    def _read_directory(self, request: FuseRequest) -> bytes:
        handle, start, size = struct.unpack_from("<QQI", request.body)
        return fuse.listing(self._listings[handle], start, size)

    def _close_directory(self, request: FuseRequest) -> bytes:
        (handle,) = struct.unpack_from("<Q", request.body)
        del self._listings[handle]
        os.close(handle)
        return b""

    # -- content -------------------------------------------------------------------------------

    def _set_attributes(self, request: FuseRequest) -> bytes:
        node = self._node(request)
        valid, _, _, size, _, *times, mode, _, uid, gid, _ = _SETATTR.unpack_from(request.body)
        atime, mtime, _, atime_ns, mtime_ns, _ = times
        if valid & _MODE:
            node.path.chmod(mode & 0o7777)
        if valid & (_UID | _GID):
            os.chown(node.path, uid if valid & _UID else -1, gid if valid & _GID else -1)
        if valid & _SIZE:
            os.truncate(node.path, size)
        if valid & (_ATIME_NOW | _MTIME_NOW):
            os.utime(node.path)
        elif valid & (_ATIME | _MTIME):
            seen = os.fstat(node.descriptor)
            access = atime * 10**9 + atime_ns if valid & _ATIME else seen.st_atime_ns
            change = mtime * 10**9 + mtime_ns if valid & _MTIME else seen.st_mtime_ns
            os.utime(node.path, ns=(access, change))
        return fuse.attributes(os.fstat(node.descriptor))

    def _open(self, request: FuseRequest) -> bytes:
        (flags,) = struct.unpack_from("<I", request.body)
        return fuse.opened(os.open(self._node(request).path, flags & ~_NOT_OPENED_WITH))

    def _create(self, request: FuseRequest) -> bytes:
        flags, mode = struct.unpack_from("<II", request.body)
        (name,) = request.names(16)
        kept = flags & ~_NOT_OPENED_WITH | flags & os.O_EXCL | os.O_CREAT | os.O_NOFOLLOW
        handle = os.open(name, kept, mode, dir_fd=self._node(request).descriptor)
        os.chown(handle, request.uid, request.gid)
        return self._enter(request.node, name) + fuse.opened(handle)

    def _read(self, request: FuseRequest) -> bytes:
        handle, offset, size = struct.unpack_from("<QQI", request.body)
        return os.pread(handle, size, offset)

    def _write(self, request: FuseRequest) -> bytes:
        handle, offset, size = struct.unpack_from("<QQI", request.body)
        written = os.pwrite(handle, memoryview(request.body)[40 : 40 + size], offset)
        return struct.pack("<II", written, 0)

    def _seek(self, request: FuseRequest) -> bytes:
        handle, offset, whence = struct.unpack_from("<QQI", request.body)
        return struct.pack("<Q", os.lseek(handle, offset, whence))

    def _allocate(self, request: FuseRequest) -> bytes:
        handle, offset, length, mode = struct.unpack_from("<QQQI", request.body)
        if mode:
            raise _error(errno.EOPNOTSUPP)
        os.posix_fallocate(handle, offset, length)
        return b""

    def _close(self, request: FuseRequest) -> bytes:
        (handle,) = struct.unpack_from("<Q", request.body)
        os.close(handle)
        return b""


def _nothing(_request: FuseRequest) -> bytes:
    return b""


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
