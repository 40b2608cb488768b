"""No finding becomes an issue by time alone where its source has not been read again."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.unit.ovs_agent.switches import daemon, database, interface, tap

from hypercobalt.adapters.ovs.fake import FakeSwitch
from hypercobalt.adapters.ovs.model import DaemonName, Flow
from hypercobalt.ovs_agent import flow_scan, observing, probes, rules
from hypercobalt.ovs_agent.judging import Judge
from hypercobalt.ovs_agent.observing import SwitchObserver, SwitchProbe
from hypercobalt.ovs_agent.rules.evidence import EVIDENCE
from hypercobalt.ovs_agent.settings import DEFAULT_COUNTERS, OVSAgentSettings
from hypercobalt.ovs_agent.status.parts import Board, Parts
from hypercobalt.runtime import FakeClock

pytestmark = pytest.mark.looptime

VSWITCHD = DaemonName.VSWITCHD
FLOWS = {"br-int": (Flow(0, 1, 9, 3, 1),), "br-ex": (Flow(0, 0, 0, 3),)}


class Site:
    def __init__(self) -> None:
        self.switch = FakeSwitch(database({"br-int": [tap()], "br-ex": [interface("eth0")]}))
        self.switch.flow_table = dict(FLOWS)
        self.switch.peers = {"br-int": 3}
        clock = FakeClock(source=asyncio.get_running_loop().time)
        self.observer = SwitchObserver(self.switch, clock)
        board = Board(clock, Parts())
        self.judge = Judge(
            self.observer.facts,
            board,
            clock,
            counters=timedelta(minutes=5),
            read_at=self.observer.read_at,
            doubt=self.observer.doubt,
        )
        self._clock = clock

    def codes(self) -> set[str]:
        """Codes of the issues that have appeared since the last call."""
        found: set[str] = set()
        while not self.judge.news.empty():
            appeared, tracked = self.judge.news.get_nowait()
            if appeared:
                found.add(tracked.finding.code)
        return found

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            probes.begin(tasks, self.switch, self.observer, OVSAgentSettings("kvm-a"), self._clock)
            tasks.create_task(self.judge.run())
            await self.observer.follow()


@asynccontextmanager
async def working() -> AsyncIterator[Site]:
    site = Site()
    task = asyncio.create_task(site.run())
    try:
        await asyncio.sleep(100)
        site.codes()
        yield site
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.parametrize("filled_after", [1, 5, 15, 28])
async def test_restart_of_vswitchd_is_no_issue_whenever_its_flows_are_back(
    filled_after: int,
) -> None:
    async with working() as site:
        for number in range(4):
            site.switch.daemons[VSWITCHD] = daemon(VSWITCHD, pid=500 + number)
            site.switch.flow_table = {"br-int": (), "br-ex": ()}
            await asyncio.sleep(filled_after)
            site.switch.flow_table = dict(FLOWS)
            await asyncio.sleep(60 + 11 * number)
        assert "NoFlows" not in site.codes()


async def test_missing_flows_are_an_issue_soon_after_their_grace() -> None:
    async with working() as site:
        site.switch.daemons[VSWITCHD] = daemon(VSWITCHD, pid=500)
        site.switch.flow_table = {"br-int": (), "br-ex": ()}
        await asyncio.sleep(25)
        assert "NoFlows" not in site.codes()
        await asyncio.sleep(16)
        assert "NoFlows" in site.codes()
        counted = site.switch.calls["flow_counts"]
        await asyncio.sleep(120)
        assert site.switch.calls["flow_counts"] - counted < 2 * 120 / 15  # it is no hurry any more


async def test_new_bridge_is_read_again_before_it_counts_as_down() -> None:
    async with working() as site:
        rows = site.switch.database
        row = replace(rows.bridges["b-br-ex"], uuid="b-br-new", name="br-new", ports=())
        site.switch.database = replace(rows, bridges={**rows.bridges, row.uuid: row})
        await asyncio.sleep(2)
        site.switch.flow_table = {**FLOWS, "br-new": ()}
        await asyncio.sleep(30)
        assert "BridgeDown" not in site.codes()


def durations(module: object) -> Mapping[str, timedelta]:
    name = getattr(module, "__name__", "")
    return {
        f"{name}.{key}": value
        for key, value in vars(module).items()
        if isinstance(value, timedelta) and key.isupper()
    }


async def probed() -> dict[str, SwitchProbe[object]]:
    """Every probe, by name."""
    found: dict[str, SwitchProbe[object]] = {}

    class Recording(SwitchObserver):
        async def poll(self, probe: SwitchProbe[object]) -> None:  # type: ignore[override]
            found[probe.name] = probe

    clock = FakeClock()
    switch = FakeSwitch()
    async with asyncio.TaskGroup() as tasks:
        probes.begin(tasks, switch, Recording(switch, clock), OVSAgentSettings("kvm-a"), clock)
    return found


async def test_no_period_equals_a_grace() -> None:
    """With both equal, a finding becomes an issue before or after the next look by chance."""
    graces = {
        "GIVE_UP": observing.GIVE_UP,
        "FILL": observing.FILL,
    }
    for module in pkgutil.iter_modules(rules.__path__, f"{rules.__name__}."):
        graces |= durations(importlib.import_module(module.name))
    found = (await probed()).values()
    periods = {probe.name: probe.period for probe in found}
    periods |= {f"{probe.name}, again": probe.recheck for probe in found}
    periods |= {"pause of a scan": flow_scan.PAUSE, "counters": DEFAULT_COUNTERS}
    assert len(graces) >= 14
    assert not {
        (grace, period)
        for grace, lasts in graces.items()
        for period, every in periods.items()
        if lasts == every
    }


async def test_every_finding_with_a_grace_is_read_again_within_it() -> None:
    """A finding that rests on a probe is read once more at least before its grace is over."""
    found = await probed()
    assert {source for sources in EVIDENCE.values() for source in sources} <= found.keys()
    graces = {
        "BridgeDown": rules_grace("bridges", "SETTLE"),
        "NoFlows": rules_grace("flows", "NO_FLOWS_GRACE"),
        "StaleFlowInPort": rules_grace("flows", "STALE_GRACE"),
        "FlowsLagging": rules_grace("flows", "LAG_GRACE"),
        "ChassisMismatch": rules_grace("controller", "CHASSIS_GRACE"),
        "OpenFlowDisconnected": rules_grace("controller", "PEER_GRACE"),
        "LACPNotNegotiated": rules_grace("bonds", "LACP_GRACE"),
        "MemberDown": rules_grace("bonds", "SETTLE"),
        "BondDown": rules_grace("bonds", "SETTLE"),
        "InstanceDeviceLost": rules_grace("ports", "GRACE"),
        "OrphanPortNoDevice": rules_grace("ports", "GRACE"),
        "OrphanPortNoBinding": rules_grace("ports", "GRACE"),
        "PortNotInstalled": rules_grace("ports", "GRACE"),
        "PortSilentlyDead": rules_grace("ports", "GRACE"),
    }
    assert {code.value for code in EVIDENCE} == graces.keys()
    for code, sources in EVIDENCE.items():
        for source in sources:
            assert found[source].recheck < graces[code], (code, source)


def rules_grace(module: str, name: str) -> timedelta:
    value = getattr(importlib.import_module(f"{rules.__name__}.{module}"), name)
    assert isinstance(value, timedelta)
    return value
