"""Judges libvirt's events one after the other, and the changes that only a listing shows.

The reader of libvirt's events only enqueues here. When the connection is made, and every few
minutes, all domains are listed and compared with what is remembered: first the listing, then the
events that came since. The queue is bounded; when it overflows everything is listed again.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from hypercobalt.adapters.libvirt.events import Connected, Disconnected, DomainEvent, Event, Lost
from hypercobalt.adapters.libvirt.model import Domain
from hypercobalt.adapters.libvirt.port import Libvirt, LibvirtError
from hypercobalt.api.incident import IncidentType, Severity
from hypercobalt.ha.incidents.cases import Case, InstanceRecord, Step
from hypercobalt.ha.incidents.classify import classify
from hypercobalt.ha.incidents.clock import by_this_clock
from hypercobalt.ha.incidents.config import HaConfig
from hypercobalt.ha.incidents.history import record
from hypercobalt.ha.incidents.signals import EVENT_TYPE, HOST, STOPS, EventType, Kind, Signal
from hypercobalt.ha.incidents.storm import admit
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.incidents.domain_log import DomainLogs
from hypercobalt.node_agent.incidents.journal import IncidentJournal
from hypercobalt.node_agent.incidents.metrics import IncidentMetrics
from hypercobalt.node_agent.incidents.store import Store
from hypercobalt.node_agent.incidents.translate import found, has_lost_its_reason, signal_of
from hypercobalt.runtime import Backoff, Clock

log = get_logger(__name__)

RESYNC: Final = timedelta(minutes=5)
"""How often all domains are compared, a safety net; a miss that it finds is counted."""
MOST_EVENTS: Final = 10_000
_WRITE_EVERY: Final = timedelta(milliseconds=200)
"""Shortest time between writes, for storms; a killed agent loses what it has seen in that time."""
WRITE_AGAIN: Final = timedelta(seconds=30)
"""Time after a failed write until the next, if nothing changes: the disk may be back."""
_RETRY: Final = Backoff(base=timedelta(milliseconds=200), cap=timedelta(seconds=10))
_ENDS: Final = STOPS - {Kind.FOUND_OFF}
"""What ends an instance; a listing may show it off before its events were judged."""
_LEADS_TO_END: Final = {Kind.WATCHDOG, Kind.SHUTDOWN_BY_HOST}
"""What an end that follows is judged by; a listing does not show it."""
_TOGETHER: Final = 100
"""Events that are judged before others get a turn."""


class Judge:
    """Keeps the store equal to what libvirt reports.

    Args:
        boot: names the host's present boot; differs from boot to boot, "" when it is not known.
        ended: whether the agent has ended an instance that has just ended, to fence its host.
        config: the configuration that is active now.
        logs: of the domains.
    """

    def __init__(
        self,
        libvirt: Libvirt,
        store: Store,
        journal: IncidentJournal,
        metrics: IncidentMetrics,
        *,
        clock: Clock,
        boot: str,
        ended: Callable[[str], bool] = lambda _: False,
        config: Callable[[], HaConfig],
        logs: DomainLogs,
        resync: timedelta = RESYNC,
        write_again: timedelta = WRITE_AGAIN,
    ) -> None:
        self._libvirt, self._store, self._journal = libvirt, store, journal
        self._metrics, self._clock, self._boot = metrics, clock, boot
        self._ended, self._logs = ended, logs
        self._config, self._resync_every, self._write_again = config, resync, write_again
        self._queue: deque[Event] = deque()
        self._wake = asyncio.Event()
        self._dirty: set[str] = set()
        self._was_connected = False
        self._compared = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    def on_event(self, event: Event) -> None:
        """Take an event; never waits."""
        if len(self._queue) >= MOST_EVENTS:
            self._queue.clear()
            event = Lost()
        self._queue.append(event)
        self._metrics.depth.set(len(self._queue))
        self._wake.set()

    async def load(self) -> None:
        """Load what an earlier process has remembered."""
        now = self._clock.now()
        for instance in (await asyncio.to_thread(self._journal.read)).values():
            self._store.put(by_this_clock(instance, now))
        self._store.on_change(lambda before, _: self._dirty.add(before.uuid))

    async def compared(self) -> None:
        """Wait until what was remembered was compared with libvirt's domains."""
        await self._compared.wait()

    async def run(self) -> None:
        """Judge until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_journal(), name="incidents-journal")
            await self._judge()

    async def _judge(self) -> None:
        count = 0
        while True:
            while not self._queue:
                await self._wake.wait()
                self._wake.clear()
            event = self._queue.popleft()
            self._metrics.depth.set(len(self._queue))
            match event:
                case Connected() | Lost():
                    self._count_connection(event)
                    await self._resync()
                case Disconnected():
                    self._metrics.connected.set(0)
                case DomainEvent():
                    if signal := signal_of(event):
                        self.take(signal)
            count += 1
            if count % _TOGETHER == 0:
                await asyncio.sleep(0)

    def take(self, signal: Signal) -> None:
        """Judge one signal, and remember it."""
        if signal.kind is Kind.MEMORY_FAILURE:
            signal = _of_host(signal)
        if signal.kind in _ENDS and self._ended(signal.instance):
            signal = _by_agent(signal)
        before = self._store.get(signal.instance)
        verdict = classify(signal, before, self._config())
        after = record(before, signal, verdict, self._config())
        type_ = EVENT_TYPE.get(signal.kind, EventType.LIFECYCLE)
        self._metrics.events.labels(type_, signal.kind, verdict.nature).inc()
        self._put(before, after)

    def _put(self, before: InstanceRecord, after: InstanceRecord) -> None:
        """Remember an instance; each incident that opens takes a token of the host."""
        known = {case.id for case in before.cases}
        for case in after.cases if after.uuid != HOST else ():
            if case.id in known or not case.shown:
                continue
            minor = case.severity == Severity.INFO
            host, admitted = admit(self._store.host, case.last_seen, self._config(), minor=minor)
            self._store.put(host)
            if not admitted:
                self._metrics.suppressed.labels("storm").inc()
                after = after.with_case(replace(case, shown=False))
        self._store.put(after)

    def _count_connection(self, event: Connected | Lost) -> None:
        if isinstance(event, Connected):
            self._metrics.connected.set(1)
            if self._was_connected:
                self._metrics.reconnects.inc()
            self._was_connected = True

    async def _resync(self) -> None:
        """Compare all domains; not if the connection has changed since, which is handled next."""
        failures = 0
        while not any(isinstance(event, Connected | Disconnected) for event in self._queue):
            at = self._clock.now()
            try:
                domains = await self._libvirt.domains()
            except LibvirtError as error:
                log.warning("resync_failed", error=str(error))
                await asyncio.sleep(_RETRY.wait(failures))
                failures += 1
                continue
            self._compare(domains, at, await self._logs.reasons(self._without_reason(domains)))
            break
        if self._timer:
            self._timer.cancel()
        later = asyncio.get_running_loop().call_later
        self._timer = later(self._resync_every.total_seconds(), self._again)

    def _without_reason(self, domains: Sequence[Domain]) -> tuple[str, ...]:
        """Names of the domains that have ended, and of which libvirt has lost the reason."""
        same_boot = self._is_same_boot()
        return tuple(
            one.name
            for one in domains
            if has_lost_its_reason(one, self._store.get(one.uuid), same_boot=same_boot)
        )

    def _is_same_boot(self) -> bool:
        remembered = self._store.host.start
        return not (remembered and self._boot) or remembered == self._boot

    def _compare(self, domains: Sequence[Domain], at: datetime, logged: Mapping[str, str]) -> None:
        """Judge what a listing shows, `at` before it began, and no event has.

        Events wait meanwhile: what came while it was made is newer, and judged after it, but for
        what has led to an end that it shows.

        Args:
            domains: all of them.
            at: see above.
            logged: why some have ended, by their names, where libvirt has lost that.
        """
        remembered = self._store.host.start
        same_boot = self._is_same_boot()
        for domain in domains:
            known = self._store.get(domain.uuid)
            if not same_boot:  # libvirt counts its starts from 1 again
                known = replace(known, domain_id=-1)
                self._store.put(known)
            if known.active and not domain.active:
                known = self._judged_before_end(known)
            why = logged.get(domain.name, "")
            for signal in found(domain, known, at, same_boot=same_boot, logged=why):
                if signal.missed:
                    self._metrics.missed.inc()
                self.take(signal)
            known = self._store.get(domain.uuid)
            self._store.put(replace(known, memory_bytes=domain.memory_bytes))
        self._forget_others({domain.uuid for domain in domains})
        host = self._store.host
        kept = tuple(case for case in host.cases if same_boot or not _ends_with_boot(case))
        self._store.put(replace(host, start=self._boot or remembered, cases=kept))
        self._compared.set()

    def _judged_before_end(self, known: InstanceRecord) -> InstanceRecord:
        """Judge the events that wait and have led to the end that a listing shows."""
        for event in tuple(self._queue):
            if not isinstance(event, DomainEvent):
                continue
            is_of_start = (event.uuid, event.domain_id) == (known.uuid, known.domain_id)
            signal = signal_of(event) if is_of_start else None
            if signal and signal.kind in _LEADS_TO_END:
                self._queue.remove(event)
                self.take(signal)
        return self._store.get(known.uuid)

    def _again(self) -> None:
        if not any(isinstance(event, Connected | Lost) for event in self._queue):
            self.on_event(Lost())

    def _forget_others(self, here: set[str]) -> None:
        """Forget what is not listed any more."""
        for uuid in self._store.known.keys() - here - {HOST}:
            self._store.drop(uuid)

    async def _keep_journal(self) -> None:
        try:
            while True:
                state = self._store.changes.value
                if self._dirty:
                    await self._journal.write(self._changed(), self._store.known)
                    await asyncio.sleep(_WRITE_EVERY.total_seconds())
                    continue
                again = self._write_again.total_seconds() if self._journal.failing else None
                try:
                    async with asyncio.timeout(again):
                        await self._store.changes.changed(state)
                except TimeoutError:  # all of it: what failed is not known line by line
                    await self._journal.write((), self._store.known)
        finally:
            self._journal.close(self._store.known)

    def _changed(self) -> list[str]:
        changed, self._dirty = self._dirty, set()
        return sorted(changed)


def _ends_with_boot(case: Case) -> bool:
    """Whether a case of the host is over once it has booted.

    Memory that has failed can only be replaced while the host is off; that it has failed still
    counts towards the next time.
    """
    reported = case.type is IncidentType.MEMORY_FAILURE and case.step is Step.EXPIRE
    return reported or case.step is Step.NONE


def _by_agent(signal: Signal) -> Signal:
    """The stop of an instance that the agent has ended, if it has ended by that."""
    destroyed = signal.kind is Kind.STOPPED_DESTROYED
    return dataclasses.replace(signal, kind=Kind.ENDED_BY_AGENT) if destroyed else signal


def _of_host(signal: Signal) -> Signal:
    """A failure of memory is the host's, whichever guest it hit."""
    return Signal(
        kind=signal.kind,
        instance=HOST,
        name="",
        at=signal.at,
        action=signal.action,
        about=signal.about,
        reason=signal.name,
    )
