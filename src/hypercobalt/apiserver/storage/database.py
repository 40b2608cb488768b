"""One table of objects, one log of events, and the thread that writes them.

Every commit is on disk when it is reported (WAL with synchronous=FULL: fsynced). One thread owns
the connection and commits whatever has gathered while the last commit was under way (group commit).

On a full disk, deletes and renewals of Leases go on in the space of a reserve, without history.
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

from hypercobalt.apiserver.storage import checksums
from hypercobalt.apiserver.storage.file import (
    FILE,
    connect,
    out_of_space,
    translate,
)
from hypercobalt.apiserver.storage.loading import load
from hypercobalt.apiserver.storage.objects import (
    Event,
    Key,
    Loaded,
    OutOfSpaceError,
    StoreError,
    WriterEndedError,
)
from hypercobalt.apiserver.storage.reserve import Reserve, is_essential
from hypercobalt.errors import ConfigurationError
from hypercobalt.logs import get_logger

log = get_logger(__name__)

MAX_BATCH = 256
CLOSE_SECONDS = 15.0  # for the last commit; a disk that hangs must not hang the server's end

WriteResult: TypeAlias = tuple[Event, StoreError | None]


class Database:
    """The file in one data directory, which it holds alone.

    Raises:
        ConfigurationError: another process holds the directory, or it cannot be written.
        StoreError: the file is not ours or is damaged; it is left as it is.
    """

    def __init__(self, directory: Path) -> None:
        self._lock_fd = lock_directory(directory)
        self._path = directory / FILE
        self.horizon = 0  # events up to here are dropped with the next commit
        self._queue: queue.SimpleQueue[Sequence[Event] | None] = queue.SimpleQueue()
        self._damaged_rows: dict[Key, int] = {}
        self.failure: WriterEndedError | None = None
        try:
            self.reserve = Reserve(directory)
            self._db = connect(self._path)
        except BaseException:
            os.close(self._lock_fd)
            raise

    def load(self) -> Loaded:
        """Contents of the file.

        Raises:
            StoreError: the file cannot be read; the directory is released.
        """
        try:
            try:
                loaded = load(self._db, self._path)
            except sqlite3.Error as error:
                raise translate(error, self._path) from error
        except BaseException:
            self._db.close()
            os.close(self._lock_fd)
            raise
        self.horizon, self._damaged_rows = loaded.compacted, dict(loaded.damaged)
        return loaded

    def start(self, report: Callable[[list[WriteResult]], None]) -> None:
        """Begin to write; `report` is called from the thread with the outcome of each event."""
        self._thread = threading.Thread(
            target=self._run, args=(report,), name="store-writer", daemon=True
        )
        self._thread.start()

    def submit(self, events: Sequence[Event]) -> None:
        """Have events written, behind those submitted before."""
        self._queue.put(events)

    def close(self) -> None:
        """Commit what was submitted, then release the directory. Blocks, but not for ever."""
        self._queue.put(None)
        self._thread.join(CLOSE_SECONDS)
        if self._thread.is_alive():
            log.error("last_writes_unknown", file=str(self._path), waited_seconds=CLOSE_SECONDS)
            return  # the directory stays locked until the process ends
        os.close(self._lock_fd)

    # -- the thread --------------------------------------------------------------------------

    def _run(self, report: Callable[[list[WriteResult]], None]) -> None:
        batch: list[Event] = []
        try:
            while self._gather(batch):
                report(self._commit(batch))
                batch = []
            if batch:
                report(self._commit(batch))
        except Exception as error:  # a bug: without this, every write would wait for ever
            log.exception("storage_writer_ended")
            self.failure = WriterEndedError(f"the storage writer ended ({error!r}); restart")
            while self._queue.qsize():
                batch.extend(self._queue.get() or ())
            report([(event, self.failure) for event in batch])
        finally:
            self._db.close()

    def _gather(self, batch: list[Event]) -> bool:
        """Wait for the next events, as many as are there; whether more will come."""
        events = self._queue.get()
        while events is not None:
            batch.extend(events)
            if len(batch) >= MAX_BATCH or self._queue.empty():
                return True
            events = self._queue.get()
        return False

    def _commit(self, batch: list[Event]) -> list[WriteResult]:
        if self.reserve.hold() or self._make_room():
            error = self._try_commit(batch)
            if error is None:
                return [(event, None) for event in batch]
        return [(event, self._commit_alone(event)) for event in batch]

    def _commit_alone(self, event: Event) -> StoreError | None:
        """Write one event; on a full disk, with the reserve's space if it must not wait."""
        error: StoreError | None = out_of_space(self._path)
        if self.reserve.held:
            error = self._try_commit([event])
        if isinstance(error, OutOfSpaceError) and is_essential(event):
            self.reserve.release()
            error = self._try_commit([event], history=False)
        return error

    def _make_room(self) -> bool:
        """Empty the write-ahead log; whether the reserve can be held then."""
        with contextlib.suppress(sqlite3.Error):
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return self.reserve.hold()

    def _try_commit(self, batch: Sequence[Event], *, history: bool = True) -> StoreError | None:
        horizon = self.horizon if history else batch[-1].revision
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for event in batch:
                if history:
                    self._write_event(event)
                self._write_object(event)
            if history:
                self._db.execute("DELETE FROM events WHERE revision <= ?", (horizon,))
            self._db.execute(
                "UPDATE horizon SET compacted = ? WHERE compacted < ?", (horizon, horizon)
            )
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            return translate(error, self._path)
        for event in batch:
            self._damaged_rows.pop(event.key, None)  # that row may become another object's
        return None

    def _write_event(self, event: Event) -> None:
        values = (event.revision, event.type, *event.key, event.data, event.previous)
        self._db.execute(
            "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (*values, checksums.of_event(event)),
        )

    def _write_object(self, event: Event) -> None:
        if event.type != "DELETED":
            checksum = checksums.of_object(event.key, event.revision, event.data)
            self._db.execute(
                "INSERT INTO objects VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE"
                " SET revision = excluded.revision, data = excluded.data,"
                " checksum = excluded.checksum",
                (*event.key, event.revision, event.data, checksum),
            )
        elif event.key in self._damaged_rows:  # its name in the file may not be text
            row = self._damaged_rows[event.key]
            self._db.execute("DELETE FROM objects WHERE rowid = ?", (row,))
        else:
            self._db.execute(
                "DELETE FROM objects WHERE resource = ? AND namespace = ? AND name = ?", event.key
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
    lock_fd = lock_directory(directory)
    try:
        shutil.rmtree(directory)
    except OSError as error:
        text = f"data directory {directory} cannot be deleted: {error.strerror}"
        raise ConfigurationError(text) from error
    finally:
        os.close(lock_fd)
    return True


def lock_directory(directory: Path) -> int:
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
