"""A host that the operator has taken into service."""

from __future__ import annotations

from tests.integration.operator.conftest import add_node, reason, until
from tests.integration.operator.lifecycle import agent_reports

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.operator.shared.node_facts import AGGREGATES_ANNOTATION, LIFECYCLE_LABEL
from hypercobalt.runtime import Kube


async def in_service(kube: Kube, name: str, **more: str) -> Hypervisor:
    """Have a host onboarded, whose Node has more labels."""
    labels = {LIFECYCLE_LABEL: "skip-tests", **more}
    annotations = {AGGREGATES_ANNOTATION: "general"}
    await add_node(kube, name, labels=labels, annotations=annotations)
    await until(kube, Hypervisor, name, lambda hv: bool(hv.status.serviceId))
    await agent_reports(kube, name)
    return await until(kube, Hypervisor, name, lambda hv: reason(hv, "Ready") == "True/Ready")
