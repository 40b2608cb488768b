"""`NodeHealthy` of a Hypervisor, by the conditions of its Node."""

from __future__ import annotations

import pytest
from tests.unit.operator.samples import condition, node, reports

from hypercobalt.api.conditions import Condition
from hypercobalt.api.core import NodeCondition
from hypercobalt.api.incident import Incident, IncidentType, Severity
from hypercobalt.operator.nodes.conditions import accepts, health

CALM = (reports("DiskPressure", "False"), reports("MemoryPressure", "False"))


@pytest.mark.parametrize(
    ("conditions", "status", "reason", "takes"),
    [
        pytest.param((reports("Ready"), *CALM), "True", "Healthy", "True", id="in order"),
        pytest.param((), "Unknown", "NotReported", "False", id="never reported"),
        pytest.param((reports("Ready", "False"),), "False", "NotReady", "False", id="not ready"),
        pytest.param(
            (reports("Ready", "Unknown"),), "Unknown", "Unreachable", "False", id="silent"
        ),
        pytest.param(
            (reports("Ready"), reports("DiskPressure")), "False", "DiskPressure", "False", id="disk"
        ),
        pytest.param(
            (reports("Ready"), reports("MemoryPressure")),
            "False",
            "MemoryPressure",
            "False",
            id="memory",
        ),
        pytest.param(
            (reports("DiskPressure"), reports("Ready", "Unknown")),
            "Unknown",
            "Unreachable",
            "False",
            id="silence is graver than pressure",
        ),
        pytest.param((reports("Ready"), reports("PIDPressure")), "True", "Healthy", "True", id="-"),
    ],
)
def test_health_follows_from_the_conditions_of_the_node(
    conditions: tuple[NodeCondition, ...], status: str, reason: str, takes: str
) -> None:
    found = health(node(*conditions))
    assert (found.status, found.reason) == (status, reason)
    assert accepts(found)[0] == takes


def test_message_names_everything_that_is_wrong() -> None:
    found = health(node(reports("Ready", "False"), reports("DiskPressure")))
    assert found.message == ("Ready is False (Why: because); DiskPressure is True (Why: because)")


def test_condition_without_a_reason_is_named_by_its_status() -> None:
    assert health(node(NodeCondition(type="Ready", status="False"))).message == "Ready is False"


def test_long_message_of_a_kubelet_is_cut() -> None:
    long = NodeCondition(type="Ready", status="False", reason="Why", message="x" * 100_000)
    assert len(health(node(long)).message) < 400


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        (None, "True/NodeHealthy"),
        (condition("NetworkHealthy", "True", "Healthy"), "True/NodeHealthy"),
        (condition("NetworkHealthy", "False", "BridgeDown", "no bridge"), "False/NetworkBroken"),
        (condition("NetworkHealthy", "False", "SwitchNotResponding"), "False/NetworkBroken"),
        (condition("NetworkHealthy", "False", "OVNDisconnected"), "True/NodeHealthy"),
        (condition("NetworkHealthy", "False", "Degraded"), "True/NodeHealthy"),
        (condition("NetworkHealthy", "Unknown", "AgentSilent"), "True/NodeHealthy"),
    ],
)
def test_broken_switch_of_a_node_in_order_keeps_new_instances_out(
    network: Condition | None, expected: str
) -> None:
    status, reason, message = accepts(health(node(reports("Ready"))), network)
    assert f"{status}/{reason}" == expected
    assert (network is not None and network.message in message) or status == "True"


def test_node_that_is_not_in_order_counts_before_its_switch_and_its_memory() -> None:
    broken = condition("NetworkHealthy", "False", "BridgeDown")
    failed = Incident(id="i", type=IncidentType.MEMORY_FAILURE, severity=Severity.CRITICAL)
    for incidents in ((), (failed,)):
        found = accepts(health(node(reports("Ready", "False"))), broken, incidents)
        assert found[1] == "NodeUnhealthy"


@pytest.mark.parametrize(
    ("type_", "severity", "expected"),
    [
        (IncidentType.MEMORY_FAILURE, Severity.CRITICAL, "False/MemoryFailed"),
        (IncidentType.MEMORY_FAILURE, Severity.WARNING, "True/NodeHealthy"),
        (IncidentType.CRASH, Severity.CRITICAL, "True/NodeHealthy"),
    ],
    ids=["of the host", "that a guest has repaired", "of an instance"],
)
def test_failed_memory_of_the_host_keeps_new_instances_out(
    type_: IncidentType, severity: Severity, expected: str
) -> None:
    incident = Incident(id="host-1", type=type_, severity=severity)
    status, reason, message = accepts(health(node(reports("Ready"))), None, (incident,))
    assert f"{status}/{reason}" == expected
    assert ("incident host-1" in message) is (status == "False")


def test_broken_switch_counts_before_failed_memory() -> None:
    broken = condition("NetworkHealthy", "False", "BridgeDown")
    incident = Incident(id="i", type=IncidentType.MEMORY_FAILURE, severity=Severity.CRITICAL)
    assert accepts(health(node(reports("Ready"))), broken, (incident,))[1] == "NetworkBroken"
