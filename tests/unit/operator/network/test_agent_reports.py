"""The OVS agent's report of a switch and the operator's condition agree."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.ovs_agent.switches import (
    NOW,
    OVN,
    but,
    database,
    healthy,
    interface,
    later,
    tap,
    without,
)

from hypercobalt.adapters.ovs.model import ControllerState, FlowCounts
from hypercobalt.adapters.ovs.port import ProducerFault
from hypercobalt.agent.board import ConditionReport
from hypercobalt.agent.status import conditions
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.ovsnode import NodeReference, OVSNode, OVSNodeSpec
from hypercobalt.api.ovsnode_glance import OVSNodeGlance
from hypercobalt.operator.network.verdict import judge as verdict
from hypercobalt.ovs_agent.assess import judge
from hypercobalt.ovs_agent.facts import Reading, SwitchFacts
from hypercobalt.ovs_agent.rules.conditions import OWN

NO_FLOWS = {"br-int": Reading(FlowCounts(0, {})), "br-ex": Reading(FlowCounts(0, {}))}
MAPPED = {**OVN, "ovn-bridge-mappings": "physnet1:br-x"}
RUNNING = Reading(frozenset({"br-int"}))
AWAY = Reading(ControllerState(connected=False, paused=False))
REFUSED = ProducerFault.CONNECTION_REFUSED


def reported(facts: SwitchFacts) -> OVSNodeGlance:
    """The OVSNode of a host whose facts have been these for a while, as the operator reads it."""
    first = judge(facts, {}, now=NOW, monotonic=0.0)
    last = judge(facts, first.ledger, now=later(120), monotonic=120.0)
    board = {
        type_.value: ConditionReport(one.status, one.reason, one.message, NOW)
        for type_, one in last.conditions.items()
    }
    node = OVSNode(
        metadata=ObjectMeta(name="kvm-a", namespace="ovn-system"),
        spec=OVSNodeSpec(nodeRef=NodeReference(name="kvm-a")),
        status=msgspec.structs.replace(last.status, conditions=conditions(board, (), OWN, 1)),
    )
    return msgspec.json.decode(msgspec.json.encode(node), type=OVSNodeGlance)


def tunnels(up: int, down: int) -> SwitchFacts:
    rows = [
        interface(
            f"ovn-{number}",
            100 + number,
            type="geneve",
            options={"remote_ip": f"10.0.1.{number}"},
            bfd_status={"state": "down" if number < down else "up"},
        )
        for number in range(up + down)
    ]
    return healthy(database({"br-int": rows}), classifier=Reading(()))


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param(healthy(), "True/Healthy", id="all is well"),
        pytest.param(SwitchFacts(), "Unknown/NotReported", id="nothing read yet"),
        pytest.param(healthy(flows=NO_FLOWS), "False/BridgeDown", id="no flows"),
        pytest.param(
            healthy(flows=NO_FLOWS, running=RUNNING),
            "False/BridgeDown",
            id="no flows, and another bridge is down",
        ),
        pytest.param(
            healthy(database({"br-int": [tap()]}, MAPPED), flows=NO_FLOWS),
            "False/BridgeDown",
            id="no flows, and another bridge is missing",
        ),
        pytest.param(
            healthy(flows=NO_FLOWS, controller=AWAY),
            "False/BridgeDown",
            id="no flows, and no southbound database",
        ),
        pytest.param(
            without(healthy(flows=NO_FLOWS), "ovn_controller", REFUSED),
            "False/BridgeDown",
            id="no flows, and no ovn-controller",
        ),
        pytest.param(healthy(running=RUNNING), "False/Degraded", id="another bridge is down"),
        pytest.param(
            healthy(database({"br-int": [tap()]}, MAPPED)),
            "False/Degraded",
            id="another bridge is missing",
        ),
        pytest.param(
            healthy(database({"br-ex": []})),
            "False/BridgeDown",
            id="there is no integration bridge",
        ),
        pytest.param(healthy(flows={}), "Unknown/NotReported", id="flows are not counted"),
        pytest.param(
            healthy(controller=AWAY), "False/OVNDisconnected", id="no southbound database"
        ),
        pytest.param(
            healthy(openflow_peers=Reading(0)), "False/OVNControllerFailed", id="no OpenFlow"
        ),
        pytest.param(
            without(healthy(), "openflow_peers", ProducerFault.NOT_PERMITTED),
            "Unknown/NotReported",
            id="OpenFlow connections cannot be read",
        ),
        pytest.param(
            without(healthy(), "vswitchd"), "False/SwitchNotResponding", id="ovs-vswitchd hangs"
        ),
        pytest.param(
            without(without(healthy(), "vswitchd"), "database"),
            "False/SwitchNotResponding",
            id="both daemons hang",
        ),
        pytest.param(
            without(healthy(), "vswitchd", ProducerFault.NOT_PERMITTED),
            "Unknown/NotReported",
            id="the agent may not open the socket",
        ),
        pytest.param(
            but(without(healthy(), "database", REFUSED), vswitchd=Reading()),
            "False/SwitchNotResponding",
            id="ovsdb-server is gone",
        ),
        pytest.param(tunnels(30, 25), "True/Healthy", id="a rack at the other end is dead"),
        pytest.param(tunnels(0, 55), "False/Degraded", id="this end is cut off"),
    ],
)
def test_agent_and_operator_come_to_one_verdict(facts: SwitchFacts, expected: str) -> None:
    found = verdict(reported(facts), "br-int")
    assert f"{found.status}/{found.reason}" == expected
