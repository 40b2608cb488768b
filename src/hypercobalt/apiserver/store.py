"""The objects and the log of what happened to them: in memory to be read, in SQLite to survive.

Invariants:
- A write is published (visible to reads and watches) only after its transaction is on disk
  (WAL with synchronous=FULL: the commit is fsynced), and in the order of its revision.
- Revisions grow by every write of any object, as etcd's do; a failed write leaves a gap.
- Every event keeps the object before it, so the state at any revision newer than the compaction
  horizon can be told: today's objects, with later events taken back.

All methods run on the event loop; one writer thread owns the SQLite connection and commits
whatever has gathered while the last commit was under way (group commit).

Source: etcd's MVCC model as the Kubernetes API exposes it (resourceVersion, watch, compaction).
"""

from __future__ import annotations

import asyncio
import bisect
import contextlib
import fcntl
import os
import queue
import sqlite3
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from hypercobalt.errors import ConfigurationError, HypercobaltError
from hypercobalt.logs import get_logger

log = get_logger(__name__)

APPLICATION_ID = 0x636F626C  # "cobl" in the SQLite header: this file is ours
SCHEMA_VERSION = 1
# How much history a watch can resume from. Memory: events share their bytes with the objects.
KEEP_EVENTS = 10_000
KEEP_BYTES = 8 * 2**20
MAX_BATCH = 256

Place = tuple[str, str]  # namespace, name
EventType = Literal["ADDED", "MODIFIED", "DELETED"]

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


class StoreError(HypercobaltError):
    """The data directory cannot be used, or a write could not be made durable."""


class OutOfSpaceError(StoreError):
    """The disk is full: the write was not taken; everything stored before is still there."""


class CompactedError(StoreError):
    """The revision asked for is older than the history that is kept."""


class Key(NamedTuple):
    resource: str  # plural.group, or the bare plural for the core group
    namespace: str  # "" for cluster-scoped objects
    name: str


class Stored(NamedTuple):
    revision: int
    data: bytes  # the object as JSON, with its resourceVersion in it


@dataclass(frozen=True, slots=True)
class Event:
    revision: int
    type: EventType
    key: Key
    data: bytes  # after the write; for DELETED the last state, at the deletion's revision
    previous: bytes | None  # before the write; None for ADDED


def by_key(place: Place) -> str:
    """The order of objects in lists: that of etcd's keys."""
    return f"{place[0]}/{place[1]}"


@dataclass(slots=True)
class _Collection:
    objects: dict[Place, Stored] = field(default_factory=dict[Place, Stored])
    order: list[Place] = field(default_factory=list[Place])  # sorted


@dataclass(slots=True)
class _Lock:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


_Pending = tuple[Event, "asyncio.Future[None]"]


