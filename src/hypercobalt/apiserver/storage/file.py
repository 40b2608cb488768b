"""The SQLite file: its tables, how it is opened and checked, and how its errors read.

A file that is foreign or whose pages are damaged is refused, and left as it is.
"""

from __future__ import annotations

import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

from hypercobalt.apiserver.storage import checksums
from hypercobalt.apiserver.storage.objects import Event, Key, OutOfSpaceError, StoreError
from hypercobalt.logs import get_logger

log = get_logger(__name__)

APPLICATION_ID = 0x636F626C  # "cobl" in the SQLite header: this file is ours
SCHEMA_VERSION = 2
FILE = "cobalt.db"
EVENT = "revision, type, resource, namespace, name, data, previous"  # columns

SCHEMA = """
CREATE TABLE objects (
  resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
  revision INTEGER NOT NULL, data BLOB NOT NULL, checksum INTEGER,
  UNIQUE (resource, namespace, name)
);
CREATE TABLE events (
  revision INTEGER PRIMARY KEY, type TEXT NOT NULL,
  resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
  data BLOB NOT NULL, previous BLOB, checksum INTEGER
);
CREATE TABLE horizon (compacted INTEGER NOT NULL);
INSERT INTO horizon VALUES (0);
"""


def connect(path: Path) -> sqlite3.Connection:
    size = path.stat().st_size if path.exists() else 0
    wal = path.with_name(f"{path.name}-wal")
    if not size and wal.exists() and wal.stat().st_size:  # SQLite would delete it
        raise StoreError(damaged(path, f"it is empty, but {wal.name} is not"))
    try:
        path.touch(mode=0o600)
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        db.text_factory = partial(str, encoding="utf-8", errors="replace")  # if bits changed
        try:
            _prepare(db, path)
        except BaseException:
            db.close()
            raise
    except sqlite3.Error as error:
        raise translate(error, path) from error
    return db


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    owner, version, tables = (
        db.execute(text).fetchone()[0]
        for text in (
            "PRAGMA application_id",
            "PRAGMA user_version",
            "SELECT count(*) FROM sqlite_schema",
        )
    )
    if not tables and owner in (0, APPLICATION_ID) and version in (0, SCHEMA_VERSION):
        _create(db)  # nothing is in it: it is new, or its first start was cut short
    elif owner != APPLICATION_ID:
        raise StoreError(
            f"{path} is not a database of this server (application id {owner:#x}); it was left as "
            "it is. Name another directory with --data"
        )
    elif version not in (1, SCHEMA_VERSION):
        raise StoreError(
            f"{path} was written by {'a newer' if version > SCHEMA_VERSION else 'an older'} cobalt "
            f"(format {version}, this one reads {SCHEMA_VERSION}); it was left as it is. Use that "
            "version, or another --data"
        )
    _check_structure(db, path)
    if version == 1:
        _add_checksums(db)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA secure_delete = FAST")  # or each delete writes all the pages that it frees
    db.execute("PRAGMA cache_size = -2000")  # KiB; everything is read from memory anyway


def _check_structure(db: sqlite3.Connection, path: Path) -> None:
    """Refuse a file whose pages are damaged; an index can be made again."""
    (verdict,) = db.execute("PRAGMA integrity_check(1)").fetchone()
    if verdict == "ok":
        return
    (verdict,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise StoreError(damaged(path, verdict))
    log.error("index_damaged", file=str(path))
    db.execute("REINDEX")


def _add_checksums(db: sqlite3.Connection) -> None:
    """Bring a file of format 1 to this one; what it holds counts as sound."""
    db.create_function("of_object", 5, lambda *row: checksums.of_object(Key(*row[:3]), *row[3:]))
    db.create_function("of_event", 7, _checksum_of_event)
    db.executescript(
        "BEGIN; ALTER TABLE objects ADD COLUMN checksum INTEGER;"  # noqa: S608  # constants
        "ALTER TABLE events ADD COLUMN checksum INTEGER;"
        "UPDATE objects SET checksum = of_object(resource, namespace, name, revision, data);"
        f"UPDATE events SET checksum = of_event({EVENT});"
        f"PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
    )


def _checksum_of_event(*row: Any) -> int:  # noqa: ANN401  # of the columns' types
    revision, kind, resource, namespace, name, data, previous = row
    return checksums.of_event(Event(revision, kind, Key(resource, namespace, name), data, previous))


def _create(db: sqlite3.Connection) -> None:
    """Make the file ours, wholly or not at all."""
    db.execute("PRAGMA journal_mode = WAL")
    db.executescript(
        f"BEGIN; PRAGMA application_id = {APPLICATION_ID};"
        f"PRAGMA user_version = {SCHEMA_VERSION}; {SCHEMA} COMMIT;"
    )


def damaged(path: Path, detail: str) -> str:
    detail = " ".join(detail.split())
    return (
        f"{path} is damaged ({detail}); it was left as it is. Copy it away and try "
        "`sqlite3 cobalt.db .recover`, restore a backup, or start with another --data"
    )


def translate(error: sqlite3.Error, path: Path) -> StoreError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return out_of_space(path)
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StoreError(damaged(path, str(error)))
    return StoreError(f"{path}: {error}; nothing was changed")


def out_of_space(path: Path) -> OutOfSpaceError:
    return OutOfSpaceError(
        f"no space left for {path}; nothing was changed. Free space on its file system, then send "
        "the request again; deletes and renewals of Leases go on"
    )
