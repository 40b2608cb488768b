"""How facts follow the switch: when a source counts as away, and what is held back or forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.unit.ovs_agent.switches import (
    NOW,
    bond,
    but,
    daemon,
    database,
    interface,
    later,
    shown,
    tap,
)

from hypercobalt.adapters.ovs.fake import FakeSwitch
from hypercobalt.adapters.ovs.model import DaemonName, Flow, FlowCounts
from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError
from hypercobalt.adapters.ovs.rows import Database
from hypercobalt.ovs_agent import flow_scan, probes
from hypercobalt.ovs_agent.facts import SwitchFacts
from hypercobalt.ovs_agent.observing import SwitchObserver
from hypercobalt.ovs_agent.rules.counters import traffic
from hypercobalt.ovs_agent.rules.flows import assess_flows
from hypercobalt.ovs_agent.rules.ports import assess_ports
from hypercobalt.ovs_agent.settings import OVSAgentSettings
from hypercobalt.runtime import FakeClock

pytestmark = pytest.mark.looptime

OVSDB, VSWITCHD, CONTROLLER = DaemonName
NO_COLUMNS = {"admin_up": None, "link_up": None, "mtu": None, "ifindex": None}


def fake() -> FakeSwitch:
    switch = FakeSwitch(database({"br-int": [tap()], "br-ex": [interface("eth0")]}))
    switch.flow_table = {"br-int": (Flow(0, 1, 9, 3, 1),), "br-ex": ()}
    switch.peers = {"br-int": 3}
    switch.interface_statistics = {"i-eth0": {"rx_packets": 0}, "i-tap1": {"rx_packets": 0}}
    return switch


@asynccontextmanager
async def observing(switch: FakeSwitch) -> AsyncIterator[SwitchObserver]:
    """An observer at work, on the loop's time."""
    clock = FakeClock(source=asyncio.get_running_loop().time)
    observer = SwitchObserver(switch, clock)

    async def run() -> None:
        async with asyncio.TaskGroup() as tasks:
            probes.begin(tasks, switch, observer, OVSAgentSettings("kvm-a"), clock)
            await observer.follow()

    task = asyncio.create_task(run())
    try:
        await asyncio.sleep(5)
        yield observer
    finally:
        task.cancel()
        await asyncio.wait([task])


def emptied(rows: Database) -> Database:
    """Rows after a restart of ovsdb-server: ephemeral columns are empty."""
    bare = {uuid: but(one, **NO_COLUMNS) for uuid, one in rows.interfaces.items()}
    bridges = {uuid: replace(one, datapath_id=None) for uuid, one in rows.bridges.items()}
    return replace(rows, interfaces=bare, bridges=bridges)


async def test_everything_that_the_rules_need_is_read() -> None:
    async with observing(fake()) as observer:
        facts = observer.facts.value
    assert facts.effective is not None
    readings = (facts.running, facts.bonds, facts.links, facts.kernel_bonds, facts.controller)
    assert all(one.proven is not None for one in readings)
    assert facts.bindings.proven is not None
    assert facts.openflow_peers.proven == 3
    assert facts.southbound.proven is not None
    assert {name: one.value and one.value.total for name, one in facts.flows.items()} == {
        "br-int": 1,
        "br-ex": 0,
    }
    assert len(facts.samples) == 1


@pytest.mark.parametrize("name", [VSWITCHD, CONTROLLER])
async def test_daemon_that_fails_counts_as_away_within_ten_seconds_and_not_at_once(
    name: DaemonName,
) -> None:
    switch = fake()
    async with observing(switch) as observer:
        switch.fail(name, ProducerFault.TIMEOUT)
        await asyncio.sleep(0.5)
        reading = {VSWITCHD: "vswitchd", CONTROLLER: "ovn_controller"}[name]
        assert not getattr(observer.facts.value, reading).is_down
        await asyncio.sleep(6)
        assert getattr(observer.facts.value, reading).is_down
        switch.recover(name)
        await asyncio.sleep(3.5)
        assert not getattr(observer.facts.value, reading).failures


async def test_ovsdb_counts_as_away_after_a_restart_would_be_over() -> None:
    switch = fake()
    async with observing(switch) as observer:
        switch.fail(OVSDB)
        await asyncio.sleep(1)
        assert observer.facts.value.rows is not None
        switch.recover(OVSDB)
        await asyncio.sleep(5)
        assert observer.facts.value.rows is not None
        switch.fail(OVSDB)
        await asyncio.sleep(4)
        assert observer.facts.value.rows is None


