"""The typed verbs that read.

Source: Kubernetes API concepts; `docs/decisions/0002-client.md`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TypeVar

from hypercobalt.api.codec import decode
from hypercobalt.api.meta import Object
from hypercobalt.runtime.client.collection import ListResult, Page, pages, read_pages
from hypercobalt.runtime.client.errors import GoneError, NotFoundError
from hypercobalt.runtime.client.requests import Selection, make_call
from hypercobalt.runtime.client.transport import AT_ONCE, Transport
from hypercobalt.runtime.client.watch import WatchEvent, read_events
from hypercobalt.runtime.client.whole import Whole, read_whole

T = TypeVar("T", bound=Object)

IDLE = timedelta(seconds=90)  # servers send a bookmark each minute or so
WATCH_LENGTH = timedelta(minutes=8)  # a bound on how long a silent fault stays hidden
PAGE = 500  # objects; decoding one page holds the loop for about 5 ms


class Reader:
    """Reads objects and collections, and watches them."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def get(self, type_: type[T], name: str, namespace: str | None = None) -> T | None:
        """Read one object; None if it does not exist."""
        call = make_call("get", "GET", type_, (namespace, name))
        try:
            return decode(await self._transport.send(call), type_)
        except NotFoundError:
            return None

    async def get_whole(
        self, type_: type[T], name: str, namespace: str | None = None
    ) -> Whole[T] | None:
        """Read one object with the fields that its type lacks; None if it does not exist."""
        call = make_call("get", "GET", type_, (namespace, name))
        try:
            return read_whole(await self._transport.send(call), type_)
        except NotFoundError:
            return None

    async def list(
        self,
        type_: type[T],
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        limit: int = PAGE,
    ) -> ListResult[T]:
        """Read a collection, page by page, all pages at one version.

        No namespace means all of them; a page has `limit` objects, or everything if it is 0.
        """
        of = Selection(type_, namespace, labels, fields)
        send = self._sends(type_, namespace)
        try:
            return await read_pages(send, of, limit)
        except GoneError:
            # The version of the first page was compacted before the last one was read.
            return await read_pages(send, of, 0)

    def pages(
        self, type_: type[T], namespace: str | None = None, *, labels: str = "", limit: int
    ) -> AsyncGenerator[Page[T]]:
        """Read a collection without keeping it, as what others make in any number and size.

        Raises:
            GoneError: its version is no longer kept; not before some minutes.
        """
        return pages(self._sends(type_, namespace), Selection(type_, namespace, labels), limit)

    def _sends(
        self, type_: type[T], namespace: str | None
    ) -> Callable[[dict[str, str]], Awaitable[bytes]]:
        async def send(params: dict[str, str]) -> bytes:
            call = make_call("list", "GET", type_, (namespace, None), params=params)
            return await self._transport.send(call)

        return send

    @asynccontextmanager
    async def watch(
        self,
        type_: type[T],
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
        length: timedelta = WATCH_LENGTH,
        idle: timedelta = IDLE,
        gather: timedelta = AT_ONCE,
    ) -> AsyncGenerator[AsyncIterator[WatchEvent[T]]]:
        """Open a watch: `async with kube.watch(Kind) as events: async for event in events: ...`.

        It starts after `resource_version`; without one it starts with every object there is. The
        server ends it in good order after `length`; `idle` is the longest silence, bookmarks
        included, before the connection counts as dead. Events that arrive within `gather` of each
        other are read together: where there are many, being woken for each costs the most.

        Raises:
            GoneError: that version is no longer kept; from here or from the iterator.
            WatchClosedError: from the iterator, when the connection broke or went silent.
        """
        params = {"watch": "true", "allowWatchBookmarks": "true"}
        params["timeoutSeconds"] = str(max(1, round(length.total_seconds())))
        if resource_version:
            params["resourceVersion"] = resource_version
        params |= Selection(type_, namespace, labels, fields).params
        call = make_call("watch", "GET", type_, (namespace, None), params=params)
        async with self._transport.stream(call, idle, gather) as chunks:
            yield read_events(chunks, type_, call.about)
