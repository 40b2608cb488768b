"""The agent's metrics: proven values have series, those of a dead producer have none."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from tests.unit.ovs_agent.switches import (
    NOW,
    OVN,
    REMOTE,
    bond,
    but,
    database,
    healthy,
    interface,
    shown,
    tap,
    without,
)

from hypercobalt.adapters.ovs.fake import FakeSwitch
from hypercobalt.adapters.ovs.links import KernelBond, KernelBondMember
from hypercobalt.adapters.ovs.model import (
    DaemonName,
    Datapath,
    FlowCounts,
    Pmd,
    PmdQueues,
    RxQueue,
    Southbound,
    Stopwatch,
    Upcalls,
)
from hypercobalt.adapters.ovs.port import ProducerFault
from hypercobalt.ovs_agent.exporter import Exporter
from hypercobalt.ovs_agent.facts import Reading, SwitchFacts
from hypercobalt.ovs_agent.judging import Judge
from hypercobalt.ovs_agent.observing import SwitchObserver, Timing
from hypercobalt.ovs_agent.status.parts import Board, Parts
from hypercobalt.runtime import FakeClock


async def page(
    facts: SwitchFacts,
    switch: FakeSwitch | None = None,
    timings: Mapping[str, Timing] | None = None,
) -> list[str]:
    """The lines of a scrape."""
    return await scraped(exporter(facts, switch, timings))


def exporter(
    facts: SwitchFacts,
    switch: FakeSwitch | None = None,
    timings: Mapping[str, Timing] | None = None,
    *,
    by_table: bool = False,
) -> Exporter:
    clock, made = FakeClock(NOW), switch or FakeSwitch()
    observer = SwitchObserver(made, clock)
    observer.facts.set(facts)
    observer.timings |= timings or {}
    judge = Judge(observer.facts, Board(clock, Parts()), clock, counters=timedelta(minutes=5))
    judge.adopt(())
    return Exporter(made, observer, judge, by_table=by_table)


async def scraped(exporter_: Exporter) -> list[str]:
    registry = CollectorRegistry()
    registry.register(exporter_)
    await exporter_.refresh()
    lines = generate_latest(registry).decode().splitlines()
    return [line for line in lines if not line.startswith("#")]


async def test_bonds_legs_lag_and_issues_have_series() -> None:
    rows = database(
        {
            "br-int": [tap()],
            "br-ex": [
                bond(
                    "bond0",
                    interface("a", 1, lacp_current=True),
                    interface("b", 2, link_up=False),
                    lacp="active",
                )
            ],
        }
    )
    facts = healthy(
        rows,
        bonds=Reading((shown("bond0", {"a": True, "b": False}),)),
        southbound=Reading(Southbound(9, 7)),
    )
    lines = await page(facts)
    for line in (
        'ovs_bond_members{bond="bond0"} 2.0',
        'ovs_bond_active_members{bond="bond0"} 1.0',
        'ovs_bond_lacp_negotiated{bond="bond0"} 1.0',
        'ovs_issues{code="MemberDown"} 1.0',
        'ovs_port_issues{code="PortSilentlyDead"} 0.0',
        'ovn_controller_leg_up{leg="southbound"} 1.0',
        "ovn_flow_lag_generations 2.0",
        'ovs_vswitchd_bridge_flows_total{bridge="br-int"} 3.0',
        'ovs_agent_source_up{source="ovs-vswitchd"} 1.0',
        'ovs_build_info{version="3.1.0"} 1.0',
    ):
        assert line in lines


async def test_bond_that_vswitchd_dropped_and_one_without_a_partner_have_series() -> None:
    dropped = bond("bond0", interface("a", 1), interface("b", -1), lacp="active")
    quiet = {"lacp_current": False}
    silent = bond("bond1", interface("c", 3, **quiet), interface("d", 4, **quiet), lacp="active")
    rows = database({"br-int": [tap()], "br-ex": [dropped, silent]})
    # ovs-vswitchd shows `negotiated` for a while, and a partner that never answered.
    lines = await page(healthy(rows, bonds=Reading((shown("bond1", {"c": False, "d": False}),))))
    for line in (
        'ovs_bond_members{bond="bond0"} 2.0',
        'ovs_bond_active_members{bond="bond0"} 1.0',
        'ovs_bond_lacp_negotiated{bond="bond0"} 0.0',
        'ovs_bond_active_members{bond="bond1"} 0.0',
        'ovs_bond_lacp_negotiated{bond="bond1"} 0.0',
    ):
        assert line in lines


async def test_bond_of_the_kernel_has_series() -> None:
    members = (KernelBondMember("e0", up=True), KernelBondMember("e1", up=False))
    rows = database({"br-int": [tap()], "br-ex": [interface("bond9")]})
    kernel = KernelBond("bond9", "802.3ad", up=True, members=members, partner="02:00:00:00:00:01")
    lines = await page(healthy(rows, kernel_bonds=Reading((kernel,))))
    assert 'ovs_bond_active_members{bond="bond9"} 1.0' in lines
    assert 'ovs_bond_lacp_negotiated{bond="bond9"} 1.0' in lines


async def test_answers_of_sources_have_their_time_and_one_that_never_answered_has_none() -> None:
    lines = await page(healthy(), timings={"bonds": Timing(1764000000.0, 0.25), "flows": Timing()})
    assert 'ovs_agent_last_success_timestamp_seconds{source="bonds"} 1.764e+09' in lines
    assert 'ovs_agent_probe_duration_seconds{probe="bonds"} 0.25' in lines
    assert not [line for line in lines if '"flows"' in line]


@pytest.mark.parametrize("prefix", ["ovs_bond_", "ovs_vswitchd_bridge_flows", "ovs_build_info"])
async def test_dead_switch_leaves_a_gap_and_its_source_shows_it(prefix: str) -> None:
    lines = await page(without(healthy(), "vswitchd"))
    assert 'ovs_agent_source_up{source="ovs-vswitchd"} 0.0' in lines
    assert not [line for line in lines if line.startswith(prefix)]


async def test_database_that_the_agent_has_no_means_to_read_is_no_source_that_is_down() -> None:
    lines = await page(without(healthy(), "southbound", ProducerFault.UNSUPPORTED))
    assert not [line for line in lines if "southbound" in line and line.endswith(" 0.0")]
    assert not [line for line in lines if "end_to_end" in line]


async def test_counters_are_read_for_the_scrape_and_only_uplinks_have_series() -> None:
    switch = FakeSwitch()
    switch.datapath_states = (Datapath("netdev@ovs-netdev", hits=5, missed=3, lost=1, flows=2),)
    switch.memory_use = {DaemonName.VSWITCHD: {"handlers": 2}}
    switch.interface_statistics = {"i-eth0": {"rx_dropped": 4}, "i-tap1": {"rx_dropped": 9}}
    lines = await page(healthy(), switch)
    assert 'ovs_vswitchd_dp_flows_lookup_lost{datapath="netdev@ovs-netdev"} 1.0' in lines
    assert "ovs_vswitchd_handlers_total 2.0" in lines
    # Nothing polls without DPDK.
    assert (switch.calls["pmds"], switch.calls["pmd_queues"]) == (0, 0)
    assert [line for line in lines if "rx_dropped" in line] == [
        "ovs_vswitchd_interface_rx_dropped_total 13.0",
        'ovs_interface_rx_dropped{interface="eth0"} 4.0',
    ]


async def test_uplinks_have_their_traffic_and_their_link() -> None:
    switch = FakeSwitch()
    switch.interface_statistics = {"i-eth0": {"rx_packets": 7, "tx_bytes": 900}}
    up = interface("eth0", link_speed=25 * 10**9, link_resets=3, mtu=9000)
    lines = await page(healthy(database({"br-int": [tap()], "br-ex": [up]})), switch)
    assert [line for line in lines if line.startswith("ovs_interface_")] == [
        'ovs_interface_admin_state{interface="eth0"} 1.0',
        'ovs_interface_link_state{interface="eth0"} 1.0',
        'ovs_interface_link_resets{interface="eth0"} 3.0',
        'ovs_interface_link_speed_bps{interface="eth0"} 2.5e+10',
        'ovs_interface_mtu_bytes{interface="eth0"} 9000.0',
        'ovs_interface_rx_packets{interface="eth0"} 7.0',
        'ovs_interface_tx_bytes{interface="eth0"} 900.0',
    ]


async def test_datapaths_have_ports_and_masks_where_there_are_masks() -> None:
    switch = FakeSwitch()
    switch.datapath_states = (
        Datapath("system@ovs-system", 30, 10, 1, 8, ports=3, mask_hits=100, masks=4),
        Datapath("netdev@ovs-netdev", ports=2),
    )
    lines = await page(healthy(), switch)
    for line in (
        'ovs_vswitchd_dp{datapath="system@ovs-system",type="system"} 1.0',
        'ovs_vswitchd_dp_if_total{datapath="netdev@ovs-netdev"} 2.0',
        'ovs_vswitchd_dp_packets_total{datapath="system@ovs-system"} 40.0',
        'ovs_vswitchd_dp_masks_total{datapath="system@ovs-system"} 4.0',
        'ovs_vswitchd_dp_masks_hit_ratio{datapath="system@ovs-system"} 2.5',
    ):
        assert line in lines
    assert not [line for line in lines if "masks" in line and "netdev" in line]


@pytest.mark.parametrize(
    ("config", "offload", "policy"),
    [
        ({}, ["0.0"], ["0.0"]),
        ({"hw-offload": "true", "tc-policy": "skip_sw"}, ["1.0"], ["1.0"]),
        ({"tc-policy": "skip_hw"}, ["0.0"], ["2.0"]),
        ({"tc-policy": "nonsense"}, ["0.0"], []),
    ],
)
async def test_offload_is_as_it_is_set(
    config: dict[str, str], offload: list[str], policy: list[str]
) -> None:
    rows = database({"br-int": [tap()]})
    rows = but(rows, switch=replace(rows.switch, other_config=config))
    lines = await page(healthy(rows))
    for name, expected in (("hw_offload", offload), ("tc_policy", policy)):
        found = [line.split() for line in lines if line.startswith(f"ovs_vswitchd_{name} ")]
        assert [value for _, value in found] == expected


async def test_settings_of_ovn_are_labels() -> None:
    ids = {
        **OVN,
        "ovn-bridge-mappings": "b:br-b,a:br-a",
        "ovn-monitor-all": "true",
        "ovn-remote-probe-interval": "60000",
    }
    lines = await page(healthy(database({"br-int": []}, ids)))
    for line in (
        'ovn_controller_encap_ip{ipaddress="10.0.0.1"} 1.0',
        'ovn_controller_encap_type{type="geneve"} 1.0',
        f'ovn_controller_sb_connection_method{{connection_method="{REMOTE}"}} 1.0',
        'ovn_controller_bridge_mappings{mapping="a:br-a,b:br-b"} 1.0',
        "ovn_controller_monitor_all 1.0",
        "ovn_controller_remote_probe_interval_seconds 60.0",
    ):
        assert line in lines
    odd = await page(healthy(database({"br-int": []}, {**ids, "ovn-remote-probe-interval": "1s"})))
    assert not [line for line in odd if "probe_interval" in line]


async def test_flows_have_series_by_table_where_that_is_wanted() -> None:
    facts = healthy(flows={"br-int": Reading(FlowCounts(5, {0: 2, 8: 3}))})
    assert not [line for line in await page(facts) if line.startswith("ovs_table_flows")]
    lines = await scraped(exporter(facts, by_table=True))
    assert [line for line in lines if line.startswith("ovs_table_flows")] == [
        'ovs_table_flows{bridge="br-int",table="0"} 2.0',
        'ovs_table_flows{bridge="br-int",table="8"} 3.0',
    ]


async def test_controller_has_its_events_and_how_long_its_work_takes() -> None:
    switch = FakeSwitch()
    switch.coverage_totals = {DaemonName.OVN_CONTROLLER: {"lflow_run": 4, "hmap_expand": 9}}
    switch.watches = (Stopwatch("flow-generation", 18, 250, 100.5, 9.25),)
    lines = await page(healthy(), switch)
    for line in (
        "ovn_controller_lflow_run 4.0",
        "ovn_controller_txn_error 0.0",
        "ovn_controller_flow_generation_total_samples 18.0",
        "ovn_controller_flow_generation_maximum 250.0",
        "ovn_controller_flow_generation_95th_percentile 100.5",
        "ovn_controller_flow_generation_long_term_avg 9.25",
    ):
        assert line in lines
    assert not [line for line in lines if "hmap" in line]
    switch.fail(DaemonName.OVN_CONTROLLER)
    left = await page(healthy(), switch)
    assert not [line for line in left if "flow_generation" in line or "lflow_run" in line]
    assert "ovs_vswitchd_dp_total 0.0" in left


async def test_queues_have_series_and_what_was_not_measured_has_none() -> None:
    switch = FakeSwitch()
    queues = (RxQueue("dpdk0", 0, enabled=True, usage=37), RxQueue("vhu1", 2, False, None))
    switch.queue_states = (
        PmdQueues(0, 3, isolated=True, overhead=4, queues=queues),
        PmdQueues(1, 13, isolated=False, overhead=None, queues=()),
    )
    facts = healthy(database({"br-int": []}, OVN, dpdk_initialized=True))
    lines = [line for line in await page(facts, switch) if line.startswith("ovs_pmd")]
    assert sorted(lines) == [
        'ovs_pmd_cpu_isolated{cpu="13",numa="1"} 0.0',
        'ovs_pmd_cpu_isolated{cpu="3",numa="0"} 1.0',
        'ovs_pmd_cpu_overhead{cpu="3",numa="0"} 4.0',
        'ovs_pmd_rxq_enabled{cpu="3",interface="dpdk0",numa="0",rxq="0"} 1.0',
        'ovs_pmd_rxq_enabled{cpu="3",interface="vhu1",numa="0",rxq="2"} 0.0',
        'ovs_pmd_rxq_usage{cpu="3",interface="dpdk0",numa="0",rxq="0"} 37.0',
    ]


async def test_events_memory_upcalls_and_pmds_have_series_and_what_is_gone_has_none() -> None:
    switch = FakeSwitch()
    switch.coverage_totals = {
        DaemonName.VSWITCHD: {"rconn_sent": 7, "drop_action_of_pipeline": 3, "hmap_expand": 9}
    }
    switch.memory_use = {DaemonName.VSWITCHD: {"udpif keys": 5, "idl-cells-Open_vSwitch": 8}}
    switch.upcall_states = (Upcalls("netdev@ovs-netdev", 5, 38, 38000, 12),)
    switch.pmd_states = (Pmd(0, 3, {"Rx packets": 11, "Lost upcalls": 2}),)
    facts = healthy(database({"br-int": []}, OVN, dpdk_initialized=True))
    lines = await page(facts, switch)
    for line in (
        "ovs_vswitchd_rconn_sent 7.0",
        "ovs_vswitchd_rconn_discarded 0.0",
        "ovs_vswitchd_drop_action_of_pipeline 3.0",
        "ovs_memory_udpif_keys_total 5.0",
        "ovs_memory_idl_cells_open_vswitch_total 8.0",
        'ovs_upcall_flows{datapath="netdev@ovs-netdev"} 5.0',
        'ovs_upcall_flows_max{datapath="netdev@ovs-netdev"} 38.0',
        'ovs_upcall_flows_limit{datapath="netdev@ovs-netdev"} 38000.0',
        'ovs_upcall_dump_duration_seconds{datapath="netdev@ovs-netdev"} 0.012',
        'ovs_pmd_rx_packets{cpu="3",numa="0"} 11.0',
        'ovs_pmd_lost_upcalls{cpu="3",numa="0"} 2.0',
    ):
        assert line in lines
    assert not [line for line in lines if "hmap" in line or "tx_batches" in line]
    switch.upcall_states, switch.pmd_states, switch.coverage_totals = (), (), {}
    left = await page(facts, switch)
    assert not [line for line in left if line.startswith(("ovs_upcall", "ovs_pmd"))]
    assert not [line for line in left if "drop_action" in line]


async def test_switch_that_fails_during_the_scrape_still_gives_a_page() -> None:
    switch = FakeSwitch()
    switch.fail(DaemonName.VSWITCHD)
    lines = await page(healthy(), switch)
    assert 'ovs_agent_source_up{source="ovs-vswitchd"} 1.0' in lines
    assert not [line for line in lines if "lookup" in line]


@pytest.mark.looptime
async def test_switch_that_hangs_during_the_scrape_still_gives_a_page() -> None:
    class Hanging(FakeSwitch):
        async def datapaths(self) -> tuple[Datapath, ...]:
            await asyncio.Event().wait()
            return ()

    loop = asyncio.get_running_loop()
    began = loop.time()
    lines = await page(healthy(), Hanging())
    assert loop.time() - began == pytest.approx(3)
    assert 'ovs_agent_source_up{source="ovs-vswitchd"} 1.0' in lines
    assert not [line for line in lines if "lookup" in line]


async def test_scrapes_that_follow_each_other_cost_one() -> None:
    switch = FakeSwitch()
    exporter_ = exporter(healthy(), switch)
    assert await scraped(exporter_) == await scraped(exporter_)
    assert (switch.calls["datapaths"], switch.calls["statistics"]) == (1, 1)
