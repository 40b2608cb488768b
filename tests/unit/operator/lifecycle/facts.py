"""Facts for tables."""

from __future__ import annotations

from msgspec.structs import replace
from tests.unit.operator.samples import NOW, hypervisor

from hypercobalt.api.conditions import Condition
from hypercobalt.api.hypervisor import HypervisorSpec
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.compute.model import Host
from hypercobalt.operator.lifecycle.step import LifecycleFacts
from hypercobalt.operator.shared.node_facts import HOSTNAME_LABEL, ZONE_LABEL

HOST = Host("kvm-a", "hypervisor-1", "service-1", enabled=True)
ON = HypervisorSpec(lifecycleEnabled=True, highAvailability=False)
LABELS = {HOSTNAME_LABEL: "kvm-a", ZONE_LABEL: "zone-a"}


def facts(
    *conditions: Condition,
    spec: HypervisorSpec = ON,
    host: Host | None = HOST,
    labels: dict[str, str] | None = None,
    **fields: object,
) -> LifecycleFacts:
    """A registered host with lifecycle on, unless given otherwise."""
    known = HypervisorStatus(hypervisorId="hypervisor-1", serviceId="service-1")
    status = replace(known, conditions=conditions, **fields)
    shown = LABELS if labels is None else labels
    return LifecycleFacts(hypervisor(spec=spec, labels=shown, status=status), host, NOW)


def state_of(found: LifecycleFacts, type_: str) -> str:
    """`status/reason` of a condition, "" without one."""
    condition = found.condition(type_)
    return f"{condition.status}/{condition.reason}" if condition else ""
