"""Turns watched changes into passes of a reconciler.

A change gives only the key of an object; the reconciler reads the rest. What a pass returns
or raises decides when the key is looked at again:

- a result: at the next change, or after `requeue_after`;
- `TransientError`: after the wait that the other side requested, else with growing waits;
- `TerminalError`: at the next change, because trying again cannot help;
- any other exception is a bug: it is logged with its traceback and the key is retried with growing
  waits, so that one bad object never stops the others.

Source: sigs.k8s.io/controller-runtime, pkg/internal/controller and pkg/handler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, Protocol, TypeVar

from hypercobalt.api.meta import Object
from hypercobalt.errors import TerminalError, TransientError
from hypercobalt.logs import get_logger, reconcile_context
from hypercobalt.runtime.client.watch import join_key, key_of
from hypercobalt.runtime.clock import Clock
from hypercobalt.runtime.informer import Informer
from hypercobalt.runtime.metrics import Metrics
from hypercobalt.runtime.precedence import Precedence
from hypercobalt.runtime.queue import KeyBackoff, QueueClosedError, WorkQueue
from hypercobalt.runtime.tasks import first, sole

log = get_logger(__name__)

T = TypeVar("T", bound=Object)
Predicate = Callable[[T | None, T | None], bool]


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a successful pass: when to run again.

    Args:
        requeue_after: look again after this; None waits for a change.
    """

    requeue_after: timedelta | None = None


class Reconciler(Protocol):
    """Reconciles one object."""

    async def reconcile(self, key: str, /) -> Result:
        """Look at the object and what belongs to it, and take the next step.

        Args:
            key: `name`, or `namespace/name`; see `split_key`.

        Raises:
            TransientError: look again after a while.
            TerminalError: look again when something changes.
        """
        ...


@dataclass(frozen=True, slots=True)
class Watch:
    """An informer whose changes lead to keys of a controller; made by the functions below.

    Args:
        attach: makes every change call the given function with each key that it leads to.
        wait_synced: of the informer.
    """

    attach: Callable[[Callable[[str], None]], None]
    wait_synced: Callable[[], Coroutine[None, None, None]]


def primary(informer: Informer[T], *, when: Predicate[T] | None = None) -> Watch:
    """The kind that is reconciled: a change leads to the object itself.

    Args:
        informer: of the kind.
        when: decides by old and new (None before an add, and after a delete) whether the change is
            worth a pass; None lets every change through.
    """
    return mapped(informer, lambda obj: (key_of(obj),), when=when)


def owned(informer: Informer[T], owner: type[Object], *, when: Predicate[T] | None = None) -> Watch:
    """A kind that the reconciler makes: a change leads to the controlling owner.

    Args:
        informer: of the owned kind.
        owner: the reconciled kind; owners of other kinds are not looked at.
        when: as for `primary`.
    """
    info = owner.resource

    def to_owner(obj: T) -> Iterable[str]:
        for reference in obj.metadata.ownerReferences:
            group = reference.apiVersion.rpartition("/")[0]
            if reference.controller and (group, reference.kind) == (info.group, info.kind):
                namespace = obj.metadata.namespace if info.namespaced else ""
                yield join_key(namespace, reference.name)

    return mapped(informer, to_owner, when=when)


def mapped(
    informer: Informer[T],
    keys: Callable[[T], Iterable[str]],
    *,
    when: Predicate[T] | None = None,
) -> Watch:
    """A kind that the reconciler depends on: a change leads to the keys that `keys` gives.

    After an update the keys of both the old and the new object are added, so that a key which the
    object has left gets a pass too.
    """

    def attach(add: Callable[[str], None]) -> None:
        informer.add_handler(_Enqueue(add, keys, when))

    return Watch(attach, informer.wait_synced)


def initially(key: str) -> Watch:
    """A key that is reconciled when the controller begins, whatever there is."""
    return Watch(lambda add: add(key), _at_once)


class Source:
    """Keys that a controller gets from anything but an informer."""

    def __init__(self) -> None:
        self._adds: list[Callable[[str], None]] = []

    @property
    def watch(self) -> Watch:
        """The watch that passes the keys to a controller."""
        return Watch(self._adds.append, _at_once)

    def enqueue(self, key: str) -> None:
        """Have a key reconciled."""
        for add in self._adds:
            add(key)


async def _at_once() -> None:
    """Return at once: a source has nothing to read first."""


def generation_changed(old: Object | None, new: Object | None) -> bool:
    """A predicate: spec or deletion mark changed, not only status, labels or annotations."""
    if old is None or new is None:
        return True
    before, after = old.metadata, new.metadata
    return (before.generation, before.deletionTimestamp) != (
        after.generation,
        after.deletionTimestamp,
    )


