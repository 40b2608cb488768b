"""Get, list and watch.

Source: API concepts, "Resource versions" and "Efficient detection of changes".
"""

from __future__ import annotations

import functools
import random
from collections.abc import AsyncIterator

import msgspec

from hypercobalt.apiserver import errors
from hypercobalt.apiserver.errors import JSONObject
from hypercobalt.apiserver.rendering import Renderer
from hypercobalt.apiserver.requests.paging import (
    Page,
    check_reached,
    encode_token,
    parse_revision,
    read_page,
    wants_initial_events,
)
from hypercobalt.apiserver.requests.request import Call, Response, Stream
from hypercobalt.apiserver.requests.selection import Selection, select
from hypercobalt.apiserver.storage.objects import CompactedError, Place, Stored
from hypercobalt.apiserver.storage.store import Store
from hypercobalt.apiserver.watching import Hub, Render, Watcher, watch_line

WATCH_SECONDS = 1800  # as kube-apiserver's --min-request-timeout: 30 to 60 minutes


class Reader:
    """The read verbs."""

    def __init__(self, store: Store, hub: Hub) -> None:
        self._store, self._hub = store, hub

    def get(self, call: Call) -> Response:
        renderer = Renderer(call)
        self._store.check_sound(call.key)
        stored = self._store.get(call.key)
        if stored is None:
            raise errors.not_found(call.subject)
        check_reached(parse_revision(call.request.text("resourceVersion")), self._store.revision)
        return Response(200, renderer.object(stored.data), renderer.media)

    def list_objects(self, call: Call) -> Response:
        renderer, selection = Renderer(call), select(call)
        page = read_page(call.request, self._store.revision)
        try:
            listed, last = self._collect(selection, page)
        except CompactedError:
            raise page.expired() from None
        meta: JSONObject = {"resourceVersion": str(page.revision)}
        if last is not None:
            meta["continue"] = encode_token(page.revision, last)
            if not selection.selective and selection.name is None:
                rest = self._store.scan_at(
                    page.revision, selection.resource, selection.namespace, after=last
                )
                meta["remainingItemCount"] = sum(1 for _ in rest)
        return renderer.list_response(listed, meta)

    def _collect(self, selection: Selection, page: Page) -> tuple[list[Stored], Place | None]:
        """One page, and the last place on it when more follow."""
        listed: list[Stored] = []
        last: Place | None = None
        for key, stored in self._store.scan_at(
            page.revision, selection.resource, selection.namespace, after=page.after
        ):
            if not selection.wants(key):
                continue
            if page.limit and len(listed) == page.limit:
                return listed, last  # more may match; the next page finds it
            if selection.matches(key, stored.data):
                listed.append(stored)
                last = (key.namespace, key.name)
        return listed, None

    def watch(self, call: Call) -> Stream:
        """Open a watch; what happened since its resourceVersion comes first."""
        renderer, request = Renderer(call), call.request
        as_stored = renderer.plain and not call.resource.revised
        render = None if as_stored else renderer.event
        watcher = Watcher(select(call), render, request.room)
        initial = wants_initial_events(request)
        since = parse_revision(request.text("resourceVersion"))
        seconds = request.number("timeoutSeconds") or WATCH_SECONDS * random.uniform(1, 2)  # noqa: S311

        def bookmark(*, initial_end: bool = False) -> bytes:
            shown = renderer.bookmark(self._store.revision, initial_end=initial_end)
            return watch_line("BOOKMARK", shown)

        try:
            if initial or since == 0:
                self._begin_with_all(watcher, since, bytes if as_stored else renderer.initial)
            else:
                self._begin_with_missed(watcher, since)
        except CompactedError:
            text = f"too old resource version: {since} ({self._store.compacted})"
            return Stream(
                _once(watch_line("ERROR", msgspec.json.encode(errors.expired(text).body())))
            )
        bookmarks = request.flag("allowWatchBookmarks")
        if initial and bookmarks:
            watcher.put(bookmark(initial_end=True))
        self._hub.add(watcher)
        stream = self._hub.stream(
            watcher, seconds=float(seconds), bookmark=bookmark if bookmarks else None
        )
        return Stream(stream, renderer.media, functools.partial(self._hub.discard, watcher))

    def _begin_with_all(self, watcher: Watcher, since: int, show: Render) -> None:
        check_reached(since, self._store.revision)
        selection = watcher.selection
        watcher.begin(
            [
                show(stored.data)
                for key, stored in self._store.scan(selection.resource, selection.namespace)
                if selection.wants(key) and selection.matches(key, stored.data)
            ]
        )

    def _begin_with_missed(self, watcher: Watcher, since: int) -> None:
        for event in self._store.events_after(since):
            if watcher.selection.wants(event.key):
                watcher.offer(event, watch_line(event.type, event.data))


async def _once(line: bytes) -> AsyncIterator[bytes]:
    yield line
