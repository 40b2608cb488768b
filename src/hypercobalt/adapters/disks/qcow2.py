"""The header of a qcow2 file, read before any program opens the file.

A header can name other files, which QEMU and qemu-img open as it is read: a backing file, and one
that holds the data. Whoever brings an image could so read a file of the host, or write to it. A
header can also claim tables beyond its end, and any size. Pure.

Source: QEMU, docs/interop/qcow2.txt.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from hypercobalt.adapters.disks.port import LARGEST

MAGIC: Final = b"QFI\xfb"
HEADER_BYTES: Final = 104
"""Length of the part that is read; a header of version 3 has at least so many."""

_SIMPLE, _EXTENSIBLE = 2, 3  # versions
_HEAD_2: Final = struct.Struct(">4sIQIIQIIQQIIQ")
_INCOMPATIBLE: Final = struct.Struct(">Q")
_DIRTY, _CORRUPT, _DATA_FILE, _COMPRESSION, _EXTENDED_L2 = (1 << bit for bit in range(5))
_READABLE: Final = _DIRTY | _COMPRESSION | _EXTENDED_L2
_CLUSTER_BITS: Final = range(9, 22)
_ENTRY_BYTES: Final = 8


class _Header(NamedTuple):
    magic: bytes
    version: int
    backing_offset: int
    backing_length: int
    cluster_bits: int
    size: int
    encryption: int
    l1_entries: int
    l1_offset: int
    refcount_offset: int
    refcount_clusters: int
    snapshots: int
    snapshots_offset: int


def is_qcow2(head: bytes) -> bool:
    """Whether a file with this beginning is read as qcow2."""
    return head.startswith(MAGIC)


def problem(head: bytes, length: int) -> str | None:
    """What forbids an image, in words for a person; None if nothing in its header does.

    Args:
        head: its first `HEADER_BYTES`, or all of it.
        length: of the file, bytes.
    """
    if len(head) < _HEAD_2.size:
        return f"truncated within its header: {length} bytes"
    header = _Header(*_HEAD_2.unpack_from(head))
    if header.version not in (_SIMPLE, _EXTENSIBLE):
        return f"qcow2 of version {header.version}, which is neither 2 nor 3"
    if header.version == _EXTENSIBLE and len(head) < HEADER_BYTES:
        return f"truncated within its header: {length} bytes"
    return _other_file(header) or _feature(header, head) or _layout(header, length)


def _other_file(header: _Header) -> str | None:
    if header.backing_offset or header.backing_length:
        return "it has a backing file; flatten it with `qemu-img convert`"
    if header.encryption:
        return "it is encrypted"
    return None


def _feature(header: _Header, head: bytes) -> str | None:
    if header.version == _SIMPLE:
        return None
    (features,) = _INCOMPATIBLE.unpack_from(head, _HEAD_2.size)
    if features & _DATA_FILE:
        return "it has an external data file; convert it with `qemu-img convert`"
    if features & _CORRUPT:
        return "it is marked as corrupt"
    if unknown := features & ~_READABLE:
        return f"it has unknown features {unknown:#x}"
    return None


def _layout(header: _Header, length: int) -> str | None:
    if header.cluster_bits not in _CLUSTER_BITS:
        return f"its clusters have 2^{header.cluster_bits} bytes"
    if not 0 < header.size <= LARGEST:
        return f"its virtual size is {header.size} bytes; at most {LARGEST} are possible"
    cluster = 1 << header.cluster_bits
    tables = (
        (header.l1_offset, header.l1_entries * _ENTRY_BYTES),
        (header.refcount_offset, header.refcount_clusters * cluster),
    )
    if any(not offset or offset + size > length for offset, size in tables):
        return f"truncated: its tables end after its {length} bytes"
    # Each entry of the first table stands for a cluster of entries, each of these for one of data.
    covered = header.l1_entries * (cluster // _ENTRY_BYTES) * cluster
    return None if covered >= header.size else "its tables do not cover its virtual size"