class _Enqueue(Generic[T]):
    def __init__(
        self,
        add: Callable[[str], None],
        keys: Callable[[T], Iterable[str]],
        when: Predicate[T] | None,
    ) -> None:
        self._add, self._keys, self._when = add, keys, when

    def on_add(self, obj: T) -> None:
        self._changed(None, obj)

    def on_update(self, old: T, new: T) -> None:
        self._changed(old, new)

    def on_delete(self, obj: T) -> None:
        self._changed(obj, None)

    def _changed(self, old: T | None, new: T | None) -> None:
        if self._when is not None and not self._when(old, new):
            return
        for obj in (old, new):
            for key in self._keys(obj) if obj is not None else ():
                self._add(key)


class Controller:
    """Runs a reconciler for the keys that its watches lead to, where the process leads.

    Args:
        name: label of metrics and log lines; lower case words with dashes.
        watches: where keys come from; passes begin when all have synced.
        concurrency: most passes at once, each for another key: they wait for the API server, to
            which a client has 16 connections.
        backoff: waits after errors.
        yields_to: what goes before each of its passes.
    """

    def __init__(
        self,
        name: str,
        reconciler: Reconciler,
        *,
        watches: Sequence[Watch],
        concurrency: int = 8,
        backoff: KeyBackoff | None = None,
        yields_to: Precedence | None = None,
    ) -> None:
        self.name, self._yields_to = name, yields_to
        self._reconciler, self._watches = reconciler, watches
        self._concurrency, self._backoff = concurrency, backoff

    async def run(self, stop: asyncio.Event, *, metrics: Metrics, clock: Clock) -> None:
        """Run passes until `stop`, then let those under way finish.

        Cancellation stops the passes where they are.
        """
        queue = WorkQueue(self.name, metrics=metrics, clock=clock, backoff=self._backoff)
        worker = _Worker(self.name, self._reconciler, queue, metrics, clock)
        metrics.max_concurrent.labels(self.name).set(self._concurrency)
        for watch in self._watches:
            watch.attach(queue.add)
        if not await self._synced(stop):
            return
        log.info("controller_started", controller=self.name, concurrency=self._concurrency)
        async with asyncio.TaskGroup() as tasks:
            for number in range(self._concurrency):
                tasks.create_task(worker.run(stop, self._yields_to), name=f"{self.name}-{number}")
            await stop.wait()
            queue.close(drain=False)

    async def _synced(self, stop: asyncio.Event) -> bool:
        """Wait for every watch; False if `stop` came first."""
        for watch in self._watches:
            await first(watch.wait_synced(), stop.wait())
        return not stop.is_set()


class _Worker:
    """Takes keys from the queue and runs passes, one after the other."""

    def __init__(
        self,
        name: str,
        reconciler: Reconciler,
        queue: WorkQueue,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._name, self._reconciler = name, reconciler
        self._queue, self._clock = queue, clock
        self._totals = metrics.reconcile_total
        self._errors = metrics.reconcile_errors.labels(name)
        self._terminal = metrics.terminal_errors.labels(name)
        self._seconds = metrics.reconcile_seconds.labels(name)
        self._active = metrics.active_workers.labels(name)

    async def run(self, stop: asyncio.Event, yields_to: Precedence | None) -> None:
        while True:
            try:
                key = await self._queue.get()
            except QueueClosedError:
                return
            try:
                if yields_to is not None and not yields_to.is_free:
                    await first(yields_to.free(), stop.wait())
                with reconcile_context(self._name, key):
                    await self._pass(key)
            finally:
                self._queue.done(key)

    async def _pass(self, key: str) -> None:
        started = self._clock.monotonic()
        self._active.inc()
        try:
            result = await self._reconciler.reconcile(key)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Something inside cancelled itself: left alone, it would end this worker unnoticed.
            self._failed(key, error)
        except Exception as error:  # noqa: BLE001 - a bug in one pass stays there
            self._failed(key, error)
        else:
            self._succeeded(key, result)
        finally:
            self._active.dec()
            self._seconds.observe(self._clock.monotonic() - started)

    def _succeeded(self, key: str, result: Result) -> None:
        self._queue.forget(key)
        if result.requeue_after is None:
            self._totals.labels(self._name, "success").inc()
            return
        self._totals.labels(self._name, "requeue_after").inc()
        self._queue.add_after(key, result.requeue_after)

    def _failed(self, key: str, raised: BaseException) -> None:
        error = sole(raised)
        self._totals.labels(self._name, "error").inc()
        self._errors.inc()
        if isinstance(error, TerminalError):
            self._terminal.inc()
            self._queue.forget(key)
            log.error("reconcile_refused", reason=error.reason, error=str(error))
        elif isinstance(error, TransientError) and error.retry_after is not None:
            self._queue.add_after(key, error.retry_after)
            log.warning("reconcile_postponed", error=str(error), wait=str(error.retry_after))
        elif isinstance(error, TransientError):
            wait = self._queue.retry(key)
            log.warning("reconcile_failed", error=str(error), wait=str(wait))
        else:
            wait = self._queue.retry(key)
            log.error("reconcile_crashed", error=repr(error), wait=str(wait), exc_info=raised)
