"""Judges the facts when they change, and puts the result on the board.

A change shows at once; those that follow within a second show together, in one write. Counters go
with them, else by a timer with jitter, so that a fleet's agents do not write together.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from types import MappingProxyType
from typing import Final

from hypercobalt.api.ovsnode import Issue, OVSNodeStatus
from hypercobalt.logs import get_logger
from hypercobalt.ovs_agent.assess import Judgement, judge
from hypercobalt.ovs_agent.facts import SwitchFacts
from hypercobalt.ovs_agent.rules import issues
from hypercobalt.ovs_agent.rules.evidence import sources_of
from hypercobalt.ovs_agent.rules.issues import Ledger, Tracked
from hypercobalt.ovs_agent.status.compose import published
from hypercobalt.ovs_agent.status.parts import Board, with_status
from hypercobalt.runtime import Clock
from hypercobalt.runtime.observable import Observable

log = get_logger(__name__)

TOGETHER: Final = timedelta(seconds=1)
"""How long after a change further ones are collected."""

PENDING: Final = timedelta(seconds=1)
"""Shortest time between two looks while a finding has not lasted for its grace."""

_JITTER: Final = 0.1
_MOST_NEWS: Final = 256

News = tuple[bool, Tracked]
"""An issue, and whether it has appeared or disappeared."""


class Judge:
    """The one writer of the board's status.

    Args:
        counters: how often counters are shown when nothing else changes.
        read_at: when the last answer of each probe was begun; it follows the observer.
        doubt: called with the probes that unconfirmed findings rest on.

    Attributes:
        latest: the last judgement; None before the first.
        news: issues that came and went, oldest first; the oldest are dropped when they are not
            read.
    """

    def __init__(
        self,
        facts: Observable[SwitchFacts],
        board: Board,
        clock: Clock,
        *,
        counters: timedelta,
        read_at: Mapping[str, float] = MappingProxyType({}),
        doubt: Callable[[frozenset[str]], None] = lambda _names: None,
    ) -> None:
        self._facts, self._board, self._clock = facts, board, clock
        self._counters = counters.total_seconds()
        self._read_at, self._doubt = read_at, doubt
        self._ledger: Ledger = {}
        self._shown: OVSNodeStatus | None = None
        self._due = float("-inf")  # by the monotonic clock
        self.latest: Judgement | None = None
        self.news: asyncio.Queue[News] = asyncio.Queue(_MOST_NEWS)

    def adopt(self, stored: Iterable[Issue]) -> None:
        """Take over the issues of the stored status, before anything is written."""
        self._ledger = issues.adopt(self._ledger, stored, now=self._clock.now())
        self._judge()

    async def run(self) -> None:
        """Judge until cancelled."""
        while True:
            facts = self._facts.value
            if self._judge():
                await asyncio.sleep(TOGETHER.total_seconds())
            with suppress(TimeoutError):
                async with asyncio.timeout(self._wait()):
                    await self._facts.changed(facts)

    def _wait(self) -> float:
        """Seconds until the next look, if no fact changes."""
        now = self._clock.monotonic()
        lasted = max(issues.due_in(self._ledger, now), PENDING.total_seconds())
        return min(max(0.0, self._due - now), lasted)

    def _judge(self) -> bool:
        """Judge once, and return whether the board has changed."""
        now, monotonic = self._clock.now(), self._clock.monotonic()
        before, last = self._ledger, self.latest
        judged = judge(
            self._facts.value,
            before,
            now=now,
            monotonic=monotonic,
            before=last.conditions if last else {},
            read_at=self._read_at,
        )
        self.latest, self._ledger = judged, judged.ledger
        self._doubt(sources_of(one.finding.code for one in issues.young(judged.ledger)))
        appeared, disappeared = issues.changes(before, judged.ledger)
        for tracked in appeared:
            self._report(True, tracked)
        for tracked in disappeared:
            self._report(False, tracked)
        due = monotonic >= self._due
        shown = published(self._shown, judged.status, due=due)
        if shown is not self._shown:
            self._shown = shown
            self._due = monotonic + self._counters * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 - no secret
        old = self._board.parts
        self._board.put(with_status(old, shown, judged.conditions, now))
        return self._board.parts is not old

    def _report(self, appeared: bool, tracked: Tracked) -> None:
        finding = tracked.finding
        event = "issue_detected" if appeared else "issue_resolved"
        level = log.warning if appeared else log.info
        level(event, code=finding.code, object=finding.object, message=finding.message)
        if self.news.full():
            self.news.get_nowait()
        self.news.put_nowait((appeared, tracked))
