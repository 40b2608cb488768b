"""The objects and the log of what happened to them: in memory to be read, on disk to survive.

Invariants:
- A write is published (visible to reads and watches) only after its transaction is on disk, and in
  the order of its revision.
- Revisions grow by every write of any object, as etcd's do; a failed write leaves a gap.
- Every event keeps the object before it, so the state at any revision newer than the compaction
  horizon can be computed: today's objects, with later events taken back.

All methods run on the event loop; the thread of `database` only writes.

Source: etcd's MVCC model as the Kubernetes API exposes it (resourceVersion, watch, compaction).
"""

from __future__ import annotations

import asyncio
import bisect
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from hypercobalt.apiserver.storage.database import Database, WriteResult
from hypercobalt.apiserver.storage.objects import (
    CompactedError,
    DamagedError,
    Event,
    EventType,
    Key,
    Place,
    Stored,
    by_key,
)
from hypercobalt.logs import get_logger

log = get_logger(__name__)

# How much history a watch can resume from. Memory: events share their bytes with the objects.
KEEP_EVENTS = 10_000
KEEP_BYTES = 8 * 2**20


@dataclass(slots=True)
class _Collection:
    objects: dict[Place, Stored] = field(default_factory=dict[Place, Stored])
    order: list[Place] = field(default_factory=list[Place])  # sorted


_NOTHING = _Collection()


class _Waiting(NamedTuple):
    """A write that is not decided."""

    done: asyncio.Future[None]
    since: float  # by the loop's clock


