"""Flows that are frozen, late, stale or missing, and the numbers of them."""

from __future__ import annotations

import pytest
from tests.unit.ovs_agent.switches import (
    NOT_RUNNING,
    OVN,
    but,
    database,
    found,
    healthy,
    interface,
    tap,
    without,
)

from hypercobalt.adapters.ovs.model import ControllerState, Flow, FlowCounts, Southbound
from hypercobalt.adapters.ovs.port import ProducerFault
from hypercobalt.api.ovsnode import FlowStats, Metrics, TableFlows
from hypercobalt.ovs_agent.facts import Reading, SwitchFacts
from hypercobalt.ovs_agent.flow_scan import TableScan
from hypercobalt.ovs_agent.rules.counters import flow_stats, traffic
from hypercobalt.ovs_agent.rules.flows import CODES, assess_flows

EMPTY = Reading(FlowCounts(0, {}))
SOME = Reading(FlowCounts(3, {0: 3}))
PAUSED = Reading(ControllerState(connected=True, paused=True))


def table_zero(*in_ports: int | None) -> SwitchFacts:
    flows = tuple(Flow(0, 1, 100, 0, in_port) for in_port in in_ports)
    return healthy(classifier=Reading(flows))


def without_ports() -> SwitchFacts:
    return healthy(database({"br-int": []}), flows={"br-int": EMPTY}, classifier=Reading(()))


CASES = {
    "in sync": (healthy(), []),
    "ovn-controller is dead, flows stay": (
        without(healthy(), "ovn_controller"),
        [("FlowsFrozen", "br-int")],
    ),
    "ovn-controller is paused": (healthy(controller=PAUSED), [("FlowsFrozen", "br-int")]),
    "ovn-controller is dead and took its flows": (
        without(without_ports(), "ovn_controller"),
        [],
    ),
    "behind the southbound database": (
        healthy(southbound=Reading(Southbound(8, 7))),
        [("FlowsLagging", "br-int")],
    ),
    "ahead of what was read last": (healthy(southbound=Reading(Southbound(6, 6))), []),
    "flows of a port that is gone": (table_zero(1, 9), [("StaleFlowInPort", "br-int")]),
    "OpenFlow's own ports": (table_zero(1, 65534, 65533, None), []),
    "no flows, instances connected": (
        healthy(flows={"br-int": EMPTY, "br-ex": SOME}),
        [("NoFlows", "br-int")],
    ),
    "no flows, no instances": (without_ports(), []),
    "the instance's port does not work": (
        healthy(
            database({"br-int": [tap(ofport=-1)]}), flows={"br-int": EMPTY}, classifier=Reading()
        ),
        [],
    ),
}


def test_stale_outputs_and_cookies_are_named_while_their_ports_are_gone() -> None:
    lasting = frozenset({1, 9})
    cookies = frozenset({1 << 32})
    scan = TableScan(cookies, lasting, cookies, lasting)
    once = TableScan(cookies, lasting)
    findings = assess_flows(healthy(scans={65: scan, 8: once})).findings
    assert [(one.code, one.message) for one in findings] == [
        (
            "StaleFlowOutput",
            "Flows of bridge br-int lead to ports that are gone: output 9 (table 65)",
        ),
        (
            "StaleFlowCookie",
            "Bridge br-int has flows that ovn-controller did not make: "
            "cookie 0x100000000 (table 65)",
        ),
    ]
    assert assess_flows(healthy(scans={8: once})).findings == ()
    unread = assess_flows(healthy(scans={})).unmeasured
    assert {"StaleFlowOutput", "StaleFlowCookie"} <= {one.value for one in unread}


@pytest.mark.parametrize("case", CASES)
def test_flows_are_those_of_ovn(case: str) -> None:
    facts, expected = CASES[case]
    assert found(assess_flows(facts)) == expected


def test_no_flows_is_critical() -> None:
    (finding,) = assess_flows(CASES["no flows, instances connected"][0]).findings
    assert finding.severity == "Critical"


@pytest.mark.parametrize("lost", ["database", "vswitchd"])
def test_flows_are_not_judged_without_both_daemons(lost: str) -> None:
    assert assess_flows(without(healthy(), lost)).unmeasured == CODES


