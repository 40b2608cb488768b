"""`Ready`: the state of a hypervisor in one word, computed from its other conditions.

The rules stand in the order in which they win. Every write of the status computes it again
(`hypervisors`); the controller here is for changes that are not the operator's own.

Source: openstack-hypervisor-operator, internal/controller/ready/controller.go.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from hypercobalt.api.conditions import Condition, get_condition, is_true, set_condition
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import (
    HypervisorConditionType,
    OnboardingReason,
    ReadyReason,
    SyncReason,
)
from hypercobalt.operator.hypervisors import Part, StatusWriter
from hypercobalt.operator.newest import Newest
from hypercobalt.runtime import Result

NAME: Final = "ready"

_Type = HypervisorConditionType
_Why = ReadyReason


def decide(hypervisor: Hypervisor) -> tuple[ReadyReason, str]:
    """Give reason and message; the hypervisor is ready when the reason is `Ready`."""
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
    return _Why.READY, "Hypervisor is ready"


def _in_maintenance(hypervisor: Hypervisor) -> tuple[ReadyReason, str]:
    evicting = get_condition(hypervisor.conditions, _Type.EVICTING)
    if evicting is None or evicting.status == "Unknown":
        return _Why.MAINTENANCE, "Hypervisor is in maintenance mode"
    if evicting.status == "True":
        return _Why.EVICTING, "Hypervisor is disabled and evicting"
    if evicting.reason != SyncReason.SUCCEEDED:
        return _Why.MAINTENANCE, f"Hypervisor is not empty: eviction failed: {evicting.message}"
    return _Why.EVICTED, "Hypervisor is disabled and evicted"


def _why_not_started(hypervisor: Hypervisor) -> str:
    if not hypervisor.spec.lifecycleEnabled:
        return ": lifecycle management is disabled"
    if not (hypervisor.status.hypervisorId and hypervisor.status.serviceId):
        return ": waiting for nova-compute to register the hypervisor in Nova"
    return ""


def condition(hypervisor: Hypervisor, now: datetime) -> Condition:
    """`Ready` as it should be."""
    reason, message = decide(hypervisor)
    status = "True" if reason == ReadyReason.READY else "False"
    old = get_condition(hypervisor.conditions, _Type.READY)
    return set_condition((old,) if old else (), _Type.READY, status, reason, message, now=now)[0]


def worth_a_pass(old: Hypervisor | None, new: Hypervisor | None) -> bool:
    """A predicate: what the rules above look at may have changed."""
    if old is None or new is None:
        return new is not None
    if old.status.conditions != new.status.conditions:
        return True
    return _inputs(old) != _inputs(new)


def _inputs(hypervisor: Hypervisor) -> tuple[object, ...]:
    spec, status = hypervisor.spec, hypervisor.status
    return spec.maintenance, spec.lifecycleEnabled, status.hypervisorId, status.serviceId


class ReadyReconciler:
    """The shell around `decide`: the writer computes the condition."""

    def __init__(self, hypervisors: Newest[Hypervisor], statuses: StatusWriter) -> None:
        self._hypervisors, self._statuses = hypervisors, statuses

    async def reconcile(self, name: str, /) -> Result:
        hypervisor = self._hypervisors.get(name)
        if hypervisor is None or hypervisor.metadata.deletionTimestamp is not None:
            return Result()
        await self._statuses.put(hypervisor, Part())
        return Result()
