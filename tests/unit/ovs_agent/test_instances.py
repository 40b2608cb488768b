"""Which instances count as the host's: those that its node agent reports now."""

from __future__ import annotations

import pytest
from tests.unit.operator.samples import condition

from hypercobalt.api.conditions import Condition
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import (
    MOST_PORTS,
    HypervisorStatus,
    Instance,
    InstancePort,
)
from hypercobalt.ovs_agent.agent import instances_of, ports_of

CONNECTED = condition("LibVirtConnection", "True", "Connected")
REPORTING = condition("AgentReporting", "True", "Reporting")
KNOWN = {f"0f2c1a5e-0000-4000-8000-00000000000{last}": last == "a" for last in "ab"}


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ((CONNECTED, REPORTING), KNOWN),
        ((CONNECTED,), KNOWN),  # no operator watches this node agent
        ((), None),
        ((REPORTING,), None),
        ((condition("LibVirtConnection", "False", "Disconnected"), REPORTING), None),
        ((condition("LibVirtConnection", "Unknown", "AgentSilent"), REPORTING), None),
        ((CONNECTED, condition("AgentReporting", "False", "AgentSilent")), None),
        ((CONNECTED, condition("AgentReporting", "Unknown", "NeverReported")), None),
    ],
)
def test_instances_are_those_of_a_node_agent_that_reports_libvirt(
    conditions: tuple[Condition, ...], expected: dict[str, bool] | None
) -> None:
    listed = tuple(Instance(id=one.upper(), name="a", active=is_on) for one, is_on in KNOWN.items())
    status = HypervisorStatus(conditions=conditions, instances=listed)
    assert instances_of(Hypervisor(status=status)) == expected


def test_instances_of_a_list_that_was_cut_are_not_known() -> None:
    listed = (Instance(id="a", name="a", active=True),)
    status = HypervisorStatus(conditions=(CONNECTED, REPORTING), instances=listed, numInstances=2)
    assert instances_of(Hypervisor(status=status)) is None


def test_host_without_a_hypervisor_has_no_instances_that_are_known() -> None:
    assert instances_of(None) is None


def test_ports_are_those_that_the_node_agent_lists() -> None:
    listed = (InstancePort("A", "p"), InstancePort("A", "tap1"), InstancePort("b", "q"))
    hypervisor = Hypervisor(status=HypervisorStatus(instancePorts=listed))
    assert ports_of(hypervisor) == {"a": ("p", "tap1"), "b": ("q",)}


@pytest.mark.parametrize("listed", [None, (InstancePort("a", "p"),) * MOST_PORTS])
def test_ports_of_an_older_agent_or_of_a_list_that_was_cut_are_not_known(
    listed: tuple[InstancePort, ...] | None,
) -> None:
    assert ports_of(Hypervisor(status=HypervisorStatus(instancePorts=listed))) is None
