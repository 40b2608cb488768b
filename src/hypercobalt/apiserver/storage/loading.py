"""Read what a database holds, and find what is not as it was written."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from hypercobalt.apiserver.storage import checksums
from hypercobalt.apiserver.storage.file import EVENT, damaged
from hypercobalt.apiserver.storage.objects import Event, Key, Loaded, Stored, StoreError
from hypercobalt.logs import get_logger

log = get_logger(__name__)

_EVENTS = f"SELECT {EVENT}, checksum FROM events ORDER BY revision"  # noqa: S608  # a constant


def load(db: sqlite3.Connection, path: Path) -> Loaded:
    """Everything in a database that is open.

    Raises:
        StoreError: it lacks something.
        sqlite3.Error: it cannot be read.
    """
    horizon = db.execute("SELECT compacted FROM horizon").fetchone()
    if horizon is None:
        raise StoreError(damaged(path, "its horizon is missing"))
    (compacted,) = horizon
    objects, rows = _objects(db)
    events, sound = _events(db, {stored.revision: stored.data for _, stored in objects})
    newest = max((stored.revision for _, stored in objects), default=1)
    revision = max(compacted, newest, *(event.revision for event in events[-1:]))
    if rows or not sound:
        log.error("database_damaged", file=str(path), objects=len(rows), history=not sound)
        # A client that holds an object that is not served now must list again.
        revision += 1
        compacted, events = revision, []
    return Loaded(compacted, revision, objects, events, rows)


def _objects(db: sqlite3.Connection) -> tuple[list[tuple[Key, Stored]], dict[Key, int]]:
    """The objects in the order of lists, and the rows of those that are damaged."""
    objects: list[tuple[Key, Stored]] = []
    rows: dict[Key, int] = {}
    for row, resource, namespace, name, revision, data, checksum in db.execute(
        "SELECT rowid, resource, namespace, name, revision, data, checksum FROM objects"
        " ORDER BY resource, namespace || '/' || name"
    ):
        key = Key(resource, namespace, name)
        if isinstance(data, bytes) and checksum == checksums.of_object(key, revision, data):
            objects.append((key, Stored(revision, data)))
        else:
            rows[key] = row
            log.error("object_damaged", resource=resource, namespace=namespace, name=name)
    return objects, rows


def _events(db: sqlite3.Connection, shared: dict[int, bytes]) -> tuple[list[Event], bool]:
    """The events by revision, and whether all of them are as they were written.

    The newest event of an object has the object's bytes, and the next one's `previous`.
    """
    last: dict[Key, bytes] = {}
    events: list[Event] = []
    sound = True
    for revision, kind, resource, namespace, name, data, previous, checksum in db.execute(_EVENTS):
        key = Key(resource, namespace, name)
        written = Event(revision, kind, key, data, previous)
        sound = sound and checksum == checksums.of_event(written)
        after = shared.get(revision) or data
        before = None if kind == "ADDED" else last.get(key, previous)
        last[key] = after
        events.append(Event(revision, kind, key, after, before))
    return events, sound
