"""`Ready`: the state of a hypervisor as one reason, computed from its other conditions.

The rules stand in the order in which they win. Every write of the status computes it again
(`status_writer`); the controller here is for changes that are not the operator's own.

Source: openstack-hypervisor-operator, internal/controller/ready/controller.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from hypercobalt.api.conditions import Condition, get_condition, is_true, next_condition
from hypercobalt.api.hypervisor import Hypervisor, Maintenance
from hypercobalt.api.hypervisor_conditions import (
    AgentReportingReason,
    HypervisorConditionType,
    LibvirtConnectionReason,
    NodeHealthyReason,
    OnboardingReason,
    ReadyReason,
    RegisteredReason,
    SyncReason,
)
from hypercobalt.operator.shared.status_writer import Part, StatusWriter
from hypercobalt.runtime import Result
from hypercobalt.runtime.write_cache import WriteCache

NAME: Final = "ready"

_Type = HypervisorConditionType
_Why = ReadyReason
_NODE: Final[Mapping[str, ReadyReason]] = {
    NodeHealthyReason.NOT_READY: _Why.NODE_NOT_READY,
    NodeHealthyReason.UNREACHABLE: _Why.NODE_UNREACHABLE,
}


def decide(hypervisor: Hypervisor) -> tuple[ReadyReason, str]:
    """Return reason and message; the hypervisor is ready when the reason is `Ready`."""
    conditions, spec = hypervisor.conditions, hypervisor.spec
    if is_true(conditions, _Type.OFFBOARDED):
        return _Why.OFFBOARDED, "Hypervisor has been offboarded"
    if is_true(conditions, _Type.TERMINATING):
        return _Why.TERMINATING, "Hypervisor is terminating"
    onboarding = get_condition(conditions, _Type.ONBOARDING)
    if onboarding and onboarding.status == "True":
        return _Why.ONBOARDING, f"Onboarding in progress: {onboarding.message}"
    if spec.maintenance:
        return _in_maintenance(hypervisor)
    if onboarding is None:
        return _Why.ONBOARDING, f"Onboarding not started{_why_not_started(hypervisor)}"
    if onboarding.reason == OnboardingReason.ABORTED:
        return _Why.ONBOARDING, "Onboarding was aborted"
    if onboarding.reason != OnboardingReason.SUCCEEDED:
        return _Why.ONBOARDING, "Onboarding not yet completed"
    return _in_service(hypervisor)


def _in_service(hypervisor: Hypervisor) -> tuple[ReadyReason, str]:
    """Return the faults of a host that should be in service; the first one gives the reason."""
    rules = (_claimed, _agent_silent, _node_unwell, _libvirt_away)
    wrong = [found for rule in rules if (found := rule(hypervisor))]
    if wrong:
        return wrong[0][0], "; ".join(text for _, text in wrong)
    return _Why.READY, "; ".join(("Hypervisor is ready", *_reservations(hypervisor)))


def _claimed(hypervisor: Hypervisor) -> tuple[ReadyReason, str] | None:
    found = get_condition(hypervisor.conditions, _Type.REGISTERED)
    if found is None or found.reason != RegisteredReason.CLAIMED:
        return None
    return _Why.CLAIMED, found.message


def _agent_silent(hypervisor: Hypervisor) -> tuple[ReadyReason, str] | None:
    """An agent that has stopped counts once what it reported is no longer taken for true."""
    agent = get_condition(hypervisor.conditions, _Type.AGENT_REPORTING)
    if agent is None or agent.status != "False":
        return None
    libvirt = get_condition(hypervisor.conditions, _Type.LIBVIRT_CONNECTION)
    doubted = libvirt is not None and libvirt.reason == LibvirtConnectionReason.AGENT_SILENT
    if agent.reason != AgentReportingReason.AGENT_SILENT and not doubted:
        return None
    return _Why.AGENT_SILENT, _since(agent, agent.message)


def _node_unwell(hypervisor: Hypervisor) -> tuple[ReadyReason, str] | None:
    found = get_condition(hypervisor.conditions, _Type.NODE_HEALTHY)
    reason = _NODE.get(found.reason) if found else None
    return (
        (reason, _since(found, f"The Node reports {found.message}")) if found and reason else None
    )


def _libvirt_away(hypervisor: Hypervisor) -> tuple[ReadyReason, str] | None:
    found = get_condition(hypervisor.conditions, _Type.LIBVIRT_CONNECTION)
    if found is None:
        return _Why.LIBVIRT_UNAVAILABLE, "No node agent has reported libvirt"
    if found.status == "True":
        return None
    if found.reason == LibvirtConnectionReason.AGENT_SILENT:
        if _agent_silent(hypervisor):
            return None  # that rule has it
        text = "The node agent was silent and has not reported libvirt since"
    else:
        text = f"The node agent reports libvirt as {found.reason}: {found.message}"
    return _Why.LIBVIRT_UNAVAILABLE, _since(found, text)


def _reservations(hypervisor: Hypervisor) -> Iterator[str]:
    """Return what a person should read about a host that is ready."""
    disabled = get_condition(hypervisor.conditions, _Type.HYPERVISOR_DISABLED)
    if disabled is not None and disabled.status == "True":
        yield f"no new servers are placed on it: {disabled.message}"
    network = get_condition(hypervisor.conditions, _Type.NETWORK_HEALTHY)
    if network is not None and network.status != "True":
        yield f"its network is not known to be healthy: {network.message}"
    agent = get_condition(hypervisor.conditions, _Type.AGENT_REPORTING)
    if agent is not None and agent.reason == AgentReportingReason.NEVER_REPORTED:
        yield "its node agent keeps no Lease: a failure of the agent would go undetected"


def _since(found: Condition, text: str) -> str:
    return f"{text} (since {found.lastTransitionTime:%Y-%m-%dT%H:%M:%SZ})"


def _in_maintenance(hypervisor: Hypervisor) -> tuple[ReadyReason, str]:
    reason, text = _emptied(hypervisor)
    fenced = get_condition(hypervisor.conditions, _Type.FENCED)
    if hypervisor.spec.maintenance == Maintenance.HA and fenced is not None:
        return reason, f"{text}; {fenced.message}"
    return reason, text


def _emptied(hypervisor: Hypervisor) -> tuple[ReadyReason, str]:
    evicting = get_condition(hypervisor.conditions, _Type.EVICTING)
    if evicting is None or evicting.status == "Unknown":
        return _Why.MAINTENANCE, "Hypervisor is in maintenance mode"
    if evicting.status == "True":
        return _Why.EVICTING, "Hypervisor is disabled and evicting"
    if evicting.reason == SyncReason.FAILED:
        return _Why.MAINTENANCE, f"Hypervisor is not empty: eviction failed: {evicting.message}"
    return _Why.EVICTED, "Hypervisor is disabled and evicted"


def _why_not_started(hypervisor: Hypervisor) -> str:
    if not hypervisor.spec.lifecycleEnabled:
        return ": lifecycle management is disabled"
    if not (hypervisor.status.hypervisorId and hypervisor.status.serviceId):
        return ": waiting for nova-compute to register the hypervisor in Nova"
    return ""


def condition(hypervisor: Hypervisor, now: datetime) -> Condition:
    """Return `Ready` as it should be."""
    reason, message = decide(hypervisor)
    status = "True" if reason == ReadyReason.READY else "False"
    old = get_condition(hypervisor.conditions, _Type.READY)
    return next_condition(old, _Type.READY, status, reason, message, now=now)


def worth_a_pass(old: Hypervisor | None, new: Hypervisor | None) -> bool:
    """A predicate: what the rules above look at may have changed.

    Of a new Hypervisor nothing is written before its Node's controller does.
    """
    if new is None:
        return False
    if old is None:
        return get_condition(new.conditions, _Type.READY) is not None
    if old.status.conditions != new.status.conditions:
        return True
    return _inputs(old) != _inputs(new)


def _inputs(hypervisor: Hypervisor) -> tuple[object, ...]:
    spec, status = hypervisor.spec, hypervisor.status
    return spec.maintenance, spec.lifecycleEnabled, status.hypervisorId, status.serviceId


class ReadyReconciler:
    """The shell around `decide`: the writer computes the condition."""

    def __init__(self, hypervisors: WriteCache[Hypervisor], statuses: StatusWriter) -> None:
        self._hypervisors, self._statuses = hypervisors, statuses

    async def reconcile(self, name: str, /) -> Result:
        hypervisor = self._hypervisors.get(name)
        if hypervisor is None or hypervisor.metadata.deletionTimestamp is not None:
            return Result()
        await self._statuses.put(hypervisor, Part())
        return Result()
