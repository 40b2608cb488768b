"""Checks of a host before it takes servers. Pure but for one read.

Its node agent lives, by its Lease; an agent without a Lease must have reported libvirt. libvirt
answers and is new enough (the node agent reports it), the integration bridge is healthy (the OVS
agent reports it, where there is one), and storage can be reached: the storage probes set conditions
of the Node or the Hypervisor, with names from the configuration.

Source: the concept's onboarding checks.
"""

from __future__ import annotations

from collections.abc import Iterable

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.core import Node
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import AgentReportingReason
from hypercobalt.api.ovsnode import BridgeStatus, OVSNode, OVSNodeConditionType
from hypercobalt.api.ovsnode_reasons import OVSReadyReason
from hypercobalt.operator.lifecycle.settings import (
    HYPERVISOR,
    NODE,
    LifecycleSettings,
    parse_version,
)
from hypercobalt.operator.lifecycle.step import LifecycleFacts, Type
from hypercobalt.runtime import Kube


def unmet(
    facts: LifecycleFacts, node: Node | None, switch: OVSNode | None, settings: LifecycleSettings
) -> str:
    """Return the first check that does not pass, in words; "" when all do.

    Args:
        facts: of the pass.
        node: of the host.
        switch: OVSNode of the host; without one, its bridge is not checked.
        settings: what to check for.
    """
    hypervisor = facts.hypervisor
    bridge = _bridge(switch, settings.bridge) if switch is not None else ""
    probes = (_probe(probe, node, hypervisor) for probe in settings.storage_probes)
    return unreported(facts, settings) or next((text for text in (bridge, *probes) if text), "")


def unreported(facts: LifecycleFacts, settings: LifecycleSettings) -> str:
    """Return what the node agent has to report first, in words; "" when it has."""
    return _agent(facts) or _libvirt(facts, settings.minimum_libvirt)


def _agent(facts: LifecycleFacts) -> str:
    found = facts.condition(Type.AGENT_REPORTING)
    if found is None:
        return "the operator has not observed the node agent's Lease yet"
    if found.reason == AgentReportingReason.NEVER_REPORTED:
        return ""  # kvm-node-agent keeps no Lease: what it reports of libvirt is looked at next
    return "" if found.status == "True" else f"the node agent does not report: {found.message}"


def _libvirt(facts: LifecycleFacts, minimum: str) -> str:
    found = facts.condition(Type.LIBVIRT_CONNECTION)
    if found is None:
        return "the node agent has not reported libvirt yet"
    if found.status != "True":
        return f"libvirt cannot be reached ({found.reason}: {found.message})"
    version, oldest = facts.hypervisor.status.libVirtVersion or "", parse_version(minimum)
    have = parse_version(version)
    if have is None:
        return f"the node agent has reported no version of libvirt, but {version!r}"
    if oldest is not None and have < oldest:
        return f"libvirt {version} is older than {minimum}: update the host"
    return ""


def _bridge(switch: OVSNode, bridge: str) -> str:
    where = f"OVSNode {switch.metadata.namespace}/{switch.metadata.name}"
    ready = get_condition(switch.status.conditions, OVSNodeConditionType.READY)
    if ready is not None and ready.reason == OVSReadyReason.AGENT_SILENT:
        return f"{where} is its agent's last report: {ready.message}"
    found = next((b for b in switch.status.bridges if b.name == bridge), None)
    if found is None:
        return f"{where} shows no bridge {bridge}"
    if found.status not in (None, BridgeStatus.ACTIVE):
        return f"{where} shows bridge {bridge} {found.status}"
    wanted = (
        OVSNodeConditionType.ALL_BRIDGES_HEALTHY,
        OVSNodeConditionType.OVN_CONTROLLER_CONNECTED,
    )
    for condition in switch.status.conditions:
        if condition.type in wanted and condition.status != "True":
            why = f"{condition.reason}: {condition.message}"
            return f"{where} has {condition.type} {condition.status} ({why})"
    return ""


def _probe(probe: str, node: Node | None, hypervisor: Hypervisor) -> str:
    of, _, type_ = probe.partition(":")
    found = (
        [(c.status, c.message) for c in node.status.conditions if c.type == type_]
        if f"{of}:" == NODE and node is not None
        else [(c.status, c.message) for c in hypervisor.conditions if c.type == type_]
        if f"{of}:" == HYPERVISOR
        else []
    )
    if not found:
        return f"the {of} has no condition {type_} yet, which reports whether storage is there"
    status, message = found[0]
    return "" if status == "True" else f"the {of}'s condition {type_} is {status} ({message})"


def probed(settings: LifecycleSettings) -> Iterable[str]:
    """Return types of the conditions of a Hypervisor that are storage probes."""
    for probe in settings.storage_probes:
        if probe.startswith(HYPERVISOR):
            yield probe.removeprefix(HYPERVISOR)


async def read_switch(kube: Kube, name: str, namespace: str) -> OVSNode | None:
    """Return the host's OVSNode in the agents' namespace; None without one, or without the kind.

    It is read when needed: a cache of all would grow with every port of the fleet. An OVSNode of
    the host's name in another namespace is no agent's report: its writers are not trusted with the
    host.
    """
    return await kube.get(OVSNode, name, namespace) if namespace else None
