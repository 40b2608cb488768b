"""`Tainted`: whether somebody edits a Hypervisor by hand, with kubectl.

Who wrote what is in `metadata.managedFields`, which no cache keeps: it is read once for each
generation of the spec, as the condition says which one it was computed from.

Source: openstack-hypervisor-operator, internal/controller/hypervisor_taint_controller.go.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from hypercobalt.api.conditions import get_condition, set_condition
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType, TaintedReason
from hypercobalt.operator.hypervisors import Part, StatusWriter
from hypercobalt.operator.newest import Newest
from hypercobalt.runtime import Clock, Kube, Result

NAME: Final = "HypervisorTaint"

_BY_HAND: Final = "kubectl"  # kubectl-edit, kubectl-patch, kubectl-client-side-apply…
_WARNING, _FINE = "⚠️", "🟢"  # what the column Taint shows
_TYPE = HypervisorConditionType.TAINTED


def decide(hypervisor: Hypervisor, now: datetime) -> Part:
    """This controller's part of the status.

    Args:
        hypervisor: as read from the server, with its managed fields.
        now: the only clock that this function sees.
    """
    by_hand = any(entry.manager.startswith(_BY_HAND) for entry in hypervisor.metadata.managedFields)
    status, reason, message = (
        ("True", TaintedReason.KUBECTL, _WARNING)
        if by_hand
        else ("False", TaintedReason.NO_KUBECTL, _FINE)
    )
    old = get_condition(hypervisor.conditions, _TYPE)
    conditions = set_condition(
        (old,) if old else (),
        _TYPE,
        status,
        reason,
        message,
        now=now,
        observed_generation=hypervisor.metadata.generation,
    )
    return Part(frozenset({_TYPE}), conditions)


def is_judged(hypervisor: Hypervisor) -> bool:
    """Whether the condition is there for the present generation."""
    found = get_condition(hypervisor.conditions, _TYPE)
    return found is not None and found.observedGeneration == hypervisor.metadata.generation


class TaintReconciler:
    """The shell around `decide`."""

    def __init__(
        self, kube: Kube, hypervisors: Newest[Hypervisor], statuses: StatusWriter, *, clock: Clock
    ) -> None:
        self._kube, self._clock = kube, clock
        self._hypervisors, self._statuses = hypervisors, statuses

    async def reconcile(self, name: str, /) -> Result:
        known = self._hypervisors.get(name)
        if known is None or is_judged(known):
            return Result()
        hypervisor = await self._kube.get(Hypervisor, name)
        if hypervisor is None or hypervisor.metadata.deletionTimestamp is not None:
            return Result()
        await self._statuses.put(hypervisor, decide(hypervisor, self._clock.now()))
        return Result()
