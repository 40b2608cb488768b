"""The five legs of ovn-controller, and its tunnels."""

from __future__ import annotations

import pytest
from tests.unit.ovs_agent.switches import (
    CHASSIS,
    NOW,
    OVN,
    REMOTE,
    but,
    database,
    down_from,
    found,
    healthy,
    interface,
    later,
    tap,
    without,
)

from hypercobalt.adapters.ovs.model import ControllerStart, ControllerState, Daemon, Southbound
from hypercobalt.adapters.ovs.port import ProducerFault
from hypercobalt.api.ovsnode import BridgeMapping, OVNController, OVSNodeConditionType, Tunnels
from hypercobalt.ovs_agent.assess import judge
from hypercobalt.ovs_agent.facts import Reading, SwitchFacts
from hypercobalt.ovs_agent.rules.controller import CODES, Leg, assess_controller, legs

CONNECTED = ControllerState(connected=True, paused=False)
AWAY = ControllerState(connected=False, paused=False)


def configured(**ids: str) -> SwitchFacts:
    return healthy(database({"br-int": []}, {**OVN, **ids}))


LEGS = {
    "all hold": (healthy(), True, []),
    "no southbound database set": (configured(**{"ovn-remote": ""}), False, ["NotConfigured"]),
    "no chassis set": (configured(**{"system-id": ""}), False, ["NotConfigured"]),
    "killed": (
        without(healthy(), "ovn_controller", ProducerFault.CONNECTION_REFUSED),
        False,
        ["NotRunning"],
    ),
    "never started": (
        without(healthy(), "ovn_controller", ProducerFault.SOCKET_MISSING),
        False,
        ["NotRunning"],
    ),
    "stopped by a signal": (without(healthy(), "ovn_controller"), False, ["Unresponsive"]),
    # A paused controller still answers `connected`.
    "paused": (
        healthy(controller=Reading(ControllerState(connected=True, paused=True))),
        False,
        ["Paused"],
    ),
    "a version without debug/status": (
        healthy(controller=Reading(ControllerState(connected=True, paused=None))),
        True,
        [],
    ),
    "southbound database away": (
        without(healthy(controller=Reading(AWAY)), "southbound", ProducerFault.CONNECTION_REFUSED),
        False,
        ["SBDisconnected"],
    ),
    # The kernel takes its connection, so that ovn-controller reports `connected`.
    "southbound database hangs": (without(healthy(), "southbound"), False, ["SBStale"]),
    "no means to read the southbound database": (
        without(healthy(), "southbound", ProducerFault.UNSUPPORTED),
        None,
        [],
    ),
    "no OpenFlow connection": (healthy(openflow_peers=Reading(0)), False, ["OpenFlowDisconnected"]),
    "another chassis there": (
        healthy(southbound=Reading(Southbound(7, None))),
        False,
        ["ChassisMismatch"],
    ),
}


@pytest.mark.parametrize("case", LEGS)
def test_controller_is_connected_when_every_leg_holds(case: str) -> None:
    facts, connected, codes = LEGS[case]
    assert shown_connected(facts) is connected
    assert [code for code, _ in found(assess_controller(facts))] == codes


def shown_connected(facts: SwitchFacts) -> bool | None:
    """`connected` in the status, when the facts have been these for a while."""
    first = judge(facts, {}, now=NOW, monotonic=0.0)
    last = judge(facts, first.ledger, now=later(120), monotonic=120.0)
    assert last.status.ovnController is not None
    condition = last.conditions[OVSNodeConditionType.OVN_CONTROLLER_CONNECTED]
    of = {"True": True, "False": False, "Unknown": None}
    assert last.status.ovnController.connected is of[condition.status]
    return last.status.ovnController.connected


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(without(healthy(), "vswitchd"), id="ovs-vswitchd is dead"),
        pytest.param(healthy(openflow_peers=Reading()), id="connections are not read yet"),
        pytest.param(without(healthy(), "openflow_peers"), id="connections cannot be read"),
        pytest.param(healthy(database({"br-ex": []})), id="there is no integration bridge"),
        pytest.param(
            healthy(southbound=Reading(), probes_southbound=True),
            id="the southbound database has not answered yet",
        ),
    ],
)
def test_controller_is_not_connected_without_proof_of_every_leg(facts: SwitchFacts) -> None:
    assert shown_connected(facts) is None


