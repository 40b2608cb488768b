"""Finds why no automatic action is taken on a host: its failures are only reported. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.eviction import Eviction, has_ended
from hypercobalt.api.fencing import is_declared_dead
from hypercobalt.api.ha_switch import recovery_off
from hypercobalt.api.hypervisor import Hypervisor, Maintenance, is_fenced
from hypercobalt.api.hypervisor_conditions import (
    HypervisorConditionType,
    OnboardingReason,
    RegisteredReason,
)
from hypercobalt.compute.model import Host
from hypercobalt.operator.ha.model.plan import BEFORE
from hypercobalt.operator.ha.observing.fleet import instances
from hypercobalt.operator.shared.evictions import FINALIZER

_Type = HypervisorConditionType
_SERVES: Final = frozenset({OnboardingReason.SUCCEEDED, OnboardingReason.HANDOVER})
UNLISTED: Final = "the compute service has no such host"


def silenced(hypervisor: Hypervisor, host: Host | None, evictions: Iterable[Eviction]) -> str:
    """Return why no action is taken on this host; "" when one may be.

    Args:
        hypervisor: of the host.
        host: as the compute service has it; None when it has no such host.
        evictions: of all its instances.
    """
    spec = hypervisor.spec
    if why := recovery_off(hypervisor):
        return why
    if hypervisor.metadata.deletionTimestamp is not None and not is_kept(hypervisor):
        return "the Hypervisor is being deleted"
    if not _serves(hypervisor):
        return "the host is not in service: its onboarding has not succeeded"
    registered = get_condition(hypervisor.conditions, _Type.REGISTERED)
    if registered is not None and registered.reason == RegisteredReason.CLAIMED:
        return registered.message
    if _has_nothing(hypervisor, host):
        return "no instance is on the host"
    if host is None:
        return UNLISTED
    running = any(not has_ended(eviction.status) for eviction in evictions)
    if spec.maintenance in {Maintenance.MANUAL, Maintenance.AUTO} and not running:
        return f"the host is in maintenance {spec.maintenance}, and no Eviction empties it"
    return ""


def is_abandoned(silence: str, *, counts_servers: bool) -> bool:
    """Whether nothing is done about a host for good, whatever may be left on it.

    Args:
        silence: see `silenced`; "" for none.
        counts_servers: see `ComputeService`. A service that does not lists a host by its address
            alone: that it has no such host shows nothing of what runs there.
    """
    return bool(silence) and (counts_servers or silence != UNLISTED)


def _has_nothing(hypervisor: Hypervisor, host: Host | None) -> bool:
    """Whether the host has to be neither emptied nor brought back.

    Where it is not listed its agent alone shows that, if it has ever reported.
    """
    if instances(hypervisor) or _counts_as_dead(hypervisor):
        return False
    return bool(hypervisor.status.bootID) if host is None else not host.servers


def _counts_as_dead(hypervisor: Hypervisor) -> bool:
    """Whether the host has to be brought back, though nothing is on it."""
    fencing = hypervisor.fencing
    return fencing is not None and is_declared_dead(fencing)


def is_kept(hypervisor: Hypervisor) -> bool:
    """Whether a recovery was due before a deletion of the Hypervisor."""
    return is_fenced(hypervisor) or FINALIZER in hypervisor.metadata.finalizers


def _serves(hypervisor: Hypervisor) -> bool:
    before = hypervisor.metadata.annotations.get(BEFORE)
    if Maintenance.TERMINATION in {hypervisor.spec.maintenance, before}:
        return True  # its onboarding was taken back when it began to leave
    onboarding = get_condition(hypervisor.conditions, _Type.ONBOARDING)
    return onboarding is not None and onboarding.reason in _SERVES