@dataclass(slots=True)
class _Lock:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class Store:
    """Open with `await Store.open(directory)`, end with `await close()`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._collections: dict[str, _Collection] = {}
        self._locks: dict[Key, _Lock] = {}
        self._waiting: dict[int, _Waiting] = {}  # writes, by revision: the oldest first
        self._begun: list[Event] = []  # writes that the database does not have yet
        self._listeners: list[Callable[[Event], None]] = []
        self._loop = asyncio.get_running_loop()
        loaded = database.load()
        for key, stored in loaded.objects:
            collection = self._collections.setdefault(key.resource, _Collection())
            collection.order.append(key.place)
            collection.objects[key.place] = stored
        self._damaged = set(loaded.damaged)
        self._events = deque(loaded.events)
        self._event_bytes = sum(len(event.data) for event in loaded.events)
        self._compacted, self._revision = loaded.compacted, loaded.revision
        self._next = self._revision + 1
        database.start(self._on_outcomes)

    @classmethod
    async def open(cls, directory: Path) -> Store:
        """Open or create the store in `directory`.

        Raises:
            ConfigurationError: another process holds the directory, or it cannot be written.
            StoreError: the file is not ours or is damaged; it is left as it is.
        """
        return cls(Database(directory))

    async def close(self) -> None:
        """Commit what was begun, then release the directory."""
        self._submit()
        await asyncio.to_thread(self._database.close)

    # -- reading ---------------------------------------------------------------------------

    @property
    def revision(self) -> int:
        """The newest published revision."""
        return self._revision

    @property
    def compacted(self) -> int:
        """The oldest revision whose state can still be computed."""
        return self._compacted

    def get(self, key: Key) -> Stored | None:
        collection = self._collections.get(key.resource)
        return collection.objects.get(key.place) if collection else None

    @property
    def damaged(self) -> Set[Key]:
        """The objects that the file holds, but not as they were written: they are not served."""
        return self._damaged

    def check_sound(self, key: Key) -> None:
        """Raise a DamagedError for an object that is there, but cannot be served."""
        if key in self._damaged:
            raise DamagedError(key)

    def resources(self) -> tuple[str, ...]:
        return tuple(r for r, c in self._collections.items() if c.objects)

    def count(self, resource: str) -> int:
        collection = self._collections.get(resource)
        return len(collection.objects) if collection else 0

    def scan(
        self, resource: str, namespace: str | None = None, *, after: Place | None = None
    ) -> Iterator[tuple[Key, Stored]]:
        """Today's objects in the order of lists, from just behind `after`."""
        collection = self._collections.get(resource, _NOTHING)
        for place in _cut(collection.order, namespace, after):
            yield Key(resource, *place), collection.objects[place]

    def scan_at(
        self,
        revision: int,
        resource: str,
        namespace: str | None = None,
        *,
        after: Place | None = None,
    ) -> Iterator[tuple[Key, Stored]]:
        """The objects as they were at `revision`, in the order of lists, from behind `after`.

        Raises:
            CompactedError: `revision` is older than the history kept.
        """
        undone: dict[Place, bytes | None] = {}
        for event in self.events_after(revision):
            if event.key.resource == resource:
                undone.setdefault(event.key.place, event.previous)
        if not undone:
            yield from self.scan(resource, namespace, after=after)
            return
        today = self._collections.get(resource, _NOTHING)
        places = sorted(today.objects.keys() | undone.keys(), key=by_key)
        for place in _cut(places, namespace, after):
            data = undone[place] if place in undone else today.objects[place].data
            if data is not None:
                yield Key(resource, *place), Stored(revision, data)

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

    # -- health ----------------------------------------------------------------------------

    @property
    def oldest_wait_seconds(self) -> float:
        """How long the oldest write waits to be on disk; 0 when none does."""
        oldest = next(iter(self._waiting.values()), None)
        return self._loop.time() - oldest.since if oldest else 0.0

    @property
    def writer_failure(self) -> str:
        """Why nothing can be written until a restart; empty when all is well."""
        return str(self._database.failure or "")

    @property
    def has_reserve(self) -> bool:
        """Whether the space is held that deletes use on a full disk."""
        return self._database.reserve.held

    # -- writing ---------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def locked(self, key: Key) -> AsyncGenerator[Stored | None]:
        """Hold `key` alone, from reading it to the end of its write, and yield its current state.

        Raises:
            DamagedError: the object is there, but its state is unknown.
        """
        async with self._hold(key):
            self.check_sound(key)
            yield self.get(key)

    @contextlib.asynccontextmanager
    async def _hold(self, key: Key) -> AsyncGenerator[None]:
        holder = self._locks.setdefault(key, _Lock())
        holder.users += 1
        try:
            async with holder.lock:
                yield
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
        if self._database.failure is not None:
            raise self._database.failure
        revision, self._next = self._next, self._next + 1
        event = Event(revision, kind, key, encode(revision), previous)
        done: asyncio.Future[None] = self._loop.create_future()
        self._waiting[revision] = _Waiting(done, self._loop.time())
        if not self._begun:
            self._loop.call_soon(self._submit)
        self._begun.append(event)
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

    def _submit(self) -> None:
        """Hand over the writes of one turn of the loop: they share a commit."""
        begun, self._begun = self._begun, []
        if (failure := self._database.failure) is not None:
            self._publish([(event, failure) for event in begun])
        elif begun:
            self._database.submit(begun)

    async def discard(self, key: Key) -> None:
        """Delete a damaged object; watchers get no event, as all of them had to list again."""
        async with self._hold(key):
            if key in self._damaged:
                named = {"metadata": {"name": key.name, "namespace": key.namespace}}
                await self.write("DELETED", key, lambda _: msgspec.json.encode(named), None)
                log.warning("damaged_object_deleted", object="/".join(key))

    def _on_outcomes(self, outcomes: list[WriteResult]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was torn down under us
            self._loop.call_soon_threadsafe(self._publish, outcomes)

    def _publish(self, outcomes: list[WriteResult]) -> None:
        for event, error in outcomes:
            if error is None:
                known = event.key not in self._damaged
                self._remember(event)
                if known:
                    self._notify(event)
            done = self._waiting.pop(event.revision).done
            if not done.cancelled():
                if error is None:
                    done.set_result(None)
                else:
                    done.set_exception(error)
        self._trim()

    def _notify(self, event: Event) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:  # boundary: the write is on disk; a faulty listener fails no other
                log.exception("listener_failed", revision=event.revision)

    def _remember(self, event: Event) -> None:
        self._revision = event.revision
        self._events.append(event)
        self._event_bytes += len(event.data)
        if event.key in self._damaged:
            self._damaged.discard(event.key)
            return
        collection = self._collections.setdefault(event.key.resource, _Collection())
        place = event.key.place
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
            self._compacted = self._database.horizon = event.revision


def _cut(places: Sequence[Place], namespace: str | None, after: Place | None) -> Iterator[Place]:
    """Yield the sorted places that are in `namespace` and behind `after`."""
    start = 0
    if after is not None:
        start = bisect.bisect_right(places, by_key(after), key=by_key)
    elif namespace is not None:
        start = bisect.bisect_left(places, f"{namespace}/", key=by_key)
    for index in range(start, len(places)):
        if namespace is not None and places[index][0] != namespace:
            return
        yield places[index]
