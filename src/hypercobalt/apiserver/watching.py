"""Watches: every published event, to each watch that selects it, in the requested form.

An event is encoded once and its bytes are shared by all plain watchers; watchers with one selection
share its verdict. What waits for a watcher is handed out piece by piece, as the client takes it. A
watcher that does not read is cut off when too much waits for it; it comes back with a list.

Source: API concepts, "Efficient detection of changes"; apiserver storage/cacher.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

import msgspec

from hypercobalt.apiserver.errors import JSONObject, StatusError
from hypercobalt.apiserver.requests.request import PIECE, Room
from hypercobalt.apiserver.requests.selection import Selection, View
from hypercobalt.apiserver.storage.objects import Event
from hypercobalt.apiserver.storage.store import Store
from hypercobalt.apiserver.values import metadata

MAX_WAITING = 10_000  # events a watcher may lag behind
MAX_WAITING_BYTES = 32 * 2**20
BOOKMARK_SECONDS = 60.0  # as kube-apiserver: about once a minute

Render = Callable[[bytes], bytes]


@dataclass(slots=True, eq=False)
class Watcher:
    """One open watch."""

    selection: Selection
    render: Render | None = None  # None: as stored
    room: Room | None = None  # where counts what its client has not taken
    first: Iterator[bytes] = field(default_factory=lambda: iter(()))  # lines before those below
    waiting: deque[bytes] = field(default_factory=deque[bytes])
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    size: int = 0  # bytes of events that wait
    taken: int = 0  # bytes that were handed out last
    cut: bool = False

    def begin(self, objects: Sequence[bytes]) -> None:
        """Begin with these objects, or raise StatusError where there is no room for them."""
        if self.room is not None:
            self.room.take(sum(map(len, objects)) + len(objects) * len(watch_line("ADDED", b"")))
        self.first = (watch_line("ADDED", data) for data in objects)

    def offer(self, event: Event, line: bytes) -> None:
        """Queue an event, as seen through this watch's selectors.

        Args:
            event: what happened.
            line: the event as a watch without selectors and form shows it.
        """
        if self.selection.wants(event.key):
            kind = _Change(event).seen_by(self.selection)
            if kind is not None:
                self.show(kind, event, line)

    def show(self, kind: str, event: Event, line: bytes) -> None:
        """Queue an event that is `kind` to those who see the selection."""
        if self.cut:
            return
        if kind == event.type and self.render is None:
            self.put(line)
        else:
            data = event.data if kind == event.type else _as_seen(kind, event)
            self.put(watch_line(kind, self.render(data) if self.render else data))

    def put(self, line: bytes) -> None:
        """Queue a line, or cut the watch off where too much waits."""
        self.size += len(line)
        few = len(self.waiting) < MAX_WAITING and self.size <= MAX_WAITING_BYTES
        if few and self._fits(line):
            self.waiting.append(line)
        else:
            self.cut = True
            self.waiting.clear()
        self.ready.set()

    def _fits(self, line: bytes) -> bool:
        try:
            if self.room is not None:
                self.room.take(len(line))
        except StatusError:
            return False
        return True

    def take(self) -> bytes:
        """The next piece of what waits; the client has taken the one before."""
        if self.room is not None:
            self.room.give(self.taken)
        lines, self.taken = list[bytes](), 0
        while self.taken < PIECE:
            if (line := next(self.first, None)) is None:
                if not self.waiting:
                    break
                line = self.waiting.popleft()
                self.size -= len(line)
            lines.append(line)
            self.taken += len(line)
        return b"".join(lines)


class _Change:
    """An event, for all selections that may see it."""

    def __init__(self, event: Event) -> None:
        self._event = event
        self._before = View(event.key, event.previous) if event.previous is not None else None
        self._after = View(event.key, event.data) if event.type != "DELETED" else None

    def seen_by(self, selection: Selection) -> str | None:
        """What the change is to a watch that sees the selected objects only."""
        if not selection.selective:
            return self._event.type
        before = self._before is not None and selection.accepts(self._before)
        after = self._after is not None and selection.accepts(self._after)
        if before and after:
            return "MODIFIED"
        if after:
            return "ADDED"
        return "DELETED" if before else None


def _as_seen(kind: str, event: Event) -> bytes:
    """The object; one that leaves a selection is shown as it last was in it."""
    if kind != "DELETED" or event.previous is None:
        return event.data
    obj: JSONObject = msgspec.json.decode(event.previous)
    metadata(obj)["resourceVersion"] = str(event.revision)
    return msgspec.json.encode(obj)


def watch_line(kind: str, data: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), data)


class Hub:
    """Hands the store's events to the open watches."""

    def __init__(self, store: Store) -> None:
        self._watchers: dict[str, dict[Selection, set[Watcher]]] = {}  # by resource
        self._closing = asyncio.Event()
        self._stop = store.listen(self._on_event)

    def close(self) -> None:
        """End every watch; again is harmless."""
        if self._closing.is_set():
            return
        self._stop()
        self._closing.set()
        for groups in self._watchers.values():
            for watcher in chain.from_iterable(groups.values()):
                watcher.cut = True
                watcher.ready.set()

    def add(self, watcher: Watcher) -> None:
        if self._closing.is_set():
            watcher.cut = True
        groups = self._watchers.setdefault(watcher.selection.resource, {})
        groups.setdefault(watcher.selection, set()).add(watcher)

    def discard(self, watcher: Watcher) -> None:
        groups = self._watchers.get(watcher.selection.resource, {})
        alike = groups.get(watcher.selection, set())
        alike.discard(watcher)
        if not alike:
            groups.pop(watcher.selection, None)

    def _on_event(self, event: Event) -> None:
        if groups := self._watchers.get(event.key.resource):
            line, change = watch_line(event.type, event.data), _Change(event)
            for selection, watchers in groups.items():
                if selection.wants(event.key) and (kind := change.seen_by(selection)):
                    for watcher in watchers:
                        watcher.show(kind, event, line)

    async def stream(
        self,
        watcher: Watcher,
        *,
        seconds: float,
        bookmark: Callable[[], bytes] | None,
    ) -> AsyncIterator[bytes]:
        """The watch's lines, a piece at a time, until its time is over or the server's end.

        Args:
            watcher: already added, so that nothing is missed in between.
            seconds: how long the watch lasts.
            bookmark: gives a bookmark line, when the client allows them.
        """
        end = time.monotonic() + seconds
        next_bookmark = time.monotonic() + BOOKMARK_SECONDS if bookmark else math.inf
        while not watcher.cut and (now := time.monotonic()) < end:
            if lines := watcher.take():
                yield lines
                continue
            if bookmark and now >= next_bookmark:  # nothing waits that is older
                next_bookmark = now + BOOKMARK_SECONDS
                yield bookmark()
                continue
            watcher.ready.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(end, next_bookmark) - now):
                    await watcher.ready.wait()
        while bookmark and (lines := watcher.take()):
            yield lines
        if bookmark and not watcher.cut:
            yield bookmark()
