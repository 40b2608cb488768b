"""Files in the directories of a host, by libvirt's storage pools. Functions that block.

A directory becomes a pool when it is first asked for, unless it is one already. Such a pool lives
as long as the daemon and touches no file; with it libvirt itself makes the files of disks that
migrations copy.

Source: libvirt's formatstorage.html; virStoragePoolLookupByTargetPath.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final, TypeVar
from xml.sax.saxutils import escape

import libvirt

_Found = TypeVar("_Found")

_NOT_THERE: Final = {libvirt.VIR_ERR_NO_STORAGE_POOL, libvirt.VIR_ERR_NO_STORAGE_VOL}


def make_directory(connection: libvirt.virConnect, directory: str) -> None:
    """Make the directory where it is missing, and a pool of it."""
    _pool(connection, directory, libvirt.VIR_STORAGE_POOL_CREATE_WITH_BUILD)


def mark(connection: libvirt.virConnect, directory: str, name: str) -> None:
    """Put an empty file into the directory."""
    document = (
        f"<volume><name>{escape(name)}</name><capacity>0</capacity>"
        "<target><format type='raw'/></target></volume>"
    )
    _pool(connection, directory).createXML(document)


def has_file(connection: libvirt.virConnect, directory: str, name: str) -> bool:
    """Whether the directory has the file; not, if there is no such directory."""
    return _file(connection, directory, name) is not None


def delete_file(connection: libvirt.virConnect, directory: str, name: str) -> None:
    """Delete the file where it is there."""
    if file := _file(connection, directory, name):
        _or_none(file.delete)


def _file(
    connection: libvirt.virConnect, directory: str, name: str
) -> libvirt.virStorageVol | None:
    try:
        pool = _pool(connection, directory)
        pool.refresh()
    except libvirt.libvirtError as exc:
        if not connection.isAlive() or exc.get_error_code() != libvirt.VIR_ERR_SYSTEM_ERROR:
            raise
        return None  # the directory cannot be opened: it is not there
    return _or_none(lambda: pool.storageVolLookupByName(name))


def _pool(connection: libvirt.virConnect, directory: str, flags: int = 0) -> libvirt.virStoragePool:
    found = _or_none(lambda: connection.storagePoolLookupByTargetPath(directory))
    if found is None:
        name = f"hypercobalt-{hashlib.sha256(directory.encode()).hexdigest()[:16]}"
        document = (
            f"<pool type='dir'><name>{name}</name>"
            f"<target><path>{escape(directory)}</path></target></pool>"
        )
        return connection.storagePoolCreateXML(document, flags)
    if not found.isActive():
        found.create(flags)
    return found


def _or_none(call: Callable[[], _Found]) -> _Found | None:
    try:
        return call()
    except libvirt.libvirtError as exc:
        if exc.get_error_code() not in _NOT_THERE:
            raise
        return None
