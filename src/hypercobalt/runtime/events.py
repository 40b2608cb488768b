"""Records Events: what users see of an object's history, without ever holding up a reconciler.

`record` only takes a note; `run` writes, several Events at once. The same Event repeated within a
few minutes becomes a count on the first Event, written at most every ten seconds. Each object has a
budget, and what goes beyond any bound is dropped and counted. An Event that is written makes way
for others, so the bound is for those that wait.

Source: events.k8s.io/v1; client-go tools/events (series) and tools/record (spam filter).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal
from uuid import uuid4

from msgspec.structs import replace

from hypercobalt.api.coordination import Event, EventSeries, ObjectReference
from hypercobalt.api.meta import Object, ObjectMeta
from hypercobalt.api.times import micro_time
from hypercobalt.errors import HypercobaltError, TransientError
from hypercobalt.logs import get_logger
from hypercobalt.runtime.client.errors import (
    AlreadyExistsError,
    ForbiddenError,
    NotFoundError,
)
from hypercobalt.runtime.client.kube import Kube
from hypercobalt.runtime.client.watch import key_of
from hypercobalt.runtime.clock import Clock
from hypercobalt.runtime.metrics import Metrics
from hypercobalt.runtime.queue import QueueClosedError, WorkQueue
from hypercobalt.runtime.tasks import sleep_unless

log = get_logger(__name__)

EventType = Literal["Normal", "Warning"]

SERIES_ENDS = timedelta(minutes=6)  # repeated later than this, it is a new Event
COUNT_EVERY = timedelta(seconds=10)
BURST = 25  # Events of one object at once
REFILL = timedelta(minutes=5)  # for one more Event of that object
MAX_SERIES = 2000
WRITERS = 4  # a fleet's Events keep up with its status writes, which have the other connections
FLUSH_DEADLINE = timedelta(seconds=3)
_RETRY = timedelta(seconds=2)
_MAX_TRIES = 12
_MAX_NOTE_BYTES, _MAX_NAME = 1024, 200


@dataclass(slots=True)
class _Series:
    event: Event
    about: str
    last: float  # monotonic
    seen: datetime
    count: int = 1
    written: int = 0  # the count that the server has
    due: float = float("-inf")  # not written again before this
    tries: int = 0

    @property
    def is_written(self) -> bool:
        return self.count == self.written


@dataclass(slots=True)
class _Budget:
    left: float = BURST
    at: float = field(default=0.0)

    def take(self, now: float) -> bool:
        gained = (now - self.at) / REFILL.total_seconds()
        self.left, self.at = min(BURST, self.left + gained), now
        if self.left < 1:
            return False
        self.left -= 1
        return True


class Recorder:
    """Records Events in the name of one component.

    Args:
        controller: who reports, as a qualified name: `kvm.cloud.sap/operator`.
        instance: which process reports; its identity.
    """

    def __init__(
        self, kube: Kube, controller: str, instance: str, *, clock: Clock, metrics: Metrics
    ) -> None:
        self._kube, self._clock = kube, clock
        self._controller, self._instance = controller, instance[:128]
        self._series: OrderedDict[str, _Series] = OrderedDict()
        self._budgets: OrderedDict[str, _Budget] = OrderedDict()
        self._queue = WorkQueue("events", metrics=metrics, clock=clock)
        self._dropped = metrics.events_dropped

    def record(
        self, about: Object, type_: EventType, reason: str, note: str, *, action: str
    ) -> None:
        """Take a note; it is written soon, unless bounds or the server forbid.

        Args:
            about: the object; of a cluster-scoped one the Event goes to namespace default.
            type_: Warning for what a person should look at.
            reason: CamelCase, from a closed set.
            note: for a person; cut to 1 KiB.
            action: CamelCase, what was being done: `Evicting`.
        """
        now = self._clock.monotonic()
        meta, note = about.metadata, _written(note)
        object_ = f"{about.resource.kind}/{key_of(about)}/{meta.uid}"
        key = f"{object_}/{type_}/{reason}/{action}/{note}"
        series = self._series.get(key)
        if series is not None and now - series.last < SERIES_ENDS.total_seconds():
            series.count += 1
            series.last, series.seen = now, self._clock.now()
        elif self._may_start(object_, now):
            event = self._event(about, type_, reason, note, action)
            series = self._series[key] = _Series(event, object_, now, self._clock.now())
            self._series.move_to_end(key)
        else:
            return
        self._queue.add_after(key, timedelta(seconds=max(series.due - now, 0.0)))

    async def store(
        self, about: Object, type_: EventType, reason: str, note: str, *, action: str
    ) -> None:
        """Write an Event before going on; outside of all bounds, and never counted into another.

        The arguments are those of `record`.

        Raises:
            HypercobaltError: the server did not take it.
        """
        await self._kube.create(self._event(about, type_, reason, note, action))

    async def run(self, stop: asyncio.Event) -> None:
        """Write until `stop`, then write what is left within a few seconds."""
        async with asyncio.TaskGroup() as tasks:
            writers = [tasks.create_task(self._work(), name=f"events-{n}") for n in range(WRITERS)]
            while not await sleep_unless(stop, SERIES_ENDS.total_seconds()):
                self._forget_ended()
            for key in self._unwritten():
                self._queue.add(key)
            self._queue.close(drain=True)
            _, late = await asyncio.wait(writers, timeout=FLUSH_DEADLINE.total_seconds())
            for writer in late:
                writer.cancel()
        if late:
            log.warning("events_not_flushed", left=len(self._unwritten()))

    def _forget_ended(self) -> None:
        """Drop series that are written and that no repetition continues: 3 KB for each."""
        now = self._clock.monotonic()
        for key, series in list(self._series.items()):
            if series.is_written and now - series.last >= SERIES_ENDS.total_seconds():
                del self._series[key]

    def _unwritten(self) -> list[str]:
        return [key for key, series in self._series.items() if not series.is_written]

    def _may_start(self, about: str, now: float) -> bool:
        budget = self._budgets.setdefault(about, _Budget(at=now))
        self._budgets.move_to_end(about)
        if len(self._budgets) > MAX_SERIES:
            self._budgets.popitem(last=False)
        if not budget.take(now):
            self._dropped.labels("rate").inc()
            return False
        if len(self._series) >= MAX_SERIES and not self._make_way():
            self._dropped.labels("full").inc()
            return False
        return True

    def _make_way(self) -> bool:
        """Forget the oldest series that is written, if there is any."""
        written = next((key for key, series in self._series.items() if series.is_written), None)
        if written is None:
            return False
        del self._series[written]
        return True

    async def _work(self) -> None:
        while True:
            try:
                key = await self._queue.get()
            except QueueClosedError:
                return
            try:
                series = self._series.get(key)
                if series is not None and not series.is_written:
                    await self._write(key, series)
            finally:
                self._queue.done(key)

    async def _write(self, key: str, series: _Series) -> None:
        count = series.count
        series.due = self._clock.monotonic() + COUNT_EVERY.total_seconds()
        try:
            series.event = await self._send(series, count)
        except HypercobaltError as error:
            self._refused(key, series, error)
        else:
            series.written, series.tries = count, 0

    async def _send(self, series: _Series, count: int) -> Event:
        if not series.written:
            return await self._kube.create(_counted(series.event, series.seen, count))
        # No lock: no other writer has this Event, and a lost count is not worth a read.
        named = ObjectMeta(
            name=series.event.metadata.name, namespace=series.event.metadata.namespace
        )
        whole = replace(series.event, metadata=named)
        return await self._kube.replace(_counted(whole, series.seen, count))

    def _refused(self, key: str, series: _Series, error: HypercobaltError) -> None:
        series.tries += 1
        hopeless = not isinstance(error, TransientError) or isinstance(error, ForbiddenError)
        if isinstance(error, NotFoundError) and not series.written:
            hopeless = True  # its namespace is gone, or the server has no Events
        elif isinstance(error, (NotFoundError, AlreadyExistsError)):
            # Expired on the server, or a retried create had gone through: start a new one.
            series.written = 0
            meta = _meta(series.event.metadata, series.event.regarding)
            series.event = replace(series.event, metadata=meta)
        if not hopeless and series.tries < _MAX_TRIES:
            self._queue.add_after(key, _RETRY)
            return
        del self._series[key]
        self._dropped.labels("refused").inc()
        reason = series.event.reason
        log.warning("event_dropped", about=series.about, event_reason=reason, error=str(error))

    def _event(self, about: Object, type_: EventType, reason: str, note: str, action: str) -> Event:
        info, meta = about.resource, about.metadata
        now = self._clock.now()
        regarding = ObjectReference(
            apiVersion=info.api_version,
            kind=info.kind,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            resourceVersion=meta.resourceVersion,
        )
        return Event(
            metadata=_meta(ObjectMeta(namespace=meta.namespace or "default"), regarding),
            eventTime=micro_time(now),
            reportingController=self._controller,
            reportingInstance=self._instance,
            action=action,
            reason=reason,
            regarding=regarding,
            note=_written(note),
            type=type_,
        )


def _written(note: str) -> str:
    """As much of a note as is written: no more of it is kept, nor sets two Events apart."""
    return note[:_MAX_NOTE_BYTES].encode()[:_MAX_NOTE_BYTES].decode(errors="ignore")


def _counted(event: Event, seen: datetime, count: int) -> Event:
    """The event as it is written when it has happened `count` times, `seen` the last time."""
    if count == 1:
        return event
    series = EventSeries(count=count, lastObservedTime=micro_time(seen))
    return replace(event, series=series)


def _meta(old: ObjectMeta, regarding: ObjectReference | None) -> ObjectMeta:
    name = regarding.name[:_MAX_NAME] if regarding else "event"
    return ObjectMeta(name=f"{name}.{uuid4().hex[:16]}", namespace=old.namespace)
