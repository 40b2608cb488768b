"""Keeps a cache equal to a selection on the server, and calls handlers with what changed.

List once, then watch from the list's version. A watch that ends or breaks is resumed from the last
version seen, bookmarks included; when the server no longer keeps that version, the list is read
again and the handlers get its difference to the cache. So each handler sees, per key, an
add, then updates, then a delete, whatever happens to the connection; intermediate versions may be
missed, the last one never.

Source: k8s.io/client-go, tools/cache/reflector.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Generic, Protocol, TypeVar

from hypercobalt.api.meta import Object
from hypercobalt.errors import HypercobaltError, TransientError
from hypercobalt.logs import get_logger
from hypercobalt.runtime.cache import Cache, IndexFunction
from hypercobalt.runtime.client.collection import ListResult
from hypercobalt.runtime.client.errors import GoneError, WatchClosedError
from hypercobalt.runtime.client.reader import IDLE, PAGE, WATCH_LENGTH, Reader
from hypercobalt.runtime.client.requests import Selection, resource_name
from hypercobalt.runtime.client.retry import Backoff
from hypercobalt.runtime.client.transport import AT_ONCE
from hypercobalt.runtime.client.watch import Change, WatchEvent, key_of
from hypercobalt.runtime.metrics import Metrics
from hypercobalt.runtime.observable import Observable

log = get_logger(__name__)

T = TypeVar("T", bound=Object)
_T_contra = TypeVar("_T_contra", bound=Object, contravariant=True)
_TOO_SHORT = 1.0  # seconds, less than the shortest length of a watch
RETRY = Backoff(base=timedelta(milliseconds=200), cap=timedelta(seconds=30))


class Handler(Protocol[_T_contra]):
    """Gets what changed; called on the event loop, so it only takes notes and never raises."""

    def on_add(self, obj: _T_contra) -> None: ...
    def on_update(self, old: _T_contra, new: _T_contra) -> None: ...
    def on_delete(self, obj: _T_contra) -> None:
        """`obj` is as it was last seen."""
        ...


class Informer(Generic[T]):
    """The cache of one selection.

    Args:
        selection: kind, namespace and selectors; the server filters.
        indexes: name to index function, see `Cache`.
        share: see `Cache`.
        managers: see `Cache`.
        idle: longest silence before a watch counts as dead.
        retry: the waits between attempts while the server cannot be reached.
        gather: see `Reader.watch`.

    Attributes:
        breaks: how often the watch has broken; what happened meanwhile was seen late.
        unreadable: objects that are there and do not fit their type, as key to problem; the cache
            has what was read of them last, which may be nothing.
    """

    def __init__(
        self,
        kube: Reader,
        selection: Selection[T],
        *,
        metrics: Metrics,
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        share: bool = True,
        managers: bool = False,
        idle: timedelta = IDLE,
        page: int = PAGE,
        retry: Backoff = RETRY,
        gather: timedelta = AT_ONCE,
    ) -> None:
        self.selection = selection
        self.cache: Cache[T] = Cache(indexes, share=share, managers=managers)
        self.breaks = 0
        self.unreadable: Observable[Mapping[str, str]] = Observable({})
        self._kube, self._idle, self._page, self._gather = kube, idle, page, gather
        self._retry, self._failures, self._trouble = retry, 0, ""
        self._handlers: list[Handler[T]] = []
        self._synced = asyncio.Event()
        self._version = ""  # empty: list before watching
        self._watching: asyncio.Timeout | None = None  # while a watch goes on
        self._pausing: asyncio.Timeout | None = None  # while the next attempt waits
        self._received_at: float | None = None
        name = resource_name(selection.type)
        self._objects = metrics.informer_objects.labels(name)
        self._unreadable = metrics.unreadable.labels(name)
        self._restarts, self._name = metrics.informer_restarts, name

    @property
    def has_synced(self) -> bool:
        """Whether the cache has held the whole selection once."""
        return self._synced.is_set()

    @property
    def age(self) -> timedelta | None:
        """How long ago the server last answered: a list, a watch's begin, event or bookmark.

        None before the first list. An idle watch gets a bookmark about each minute.
        """
        if self._received_at is None:
            return None
        return timedelta(seconds=asyncio.get_running_loop().time() - self._received_at)

    async def wait_synced(self) -> None:
        """Wait until `has_synced`; the caller bounds it."""
        await self._synced.wait()

    def add_handler(self, handler: Handler[T]) -> None:
        """Call `handler` with changes from now on; first it gets an add for each object."""
        self._handlers.append(handler)
        for obj in self.cache:
            handler.on_add(obj)

    def restart(self) -> None:
        """Begin the watch again, now: the server answers, as the caller has seen.

        Its connection may be dead without either end noticing, or its next attempt be due in half a
        minute.
        """
        now = asyncio.get_running_loop().time()
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.reschedule(now)
        if self._pausing is not None:
            self._pausing.reschedule(now)

    async def run(self) -> None:
        """Follow the server until cancelled; the server being away is not an error here."""
        while True:
            try:
                if not self._version:
                    await self._relist()
                await self._follow()
            except GoneError as error:
                self._restart("gone", error)
                self._version = ""
                await self._pause()  # a server that answers so each time must not be flooded
            except HypercobaltError as error:
                self._restart("error", error)
                await self._pause(error)

    async def _relist(self) -> None:
        of = self.selection
        result = await self._kube.list(
            of.type, of.namespace, labels=of.labels, fields=of.fields, limit=self._page
        )
        self._hear()
        self.load(result)

    def load(self, result: ListResult[T]) -> None:
        """Make the cache equal to a list, telling the handlers the difference; then it is synced.

        `run` does this with the server's list; tests and benchmarks may do it themselves.
        """
        for key, problem in result.unreadable.items():
            self._skip(key, problem)
        if result.unreadable != self.unreadable.value:
            self.unreadable.set(dict(result.unreadable))
        self._replace(result)
        self._version = result.resource_version
        self._synced.set()

    async def _follow(self) -> None:
        """Watch from the last version seen until the watch ends.

        Raises:
            WatchClosedError: the watch ended at once.
        """
        try:
            async with asyncio.timeout(None) as self._watching:
                await self._watch()
        except TimeoutError:
            text = f"watch {self.selection.about}: restarted"
            self._restart("requested", WatchClosedError(text))
        finally:
            self._watching = None

    async def _watch(self) -> None:
        of = self.selection
        clock = asyncio.get_running_loop().time
        started = clock()
        async with self._kube.watch(
            of.type,
            of.namespace,
            labels=of.labels,
            fields=of.fields,
            resource_version=self._version,
            length=WATCH_LENGTH,
            idle=self._idle,
            gather=self._gather,
        ) as events:
            self._received_at = clock()
            async for event in events:
                self._received_at = clock()
                self.take(event)
                self._version = event.resource_version or self._version
                if self._failures:
                    self._works()
        if clock() - started < _TOO_SHORT:
            # A server in trouble may accept watches only to end them: do not spin with it.
            raise WatchClosedError(f"watch {of.about}: ended at once")
        self._works()

    def take(self, event: WatchEvent[T]) -> None:
        """Apply an event to the cache; `run` and benchmarks do."""
        if event.change is not Change.BOOKMARK:
            self._note_problem(event)
        if event.change is Change.DELETED:
            # The object in the event is the last state; an unreadable one still names the key.
            old = self.cache.by_key(event.key)
            if old is not None:
                self._delete(event.key, event.object or old)
        elif event.object is not None:
            self._put(event.key, event.object)
        elif event.change is not Change.BOOKMARK:
            self._skip(event.key, event.problem)

    def _note_problem(self, event: WatchEvent[T]) -> None:
        gone = event.change is Change.DELETED
        problem = "" if gone or event.object is not None else event.problem or "unreadable"
        known = self.unreadable.value
        if problem != known.get(event.key, ""):
            others = {key: one for key, one in known.items() if key != event.key}
            self.unreadable.set(others | {event.key: problem} if problem else others)

    def _replace(self, result: ListResult[T]) -> None:
        """Make the cache equal to a list, and call the handlers with the difference only.

        An unreadable object is there, so its last readable state is not deleted.
        """
        present = {key_of(obj) for obj in result.items}
        for key in self.cache.keys() - present - result.unreadable.keys():
            last = self.cache.by_key(key)
            if last is not None:
                self._delete(key, last)
        for obj in result.items:
            self._put(key_of(obj), obj)

    def _put(self, key: str, obj: T) -> None:
        known = self.cache.by_key(key)
        meta = obj.metadata
        if known is not None and known.metadata.uid != meta.uid:
            # Deleted and made again while we did not look: two objects, so two events.
            self._delete(key, known)
            known = None
        if known is not None and known.metadata.resourceVersion == meta.resourceVersion:
            return
        self.cache.replace(key, known, obj)
        if known is None:
            self._objects.set(len(self.cache))
        for handler in self._handlers:
            if known is None:
                handler.on_add(obj)
            else:
                handler.on_update(known, obj)

    def _delete(self, key: str, last: T) -> None:
        self.cache.drop(key)
        self._objects.set(len(self.cache))
        for handler in self._handlers:
            handler.on_delete(last)

    def _skip(self, key: str, problem: str) -> None:
        self._unreadable.inc()
        kind = self.selection.type.resource.kind
        log.error("unreadable_object_skipped", kind=kind, key=key, problem=problem)

    def _restart(self, reason: str, error: HypercobaltError) -> None:
        self.breaks += 1
        self._restarts.labels(self._name, reason).inc()
        # A kind that is not installed may stay away for good: the same trouble is logged once.
        write = log.debug if self._trouble == str(error) else log.warning
        self._trouble = str(error)
        write("watch_restarted", watch=self.selection.about, reason=reason, error=str(error))

    def _hear(self) -> None:
        self._received_at = asyncio.get_running_loop().time()

    def _works(self) -> None:
        self._failures, self._trouble = 0, ""

    async def _pause(self, error: HypercobaltError | None = None) -> None:
        wait = self._retry.wait(self._failures)
        self._failures += 1
        if isinstance(error, TransientError) and error.retry_after is not None:
            await asyncio.sleep(max(wait, error.retry_after.total_seconds()))
            return
        try:
            async with asyncio.timeout(wait) as self._pausing:
                await asyncio.Event().wait()
        except TimeoutError:
            pass  # it is over, or a new attempt was requested
        finally:
            self._pausing = None
