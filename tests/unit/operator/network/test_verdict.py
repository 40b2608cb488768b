"""The network condition of a host, by its OVSNode."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.unit.operator.network.switch import SILENT, switch
from tests.unit.operator.samples import NOW, condition, hypervisor

from hypercobalt.api.hypervisor import binds_no_ports, is_network_broken
from hypercobalt.api.ovsnode import OVSNodeConditionType
from hypercobalt.api.ovsnode_glance import OVSNodeGlance, TunnelsGlance
from hypercobalt.operator.network.verdict import condition as network
from hypercobalt.operator.network.verdict import judge, unwatched

BRIDGES = "AllBridgesHealthy"
OVN = "OVNControllerConnected"


def bad(type_: str, reason: str, status: str = "False") -> dict[str, tuple[str, str]]:
    return {type_: (status, reason)}


SB_AWAY = bad(OVN, "SBDisconnected")
DOWN = bad(BRIDGES, "BridgeDown")


@pytest.mark.parametrize(
    ("given", "expected", "closes", "unbound"),
    [
        pytest.param(None, "Unknown/NotReported", False, False, id="no OVSNode"),
        pytest.param(switch(), "True/Healthy", False, False, id="in order"),
        pytest.param(
            switch(without=("VswitchdResponding", "AllBondsHealthy", OVN)),
            *("True/Healthy", False, False),
            id="an agent with the documented conditions, of a switch without OVN",
        ),
        pytest.param(
            switch(bad(BRIDGES, "Starting", "Unknown")),
            *("Unknown/NotReported", False, False),
            id="the agent is starting",
        ),
        pytest.param(
            switch(without=(BRIDGES,)),
            *("Unknown/NotReported", False, False),
            id="nothing reported yet",
        ),
        pytest.param(
            switch(bridges={}), "Unknown/NotReported", False, False, id="no bridge reported yet"
        ),
        pytest.param(
            switch(bridges={"br-int": "Unknown"}),
            *("Unknown/NotReported", False, False),
            id="its own bridge is not known",
        ),
        pytest.param(
            switch(DOWN, bridges={"br-int": "Down"}),
            *("False/BridgeDown", True, False),
            id="its integration bridge is down",
        ),
        pytest.param(
            switch(bad(BRIDGES, "BridgeMissing"), bridges={"br-int": "Down", "br-ex": "Active"}),
            *("False/BridgeDown", True, False),
            id="it is missing, which the agent shows as Down",
        ),
        pytest.param(
            switch(bad(BRIDGES, "NoFlows"), bridges={"br-int": "Down"}),
            *("False/BridgeDown", True, False),
            id="it has no flows, which the agent shows as Down",
        ),
        pytest.param(
            switch(DOWN, bridges={"br-int": "Down", "br-ex": "Down"}),
            *("False/BridgeDown", True, False),
            id="it has no flows, and the condition names another bridge that is down",
        ),
        pytest.param(
            switch(bad(BRIDGES, "BridgeMissing"), bridges={"br-ovn": "Active"}),
            *("False/Degraded", False, False),
            id="a bridge is missing on a host whose integration bridge has another name",
        ),
        pytest.param(
            switch(DOWN, bridges={"br-int": "Active", "br-ex": "Down"}),
            *("False/Degraded", False, False),
            id="another bridge is down",
        ),
        pytest.param(
            switch(bad(BRIDGES, "BridgeMissing")),
            *("False/Degraded", False, False),
            id="another one is missing",
        ),
        pytest.param(
            switch(bad("AllBondsHealthy", "MemberDown")),
            *("False/Degraded", False, False),
            id="a bond has lost a member",
        ),
        pytest.param(
            switch(bad("VswitchdResponding", "Timeout") | bad(BRIDGES, "Away", "Unknown")),
            *("False/SwitchNotResponding", True, False),
            id="ovs-vswitchd hangs",
        ),
        pytest.param(
            switch(bad("OVSDBConnected", "SocketMissing")),
            *("False/SwitchNotResponding", True, False),
            id="ovsdb-server is gone",
        ),
        pytest.param(
            switch(bad("OVSDBConnected", "SocketMissing"), bridges={}),
            *("Unknown/NotReported", False, False),
            id="an agent that has never seen the switch, as with wrong mounts",
        ),
        pytest.param(
            switch(bad("VswitchdResponding", "NotPermitted")),
            *("Unknown/NotReported", False, False),
            id="an agent without the right",
        ),
        pytest.param(
            switch(bad("OVSDBConnected", "SchemaUnsupported")),
            *("Unknown/NotReported", False, False),
            id="an agent that does not understand the answer",
        ),
        pytest.param(
            switch(SB_AWAY), "False/OVNDisconnected", False, True, id="southbound database away"
        ),
        pytest.param(
            switch(bad(OVN, "SBStale")), "False/OVNDisconnected", False, True, id="it hangs"
        ),
        pytest.param(
            switch(bad(OVN, "NotUsed", "True")),
            *("True/Healthy", False, False),
            id="a host without OVN",
        ),
        pytest.param(
            switch(bad(OVN, "NotRunning")),
            *("False/OVNControllerFailed", False, True),
            id="ovn-controller is dead",
        ),
        pytest.param(
            switch(SB_AWAY | bad(BRIDGES, "NoFlows"), bridges={"br-int": "Down"}),
            *("False/BridgeDown", True, False),
            id="both: the host's own fault counts",
        ),
        pytest.param(
            switch(bad("PortsHealthy", "InstancesCutOff") | bad("Ready", "PortsHealthy")),
            *("False/Degraded", False, False),
            id="a running instance has no port",
        ),
        pytest.param(
            switch(bad("FlowsInSync", "ForeignFlows") | bad("Ready", "FlowsInSync")),
            *("False/Degraded", False, False),
            id="a foreign flow drops packets",
        ),
        pytest.param(
            switch(bad("FlowsInSync", "NotMeasurable", "Unknown")),
            *("True/Healthy", False, False),
            id="flows that no witness can measure",
        ),
        pytest.param(
            switch(bad("PortsHealthy", "Starting", "Unknown") | bad("Ready", "Stale", "Unknown")),
            *("Unknown/NotReported", False, False),
            id="ports that are not known",
        ),
        pytest.param(switch(SILENT), "Unknown/AgentSilent", False, False, id="silent, was well"),
        pytest.param(
            switch(SILENT | DOWN, bridges={"br-int": "Down"}),
            *("False/BridgeDown", True, False),
            id="silent, was broken",
        ),
        pytest.param(
            switch(SILENT | SB_AWAY),
            *("False/OVNDisconnected", False, True),
            id="silent, was without OVN",
        ),
    ],
)
def test_condition_and_gates_follow_from_the_ovsnode(
    given: OVSNodeGlance | None, expected: str, *, closes: bool, unbound: bool
) -> None:
    found = judge(given, "br-int")
    assert f"{found.status}/{found.reason}" == expected
    shown = hypervisor(condition("NetworkHealthy", found.status, found.reason))
    assert (is_network_broken(shown), binds_no_ports(shown)) == (closes, unbound)


@pytest.mark.parametrize(
    ("count", "broken", "expected"),
    [
        pytest.param(9, 0, "True/Healthy", id="all are up"),
        pytest.param(9, 8, "True/Healthy", id="others are dead: it is not this end"),
        pytest.param(9, 9, "False/Degraded", id="this end is cut off"),
        pytest.param(99, 19, "True/Healthy", id="many, of which some are down"),
        pytest.param(99, 20, "True/Healthy", id="as many as an OVSNode names: a rack is dead"),
        pytest.param(99, 98, "True/Healthy", id="one is up, so this end works"),
        pytest.param(99, 99, "False/Degraded", id="more than an OVSNode names, and all"),
        pytest.param(9, None, "True/Healthy", id="not reported"),
        pytest.param(1, 1, "True/Healthy", id="one tunnel: which end it is cannot be known"),
        pytest.param(0, 0, "True/Healthy", id="a host alone"),
    ],
)
def test_tunnels_count_when_all_of_them_are_down(
    count: int, broken: int | None, expected: str
) -> None:
    found = judge(switch(tunnels=TunnelsGlance(count=count, brokenTotal=broken)), "br-int")
    assert f"{found.status}/{found.reason}" == expected


def test_switch_that_answers_and_takes_no_configuration_is_not_reported_as_silent() -> None:
    lags = switch(bad("VswitchdResponding", "ConfigLag"))
    found = judge(lags, "br-int")
    assert found.reason == "SwitchNotResponding"
    assert "ovs-vswitchd takes no configuration (ConfigLag" in found.message


def test_message_names_the_object_and_what_its_agent_reports() -> None:
    found = judge(switch(DOWN, bridges={"br-int": "Down"}), "br-int").message
    assert found == (
        "OVSNode ovn-system/kvm-a: bridge br-int is Down (BridgeDown: AllBridgesHealthy it is)"
    )
    last = judge(switch(SILENT | DOWN, bridges={"br-int": "Down"}), "br-int").message
    assert last.endswith("; its OVS agent is silent, so this is its last report")


@pytest.mark.parametrize("status", ["Unknown", "Down", "Degraded"])
def test_bridge_of_another_name_does_not_change_the_verdict(status: str) -> None:
    two = switch(bridges={"br-int": "Active", "br-ex": status})
    assert judge(two, "br-int").reason == "Healthy"
    assert judge(switch(bridges={"br-int": "Down"}), "br-ex").reason != "BridgeDown"


def test_host_that_never_had_an_ovsnode_gets_no_condition() -> None:
    assert network(hypervisor(), None, "br-int", NOW) == ()


def test_condition_stays_when_the_ovsnode_goes_and_keeps_its_time_while_it_holds() -> None:
    stored = condition("NetworkHealthy", "True", "Healthy")
    (same,) = network(hypervisor(stored), switch(), "br-int", NOW + timedelta(hours=1))
    assert (same.status, same.lastTransitionTime) == ("True", NOW)
    (gone,) = network(hypervisor(stored), None, "br-int", NOW + timedelta(hours=1))
    assert (gone.status, gone.reason) == ("Unknown", "NotReported")
    assert gone.lastTransitionTime == NOW + timedelta(hours=1)


def test_operator_that_follows_no_ovsnodes_leaves_nothing_green_and_closes_nothing() -> None:
    assert unwatched(hypervisor(), NOW) == ()
    for stored in (
        condition("NetworkHealthy", "True", "Healthy"),
        condition("NetworkHealthy", "False", "BridgeDown"),
    ):
        (found,) = unwatched(hypervisor(stored), NOW)
        assert (found.status, found.reason) == ("Unknown", "NotReported")


@pytest.mark.parametrize("type_", [*OVSNodeConditionType])
@pytest.mark.parametrize("status", ["True", "False", "Unknown"])
def test_healthy_network_never_contradicts_an_ovsnode_that_is_not_ready(
    type_: OVSNodeConditionType, status: str
) -> None:
    """Each condition, alone, as the agent states `Ready` with it."""
    flows = type_ is OVSNodeConditionType.FLOWS_IN_SYNC and status == "Unknown"
    ready = {} if status == "True" or flows else {"Ready": (status, type_.value)}
    found = judge(switch({type_.value: (status, "Some"), **ready}), "br-int")
    assert (found.status == "True") == (not ready)