@pytest.mark.parametrize("text", ["", "7x", "-7", "9" * 5_000])
def test_lag_is_not_measured_by_a_generation_that_is_none(text: str) -> None:
    rows = database({"br-int": [tap()]})
    row = but(rows.bridges["b-br-int"], external_ids={"ovn-nb-cfg": text})
    rows = but(rows, bridges={row.uuid: row})
    assessed = assess_flows(healthy(rows))
    assert "FlowsLagging" in {one.value for one in assessed.unmeasured}
    never = assess_flows(healthy(rows, southbound=Reading(Southbound(0, 0))))
    assert "FlowsLagging" not in {one.value for one in never.unmeasured}


def test_lag_is_not_measured_without_the_southbound_database() -> None:
    assessed = assess_flows(without(healthy(), "southbound"))
    assert {one.value for one in assessed.unmeasured} == {"FlowsLagging"}


def test_message_of_frozen_flows_does_not_change_by_itself() -> None:
    facts = without(healthy(), "ovn_controller")
    later = but(facts, ovn_controller=facts.ovn_controller)
    assert assess_flows(facts) == assess_flows(later)
    assert "since 2026-11-01T12:00:00Z" in assess_flows(facts).findings[0].message


def test_total_is_the_sum_of_bridges_and_of_tables() -> None:
    facts = healthy(
        flows={
            "br-int": Reading(FlowCounts(2847, {0: 47, 8: 2800, 9: 0})),
            "br-ex": Reading(FlowCounts(168, {0: 45, 8: 123})),
        }
    )
    stats = flow_stats(facts)
    assert stats == FlowStats(
        totalFlows=3015,
        flowsPerTable=(TableFlows(table=0, flows=92), TableFlows(table=8, flows=2923)),
    )


@pytest.mark.parametrize(
    "facts",
    [
        healthy(flows={"br-int": SOME}),
        healthy(running=Reading()),
        without(healthy(), "vswitchd"),
    ],
)
def test_no_total_without_every_bridge(facts: SwitchFacts) -> None:
    assert flow_stats(facts) is None


@pytest.mark.parametrize("fault", NOT_RUNNING)
def test_flows_are_not_counted_while_ovsdb_does_not_run(fault: ProducerFault) -> None:
    assert flow_stats(without(healthy(), "database", fault)) is None


def test_flows_are_counted_while_ovsdb_hangs() -> None:
    stats = flow_stats(without(healthy(), "database"))
    assert stats is not None
    assert stats.totalFlows == 6


def test_traffic_is_that_of_uplinks_and_drops_are_those_of_all() -> None:
    counters = {
        "rx_packets": 10,
        "tx_packets": 20,
        "rx_bytes": 1000,
        "tx_bytes": 2000,
        "rx_dropped": 1,
        "tx_dropped": 2,
        "rx_errors": 3,
        "tx_errors": 4,
    }
    facts = healthy(statistics=Reading({"i-eth0": counters, "i-tap1": counters, "i-old": counters}))
    assert traffic(facts) == Metrics(
        packetsReceived=10,
        packetsSent=20,
        bytesReceived=1000,
        bytesSent=2000,
        drops=6,
        errors=14,
    )


@pytest.mark.parametrize("lost", ["database", "vswitchd", "statistics"])
def test_frozen_counters_are_not_shown(lost: str) -> None:
    assert traffic(without(healthy(), lost)) is None


def test_an_uplink_whose_counters_are_not_written_yet_has_not_carried_nothing() -> None:
    """ovsdb-server empties them when it starts, and ovs-vswitchd writes links before counters."""
    rows = database({"br-ex": [interface("eth0"), interface("eth1", 2)]})
    written: dict[str, dict[str, int]] = {"i-eth0": {"rx_packets": 5}, "i-eth1": {}}
    assert traffic(healthy(rows, statistics=Reading(written))) is None
    cut = database({"br-ex": [interface("eth0"), interface("eth1", 2, link_up=False)]})
    metrics = traffic(healthy(cut, statistics=Reading(written)))
    assert metrics is not None
    assert metrics.packetsReceived == 5


def test_ovn_that_is_not_configured_is_not_judged() -> None:
    rows = database({"br-int": [tap()], "br-ex": [interface("eth0")]}, {**OVN, "ovn-remote": ""})
    assert assess_flows(healthy(rows, flows={"br-int": EMPTY})).findings == ()