class Store:
    """Open with `await Store.open(directory)`, end with `await close()`."""

    def __init__(self, path: Path, lock_fd: int, connection: sqlite3.Connection) -> None:
        self._path, self._lock_fd, self._db = path, lock_fd, connection
        self._collections: dict[str, _Collection] = {}
        self._events: deque[Event] = deque()
        self._event_bytes = 0
        self._compacted = self._revision = 0
        self._next = 1
        self._locks: dict[Key, _Lock] = {}
        self._listeners: list[Callable[[Event], None]] = []
        self._queue: queue.SimpleQueue[_Pending | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._load()
        self._writer = threading.Thread(target=self._write_loop, name="store-writer", daemon=True)
        self._writer.start()

    @classmethod
    async def open(cls, directory: Path) -> Store:
        """Open or create the store in `directory`.

        Raises:
            ConfigurationError: another process holds the directory, or it cannot be written.
            StoreError: the file is not ours or is damaged; it is left as it is.
        """
        lock_fd = _lock_directory(directory)
        path = directory / "cobalt.db"
        try:
            connection = _connect(path)
        except BaseException:
            os.close(lock_fd)
            raise
        return cls(path, lock_fd, connection)

    async def close(self) -> None:
        """Commit what was submitted, then release the directory."""
        self._queue.put(None)
        await asyncio.to_thread(self._writer.join)
        os.close(self._lock_fd)

    # -- reading ---------------------------------------------------------------------------

    @property
    def revision(self) -> int:
        """The newest published revision."""
        return self._revision

    @property
    def compacted(self) -> int:
        """The oldest revision whose state can still be told."""
        return self._compacted

    def get(self, key: Key) -> Stored | None:
        collection = self._collections.get(key.resource)
        return collection.objects.get((key.namespace, key.name)) if collection else None

    def resources(self) -> tuple[str, ...]:
        return tuple(r for r, c in self._collections.items() if c.objects)

    def count(self, resource: str) -> int:
        collection = self._collections.get(resource)
        return len(collection.objects) if collection else 0

    def scan(
        self, resource: str, namespace: str | None = None, *, after: tuple[str, str] | None = None
    ) -> Iterator[tuple[Key, Stored]]:
        """Today's objects by (namespace, name), from just behind `after`."""
        collection = self._collections.get(resource)
        if collection is None:
            return
        order = collection.order
        start = 0
        if after is not None:
            start = bisect.bisect_right(order, by_key(after), key=by_key)
        elif namespace is not None:
            start = bisect.bisect_left(order, f"{namespace}/", key=by_key)
        for index in range(start, len(order)):
            space, name = order[index]
            if namespace is not None and space != namespace:
                break
            yield Key(resource, space, name), collection.objects[order[index]]

    def scan_at(
        self,
        revision: int,
        resource: str,
        namespace: str | None = None,
        *,
        after: tuple[str, str] | None = None,
    ) -> Iterator[tuple[Key, Stored]]:
        """The objects as they were at `revision`, by (namespace, name).

        Raises:
            CompactedError: `revision` is older than the history kept.
        """
        if revision >= self._revision:
            yield from self.scan(resource, namespace, after=after)
            return
        undone: dict[tuple[str, str], bytes | None] = {}
        for event in self.events_after(revision):
            if event.key.resource == resource:
                undone.setdefault((event.key.namespace, event.key.name), event.previous)
        collection = self._collections.get(resource, _Collection())
        names = collection.order
        if undone:
            names = sorted(set(names) | undone.keys(), key=by_key)
        for place in names:
            if namespace is not None and place[0] != namespace:
                continue
            if after is not None and by_key(place) <= by_key(after):
                continue
            if place in undone:
                data = undone[place]
                if data is not None:
                    yield Key(resource, *place), Stored(revision, data)
            else:
                yield Key(resource, *place), collection.objects[place]

    def events_after(self, revision: int) -> Iterator[Event]:
        """Every published event newer than `revision`, oldest first.

        Raises:
            CompactedError: some of them are no longer kept.
        """
        if revision < self._compacted:
            raise CompactedError(
                f"revision {revision} is older than {self._compacted}, the oldest one kept"
            )
        newer: list[Event] = []
        for event in reversed(self._events):
            if event.revision <= revision:
                break
            newer.append(event)
        return reversed(newer)

    def listen(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call `listener` with each event as it is published; returns how to stop that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    # -- writing ---------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def locked(self, key: Key) -> AsyncGenerator[Stored | None]:
        """Hold `key` alone, from reading it to the end of its write; gives its current state."""
        holder = self._locks.setdefault(key, _Lock())
        holder.users += 1
        try:
            async with holder.lock:
                yield self.get(key)
        finally:
            holder.users -= 1
            if not holder.users:
                del self._locks[key]

    @property
    def in_flight(self) -> Collection[Key]:
        """The objects whose write has begun and is not published yet."""
        return self._locks.keys()

    async def write(
        self, kind: EventType, key: Key, encode: Callable[[int], bytes], previous: bytes | None
    ) -> Stored:
        """Make one write durable and publish it. Call it inside `locked(key)`.

        Args:
            kind: what the write is.
            key: the object.
            encode: gives the object's JSON for the revision this write gets.
            previous: the JSON before the write; None for ADDED.

        Raises:
            OutOfSpaceError: the disk is full; nothing changed.
            StoreError: SQLite refused for another reason; nothing changed.
        """
        revision, self._next = self._next, self._next + 1
        event = Event(revision, kind, key, encode(revision), previous)
        done: asyncio.Future[None] = self._loop.create_future()
        self._queue.put((event, done))
        # A caller that goes away must not release the key before its write is decided.
        while not done.done():
            try:
                await asyncio.shield(done)
            except asyncio.CancelledError:
                if not done.done():
                    await asyncio.wait({done})
                raise
        done.result()
        return Stored(revision, event.data)

    def _publish(self, batch: list[tuple[_Pending, Exception | None]]) -> None:
        for (event, done), error in batch:
            if error is None:
                self._remember(event)
                self._tell(event)
            if not done.cancelled():
                if error is None:
                    done.set_result(None)
                else:
                    done.set_exception(error)
        self._trim()

    def _tell(self, event: Event) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:  # the write is done; its caller and the others must hear so
                log.exception("listener_failed", revision=event.revision)

    def _remember(self, event: Event) -> None:
        self._revision = event.revision
        self._events.append(event)
        self._event_bytes += len(event.data)
        collection = self._collections.setdefault(event.key.resource, _Collection())
        place = (event.key.namespace, event.key.name)
        if event.type == "DELETED":
            del collection.objects[place]
            del collection.order[bisect.bisect_left(collection.order, by_key(place), key=by_key)]
            return
        if place not in collection.objects:
            bisect.insort(collection.order, place, key=by_key)
        collection.objects[place] = Stored(event.revision, event.data)

    def _trim(self) -> None:
        while len(self._events) > KEEP_EVENTS or self._event_bytes > KEEP_BYTES:
            event = self._events.popleft()
            self._event_bytes -= len(event.data)
            self._compacted = event.revision

    # -- the writer thread -----------------------------------------------------------------

    def _write_loop(self) -> None:
        stopping = False
        while not stopping:
            batch: list[_Pending] = []
            item = self._queue.get()
            while item is not None:
                batch.append(item)
                if len(batch) == MAX_BATCH or self._queue.empty():
                    break
                item = self._queue.get()
            stopping = item is None
            if batch:
                decided = self._commit(batch)
                with contextlib.suppress(RuntimeError):  # the loop was torn down under us
                    self._loop.call_soon_threadsafe(self._publish, decided)
        self._db.close()

    def _commit(self, batch: list[_Pending]) -> list[tuple[_Pending, Exception | None]]:
        error = self._try_commit(batch)
        if error is None or len(batch) == 1:
            return [(pending, error) for pending in batch]
        return [(pending, self._try_commit([pending])) for pending in batch]

    def _try_commit(self, batch: list[_Pending]) -> StoreError | None:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for event, _ in batch:
                self._execute(event)
            self._compact()
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            return _translate(error, self._path)
        return None

    def _execute(self, event: Event) -> None:
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

    def _compact(self) -> None:
        horizon = self._compacted
        self._db.execute("DELETE FROM events WHERE revision <= ?", (horizon,))
        self._db.execute("UPDATE horizon SET compacted = ? WHERE compacted < ?", (horizon, horizon))

    def _load(self) -> None:
        (self._compacted,) = self._db.execute("SELECT compacted FROM horizon").fetchone()
        rows = self._db.execute(
            "SELECT resource, namespace, name, revision, data FROM objects"
            " ORDER BY resource, namespace || '/' || name"
        )
        shared: dict[int, bytes] = {}  # the newest event of an object has the object's bytes
        for resource, namespace, name, revision, data in rows:
            collection = self._collections.setdefault(resource, _Collection())
            collection.order.append((namespace, name))
            collection.objects[namespace, name] = Stored(revision, data)
            shared[revision] = data
        last: dict[Key, bytes] = {}
        for row in self._db.execute("SELECT * FROM events ORDER BY revision"):
            revision, kind, resource, namespace, name, data, previous = row
            key = Key(resource, namespace, name)
            after = shared.get(revision) or bytes(data)
            before = None if kind == "ADDED" else last.get(key, previous)
            event = Event(revision, kind, key, after, before)
            last[key] = after
            self._events.append(event)
            self._event_bytes += len(after)
            self._revision = revision
        self._revision = max(self._revision, self._compacted, 1)
        self._next = self._revision + 1


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
    fresh = not path.exists() or path.stat().st_size == 0
    if fresh:
        path.touch(mode=0o600)
    try:
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            _prepare(db, path, fresh=fresh)
        except BaseException:
            db.close()
            raise
    except sqlite3.Error as error:
        raise _translate(error, path) from error
    return db


def _prepare(db: sqlite3.Connection, path: Path, *, fresh: bool) -> None:
    if fresh:
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        db.execute("PRAGMA journal_mode = WAL")
        db.executescript(f"BEGIN; {SCHEMA} COMMIT;")
    (owner,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if owner != APPLICATION_ID or version != SCHEMA_VERSION:
        raise StoreError(
            f"{path} is not a database of this server (application id {owner:#x}, version "
            f"{version}); it was left as it is. Name another directory with --data"
        )
    (verdict,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise StoreError(_damaged(path, verdict))
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA cache_size = -2000")  # KiB; everything is read from memory anyway


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
