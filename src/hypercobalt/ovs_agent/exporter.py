"""The switch as Prometheus metrics: what is known, and counters read for the scrape.

Names are those of ovn-kubernetes where the meaning is the same, gauges whose names end in `_total`
included. What a dead producer left behind is no series: a gap shows it, and
`ovs_agent_source_up` names it. Interfaces have series of their own only if they are uplinks: those
of instances would be thousands.

Source: `docs/compatibility.md`; Prometheus data model and text format.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from hypercobalt.adapters.ovs.port import Switch, SwitchError
from hypercobalt.api.ovsnode_reasons import IssueCode
from hypercobalt.ovs_agent import scrape, series
from hypercobalt.ovs_agent.facts import SwitchFacts, is_unsupported
from hypercobalt.ovs_agent.judging import Judge
from hypercobalt.ovs_agent.observing import SwitchObserver
from hypercobalt.ovs_agent.rules.controller import uses_ovn
from hypercobalt.ovs_agent.rules.issues import issues_of
from hypercobalt.ovs_agent.rules.ports import CODES as PORT_CODES
from hypercobalt.ovs_agent.scrape import OfController, Scrape
from hypercobalt.ovs_agent.series import gauge

DEADLINE: Final = timedelta(seconds=3)
"""Less time than a page may take, so that a hung switch still leads to a page that shows it."""

CACHED: Final = timedelta(seconds=5)
"""Two scrapes within this cost one."""


class Exporter(Collector):
    """The collector; call `refresh` before a scrape.

    Args:
        by_table: whether flows have series by table: some 80 a host.
    """

    def __init__(
        self, switch: Switch, observer: SwitchObserver, judge: Judge, *, by_table: bool = False
    ) -> None:
        self._switch, self._observer, self._judge = switch, observer, judge
        self._by_table = by_table
        self._read_at = float("-inf")
        self._scrape: Scrape | None = None
        self._controller: OfController | None = None
        self._statistics: Mapping[str, Mapping[str, int]] | None = None

    async def refresh(self) -> None:
        """Read counters; those of a daemon that does not answer are left out."""
        if time.monotonic() - self._read_at < CACHED.total_seconds():
            return
        self._scrape = self._controller = self._statistics = None
        facts = self._observer.facts.value
        try:
            async with asyncio.timeout(DEADLINE.total_seconds()):
                if facts.effective is not None:
                    self._statistics = await self._switch.statistics()
                if facts.vswitchd.proven is not None:
                    self._scrape = await scrape.read(self._switch, facts)
                if facts.ovn_controller.proven is not None:
                    self._controller = await scrape.read_controller(self._switch)
        except (SwitchError, TimeoutError):
            return  # the source shows as down once its own probe has failed
        self._read_at = time.monotonic()

    def describe(self) -> list[Metric]:
        """Nothing: registering must not read anything."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Everything that is proven now."""
        facts = self._observer.facts.value
        yield from self._sources(facts)
        yield from series.versions(facts)
        yield from series.bridges(facts, by_table=self._by_table)
        yield from series.bonds(facts)
        yield from series.controller(facts)
        yield from self._issues()
        if self._scrape is not None:
            yield from scrape.metrics(self._scrape)
        if self._controller is not None:
            yield from scrape.metrics_of_controller(self._controller)
        yield from series.interfaces(facts, self._statistics)

    def _sources(self, facts: SwitchFacts) -> Iterator[Metric]:
        up = gauge("ovs_agent_source_up", "1 while this source answers, else 0.", "source")
        for name, answers in _answers(facts).items():
            if answers is not None:
                up.add_metric((name,), float(answers))
        yield up
        at = gauge(
            "ovs_agent_last_success_timestamp_seconds", "Last answer of the source.", "source"
        )
        took = gauge("ovs_agent_probe_duration_seconds", "Time of the last probe.", "probe")
        for name, timing in sorted(self._observer.timings.items()):
            if timing.answered_at:
                at.add_metric((name,), timing.answered_at)
                took.add_metric((name,), timing.seconds)
        yield from (at, took)

    def _issues(self) -> Iterator[Metric]:
        judged = self._judge.latest
        if judged is None:
            return
        counts = Counter(one.finding.code for one in issues_of(judged.ledger))
        ports = gauge("ovs_port_issues", "Ports with an issue of this code.", "code")
        others = gauge("ovs_issues", "Issues of this code.", "code")
        for code in IssueCode:
            (ports if code in PORT_CODES else others).add_metric((code,), counts[code])
        yield from (ports, others)


def _answers(facts: SwitchFacts) -> dict[str, bool | None]:
    """Whether each source answers; None before its first answer, and without means to read it."""
    return {
        "ovsdb": facts.database.answers,
        "ovsdb-server": facts.ovsdb_server.answers,
        "ovs-vswitchd": facts.vswitchd.answers,
        "ovn-controller": facts.ovn_controller.answers if uses_ovn(facts) else None,
        "southbound": None if is_unsupported(facts.southbound) else facts.southbound.answers,
        "kernel": facts.links.answers,
    }
