"""Phases of a VirtualMachineInstance: which one follows from its pod, and which from its domain.

virt-controller follows the pod until the hand-over, and afterwards notices only that the pod is
gone. virt-handler follows the domain from the hand-over on. Pure.

Invariant: a final phase is never left.

Source: KubeVirt, pkg/virt-controller/watch/vmi (updateStatus) and pkg/virt-handler/vm.go
(calculateVmPhaseForStatusReason).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from msgspec.structs import replace

from hypercobalt.api.kubevirt.names import HANDLER_PHASES
from hypercobalt.api.kubevirt.names import VMIPhase as Phase
from hypercobalt.api.kubevirt.status import PhaseTransition, VMIStatus


class PodStage(StrEnum):
    """What a launcher pod means to its VMI."""

    STARTING = "Starting"
    READY = "Ready"  # runs on a node, with every container ready: may be handed over
    UNGUARANTEED = "Unguaranteed"  # ready, but dedicated CPUs need QoS class Guaranteed
    ENDING = "Ending"  # being deleted, or its containers have ended
    GONE = "Gone"


def phase_by_pod(phase: Phase, pod: PodStage, *, is_deleted: bool) -> Phase:
    """Return the phase that follows as virt-controller sees it.

    Args:
        phase: the present one.
        pod: of the VMI's pod.
        is_deleted: the VMI has a deletionTimestamp: it is not handed over any more.
    """
    if phase in HANDLER_PHASES:
        return Phase.FAILED if pod is PodStage.GONE else phase
    if phase is Phase.SCHEDULING:
        if pod in (PodStage.GONE, PodStage.ENDING):
            return Phase.FAILED
        return Phase.SCHEDULED if pod is PodStage.READY and not is_deleted else phase
    if phase not in (Phase.UNSET, Phase.PENDING):  # final, or one that nothing here sets
        return phase
    if pod is not PodStage.GONE:
        return Phase.SCHEDULING
    return Phase.FAILED if is_deleted else Phase.PENDING


def entered(status: VMIStatus, phase: Phase, now: datetime) -> VMIStatus:
    """Return the status in a phase; only the first entry into each phase is recorded."""
    known = status.phaseTransitionTimestamps
    if phase != status.phase and all(one.phase != phase for one in known):
        at = now.astimezone(UTC).replace(microsecond=0)
        known = (*known, PhaseTransition(phase=str(phase), phaseTransitionTimestamp=at))
    return replace(status, phase=str(phase), phaseTransitionTimestamps=known)


class LifeCycle(StrEnum):
    """State of a domain as the launcher reports it, in KubeVirt's words."""

    NO_STATE = "NoState"
    RUNNING = "Running"
    BLOCKED = "Blocked"
    PAUSED = "Paused"
    SHUTTING_DOWN = "ShuttingDown"
    SHUTOFF = "Shutoff"
    CRASHED = "Crashed"
    PM_SUSPENDED = "PMSuspended"


class LifeReason(StrEnum):
    """Reasons of a domain's state that decide something; all others count as `OTHER`."""

    OTHER = ""
    UNKNOWN = "Unknown"
    SHUTDOWN = "Shutdown"
    DESTROYED = "Destroyed"
    CRASHED = "Crashed"
    PANICKED = "Panicked"
    MIGRATED = "Migrated"
    SAVED = "Saved"
    FAILED = "Failed"
    FROM_SNAPSHOT = "FromSnapshot"
    POSTCOPY_FAILED = "PostcopyFailed"


class LauncherState(StrEnum):
    """What virt-handler knows of a launcher."""

    STARTING = "Starting"  # has not reported yet, within its time
    READY = "Ready"
    UNRESPONSIVE = "Unresponsive"  # beyond its time, or its process has ended


@dataclass(frozen=True, slots=True)
class DomainView:
    """State of a domain."""

    state: LifeCycle
    reason: LifeReason = LifeReason.OTHER


_ENDED_WELL: Final = frozenset({LifeReason.SHUTDOWN, LifeReason.SAVED, LifeReason.FROM_SNAPSHOT})
_ENDED_BADLY: Final = frozenset({LifeReason.CRASHED, LifeReason.PANICKED})
_ALIVE: Final = frozenset({LifeCycle.RUNNING, LifeCycle.BLOCKED, LifeCycle.PM_SUSPENDED})


def phase_by_domain(
    phase: Phase,
    domain: DomainView | None,
    launcher: LauncherState,
    *,
    asks_first: bool,
    cannot_start: bool = False,
) -> Phase:
    """Return the phase that follows as virt-handler sees it.

    Args:
        phase: the present one; unless it is the handler's, it stays.
        domain: None where the launcher has none.
        launcher: matters only without a domain.
        asks_first: the guest has ACPI and a grace period: a domain that was destroyed did not
            obey in time. Otherwise destroying is how it ends in good order.
        cannot_start: its network cannot be set up, or its firmware is missing, for good.
    """
    if phase not in HANDLER_PHASES:
        return phase
    if cannot_start:
        return Phase.FAILED
    if domain is None:
        return _without_domain(phase, launcher)
    if domain.state in _ALIVE:
        return Phase.RUNNING
    if domain.state is LifeCycle.PAUSED:
        lost = domain.reason is LifeReason.POSTCOPY_FAILED
        return Phase.FAILED if lost else Phase.RUNNING
    if domain.state is LifeCycle.CRASHED:
        return Phase.FAILED
    if domain.state is LifeCycle.SHUTOFF:
        return _after_end(phase, domain.reason, asks_first=asks_first)
    return phase


def _without_domain(phase: Phase, launcher: LauncherState) -> Phase:
    match launcher:
        case LauncherState.UNRESPONSIVE:
            return Phase.FAILED
        case LauncherState.STARTING:
            return phase
        case LauncherState.READY:
            return Phase.SCHEDULED


def _after_end(phase: Phase, reason: LifeReason, *, asks_first: bool) -> Phase:
    if reason in _ENDED_WELL:
        return Phase.SUCCEEDED
    if reason in _ENDED_BADLY:
        return Phase.FAILED
    if reason is LifeReason.DESTROYED:
        return Phase.FAILED if asks_first else Phase.SUCCEEDED
    return phase
