"""`Tainted`: whether a Hypervisor is edited by hand, with kubectl.

Every write of the status computes it again (`status_writer`), from `metadata.managedFields`; the
controller here is for a spec that others have changed. The condition notes which generation of the
spec it was computed from.

Source: openstack-hypervisor-operator, internal/controller/hypervisor_taint_controller.go.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from hypercobalt.api.conditions import Condition, get_condition, next_condition
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType, TaintedReason
from hypercobalt.operator.shared.status_writer import Part, StatusWriter
from hypercobalt.runtime import Result
from hypercobalt.runtime.write_cache import WriteCache

NAME: Final = "HypervisorTaint"

_BY_HAND: Final = "kubectl"  # kubectl-edit, kubectl-patch, kubectl-client-side-apply…
_WARNING, _FINE = "⚠️", "🟢"  # what the column Taint shows
_TYPE = HypervisorConditionType.TAINTED


def condition(hypervisor: Hypervisor, now: datetime) -> Condition:
    """Return `Tainted` as it should be.

    Args:
        hypervisor: as read, with its managed fields.
        now: the only clock that this function sees.
    """
    by_hand = any(entry.manager.startswith(_BY_HAND) for entry in hypervisor.metadata.managedFields)
    status, reason, message = (
        ("True", TaintedReason.KUBECTL, _WARNING)
        if by_hand
        else ("False", TaintedReason.NO_KUBECTL, _FINE)
    )
    old = get_condition(hypervisor.conditions, _TYPE)
    return next_condition(
        old,
        _TYPE,
        status,
        reason,
        message,
        now=now,
        observed_generation=hypervisor.metadata.generation,
    )


def is_judged(hypervisor: Hypervisor) -> bool:
    """Whether the condition is there for the present generation."""
    found = get_condition(hypervisor.conditions, _TYPE)
    return found is not None and found.observedGeneration == hypervisor.metadata.generation


class TaintReconciler:
    """Has the status written for a generation that is not judged yet.

    Of a new Hypervisor nothing is written before its Node's controller does.
    """

    def __init__(self, hypervisors: WriteCache[Hypervisor], statuses: StatusWriter) -> None:
        self._hypervisors, self._statuses = hypervisors, statuses

    async def reconcile(self, name: str, /) -> Result:
        known = self._hypervisors.get(name)
        if known is None or known.metadata.deletionTimestamp is not None:
            return Result()
        if get_condition(known.conditions, _TYPE) and not is_judged(known):
            await self._statuses.put(known, Part())
        return Result()