def test_connection_that_ovn_controller_makes_again_keeps_connected_for_its_grace() -> None:
    well = judge(healthy(), {}, now=NOW, monotonic=0.0)
    facts = healthy(openflow_peers=Reading(0))
    judged = judge(facts, well.ledger, now=NOW, monotonic=0.0, before=well.conditions)
    assert judged.status.ovnController is not None
    assert judged.status.ovnController.connected is True


def test_database_that_the_agent_cannot_read_is_no_leg_that_fails() -> None:
    assert Leg.END_TO_END not in legs(without(healthy(), "southbound", ProducerFault.UNSUPPORTED))


def test_lost_southbound_database_is_a_warning_that_names_the_remote() -> None:
    for facts in (healthy(controller=Reading(AWAY)), without(healthy(), "southbound")):
        (finding,) = assess_controller(facts).findings
        assert finding.severity == "Warning"
        assert REMOTE in finding.message


def test_name_of_the_chassis_that_ovn_controller_was_started_with_goes_first() -> None:
    ids = {"system-id": "host", "ovn-remote": "tcp:1:1", "ovn-remote-other": "tcp:2:2"}
    rows = database({"br-int": []}, external_ids=ids)
    facts = healthy(rows, start=Reading(ControllerStart("other")))
    value = assess_controller(facts).value
    assert value is not None
    assert (value.chassisId, value.sbConnection) == ("other", "tcp:2:2")


def test_chassis_without_a_name_in_the_database_is_not_called_unconfigured_too_early() -> None:
    rows = database({"br-int": []}, external_ids={"ovn-remote": REMOTE})
    early = assess_controller(healthy(rows, start=Reading()))
    assert (found(early), early.unmeasured >= set(CODES)) == ([], True)
    assert found(assess_controller(healthy(rows))) == [("NotConfigured", "ovn-controller")]
    assert found(assess_controller(healthy(rows, start=Reading(ControllerStart("n"))))) == []


PLAIN = database({"br0": [tap(external_ids={"iface-id": "i"})]}, {"system-id": "ovs-ctl's"})
UNREAD: Reading[Daemon] = Reading()
NEVER_RAN = down_from(UNREAD, ProducerFault.SOCKET_MISSING)
HOSTS: dict[str, tuple[SwitchFacts, str]] = {
    "without OVN": (healthy(PLAIN, ovn_controller=NEVER_RAN, start=Reading()), "True/NotUsed"),
    "ovn-controller is killed": (
        without(healthy(PLAIN), "ovn_controller", ProducerFault.CONNECTION_REFUSED),
        "False/NotConfigured",
    ),
    "ovn-controller runs": (healthy(PLAIN), "False/NotConfigured"),
    "OVN has installed a port": (
        healthy(database({"br-int": [tap()]}, {"system-id": CHASSIS}), ovn_controller=NEVER_RAN),
        "False/NotConfigured",
    ),
    "a setting is left": (
        healthy(database({"br-int": []}, {"ovn-encap-ip": "::1"}), ovn_controller=NEVER_RAN),
        "False/NotConfigured",
    ),
    "not looked for yet": (healthy(PLAIN, ovn_controller=Reading()), "Unknown/Starting"),
}


@pytest.mark.parametrize("case", HOSTS)
def test_host_without_ovn_is_complete_and_a_broken_chassis_is_not(case: str) -> None:
    facts, expected = HOSTS[case]
    judged = judge(facts, {}, now=NOW, monotonic=0.0)
    stated = judged.conditions[OVSNodeConditionType.OVN_CONTROLLER_CONNECTED]
    assert f"{stated.status}/{stated.reason}" == expected
    used = expected != "True/NotUsed"
    assert (judged.status.ovnController is not None, bool(legs(facts)) or not used) == (used, True)
    ready = judged.conditions[OVSNodeConditionType.READY]
    assert used or ready.status == "True"


def test_empty_setting_of_this_chassis_hides_that_of_all() -> None:
    facts = configured(**{f"ovn-remote-{CHASSIS}": ""})
    assert found(assess_controller(facts)) == [("NotConfigured", "ovn-controller")]


