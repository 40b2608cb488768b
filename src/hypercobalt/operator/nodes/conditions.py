"""Derives conditions of a hypervisor from those of its Node. Pure.

`NodeHealthy` reports how the Node is; `AcceptsNewInstances` whether new instances may be placed
there, which is what a scheduler or a person acts on. Both only show: acting on a lost host needs
fencing and is done elsewhere.

Source: the concept's table of Node conditions: Ready False or Unknown, pressure on disk and memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hypercobalt.api.conditions import Condition, ConditionStatus
from hypercobalt.api.core import Node, NodeCondition
from hypercobalt.api.hypervisor_conditions import (
    NETWORK_BROKEN,
    AcceptsReason,
    NodeHealthyReason,
)
from hypercobalt.api.incident import Incident, IncidentType, Severity

_PRESSURES: Final = {
    "DiskPressure": NodeHealthyReason.DISK_PRESSURE,
    "MemoryPressure": NodeHealthyReason.MEMORY_PRESSURE,
}
_REASONABLE: Final = 300  # characters of a kubelet's message


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """Health of a Node.

    Args:
        status: True, False, or Unknown while the kubelet does not report.
        reason: reason of the gravest fault.
        message: all faults, for a person.
    """

    status: ConditionStatus
    reason: NodeHealthyReason
    message: str


def health(node: Node) -> NodeHealth:
    """Judge a Node by its conditions; conditions that are not reported count as in order.

    A Node without a Ready condition has not reported yet.
    """
    by_type = {condition.type: condition for condition in node.status.conditions}
    ready = by_type.get("Ready")
    pressures = [c for type_ in _PRESSURES if (c := by_type.get(type_)) and c.status == "True"]
    if ready is None:
        text = "No kubelet has reported for the Node yet"
        return NodeHealth(ConditionStatus.UNKNOWN, NodeHealthyReason.NOT_REPORTED, text)
    if ready.status == "True" and not pressures:
        return NodeHealth(ConditionStatus.TRUE, NodeHealthyReason.HEALTHY, "The Node is healthy")
    if ready.status == "True":
        worst = _PRESSURES[pressures[0].type]
        return NodeHealth(ConditionStatus.FALSE, worst, _list(pressures))
    wrong = _list([ready, *pressures])
    if ready.status == "False":
        return NodeHealth(ConditionStatus.FALSE, NodeHealthyReason.NOT_READY, wrong)
    return NodeHealth(ConditionStatus.UNKNOWN, NodeHealthyReason.UNREACHABLE, wrong)


CLOSED_BY_HOST: Final = frozenset({AcceptsReason.NETWORK_BROKEN, AcceptsReason.MEMORY_FAILED})
"""Reasons of a closed host whose Node may be in order."""


def accepts(
    found: NodeHealth, network: Condition | None = None, incidents: Iterable[Incident] = ()
) -> tuple[ConditionStatus, AcceptsReason, str]:
    """Whether new instances may be placed on a Node of that health.

    Only a Node that is known to be in order takes new instances, with a switch that works and
    memory that has not failed.

    Args:
        found: of the Node.
        network: `NetworkHealthy` of its Hypervisor; None where nothing reports it.
        incidents: those that are open.
    """
    in_order = found.status == ConditionStatus.TRUE
    broken = network is not None and network.status == "False" and network.reason in NETWORK_BROKEN
    if in_order and network is not None and broken:
        text = f"No new instances: {network.message}"
        return ConditionStatus.FALSE, AcceptsReason.NETWORK_BROKEN, text
    if in_order and (failure := _memory_failure(incidents)):
        text = f"No new instances: the host's memory has failed ({failure}); check its hardware"
        return ConditionStatus.FALSE, AcceptsReason.MEMORY_FAILED, text
    if in_order:
        return ConditionStatus.TRUE, AcceptsReason.NODE_HEALTHY, "The Node is healthy"
    text = f"No new instances: {found.message}"
    return ConditionStatus.FALSE, AcceptsReason.NODE_UNHEALTHY, text


def _memory_failure(incidents: Iterable[Incident]) -> str:
    """Return the incident of a failure of the host's own memory; "" for none.

    A failure that was passed on to guests, and handled there, is less grave.
    """
    grave = (
        f"incident {one.id}"
        for one in incidents
        if one.type == IncidentType.MEMORY_FAILURE and one.severity == Severity.CRITICAL
    )
    return next(grave, "")


def _list(conditions: Iterable[NodeCondition]) -> str:
    return "; ".join(_words(condition) for condition in conditions)


def _words(condition: NodeCondition) -> str:
    """`Ready is Unknown (NodeStatusUnknown: Kubelet stopped posting node status.)`."""
    why = ": ".join(part for part in (condition.reason, condition.message) if part)
    state = f"{condition.type} is {condition.status}"
    return f"{state} ({why[:_REASONABLE]})" if why else state
