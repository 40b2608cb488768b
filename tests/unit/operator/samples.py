"""Nodes and Hypervisors for tables."""

from __future__ import annotations

from datetime import UTC, datetime

from hypercobalt.api.conditions import Condition
from hypercobalt.api.core import Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, Taint
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.operator.shared.node_facts import HOSTNAME_LABEL, HYPERVISOR_LABEL, ZONE_LABEL

NOW = datetime(2026, 11, 21, tzinfo=UTC)
LABELS = {HYPERVISOR_LABEL: "libvirt", HOSTNAME_LABEL: "kvm-a", ZONE_LABEL: "zone-a"}


def condition(type_: str, status: str, reason: str = "Some", message: str = "") -> Condition:
    return Condition(
        type=type_, status=status, reason=reason, message=message, lastTransitionTime=NOW
    )


def node(
    *conditions: NodeCondition,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    addresses: tuple[str, ...] = (),
    taints: tuple[Taint, ...] = (),
    deleted: bool = False,
) -> Node:
    meta = ObjectMeta(
        name="kvm-a",
        uid="node-uid",
        labels=LABELS | (labels or {}),
        annotations=annotations or {},
        deletionTimestamp=NOW if deleted else None,
    )
    status = NodeStatus(
        addresses=tuple(NodeAddress(type="InternalIP", address=a) for a in addresses),
        conditions=conditions,
    )
    return Node(metadata=meta, spec=NodeSpec(taints=taints), status=status)


def reports(type_: str, status: str = "True") -> NodeCondition:
    return NodeCondition(type=type_, status=status, reason="Why", message="because")


def hypervisor(
    *conditions: Condition,
    spec: HypervisorSpec | None = None,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    status: HypervisorStatus | None = None,
) -> Hypervisor:
    meta = ObjectMeta(
        name="kvm-a", generation=3, labels=labels or {}, annotations=annotations or {}
    )
    return Hypervisor(
        metadata=meta,
        spec=spec or HypervisorSpec(),
        status=status or HypervisorStatus(conditions=conditions),
    )
