"""The work queue between events and reconcilers.

Invariants:
- a key waits at most once, and is worked on by at most one worker;
- a key added while it is worked on waits again, and gets its turn after the keys before it;
- of several delayed adds of a key the earliest counts;
- no added key is lost, until the queue is closed.

The order is first come, first served, so a key that is added without end delays no other key.

Source: k8s.io/client-go, util/workqueue.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from hypercobalt.runtime.client.retry import full_jitter
from hypercobalt.runtime.clock import Clock
from hypercobalt.runtime.metrics import Metrics

_MAX_DOUBLINGS = 30


class QueueClosedError(Exception):
    """The queue is closed and has nothing left for a worker."""


class Timer(Protocol):
    """A pending call."""

    def cancel(self) -> None: ...


@dataclass(frozen=True, slots=True)
class KeyBackoff:
    """Wait per key, doubled with each failure.

    Half of it is fixed and half is jitter: keys that failed together part again, and none returns
    at once.
    """

    base: timedelta = timedelta(milliseconds=50)
    cap: timedelta = timedelta(minutes=5)
    jitter: Callable[[float], float] = full_jitter

    def wait(self, failures: int) -> float:
        """Seconds to wait after so many earlier failures."""
        grown = self.base.total_seconds() * 2.0 ** min(failures, _MAX_DOUBLINGS)
        capped = min(grown, self.cap.total_seconds())
        return capped / 2 + self.jitter(capped / 2)


class WorkQueue:
    """Keys that wait for a worker.

    Args:
        name: label of the metrics; the controller's name.
        clock: what the durations in the metrics are measured by; delays are the event loop's.
    """

    def __init__(
        self, name: str, *, metrics: Metrics, clock: Clock, backoff: KeyBackoff | None = None
    ) -> None:
        self._clock, self._backoff = clock, backoff or KeyBackoff()
        self._waiting: OrderedDict[str, float] = OrderedDict()  # key to when it was added
        self._working: dict[str, float] = {}  # key to when it was handed out
        self._again: OrderedDict[str, float] = OrderedDict()  # added while worked on
        self._delayed: dict[str, tuple[float, Timer]] = {}
        self._failures: dict[str, int] = {}
        self._takers: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self._depth = metrics.queue_depth.labels(name)
        self._adds = metrics.queue_adds.labels(name)
        self._retries = metrics.queue_retries.labels(name)
        self._queue_seconds = metrics.queue_seconds.labels(name)
        self._work_seconds = metrics.work_seconds.labels(name)

    def __len__(self) -> int:
        """Keys that wait now; delayed ones and those being worked on are not counted."""
        return len(self._waiting)

    def add(self, key: str) -> None:
        """Let a worker have the key as soon as possible; nothing happens after `close`."""
        if self._closed or key in self._waiting or key in self._again:
            return
        self._cancel_delay(key)
        self._adds.inc()
        if key in self._working:
            self._again[key] = self._clock.monotonic()
        else:
            self._wait(key, self._clock.monotonic())

    def add_after(self, key: str, delay: timedelta) -> None:
        """Add the key later, unless something adds it before."""
        seconds = delay.total_seconds()
        if seconds <= 0:
            self.add(key)
            return
        if self._closed or key in self._waiting or key in self._again:
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        if key in self._delayed and self._delayed[key][0] <= due:
            return
        self._cancel_delay(key)
        self._delayed[key] = (due, loop.call_later(seconds, self._due, key))

    def retry(self, key: str) -> timedelta:
        """Add the key after its backoff, which grows until `forget`, and return the wait."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        wait = timedelta(seconds=self._backoff.wait(failures))
        self._retries.inc()
        self.add_after(key, wait)
        return wait

    def forget(self, key: str) -> None:
        """The key succeeded: its next failure starts from the shortest wait."""
        self._failures.pop(key, None)

    async def get(self) -> str:
        """Return the next key; the worker must call `done` with it.

        Raises:
            QueueClosedError: closed, and nothing waits any more.
        """
        while not self._waiting:
            if self._closed:
                raise QueueClosedError
            taker = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            try:
                await taker
            except asyncio.CancelledError:
                self._pass_on(taker)
                raise
        key, added = self._waiting.popitem(last=False)
        now = self._clock.monotonic()
        self._working[key] = now
        self._depth.set(len(self._waiting))
        self._queue_seconds.observe(now - added)
        return key

    def done(self, key: str) -> None:
        """The worker has finished with the key, well or not."""
        started = self._working.pop(key)
        self._work_seconds.observe(self._clock.monotonic() - started)
        added = self._again.pop(key, None)
        if added is not None:
            self._wait(key, added)

    def close(self, *, drain: bool) -> None:
        """Take no more keys; workers get what waits first if `drain`, else they stop at once."""
        self._closed = True
        for key in list(self._delayed):
            self._cancel_delay(key)
        if not drain:
            self._waiting.clear()
            self._again.clear()
            self._depth.set(0)
        for taker in self._takers:
            if not taker.done():
                taker.set_result(None)
        self._takers.clear()

    def _wait(self, key: str, added: float) -> None:
        self._waiting[key] = added
        self._depth.set(len(self._waiting))
        self._wake_one()

    def _wake_one(self) -> None:
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return

    def _pass_on(self, taker: asyncio.Future[None]) -> None:
        """A cancelled worker was woken for a key that it will not take: wake another."""
        if taker.cancelled():
            return
        if self._waiting:
            self._wake_one()

    def _due(self, key: str) -> None:
        self._delayed.pop(key, None)
        self.add(key)

    def _cancel_delay(self, key: str) -> None:
        if pending := self._delayed.pop(key, None):
            pending[1].cancel()