def test_setting_of_this_chassis_goes_first() -> None:
    facts = configured(**{f"ovn-remote-{CHASSIS}": "ssl:10.0.0.11:6642"})
    value = assess_controller(facts).value
    assert value is not None
    assert value.sbConnection == "ssl:10.0.0.11:6642"


def test_controller_shows_every_field() -> None:
    ids = {**OVN, "ovn-bridge-mappings": "physnet2:br-lab,physnet1:br-ex"}
    assert assess_controller(healthy(database({"br-int": []}, ids))).value == OVNController(
        sbConnection=REMOTE,
        chassisId=CHASSIS,
        encapIP="10.0.0.1",
        encapType="geneve",
        bridgeMappings=(
            BridgeMapping(network="physnet1", bridge="br-ex"),
            BridgeMapping(network="physnet2", bridge="br-lab"),
        ),
        tunnels=Tunnels(count=0, brokenTotal=0),
    )


def test_controller_is_unknown_before_the_first_answer() -> None:
    facts = healthy(ovn_controller=Reading(), controller=Reading())
    assessed = assess_controller(facts)
    assert shown_connected(facts) is None
    assert "NotRunning" in {one.value for one in assessed.unmeasured}


def test_without_rows_a_dead_controller_still_shows() -> None:
    facts = without(healthy(), "database")
    assert assess_controller(facts).value is None
    assert shown_connected(without(facts, "ovn_controller")) is False


def tunnels(*broken: bool, bfd: bool = True) -> SwitchFacts:
    rows = [
        interface(
            f"ovn-{number}",
            100 + number,
            type="geneve",
            options={"remote_ip": f"10.0.1.{number}"},
            bfd_status=({"state": "down" if one else "up"} if bfd else {}),
        )
        for number, one in enumerate(broken)
    ]
    return healthy(database({"br-int": rows}))


def test_tunnels_are_counted_and_broken_ones_named() -> None:
    assessed = assess_controller(tunnels(False, True, False))
    assert assessed.value is not None
    assert assessed.value.tunnels == Tunnels(count=3, broken=("10.0.1.1",), brokenTotal=1)
    assert found(assessed) == [("TunnelDown", "br-int")]


def test_broken_tunnels_are_one_issue_and_no_longer_list_than_twenty() -> None:
    assessed = assess_controller(tunnels(*[True] * 30))
    assert assessed.value is not None
    assert assessed.value.tunnels is not None
    shown = assessed.value.tunnels
    assert (shown.count, len(shown.broken), shown.brokenTotal) == (30, 20, 30)
    (finding,) = assessed.findings
    assert finding.message.endswith("and 10 more")


def test_several_tunnels_to_one_address_each_count() -> None:
    facts = tunnels(True, True)
    rows = facts.database.value
    assert rows is not None
    same = {
        uuid: but(one, options={"remote_ip": "10.0.1.9"}) if one.type == "geneve" else one
        for uuid, one in rows.interfaces.items()
    }
    value = assess_controller(healthy(but(rows, interfaces=same))).value
    assert value is not None
    assert value.tunnels == Tunnels(count=2, broken=("10.0.1.9",), brokenTotal=2)


def test_tunnel_without_bfd_is_not_broken() -> None:
    assert not assess_controller(tunnels(True, bfd=False)).findings


def test_tunnels_are_unknown_without_vswitchd() -> None:
    facts = tunnels(True)
    value = assess_controller(without(facts, "vswitchd")).value
    assert value is not None
    assert value.tunnels is None


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (
            healthy(),
            {
                "process": True,
                "running": True,
                "southbound": True,
                "openflow": True,
                "end_to_end": True,
            },
        ),
        (
            without(healthy(), "ovn_controller"),
            {"process": False, "openflow": True, "end_to_end": True},
        ),
        (
            without(healthy(controller=Reading(AWAY)), "southbound"),
            {
                "process": True,
                "running": True,
                "southbound": False,
                "openflow": True,
                "end_to_end": False,
            },
        ),
        (SwitchFacts(), {}),
    ],
)
def test_only_measured_legs_are_listed(facts: SwitchFacts, expected: dict[str, bool]) -> None:
    assert legs(facts) == {Leg(name): holds for name, holds in expected.items()}


def test_openflow_leg_needs_a_living_switch() -> None:
    facts = but(healthy(openflow_peers=Reading(0)))
    assert not assess_controller(without(facts, "vswitchd")).findings