async def test_restarted_ovsdb_is_held_back_until_its_columns_are_filled() -> None:
    switch = fake()
    filled = switch.database
    async with observing(switch) as observer:
        switch.database = emptied(filled)
        await asyncio.sleep(9)
        assert observer.facts.value.rows == filled
        changed = replace(filled, switch=replace(filled.switch, next_cfg=9))
        switch.database = changed
        await asyncio.sleep(0.1)
        assert observer.facts.value.rows == changed
        await asyncio.sleep(20)
        assert observer.facts.value.rows == changed


async def test_columns_that_stay_empty_count_after_ten_seconds() -> None:
    switch = fake()
    async with observing(switch) as observer:
        switch.database = emptied(switch.database)
        await asyncio.sleep(11)
        assert observer.facts.value.rows is not None
        assert observer.facts.value.effective is None


async def test_rows_that_change_while_columns_stay_empty_are_held_back_no_longer() -> None:
    switch = fake()
    async with observing(switch) as observer:
        for number in range(4):
            row = replace(switch.database.switch, external_ids={"number": str(number)})
            switch.database = replace(emptied(switch.database), switch=row)
            await asyncio.sleep(5.5)
        rows = observer.facts.value.rows
        assert rows is not None
        assert rows.switch.external_ids == {"number": "3"}


async def test_server_that_dies_while_its_rows_are_held_back_stays_away() -> None:
    switch = fake()
    async with observing(switch) as observer:
        switch.database = emptied(switch.database)
        await asyncio.sleep(2)
        switch.fail(OVSDB)
        await asyncio.sleep(5)
        assert observer.facts.value.database.is_down
        await asyncio.sleep(60)
        assert observer.facts.value.database.is_down
        switch.recover(OVSDB)
        await asyncio.sleep(1)
        switch.fail(OVSDB)
        await asyncio.sleep(5)
        assert observer.facts.value.database.is_down


async def test_other_process_of_vswitchd_forgets_what_the_first_answered() -> None:
    switch = fake()
    async with observing(switch) as observer:
        await asyncio.sleep(70)
        assert len(observer.facts.value.samples) > 1
        switch.daemons[VSWITCHD] = daemon(VSWITCHD, pid=999)
        await asyncio.sleep(4)
        facts = observer.facts.value
    assert facts.vswitchd.value is not None
    assert facts.vswitchd.value.pid == 999
    assert {one.pid for one in facts.samples} == {999}


async def test_other_run_of_vswitchd_under_the_same_process_id_is_noticed() -> None:
    """As in a container, where the daemon has the same process id after each start."""
    switch = fake()
    switch.daemons[VSWITCHD] = replace(switch.daemons[VSWITCHD], started_at=NOW)
    async with observing(switch) as observer:
        await asyncio.sleep(130)
        assert len(observer.facts.value.samples) > 1
        switch.daemons[VSWITCHD] = replace(switch.daemons[VSWITCHD], started_at=later(99))
        await asyncio.sleep(4)
        assert len(observer.facts.value.samples) == 1


async def test_flows_of_table_0_count_for_ports_of_their_own_bridge_alone() -> None:
    """Numbers of ports are a bridge's own: tap2 has that of tap1, and no flow in br-int."""
    switch = fake()
    other = tap("tap2", 1, external_ids={"iface-id": "other"})
    switch.database = database({"br-int": [tap()], "br-own": [other]})
    switch.flow_table["br-own"] = ()
    async with observing(switch) as observer:
        await asyncio.sleep(5)
        (sample,) = observer.facts.value.samples
    assert sample.ofports == {tap().uuid: 1}


async def test_flows_of_ports_that_are_gone_are_looked_for_without_instances_too() -> None:
    switch = fake()
    switch.database = database({"br-int": []})
    async with observing(switch) as observer:
        facts = observer.facts.value
    assert "StaleFlowInPort" not in {code.value for code in assess_flows(facts).unmeasured}


async def test_change_of_a_row_has_what_depends_on_it_read_at_once() -> None:
    switch = fake()
    async with observing(switch) as observer:
        switch.flow_table["br-new"] = (Flow(0, 1, 9, 3),)
        switch.database = database({"br-int": [tap()], "br-new": []})
        await asyncio.sleep(0.2)
        facts = observer.facts.value
    assert "br-new" in (facts.running.proven or ())
    assert facts.flows["br-new"].value is not None


@pytest.mark.parametrize("failures", [1, 2])
async def test_flows_whose_count_fails_are_counted_again_soon(failures: int) -> None:
    class Failing(FakeSwitch):
        async def flow_counts(self, bridge: str) -> FlowCounts:
            counts = await super().flow_counts(bridge)
            if self.calls["flow_counts"] <= failures:
                raise SwitchError(ProducerFault.CONNECTION_REFUSED, bridge)
            return counts

    switch = Failing(database({"br-int": [tap()]}))
    switch.flow_table = {"br-int": ()}
    async with observing(switch) as observer:
        await asyncio.sleep(5)
        counts = observer.facts.value.flows["br-int"]
        assert counts.proven is not None


