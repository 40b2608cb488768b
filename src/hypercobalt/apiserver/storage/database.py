"""The SQLite file: one table of objects, one log of events, and the thread that writes them.

Every commit is on disk when it is reported (WAL with synchronous=FULL: fsynced). One thread owns
the connection and commits whatever has gathered while the last commit was under way (group commit).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import queue
import shutil
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from hypercobalt.apiserver.storage.objects import Event, Key, OutOfSpaceError, Stored, StoreError
from hypercobalt.errors import ConfigurationError

APPLICATION_ID = 0x636F626C  # "cobl" in the SQLite header: this file is ours
SCHEMA_VERSION = 1
FILE = "cobalt.db"
MAX_BATCH = 256

SCHEMA = """
CREATE TABLE objects (
  resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
  revision INTEGER NOT NULL, data BLOB NOT NULL,
  UNIQUE (resource, namespace, name)
);
CREATE TABLE events (
  revision INTEGER PRIMARY KEY, type TEXT NOT NULL,
  resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
  data BLOB NOT NULL, previous BLOB
);
CREATE TABLE horizon (compacted INTEGER NOT NULL);
INSERT INTO horizon VALUES (0);
"""

Outcome: TypeAlias = tuple[Event, StoreError | None]


class Database:
    """The file in one data directory, which it holds alone.

    Raises:
        ConfigurationError: another process holds the directory, or it cannot be written.
        StoreError: the file is not ours or is damaged; it is left as it is.
    """

    def __init__(self, directory: Path) -> None:
        self._lock_fd = _lock_directory(directory)
        self._path = directory / FILE
        self.horizon = 0  # events up to here are dropped with the next commit
        self._queue: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        try:
            self._db = _connect(self._path)
        except BaseException:
            os.close(self._lock_fd)
            raise

    def load(self) -> tuple[int, list[tuple[Key, Stored]], list[Event]]:
        """The compaction horizon, every object in the order of lists, every event by revision.

        Raises:
            StoreError: the file cannot be read; the directory is released.
        """
        try:
            try:
                return self._load()
            except sqlite3.Error as error:
                raise _translate(error, self._path) from error
        except BaseException:
            self._db.close()
            os.close(self._lock_fd)
            raise

    def _load(self) -> tuple[int, list[tuple[Key, Stored]], list[Event]]:
        found = self._db.execute("SELECT compacted FROM horizon").fetchone()
        if found is None:
            raise StoreError(_damaged(self._path, "its horizon is missing"))
        (compacted,) = found
        objects = [
            (Key(resource, namespace, name), Stored(revision, data))
            for resource, namespace, name, revision, data in self._db.execute(
                "SELECT resource, namespace, name, revision, data FROM objects"
                " ORDER BY resource, namespace || '/' || name"
            )
        ]
        # The newest event of an object has the object's bytes, and the next one's `previous`.
        shared = {stored.revision: stored.data for _, stored in objects}
        last: dict[Key, bytes] = {}
        events: list[Event] = []
        for row in self._db.execute("SELECT * FROM events ORDER BY revision"):
            revision, kind, resource, namespace, name, data, previous = row
            key = Key(resource, namespace, name)
            after = shared.get(revision) or bytes(data)
            before = None if kind == "ADDED" else last.get(key, previous)
            last[key] = after
            events.append(Event(revision, kind, key, after, before))
        self.horizon = compacted
        return compacted, objects, events

    def start(self, tell: Callable[[list[Outcome]], None]) -> None:
        """Begin to write; `tell` is called from the thread with what became of each event."""
        self._thread = threading.Thread(
            target=self._run, args=(tell,), name="store-writer", daemon=True
        )
        self._thread.start()

    def submit(self, event: Event) -> None:
        """Have an event written, behind those submitted before."""
        self._queue.put(event)

    def close(self) -> None:
        """Commit what was submitted, then release the directory. Blocks."""
        self._queue.put(None)
        self._thread.join()
        os.close(self._lock_fd)

    # -- the thread --------------------------------------------------------------------------

    def _run(self, tell: Callable[[list[Outcome]], None]) -> None:
        stopping = False
        while not stopping:
            batch: list[Event] = []
            event = self._queue.get()
            while event is not None:
                batch.append(event)
                if len(batch) == MAX_BATCH or self._queue.empty():
                    break
                event = self._queue.get()
            stopping = event is None
            if batch:
                tell(self._commit(batch))
        self._db.close()

    def _commit(self, batch: list[Event]) -> list[Outcome]:
        error = self._try_commit(batch)
        if error is None or len(batch) == 1:
            return [(event, error) for event in batch]
        return [(event, self._try_commit([event])) for event in batch]

    def _try_commit(self, batch: Sequence[Event]) -> StoreError | None:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for event in batch:
                self._write(event)
            horizon = self.horizon
            self._db.execute("DELETE FROM events WHERE revision <= ?", (horizon,))
            self._db.execute(
                "UPDATE horizon SET compacted = ? WHERE compacted < ?", (horizon, horizon)
            )
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            return _translate(error, self._path)
        return None

    def _write(self, event: Event) -> None:
        self._db.execute(
            "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)",
            (event.revision, event.type, *event.key, event.data, event.previous),
        )
        if event.type == "DELETED":
            self._db.execute(
                "DELETE FROM objects WHERE resource = ? AND namespace = ? AND name = ?", event.key
            )
        else:
            self._db.execute(
                "INSERT INTO objects VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE"
                " SET revision = excluded.revision, data = excluded.data",
                (*event.key, event.revision, event.data),
            )


def discard(directory: Path) -> bool:
    """Delete the data directory of a server that has ended, with all that is in it.

    Returns:
        Whether it was a server's; nothing of any other is touched.

    Raises:
        ConfigurationError: a server uses it, or it cannot be deleted.
    """
    if not (directory / FILE).is_file():
        return False
    lock_fd = _lock_directory(directory)
    try:
        shutil.rmtree(directory)
    except OSError as error:
        text = f"data directory {directory} cannot be deleted: {error.strerror}"
        raise ConfigurationError(text) from error
    finally:
        os.close(lock_fd)
    return True


def _lock_directory(directory: Path) -> int:
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock_fd = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigurationError(
            f"data directory {directory} cannot be used: {error.strerror}; name another with --data"
        ) from error
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        owner = os.read(lock_fd, 32).decode(errors="replace").strip() or "unknown"
        os.close(lock_fd)
        raise ConfigurationError(
            f"data directory {directory} is in use by process {owner}; "
            "stop it first, or name another directory with --data"
        ) from error
    os.ftruncate(lock_fd, 0)
    os.pwrite(lock_fd, f"{os.getpid()}\n".encode(), 0)
    return lock_fd


def _connect(path: Path) -> sqlite3.Connection:
    size = path.stat().st_size if path.exists() else 0
    log = path.with_name(f"{path.name}-wal")
    if not size and log.exists() and log.stat().st_size:  # SQLite would delete the log
        raise StoreError(_damaged(path, f"it is empty, but {log.name} is not"))
    try:
        path.touch(mode=0o600)
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            _prepare(db, path)
        except BaseException:
            db.close()
            raise
    except sqlite3.Error as error:
        raise _translate(error, path) from error
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
    elif version != SCHEMA_VERSION:
        raise StoreError(
            f"{path} was written by {'a newer' if version > SCHEMA_VERSION else 'an older'} cobalt "
            f"(format {version}, this one reads {SCHEMA_VERSION}); it was left as it is. Use that "
            "version, or another --data"
        )
    (verdict,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise StoreError(_damaged(path, verdict))
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA cache_size = -2000")  # KiB; everything is read from memory anyway


def _create(db: sqlite3.Connection) -> None:
    """Make the file ours, wholly or not at all."""
    db.execute("PRAGMA journal_mode = WAL")
    db.executescript(
        f"BEGIN; PRAGMA application_id = {APPLICATION_ID};"
        f"PRAGMA user_version = {SCHEMA_VERSION}; {SCHEMA} COMMIT;"
    )


def _damaged(path: Path, detail: str) -> str:
    detail = " ".join(detail.split())
    return (
        f"{path} is damaged ({detail}); it was left as it is. Copy it away and try "
        "`sqlite3 cobalt.db .recover`, restore a backup, or start anew with another --data"
    )


def _translate(error: sqlite3.Error, path: Path) -> StoreError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return OutOfSpaceError(
            f"no space left for {path}; nothing was changed. Free space on its file system, "
            "then send the request again"
        )
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StoreError(_damaged(path, str(error)))
    return StoreError(f"{path}: {error}; nothing was changed")
