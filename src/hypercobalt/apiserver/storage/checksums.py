"""Checksums of what the file holds, so that bits that changed on disk are noticed.

SQLite checks the structure of its pages, not what is written into rows.
"""

from __future__ import annotations

from zlib import crc32

from hypercobalt.apiserver.storage.objects import Event, Key


def of_object(key: Key, revision: int, data: bytes) -> int:
    return crc32(data, crc32(f"{key.resource}\0{key.namespace}\0{key.name}\0{revision}".encode()))


def of_event(event: Event) -> int:
    head = crc32(event.type.encode(), of_object(event.key, event.revision, event.data))
    return head if event.previous is None else crc32(event.previous, head)
