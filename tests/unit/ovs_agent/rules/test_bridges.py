"""Status of bridges, and their findings."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.ovs_agent.switches import (
    NOT_RUNNING,
    OVN,
    bond,
    but,
    database,
    found,
    healthy,
    interface,
    tap,
    without,
)

from hypercobalt.adapters.ovs.port import ProducerFault
from hypercobalt.adapters.ovs.rows import Database, InterfaceRow, PortRow
from hypercobalt.api.ovsnode import Bridge
from hypercobalt.ovs_agent.facts import Reading, SwitchFacts
from hypercobalt.ovs_agent.rules.bridges import CODES, assess_bridges


def patch(name: str, peer: str, ofport: int = 5) -> InterfaceRow:
    return interface(name, ofport, type="patch", options={"peer": peer})


def with_bridge(rows: Database, name: str, **fields: object) -> Database:
    row = but(rows.bridges[f"b-{name}"], **fields)
    return replace(rows, bridges={**rows.bridges, row.uuid: row})


def status_of(facts: SwitchFacts, name: str) -> str | None:
    return next(one.status for one in assess_bridges(facts).value if one.name == name)


def test_bridges_show_every_field_by_name() -> None:
    rows = database({"br-int": [tap()], "br-ex": [bond("bond0", interface("a"), interface("b"))]})
    rows = with_bridge(rows, "br-int", datapath_type="netdev")
    assert assess_bridges(healthy(rows)).value == (
        Bridge(name="br-ex", ports=2, flows=3, datapathType="system", status="Active"),
        Bridge(name="br-int", ports=2, flows=3, datapathType="netdev", status="Active"),
    )


@pytest.mark.parametrize(
    ("member", "expected"),
    [
        (interface("eth0"), "Active"),
        (interface("eth0", -1), "Degraded"),
        (tap(ofport=-1), "Active"),  # one instance's port: an issue of that port
        (bond("bond0", interface("a", link_up=False), interface("b", 2)), "Active"),
        (
            bond("bond0", interface("a", link_up=False), interface("b", 2, link_up=False)),
            "Degraded",
        ),
        (
            bond(
                "bond0",
                interface("a", lacp_current=False),
                interface("b", 2, lacp_current=False),
                lacp="active",
            ),
            "Degraded",
        ),
        (patch("patch-a", "nowhere"), "Degraded"),
    ],
)
def test_bridge_is_degraded_by_a_port_that_is_no_instances(
    member: InterfaceRow | tuple[PortRow, tuple[InterfaceRow, ...]], expected: str
) -> None:
    assert status_of(healthy(database({"br-ex": [member], "br-int": []})), "br-ex") == expected


def test_bridge_without_a_datapath_is_down() -> None:
    facts = healthy(with_bridge(database({"br-int": [], "br-ex": []}), "br-ex", datapath_id=None))
    assert status_of(facts, "br-ex") == "Down"
    assert found(assess_bridges(facts)) == [("BridgeDown", "br-ex")]


def test_bridge_that_vswitchd_does_not_run_is_down() -> None:
    facts = healthy(running=Reading(frozenset({"br-int"})))
    assert status_of(facts, "br-ex") == "Down"
    assert found(assess_bridges(facts)) == [("BridgeDown", "br-ex")]


def test_bridge_is_unknown_until_vswitchd_has_named_its_bridges() -> None:
    facts = healthy(running=Reading())
    assert status_of(facts, "br-ex") == "Unknown"
    assert assess_bridges(facts).unmeasured == {"BridgeDown"}


@pytest.mark.parametrize("lost", ["vswitchd", "database"])
def test_bridges_are_unknown_without_either_daemon(lost: str) -> None:
    facts = healthy()
    facts = without(facts, lost)
    assessed = assess_bridges(facts)
    assert {one.status for one in assessed.value} == {"Unknown"}
    assert [one.name for one in assessed.value] == ["br-ex", "br-int"]
    assert assessed.unmeasured == CODES
    assert assessed.findings == ()


def test_dead_vswitchd_hides_flows_and_keeps_what_is_configured() -> None:
    facts = healthy()
    facts = without(facts, "vswitchd")
    bridge = assess_bridges(facts).value[0]
    assert bridge == Bridge(name="br-ex", ports=2, datapathType="system", status="Unknown")


def test_ovsdb_that_hangs_shows_flows_and_hides_what_is_configured() -> None:
    facts = healthy()
    facts = without(facts, "database")
    assert assess_bridges(facts).value[0] == Bridge(name="br-ex", flows=3, status="Unknown")


@pytest.mark.parametrize("fault", NOT_RUNNING)
def test_ovsdb_that_does_not_run_leaves_of_bridges_the_names(fault: ProducerFault) -> None:
    known = without(healthy(), "database", fault)
    never = without(healthy(database=Reading()), "database", fault)
    for facts in (known, never):
        assert assess_bridges(facts).value[0] == Bridge(name="br-ex", status="Unknown")


def test_restarted_ovsdb_with_empty_ephemeral_columns_makes_nothing_down() -> None:
    empty: dict[str, object] = {"admin_up": None, "link_up": None, "mtu": None, "ifindex": None}
    rows = database({"br-int": [tap()], "br-ex": [interface("eth0")]})
    local = {uuid: but(one, **empty) for uuid, one in rows.interfaces.items()}
    rows = replace(rows, interfaces=local)
    bare = {uuid: replace(one, datapath_id=None) for uuid, one in rows.bridges.items()}
    assessed = assess_bridges(healthy(replace(rows, bridges=bare)))
    assert {one.status for one in assessed.value} == {"Unknown"}
    assert assessed.findings == ()


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ({}, []),
        ({"ovn-bridge": "br-ovn"}, [("BridgeMissing", "br-ovn")]),
        ({"ovn-bridge-mappings": "physnet1:br-ex"}, []),
        ({"ovn-bridge-mappings": "physnet1:br-ex,lab:br-lab"}, [("BridgeMissing", "br-lab")]),
        ({f"ovn-bridge-mappings-{OVN['system-id']}": "lab:br-x"}, [("BridgeMissing", "br-x")]),
        ({"ovn-bridge-datapath-type": "system"}, []),
        ({"ovn-bridge-datapath-type": "netdev"}, [("DatapathMismatch", "br-int")]),
        # Without a chassis no bridge is wanted.
        ({"system-id": "", "ovn-bridge": "br-ovn"}, []),
    ],
)
def test_bridges_that_ovn_names_must_be_there(
    ids: dict[str, str], expected: list[tuple[str, str]]
) -> None:
    rows = database({"br-int": [tap()], "br-ex": []}, {**OVN, **ids})
    assert found(assess_bridges(healthy(rows))) == expected


def test_mapped_bridge_of_another_datapath_is_a_mismatch() -> None:
    rows = database({"br-int": [], "br-ex": []}, {**OVN, "ovn-bridge-mappings": "a:br-ex"})
    rows = with_bridge(rows, "br-ex", datapath_type="netdev")
    assert found(assess_bridges(healthy(rows))) == [("DatapathMismatch", "br-ex")]


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (patch("b", "a"), []),
        (patch("b", "c"), [("PatchPeerMissing", "a"), ("PatchPeerMissing", "b")]),
        (interface("b", type="internal"), [("PatchPeerMissing", "a")]),
    ],
)
def test_patch_needs_a_peer_that_leads_back(
    other: InterfaceRow, expected: list[tuple[str, str]]
) -> None:
    rows = database({"br-ex": [patch("a", "b")], "br-int": [other]})
    assert sorted(found(assess_bridges(healthy(rows)))) == expected


def test_bridges_are_named_by_vswitchd_when_ovsdb_never_answered() -> None:
    assert [
        (one.name, one.flows, one.status)
        for one in assess_bridges(healthy(database=Reading())).value
    ] == [("br-ex", 3, "Unknown"), ("br-int", 3, "Unknown")]
