"""When a judgement is shown: at once, together, and counters by a timer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.unit.ovs_agent.switches import NOW, healthy, later, without

from hypercobalt.adapters.ovs.model import FlowCounts
from hypercobalt.api.ovsnode import Issue, OVSNodeStatus
from hypercobalt.ovs_agent.facts import Reading, SwitchFacts
from hypercobalt.ovs_agent.judging import Judge, News
from hypercobalt.ovs_agent.status.compose import published, without_counters
from hypercobalt.ovs_agent.status.parts import Board, Parts
from hypercobalt.runtime import FakeClock
from hypercobalt.runtime.observable import Observable

pytestmark = pytest.mark.looptime


class Site:
    def __init__(self) -> None:
        self.clock = FakeClock(NOW, source=asyncio.get_running_loop().time)
        self.facts = Observable(healthy())
        self.board = Board(self.clock, Parts())
        self.judge = Judge(self.facts, self.board, self.clock, counters=timedelta(minutes=5))

    @property
    def status(self) -> OVSNodeStatus:
        status = self.board.parts.status
        assert status is not None
        return status

    def flows(self, total: int) -> None:
        self.facts.set(with_flows(self.facts.value, total))

    @property
    def total(self) -> int | None:
        return self.status.flowStats.totalFlows if self.status.flowStats else None


def with_flows(facts: SwitchFacts, total: int) -> SwitchFacts:
    return replace(
        facts, flows=dict.fromkeys(("br-int", "br-ex"), Reading(FlowCounts(total, {0: total})))
    )


@asynccontextmanager
async def judging() -> AsyncIterator[Site]:
    site = Site()
    task = asyncio.create_task(site.judge.run())
    try:
        await asyncio.sleep(2)
        yield site
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_counters_alone_are_not_written_before_their_time() -> None:
    async with judging() as site:
        site.flows(7)
        await asyncio.sleep(200)
        assert site.total == 6
        await asyncio.sleep(140)  # five minutes and their jitter
        assert site.total == 14


async def test_flows_that_changed_much_are_written_at_once_and_settle() -> None:
    async with judging() as site:
        for shown in (2000, 0, 400):
            site.flows(shown // 2)
            await asyncio.sleep(2)
            assert site.total == shown
        site.flows(210)  # 5 % more wait for the timer
        await asyncio.sleep(100)
        assert site.total == 400


async def test_counters_go_with_any_other_change() -> None:
    async with judging() as site:
        site.flows(7)
        site.facts.set(replace(site.facts.value, instances=None, running=Reading()))
        await asyncio.sleep(0.01)
        assert site.status.flowStats is None
        site.facts.set(with_flows(healthy(), 8))
        await asyncio.sleep(2)
        assert site.total == 16


async def test_change_shows_at_once_and_what_follows_within_a_second_together() -> None:
    async with judging() as site:
        site.facts.set(without(healthy(), "vswitchd"))
        await asyncio.sleep(0.01)
        first = site.board.parts
        assert first.conditions["VswitchdResponding"] is not None
        assert first.conditions["VswitchdResponding"].status == "False"
        for lost in ("ovn_controller", "database"):
            site.facts.set(without(site.facts.value, lost))
            await asyncio.sleep(0.1)
        assert site.board.parts is first
        await asyncio.sleep(1)
        found = site.board.parts.conditions["OVSDBConnected"]
        assert found is not None
        assert found.status == "False"


async def test_idle_switch_changes_nothing_on_the_board() -> None:
    async with judging() as site:
        before = site.board.parts
        await asyncio.sleep(250)
        assert site.board.parts is before


async def test_finding_becomes_an_issue_by_time_alone_with_news_of_both_ends() -> None:
    async with judging() as site:
        site.facts.set(replace(healthy(), instances={}))
        await asyncio.sleep(55)
        assert site.status.issuesTotal == 0
        await asyncio.sleep(10)
        assert [one.code for one in site.status.issues] == ["OrphanPortNoDomain"]
        site.facts.set(healthy())
        await asyncio.sleep(2)
        waiting = site.judge.news.qsize()
        news: list[News] = [site.judge.news.get_nowait() for _ in range(waiting)]
    assert [(appeared, one.finding.code) for appeared, one in news] == [
        (True, "OrphanPortNoDomain"),
        (False, "OrphanPortNoDomain"),
    ]


async def test_stored_issue_keeps_its_first_sight_and_is_no_news() -> None:
    stored = Issue(
        severity="Warning",
        message="old",
        detectedAt=later(-900),
        code="OrphanPortNoDomain",
        object="tap1",
    )
    async with judging() as site:
        site.facts.set(replace(healthy(), instances={}))
        await asyncio.sleep(1)
        site.judge.adopt((stored,))
        (issue,) = site.status.issues
        assert (issue.detectedAt, site.judge.news.qsize()) == (later(-900), 0)


async def test_unread_news_are_bounded() -> None:
    async with judging() as site:
        for _ in range(200):
            site.facts.set(without(healthy(), "vswitchd"))
            await asyncio.sleep(1.1)
            site.facts.set(healthy())
            await asyncio.sleep(1.1)
        assert site.judge.news.full()


def test_status_without_counters_shows_that_there_are_some() -> None:
    site = OVSNodeStatus()
    assert published(None, site, due=False) is site
    assert without_counters(site) == without_counters(OVSNodeStatus(lastProbeTime=NOW))
