"""Hosts that the operator takes into service."""

from __future__ import annotations

from collections.abc import Mapping

from tests.integration.operator.conftest import add_node, reason, until
from tests.integration.operator.lifecycle import agent_reports

from hypercobalt.api.core import NodeCondition
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.operator.shared.node_facts import AGGREGATES_ANNOTATION, LIFECYCLE_LABEL
from hypercobalt.runtime import Kube

TESTED, SKIP = {LIFECYCLE_LABEL: "true"}, {LIFECYCLE_LABEL: "skip-tests"}
GENERAL = {AGGREGATES_ANNOTATION: "general"}


def is_ready(hypervisor: Hypervisor) -> bool:
    return reason(hypervisor, "Ready") == "True/Ready"


async def begun(
    kube: Kube,
    name: str,
    *,
    labels: Mapping[str, str] = SKIP,
    annotations: Mapping[str, str] = GENERAL,
    conditions: tuple[NodeCondition, ...] | None = None,
) -> None:
    """Add a Node whose agent reports once the operator has looked for its host."""
    await add_node(
        kube, name, labels={**labels}, annotations={**annotations}, conditions=conditions
    )
    await until(kube, Hypervisor, name, lambda hv: reason(hv, "Registered") != "")
    await agent_reports(kube, name)


async def in_service(
    kube: Kube,
    name: str,
    *,
    labels: Mapping[str, str] = SKIP,
    annotations: Mapping[str, str] = GENERAL,
) -> Hypervisor:
    """Have a host onboarded."""
    await begun(kube, name, labels=labels, annotations=annotations)
    return await until(kube, Hypervisor, name, is_ready)
