"""Files in the directories of a host, by libvirt's storage pools.

A directory becomes a pool at its first use, unless it is one already. Such a pool lives
as long as the daemon and touches no file; with it libvirt itself makes the files of disks that
migrations copy.

Source: libvirt's formatstorage.html; virStoragePoolLookupByTargetPath.
"""

from __future__ import annotations

import errno
import hashlib
from typing import Final

from hypercobalt.adapters.libvirt.refusals import unless
from hypercobalt.adapters.libvirt.rpc import numbers, protocol
from hypercobalt.adapters.libvirt.rpc.client import Client
from hypercobalt.adapters.libvirt.rpc.errors import RemoteError
from hypercobalt.adapters.libvirt.rpc.numbers import ErrorCode
from hypercobalt.adapters.libvirt.rpc.protocol import PoolRef, VolumeRef

_NOT_THERE: Final = {ErrorCode.NO_STORAGE_POOL, ErrorCode.NO_STORAGE_VOL}


async def make_directory(client: Client, directory: str) -> None:
    """Make the directory where it is missing, and a pool of it."""
    await _pool(client, directory, numbers.WITH_BUILD)


async def mark(client: Client, directory: str, name: str) -> None:
    """Put an empty file into the directory."""
    document = (
        f"<volume><name>{_escaped(name)}</name><capacity>0</capacity>"
        "<target><format type='raw'/></target></volume>"
    )
    pool = await _pool(client, directory)
    await client.call(protocol.VOLUME_CREATE_XML, protocol.PoolDocument(pool, document))


async def read(client: Client, directory: str) -> PoolRef | None:
    """Have libvirt look at every file of a directory; None if there is no such directory.

    It opens each of them: a directory of a hundred disks takes seconds.
    """
    try:
        pool = await _pool(client, directory)
        await client.call(protocol.POOL_REFRESH, protocol.PoolFlags(pool))
    except RemoteError as exc:
        if exc.number not in {errno.ENOENT, errno.ENOTDIR}:
            raise  # storage that has failed is not known to lack the file
        return None
    return pool


async def find(client: Client, pool: PoolRef, name: str) -> VolumeRef | None:
    """A file of a directory, as it was read last; None if it has none of that name."""
    lookup = client.call(protocol.VOLUME_LOOKUP_BY_NAME, protocol.PoolName(pool, name))
    # A daemon that was restarted since has neither the pool nor its files.
    found = await unless({ErrorCode.NO_STORAGE_VOL}, lookup)
    return found and found.volume


async def delete_file(client: Client, directory: str, name: str) -> None:
    """Delete the file where it is there."""
    pool = await read(client, directory)
    if pool and (file := await find(client, pool, name)):
        await unless(_NOT_THERE, client.call(protocol.VOLUME_DELETE, protocol.VolumeFlags(file)))


async def _pool(client: Client, directory: str, flags: int = 0) -> PoolRef:
    lookup = client.call(protocol.POOL_LOOKUP_BY_TARGET_PATH, protocol.Text(directory))
    found = await unless(_NOT_THERE, lookup)
    if found is None:
        name = f"hypercobalt-{hashlib.sha256(directory.encode()).hexdigest()[:16]}"
        document = protocol.Document(
            f"<pool type='dir'><name>{name}</name>"
            f"<target><path>{_escaped(directory)}</path></target></pool>",
            flags,
        )
        return (await client.call(protocol.POOL_CREATE_XML, document)).pool
    if not (await client.call(protocol.POOL_IS_ACTIVE, found)).number:
        await client.call(protocol.POOL_CREATE, protocol.PoolFlags(found.pool, flags))
    return found.pool


def _escaped(text: str) -> str:
    """The text of an element. xml.sax.saxutils would load an HTTP client: 2 MiB in a launcher."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