async def test_flows_of_a_bridge_that_vswitchd_lists_late_are_counted_at_once() -> None:
    class Late(FakeSwitch):
        async def bridges(self) -> frozenset[str]:
            await asyncio.sleep(0.1)
            return await super().bridges()

    switch = Late(database({"br-int": [tap()]}))
    switch.flow_table = {"br-int": ()}
    async with observing(switch) as observer:
        switch.flow_table["br-new"] = (Flow(0, 1, 9, 3),)
        switch.database = database({"br-int": [tap()], "br-new": []})
        await asyncio.sleep(0.2)
        assert observer.facts.value.flows["br-new"].value is not None


@pytest.mark.parametrize("is_current", [True, False])
async def test_member_that_is_about_to_be_enabled_is_looked_at_each_second(
    *, is_current: bool
) -> None:
    members = interface("eth0", lacp_current=True), interface("eth1", 2, lacp_current=is_current)
    switch = FakeSwitch(database({"br-ex": [bond("bond0", *members, lacp="active")]}))
    switch.bond_states = (shown("bond0", {"eth0": True, "eth1": False}),)
    async with observing(switch) as observer:
        switch.bond_states = (shown("bond0", {"eth0": True, "eth1": True}),)
        await asyncio.sleep(2)
        assert (observer.facts.value.bonds.value == switch.bond_states) is is_current


async def test_same_answer_wakes_no_waiter() -> None:
    async with observing(fake()) as observer:
        await asyncio.sleep(130)  # all samples taken
        before = observer.facts.value
        await asyncio.sleep(20)
        assert observer.facts.value is before


async def test_southbound_database_is_not_read_without_ovn() -> None:
    switch = fake()
    switch.database = database({"br-int": []}, {})
    async with observing(switch) as observer:
        await asyncio.sleep(60)
        assert observer.facts.value.southbound == SwitchFacts().southbound
    assert switch.calls["southbound"] == 0


async def test_idle_switch_is_read_seldom() -> None:
    """What an hour costs: calls, by what they read."""
    switch = fake()
    async with observing(switch):
        switch.calls.clear()
        await asyncio.sleep(timedelta(hours=1).total_seconds())
        hourly = dict(switch.calls)
    assert hourly["flows"] <= 2 * 70  # table 0 each minute for traffic, and for what is stale
    assert hourly["statistics"] <= 70
    assert hourly["flow_counts"] <= 2 * 140
    assert hourly["bonds"] <= 280


async def test_flows_that_are_too_many_to_read_are_not_read_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probes, "MOST_FLOWS", 0)
    switch = fake()
    monkeypatch.setattr(flow_scan, "MOST", 0)  # counted before it reads
    async with observing(switch) as observer:
        switch.calls.clear()
        await asyncio.sleep(600)
        assert 9 <= switch.calls["flows"] <= 12
        facts = observer.facts.value
    assert (facts.classifier.proven, facts.samples) == (None, ())
    assert {"PortSilentlyDead", "StaleFlowInPort"} <= {
        code.value for assess in (assess_ports, assess_flows) for code in assess(facts).unmeasured
    }


async def test_counters_of_ports_stay_when_flows_are_too_many_to_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    switch = fake()
    switch.interface_statistics = {"i-eth0": {"rx_packets": 1}}
    async with observing(switch) as observer:
        assert observer.facts.value.classifier.proven is not None
        monkeypatch.setattr(probes, "MOST_FLOWS", 0)
        switch.interface_statistics = {"i-eth0": {"rx_packets": 7}}
        await asyncio.sleep(150)
        facts = observer.facts.value
    assert facts.classifier.proven is None
    metrics = traffic(facts)
    assert metrics is not None
    assert metrics.packetsReceived == 7


async def test_counters_that_are_not_written_yet_are_read_again_soon_and_are_no_sample() -> None:
    switch = fake()
    switch.interface_statistics = {"i-eth0": {}, "i-tap1": {}}  # as ovsdb-server starts
    async with observing(switch) as observer:
        assert traffic(observer.facts.value) is None
        (sample,) = observer.facts.value.samples
        assert sample.received == {}
        switch.interface_statistics = {"i-eth0": {"rx_packets": 7}, "i-tap1": {"rx_packets": 9}}
        await asyncio.sleep(31)
        facts = observer.facts.value
    assert traffic(facts) is not None
    assert facts.samples[-1].received == {"i-tap1": 9}


async def test_flows_of_a_round_that_failed_are_no_sample() -> None:
    switch = fake()
    async with observing(switch) as observer:
        before = observer.facts.value.samples
        assert len(before) == 1
        switch.flow_table.pop("br-int")
        await asyncio.sleep(150)
        assert observer.facts.value.samples == ()
