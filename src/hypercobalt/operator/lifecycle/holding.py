"""Keeps a deleted Hypervisor while an operation for it in OpenStack has not ended.

Such operations are a test server, and a host on its way out. A Node that vanishes takes its
Hypervisor along; without the finalizer the server would stay, and the host with whatever runs
there, unreported. The finalizer is there only while there is something to end: at other times a
deletion takes effect at once. So it does in a termination while the Node lives: then the host has
to stay after all.
"""

from __future__ import annotations

from typing import Final

from hypercobalt.api.conditions import get_condition, is_true
from hypercobalt.api.core import Node
from hypercobalt.api.hypervisor import Hypervisor, Maintenance
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType, OnboardingReason
from hypercobalt.operator.shared.node_facts import is_terminating
from hypercobalt.runtime import Kube

FINALIZER: Final = "kvm.cloud.sap/lifecycle"

_Type = HypervisorConditionType


def is_tested(hypervisor: Hypervisor) -> bool:
    """Whether there may be a test server."""
    if hypervisor.status.smokeTest is not None:
        return True
    found = get_condition(hypervisor.conditions, _Type.ONBOARDING)
    if found is None or found.status != "True" or found.reason == OnboardingReason.HANDOVER:
        return False
    return found.reason != OnboardingReason.INITIAL or not hypervisor.spec.skipTests


async def has_node(kube: Kube, hypervisor: Hypervisor) -> bool:
    """Whether the Hypervisor's Node is there to stay."""
    return stays(await kube.get(Node, hypervisor.metadata.name), hypervisor)


def stays(node: Node | None, hypervisor: Hypervisor) -> bool:
    """Whether the Node of its name is the one that owns the Hypervisor, and not on its way out."""
    if node is None:
        return False
    owners = {owner.uid for owner in hypervisor.metadata.ownerReferences}
    return node.metadata.uid in owners and not is_terminating(node)


def is_needed(hypervisor: Hypervisor) -> bool:
    """Whether an operation must end before the object may go."""
    spec = hypervisor.spec
    if is_tested(hypervisor):
        return True
    leaving = spec.lifecycleEnabled and spec.maintenance == Maintenance.TERMINATION
    there = bool(hypervisor.status.serviceId)
    return bool(leaving) and there and not is_true(hypervisor.conditions, _Type.OFFBOARDED)
