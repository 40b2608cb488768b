"""Keeps the facts equal to the switch: rows are pushed, what has no push is polled.

A probe that fails is repeated after a second, unless it costs the switch time, so that a daemon
counts as away 10 s after it was killed or hangs: two failures of the longest deadline, with the
period between them. A probe runs at once when what it reads has changed in the database, and more
often while a finding that rests on it is not confirmed. Nothing here judges.

Source: docs/decisions/0032 for the periods.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, Generic, TypeVar

from hypercobalt.adapters.ovs.model import DaemonName
from hypercobalt.adapters.ovs.port import Switch, SwitchError
from hypercobalt.adapters.ovs.rows import Database
from hypercobalt.logs import get_logger
from hypercobalt.ovs_agent.facts import Reading, SwitchFacts, with_hosted
from hypercobalt.runtime import Clock
from hypercobalt.runtime.observable import Observable

log = get_logger(__name__)

T = TypeVar("T")

AGAIN: Final = timedelta(seconds=1)
"""Time between a failure and the next attempt, until the producer counts as away."""

RECHECK: Final = timedelta(seconds=3)
"""Time between two answers while a finding that rests on them is not confirmed."""

GIVE_UP: Final = timedelta(seconds=3.5)
"""How long after a lost connection ovsdb-server counts as away; a restart takes less."""

FILL: Final = timedelta(seconds=11)
"""How long a database with empty ephemeral columns is held back: ovs-vswitchd fills them within 9 s
of a restart of ovsdb-server."""

_JITTER: Final = 0.1


@dataclass(frozen=True, slots=True)
class SwitchProbe(Generic[T]):
    """One thing that is polled.

    Args:
        name: for logs and metrics.
        period: between two answers.
        call: of the port.
        get: the reading among the facts.
        put: the facts with another reading.
        wanted: whether it is of use now; what is not, has no reading.
        source: what of the database it depends on; a change of that leads to a probe at once.
        reads: the same for the other facts.
        again: between a failure and the next attempt; longer for what costs the switch time.
        recheck: between two answers while a finding that rests on them is not confirmed.
        unsettled: whether an answer is about to change without a change of its source; then the
            next look is after `again`.
    """

    name: str
    period: timedelta
    call: Callable[[], Awaitable[T]]
    get: Callable[[SwitchFacts], Reading[T]]
    put: Callable[[SwitchFacts, Reading[T]], SwitchFacts]
    wanted: Callable[[SwitchFacts], bool] = lambda _facts: True
    source: Callable[[Database], object] = lambda _database: None
    reads: Callable[[SwitchFacts], object] = lambda _facts: None
    again: timedelta = AGAIN
    recheck: timedelta = RECHECK
    unsettled: Callable[[SwitchFacts], bool] = lambda _facts: False


@dataclass(slots=True)
class Timing:
    """How a source does, for `/metrics`.

    Args:
        answered_at: Unix time of the last answer; 0 for never.
        seconds: that the last probe took.
    """

    answered_at: float = 0.0
    seconds: float = 0.0


class SwitchObserver:
    """The one writer of the facts.

    Attributes:
        facts: what is known now.
        timings: by name of the source.
        read_at: when the last answer of each probe was begun, seconds of the monotonic clock.
    """

    def __init__(self, switch: Switch, clock: Clock) -> None:
        self._switch, self._clock = switch, clock
        self.facts: Observable[SwitchFacts] = Observable(SwitchFacts())
        self.timings: dict[str, Timing] = {}
        self.read_at: dict[str, float] = {}
        self._doubted: frozenset[str] = frozenset()
        self._rechecks: dict[str, timedelta] = {}
        self._kicks: dict[str, asyncio.Event] = {}
        self._sources: dict[str, Callable[[Database], object]] = {}
        self._reads: dict[str, Callable[[SwitchFacts], object]] = {}
        self._wanted: dict[str, Callable[[SwitchFacts], bool]] = {}
        self._held: asyncio.TimerHandle | None = None  # until an unfilled database counts
        self._unfilled: Database | None = None  # the newest that is held back
        self._giving_up: asyncio.TimerHandle | None = None  # until ovsdb-server counts as away
        self._complaints: dict[str, str] = {}

    def update(self, change: Callable[[SwitchFacts], SwitchFacts]) -> None:
        """Change the facts; equal facts wake no waiter."""
        old = self.facts.value
        new = change(old)
        if new != old:
            self.facts.set(new)
            self._kick(old, new)

    def doubt(self, names: frozenset[str]) -> None:
        """Repeat these probes sooner until the next call names others."""
        for name in names - self._doubted:
            if name in self._kicks:
                recheck = self._rechecks[name].total_seconds()
                asyncio.get_running_loop().call_later(recheck, self._kicks[name].set)
        self._doubted = names

    async def follow(self) -> None:
        """Follow the database until cancelled."""
        async with aclosing(self._switch.watch()) as events:
            async for event in events:
                if isinstance(event, SwitchError):
                    self._lost(event)
                else:
                    self._answered("ovsdb", 0.0)
                    self._take(event)

    def _lost(self, error: SwitchError) -> None:
        """A connection ends with a restart too: ovsdb-server is away after GIVE_UP without rows."""
        self._failed("ovsdb", error)
        self._release()  # rows of a connection that is lost prove nothing
        now, reading = self._clock.now(), self.facts.value.database
        if reading.is_down or not reading.failures:
            self.update(lambda f: replace(f, database=f.database.failed(error, now)))
        if self._giving_up is None:
            self._giving_up = asyncio.get_running_loop().call_later(
                GIVE_UP.total_seconds(),
                lambda: self.update(lambda f: replace(f, database=f.database.failed(error, now))),
            )

    def _take(self, database: Database) -> None:
        """Take rows; after a restart of ovsdb-server, once ovs-vswitchd has filled them."""
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None
        known = self.facts.value.database
        if database.is_filled or known.value is None or not known.value.is_filled:
            self._release()
            self.update(lambda f: with_hosted(replace(f, database=Reading(database))))
            return
        if known.failures:
            self.update(lambda f: replace(f, database=Reading(known.value)))
        self._unfilled = database
        if self._held is None:
            loop = asyncio.get_running_loop()
            self._held = loop.call_later(FILL.total_seconds(), self._take_unfilled)

    def _take_unfilled(self) -> None:
        self._held, database = None, self._unfilled
        self.update(lambda f: with_hosted(replace(f, database=Reading(database))))

    def _release(self) -> None:
        if self._held is not None:
            self._held.cancel()
            self._held = None

    async def poll(self, probe: SwitchProbe[T]) -> None:
        """Keep one reading current until cancelled."""
        kick = self._kicks[probe.name] = asyncio.Event()
        self._sources[probe.name], self._reads[probe.name] = probe.source, probe.reads
        self._wanted[probe.name], self._rechecks[probe.name] = probe.wanted, probe.recheck
        while True:
            kick.clear()
            wait = await self._once(probe)
            with suppress(TimeoutError):
                async with asyncio.timeout(wait.total_seconds()):
                    await kick.wait()

    async def _once(self, probe: SwitchProbe[T]) -> timedelta:
        if not probe.wanted(self.facts.value):
            self.update(lambda f: probe.put(f, Reading()))
            return probe.period
        began, read_at = time.monotonic(), self._clock.monotonic()
        try:
            value = await probe.call()
        except SwitchError as error:
            failure, now = error, self._clock.now()
            self._failed(probe.name, failure)
            self.update(lambda f: probe.put(f, probe.get(f).failed(failure, now)))
            is_down = probe.get(self.facts.value).is_down
            return min(probe.period, 2 * probe.again) if is_down else probe.again
        self._answered(probe.name, time.monotonic() - began)
        self.read_at[probe.name] = read_at
        self.update(lambda f: probe.put(f, Reading(value)))
        if probe.unsettled(self.facts.value):
            return probe.again
        period = probe.recheck if probe.name in self._doubted else probe.period
        return period * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 - no secret

    def _kick(self, old: SwitchFacts, new: SwitchFacts) -> None:
        """Have the probes run that are of use now, or whose source or daemon has changed."""
        before, after = old.database.value, new.database.value
        one, other = old.vswitchd.proven, new.vswitchd.proven
        restarted = (one and one.run) != (other and other.run)
        for name, source in self._sources.items():
            changed = after is not None and (
                before is None or (before is not after and source(before) != source(after))
            )
            wanted, reads = self._wanted[name], self._reads[name]
            begins = wanted(new) and not wanted(old)
            changed = changed or reads(old) != reads(new)
            if begins or changed or (restarted and name != DaemonName.VSWITCHD):
                self._kicks[name].set()

    def _answered(self, name: str, seconds: float) -> None:
        timing = self.timings.setdefault(name, Timing())
        timing.answered_at, timing.seconds = self._clock.now().timestamp(), seconds
        if self._complaints.pop(name, None) is not None:
            log.info("source_answers_again", source=name)

    def _failed(self, name: str, error: SwitchError) -> None:
        self.timings.setdefault(name, Timing())
        if self._complaints.get(name) != error.fault:
            self._complaints[name] = error.fault
            log.warning("source_failed", source=name, fault=error.fault, error=str(error))
