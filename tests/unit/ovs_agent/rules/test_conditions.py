"""Conditions: every reason, and that nothing remembered is True."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from enum import StrEnum

import pytest
from tests.pages import ROOT, section, tables
from tests.unit.ovs_agent.switches import (
    IFACE,
    NOW,
    OVN,
    VM,
    bond,
    but,
    database,
    down_from,
    gone,
    healthy,
    interface,
    later,
    mirrored,
    shown,
    tap,
    without,
)

from hypercobalt.adapters.ovs.links import Link
from hypercobalt.adapters.ovs.model import (
    ControllerState,
    Flow,
    FlowCounts,
    LacpStatus,
    LocalBinding,
    Southbound,
)
from hypercobalt.adapters.ovs.port import ProducerFault
from hypercobalt.adapters.ovs.rows import ManagerRow, MirrorRow
from hypercobalt.api import ovsnode_reasons as reasons
from hypercobalt.api.ovsnode import OVSNodeConditionType
from hypercobalt.ovs_agent.assess import Judgement, judge
from hypercobalt.ovs_agent.facts import Reading, Sample, SwitchFacts
from hypercobalt.ovs_agent.flow_scan import ForeignFlow, TableScan
from hypercobalt.ovs_agent.rules.ports import GRACE

ALL = (
    "OVSDBConnected",
    "VswitchdResponding",
    "OVNControllerConnected",
    "AllBridgesHealthy",
    "AllBondsHealthy",
    "PortsHealthy",
    "FlowsInSync",
    "Ready",
)


def stated(facts: SwitchFacts, seconds: float = 2 * GRACE.total_seconds()) -> dict[str, str]:
    """Each condition as STATUS/REASON, when the facts have been these for a while."""
    first = judge(facts, {}, now=NOW, monotonic=0.0)
    last = judge(facts, first.ledger, now=later(seconds), monotonic=seconds)
    return {type_.value: f"{one.status}/{one.reason}" for type_, one in last.conditions.items()}


def test_healthy_switch_has_every_condition_true() -> None:
    assert stated(healthy()) == {
        "OVSDBConnected": "True/Connected",
        "VswitchdResponding": "True/Responding",
        "OVNControllerConnected": "True/Connected",
        "AllBridgesHealthy": "True/AllBridgesActive",
        "AllBondsHealthy": "True/NoBonds",
        "PortsHealthy": "True/NoIssues",
        "FlowsInSync": "True/InSync",
        "Ready": "True/AllChecksPassed",
    }


def bonded(*states: bool, lacp: LacpStatus = LacpStatus.NEGOTIATED, ofport: int = 2) -> SwitchFacts:
    current = lacp is LacpStatus.NEGOTIATED
    rows_of = (
        interface("a", 1, lacp_current=current),
        interface("b", ofport, lacp_current=current),
    )
    members = bond("bond0", *rows_of, lacp="active")
    rows = database({"br-int": [], "br-ex": [members]})
    enabled = dict(zip("ab", states, strict=False))
    return healthy(rows, bonds=Reading((shown("bond0", enabled, lacp=lacp),) if states else ()))


def rows_with(**switch: int) -> SwitchFacts:
    return healthy(database({"br-int": [tap()]}, OVN, **switch))


def southbound(connected: bool) -> SwitchFacts:
    return healthy(controller=Reading(ControllerState(connected=connected, paused=False)))


UNPROBED = without(healthy(), "southbound", ProducerFault.UNSUPPORTED)
PLAIN = {key: value for key, value in tap().external_ids.items() if key != "ovn-installed"}
UNINSTALLED = database({"br-int": [tap(external_ids=PLAIN)]})
NO_OVN = database({"br0": [tap(external_ids={"iface-id": "i"})]}, {})
DEAD_TAP = tuple(Sample(100, {tap().uuid: n}, {tap().uuid: 1}, {1: 5}) for n in (0, 20, 40))
SAMPLES = (Sample(100, {}, {}, {}),) * 3
CASES = [
    (UNPROBED, "OVNControllerConnected", "Unknown/SBNotProbed"),
    (UNPROBED, "Ready", "Unknown/Stale"),
    (
        without(healthy(), "database", ProducerFault.SOCKET_MISSING),
        "OVSDBConnected",
        "False/SocketMissing",
    ),
    (
        without(healthy(), "database", ProducerFault.CONNECTION_REFUSED),
        "OVSDBConnected",
        "False/ConnectionRefused",
    ),
    (without(healthy(), "database", ProducerFault.TIMEOUT), "OVSDBConnected", "False/EchoTimeout"),
    (
        without(healthy(), "database", ProducerFault.NOT_PERMITTED),
        "OVSDBConnected",
        "False/NotPermitted",
    ),
    (
        without(healthy(), "database", ProducerFault.SCHEMA_UNSUPPORTED),
        "OVSDBConnected",
        "False/SchemaUnsupported",
    ),
    (
        without(healthy(), "database", ProducerFault.MONITOR_FAILED),
        "OVSDBConnected",
        "False/MonitorFailed",
    ),
    (
        without(healthy(), "database", ProducerFault.MALFORMED),
        "OVSDBConnected",
        "False/MonitorFailed",
    ),
    (SwitchFacts(), "OVSDBConnected", "Unknown/Starting"),
    (
        without(healthy(), "vswitchd", ProducerFault.SOCKET_MISSING),
        "VswitchdResponding",
        "False/SocketMissing",
    ),
    (
        without(healthy(), "vswitchd", ProducerFault.CONNECTION_REFUSED),
        "VswitchdResponding",
        "False/ConnectionRefused",
    ),
    (without(healthy(), "vswitchd", ProducerFault.TIMEOUT), "VswitchdResponding", "False/Timeout"),
    (
        without(healthy(), "vswitchd", ProducerFault.NOT_PERMITTED),
        "VswitchdResponding",
        "False/NotPermitted",
    ),
    (rows_with(cur_cfg=4, next_cfg=5), "VswitchdResponding", "False/ConfigLag"),
    (SwitchFacts(), "VswitchdResponding", "Unknown/Starting"),
    (
        healthy(database({"br-int": []}, {})),
        "OVNControllerConnected",
        "False/NotConfigured",
    ),
    (
        without(healthy(NO_OVN, start=Reading()), "ovn_controller", ProducerFault.SOCKET_MISSING),
        "OVNControllerConnected",
        "True/NotUsed",
    ),
    (without(healthy(), "database"), "OVNControllerConnected", "Unknown/OVSDBUnavailable"),
    (without(healthy(), "vswitchd"), "OVNControllerConnected", "Unknown/VswitchdUnavailable"),
    (
        without(healthy(), "ovn_controller", ProducerFault.CONNECTION_REFUSED),
        "OVNControllerConnected",
        "False/NotRunning",
    ),
    (without(healthy(), "ovn_controller"), "OVNControllerConnected", "False/Unresponsive"),
    (
        healthy(controller=Reading(ControllerState(connected=True, paused=True))),
        "OVNControllerConnected",
        "False/Paused",
    ),
    (southbound(False), "OVNControllerConnected", "False/SBDisconnected"),
    (without(healthy(), "southbound"), "OVNControllerConnected", "False/SBStale"),
    (
        healthy(openflow_peers=Reading(0)),
        "OVNControllerConnected",
        "False/OpenFlowDisconnected",
    ),
    (
        healthy(southbound=Reading(Southbound(7))),
        "OVNControllerConnected",
        "False/ChassisMismatch",
    ),
    (SwitchFacts(), "OVNControllerConnected", "Unknown/Starting"),
    (
        healthy(database({"br-int": []}, {**OVN, "ovn-bridge-mappings": "a:br-x"})),
        "AllBridgesHealthy",
        "False/BridgeMissing",
    ),
    (healthy(running=Reading(frozenset({"br-int"}))), "AllBridgesHealthy", "False/BridgeDown"),
    (
        healthy(database({"br-int": []}, {**OVN, "ovn-bridge-datapath-type": "netdev"})),
        "AllBridgesHealthy",
        "False/DatapathMismatch",
    ),
    (
        healthy(database({"br-int": [interface("a", type="patch", options={"peer": "b"})]})),
        "AllBridgesHealthy",
        "False/PatchPeerMissing",
    ),
    (
        healthy(database({"br-int": [tap()]}), flows={"br-int": Reading(FlowCounts(0, {}))}),
        "AllBridgesHealthy",
        "False/NoFlows",
    ),
    (SwitchFacts(), "AllBridgesHealthy", "Unknown/Starting"),
    (bonded(True, True), "AllBondsHealthy", "True/AllMembersActive"),
    (bonded(True, False), "AllBondsHealthy", "False/MemberDown"),
    (
        bonded(False, False, lacp=LacpStatus.CONFIGURED),
        "AllBondsHealthy",
        "False/LACPNotNegotiated",
    ),
    (bonded(False, False), "AllBondsHealthy", "False/BondDown"),
    (bonded(ofport=-1), "AllBondsHealthy", "False/MemberMissing"),
    (
        healthy(
            database({"br-int": [bond("b0", interface("a"), interface("b", -1))]}),
        ),
        "AllBondsHealthy",
        "False/MemberMissing",
    ),
    (healthy(instances={}), "PortsHealthy", "False/OrphanPorts"),
    (
        healthy(wanted={VM: ("c0ffee00-0000-4000-8000-00000000000b",)}),
        "PortsHealthy",
        "False/InstancesCutOff",
    ),
    (healthy(database({"br-int": [tap(ofport=-1)]})), "PortsHealthy", "False/PortErrors"),
    (
        healthy(database({"br-int": [tap(external_ids=PLAIN)]})),
        "PortsHealthy",
        "False/PortsNotInstalled",
    ),
    (
        healthy(
            database({"br-int": [tap(), tap("tap2", 2)]}),
            links=Reading({n: Link(n, 7, admin_up=True, is_tap=True) for n in ("tap1", "tap2")}),
        ),
        "PortsHealthy",
        "False/DuplicateIfaceID",
    ),
    (healthy(samples=DEAD_TAP), "PortsHealthy", "False/SilentlyDead"),
    (healthy(southbound=Reading(Southbound(9, 7))), "FlowsInSync", "False/FlowsLagging"),
    (
        healthy(
            flows={"br-int": down_from(Reading(), ProducerFault.SOCKET_MISSING), "br-ex": Reading()}
        ),
        "AllBridgesHealthy",
        "Unknown/NotReadable",
    ),
    (
        without(healthy(), "openflow_peers", ProducerFault.NOT_PERMITTED),
        "OVNControllerConnected",
        "Unknown/NotReadable",
    ),
    (
        healthy(
            scans={0: TableScan(lasting_foreign=frozenset({ForeignFlow(0, 65535, 0, -1, True)}))}
        ),
        "FlowsInSync",
        "False/ForeignFlows",
    ),
    (
        healthy(classifier=Reading((Flow(0, 1, 100, 0, 9),))),
        "FlowsInSync",
        "False/StaleFlows",
    ),
    (without(healthy(), "ovn_controller"), "FlowsInSync", "False/FlowsFrozen"),
    (healthy(database({"br-ex": []}, {})), "FlowsInSync", "Unknown/NotMeasurable"),
    (without(healthy(), "southbound"), "FlowsInSync", "Unknown/NotMeasurable"),
    (healthy(southbound=Reading()), "FlowsInSync", "Unknown/NotMeasurable"),
    (
        but(without(healthy(), "southbound"), ovn_controller=Reading()),
        "FlowsInSync",
        "Unknown/NotMeasurable",
    ),
    (healthy(running=Reading(frozenset({"br-int"}))), "Ready", "False/AllBridgesHealthy"),
    (without(healthy(), "database"), "Ready", "False/OVSDBConnected"),
    (healthy(controller=Reading()), "Ready", "Unknown/Stale"),
]


@pytest.mark.parametrize(("facts", "type_", "expected"), CASES)
def test_condition_has_its_reason(facts: SwitchFacts, type_: str, expected: str) -> None:
    assert stated(facts)[type_] == expected


TUNNEL = interface("t", 9, type="geneve", bfd_status={"state": "down"})
PATCHED = database({"br-int": [tap(ofport=None), TUNNEL]})
MIRRORED = mirrored(PATCHED, "br-int", MirrorRow("m-1", "m0"))
OF_NO_CONDITION = (
    healthy(but(PATCHED, switch=replace(PATCHED.switch, ovs_version="3.3.0"))),
    healthy(but(MIRRORED, managers={"m": ManagerRow("m", "tcp:192.0.2.9:6640")})),
    healthy(bindings=Reading((LocalBinding(IFACE, "tap1", 0),)), database=Reading(UNINSTALLED)),
    healthy(bindings=Reading((LocalBinding(IFACE, "tap1", 1),)), database=Reading(UNINSTALLED)),
    healthy(database({"br-int": [gone(tap())]}), links=Reading({})),
    healthy(database({"br-int": [gone(tap())]}), links=Reading({}), instances={VM: False}),
    healthy(scans={0: TableScan(lasting_outputs=frozenset({9}), lasting_cookies=frozenset({7}))}),
    healthy(
        database({"br-ex": [bond("b", *(interface(one, link_up=False) for one in ("e0", "e1")))]}),
        bonds=Reading((shown("b", {"e0": False, "e1": False}),)),
    ),
)
"""Facts with findings that make no condition False, or one that others make False too."""


def test_findings_have_to_last_as_long_as_the_page_has_it() -> None:
    """The second reading of a table takes the place of a grace."""
    early = healthy(instances={}, hosted=frozenset())
    made: dict[str, set[int]] = defaultdict(set)
    for facts in (*(facts for facts, _, _ in CASES), *OF_NO_CONDITION, early):
        for one in judge(facts, {}, now=NOW, monotonic=0.0).ledger.values():
            made[one.finding.code.value].add(one.finding.grace.seconds)
    assert made.keys() == set(reasons.IssueCode)
    page = (ROOT / "docs/ovs-agent.md").read_text()
    ((_, rows),) = tables(section(page, "## Issues"))
    written = {code: cells[2] for cells in rows for code in re.findall(r"`(\w+)`", cells[0])}
    twice = {code for code, lasts in written.items() if lasts == "two readings of the table"}
    assert twice == {"StaleFlowOutput", "StaleFlowCookie", "ForeignFlow"}
    seconds = {code: set(map(int, re.findall(r"(\d+) s", one))) for code, one in written.items()}
    assert {code: found or {0} for code, found in seconds.items()} == made


OF_THE_OPERATOR = {reasons.OVSReadyReason.AGENT_SILENT.value}


def test_every_reason_has_a_case() -> None:
    """Conditions without reasons of their own have the codes of issues instead."""
    shown_ = {expected.partition("/")[2] for _, _, expected in CASES} | {
        expected.partition("/")[2] for expected in stated(healthy()).values()
    }
    every = {
        one.value
        for kind in vars(reasons).values()
        if isinstance(kind, type) and issubclass(kind, StrEnum) and kind is not StrEnum
        if kind is not reasons.IssueCode
        for one in kind
    }
    assert every - shown_ == OF_THE_OPERATOR


def no_flows(*names: str) -> dict[str, Reading[FlowCounts]]:
    return {name: Reading(FlowCounts(0, {})) for name in names}


@pytest.mark.parametrize(
    ("facts", "reason", "shown"),
    [
        pytest.param(
            healthy(database({"br-int": [tap()]}), flows=no_flows("br-int")),
            *("NoFlows", {"br-int": "Down"}),
            id="no flows",
        ),
        pytest.param(
            healthy(running=Reading(frozenset({"br-int"})), flows=no_flows("br-int")),
            *("BridgeDown", {"br-ex": "Down", "br-int": "Down"}),
            id="no flows, and another bridge is down",
        ),
        pytest.param(
            healthy(database({"br-ex": []}, {**OVN, "ovn-bridge-mappings": "a:br-ex,b:br-x"})),
            *("BridgeMissing", {"br-ex": "Active", "br-int": "Down", "br-x": "Down"}),
            id="bridges that do not exist",
        ),
        pytest.param(
            healthy(database({"br-int": []}), flows=no_flows("br-int")),
            *("AllBridgesActive", {"br-int": "Active"}),
            id="no flows, and no instance that needs them",
        ),
    ],
)
def test_each_bridge_shows_its_own_fault_whichever_the_condition_names(
    facts: SwitchFacts, reason: str, shown: dict[str, str]
) -> None:
    first = judge(facts, {}, now=NOW, monotonic=0.0)
    last = judge(facts, first.ledger, now=later(60), monotonic=60.0)
    assert {one.name: one.status for one in last.status.bridges} == shown
    stated_ = {type_.value: one.reason for type_, one in last.conditions.items()}
    assert stated_["AllBridgesHealthy"] == reason
    away = judge(without(facts, "vswitchd"), last.ledger, now=later(70), monotonic=70.0)
    assert {one.status for one in away.status.bridges} == {"Unknown"}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(healthy(running=Reading()), id="ovs-vswitchd has not named its bridges"),
        pytest.param(healthy(flows={}), id="flows of bound ports are not counted"),
    ],
)
def test_bridges_are_not_healthy_before_each_check_was_made(facts: SwitchFacts) -> None:
    assert stated(facts)["AllBridgesHealthy"] == "Unknown/Starting"


@pytest.mark.parametrize(
    ("lost", "reason"),
    [("vswitchd", "VswitchdUnavailable"), ("database", "OVSDBUnavailable")],
)
@pytest.mark.parametrize(
    "facts", [healthy(), bonded(True, False), healthy(instances={})], ids=["well", "bond", "port"]
)
def test_condition_that_depends_on_a_dead_daemon_is_unknown_and_not_kept(
    facts: SwitchFacts, lost: str, reason: str
) -> None:
    before = judge(facts, {}, now=NOW, monotonic=0.0)
    after = judge(without(facts, lost), before.ledger, now=later(200), monotonic=200.0)
    states = {type_.value: one for type_, one in after.conditions.items()}
    for type_ in ("AllBridgesHealthy", "AllBondsHealthy", "PortsHealthy"):
        assert (states[type_].status.value, states[type_].reason) == ("Unknown", reason)
    assert states["FlowsInSync"].status == "Unknown"
    assert states["OVNControllerConnected"].status != "True"
    assert states["Ready"].status == "False"


def test_one_failed_probe_changes_nothing() -> None:
    facts = healthy()
    twice = without(facts, "vswitchd").vswitchd
    once = but(facts, vswitchd=replace(twice, failures=1))
    assert stated(once) == stated(facts)


def test_port_issues_show_in_the_condition_after_their_grace_only() -> None:
    facts = healthy(instances={})
    assert stated(facts, 59)["PortsHealthy"] == "True/NoIssues"
    assert stated(facts, 60)["PortsHealthy"] == "False/OrphanPorts"


NOT_YET = {
    "chassis": (healthy(southbound=Reading(Southbound(7))), "OVNControllerConnected", "Starting"),
    "openflow": (healthy(openflow_peers=Reading(0)), "OVNControllerConnected", "Starting"),
    "bridge": (
        healthy(database({"br-int": []}, {**OVN, "ovn-bridge-mappings": "a:br-x"})),
        *("AllBridgesHealthy", "Starting"),
    ),
    "flows": (
        healthy(database({"br-int": [tap()]}), flows={"br-int": Reading(FlowCounts(0, {}))}),
        *("AllBridgesHealthy", "Starting"),
    ),
    "lag": (healthy(southbound=Reading(Southbound(9, 7))), "FlowsInSync", "NotMeasurable"),
}


@pytest.mark.parametrize(("facts", "type_", "reason"), NOT_YET.values(), ids=NOT_YET)
def test_condition_is_not_true_first_while_a_fault_has_been_found_that_has_yet_to_last(
    facts: SwitchFacts, type_: str, reason: str
) -> None:
    def of(judged: Judgement) -> tuple[str, str, str]:
        found = next(one for name, one in judged.conditions.items() if name == type_)
        return found.status, found.reason, found.message

    first = judge(facts, {}, now=NOW, monotonic=0.0)
    status, shown_, message = of(first)
    assert (status, shown_) == ("Unknown", reason)
    assert message.startswith("Not confirmed yet: ")
    second = judge(facts, first.ledger, now=later(1), monotonic=1.0, before=first.conditions)
    assert of(second)[:2] == ("Unknown", reason)
    last = judge(facts, second.ledger, now=later(90), monotonic=90.0, before=second.conditions)
    assert of(last)[0] == "False"

    well = judge(healthy(), {}, now=NOW, monotonic=0.0)
    after = judge(facts, well.ledger, now=later(1), monotonic=1.0, before=well.conditions)
    assert of(after)[0] == "True"  # a transient state of a healthy switch is no fault yet


def test_message_of_a_condition_names_three_issues_and_counts_the_rest() -> None:
    rows = database({"br-int": [tap(f"tap{n}", -1) for n in range(1, 7)]})
    first = judge(healthy(rows), {}, now=NOW, monotonic=0.0)
    last = judge(healthy(rows), first.ledger, now=later(90), monotonic=90.0)
    message = next(one.message for type_, one in last.conditions.items() if type_ == "PortsHealthy")
    assert message.endswith("and 4 more")


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (
            healthy(instances=None, wanted=None, samples=SAMPLES),
            "Not measured: InstancePortMissing, InstanceDeviceLost, OrphanPortNoDomain",
        ),
        (
            healthy(bindings=Reading(), samples=SAMPLES),
            "Not measured: OrphanPortNoBinding, PortNotInstalled",
        ),
        (healthy(), "Not measured: PortSilentlyDead"),
        (healthy(samples=SAMPLES), ""),
        (healthy(database({"br-int": []}), instances=None), ""),
    ],
)
def test_ports_without_issues_name_what_no_witness_shows(facts: SwitchFacts, message: str) -> None:
    found = judge(facts, {}, now=NOW, monotonic=0.0).conditions[OVSNodeConditionType.PORTS_HEALTHY]
    assert (found.status, found.reason, found.message) == ("True", "NoIssues", message)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (healthy(), ""),
        (healthy(classifier=Reading()), "Not measured: StaleFlowInPort"),
        (healthy(scans={}), "Not measured: ForeignFlow, StaleFlowOutput, StaleFlowCookie"),
        (
            healthy(flows={"br-int": Reading(FlowCounts(9_000, {0: 9, 33: 4_001, 34: 4_990}))}),
            "Tables too large to check: 33, 34",
        ),
        (
            healthy(
                flows={"br-int": Reading(FlowCounts(5_009, {33: 5_009}))}, classifier=Reading()
            ),
            "Not measured: StaleFlowInPort. Tables too large to check: 33",
        ),
    ],
)
def test_message_of_flows_in_sync_names_what_was_not_checked(
    facts: SwitchFacts, message: str
) -> None:
    found = judge(facts, {}, now=NOW, monotonic=0.0).conditions[OVSNodeConditionType.FLOWS_IN_SYNC]
    assert (found.status, found.reason, found.message) == ("True", "InSync", message)


def test_every_type_is_always_stated() -> None:
    for facts in (SwitchFacts(), healthy(), without(healthy(), "database")):
        assert set(stated(facts)) == set(ALL)


def test_version_that_is_installed_and_does_not_run_is_an_issue_and_no_condition() -> None:
    rows = database({"br-int": [tap()], "br-ex": [interface("eth0")]})
    rows = but(rows, switch=replace(rows.switch, ovs_version="3.3.0"))
    judged = judge(healthy(rows), {}, now=NOW, monotonic=0.0)
    assert [(one.code, one.severity) for one in judged.status.issues] == [
        ("VersionSkew", "Warning")
    ]
    assert judged.status.ovsVersion == "3.1.0"
    assert stated(healthy(rows))["Ready"] == "True/AllChecksPassed"


def test_source_that_cannot_be_read_is_named_with_its_cause() -> None:
    """The management socket is hidden, for example: the reason never stays `Starting`."""
    hidden: Reading[FlowCounts] = down_from(Reading(), ProducerFault.SOCKET_MISSING)
    found = judge(healthy(flows={"br-int": hidden}), {}, now=NOW, monotonic=0.0).conditions
    bridges = found[OVSNodeConditionType.ALL_BRIDGES_HEALTHY]
    assert bridges.message == "Cannot read flows of bridge br-int: SocketMissing"
    ready = found[OVSNodeConditionType.READY]
    assert ready.message.startswith("AllBridgesHealthy is Unknown: NotReadable: Cannot read flows")
