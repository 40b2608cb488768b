"""What a Sync does to the domain: the rule alone. Pure.

Invariant: no guest runs twice. A domain is started only if it has never run: its end is then for
virt-handler to record, and whether the guest runs again is for the owner of the VMI to decide.

Source: KubeVirt, pkg/virt-launcher/virtwrap/manager.go (SyncVMI).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hypercobalt.adapters.libvirt.model import Domain, DomainState
from hypercobalt.adapters.libvirt.vocabulary import PausedReason, ShutoffReason
from hypercobalt.api.kubevirt.names import FINAL_PHASES, VMIPhase

_NEVER_RAN: Final = frozenset({ShutoffReason.UNKNOWN, ShutoffReason.FAILED})
"""Reasons of a domain that is off as it was defined, or whose start failed."""
_BY_ERROR: Final = frozenset({PausedReason.IO_ERROR, PausedReason.WATCHDOG, PausedReason.API_ERROR})
"""Reasons of pauses that nobody asked for; a guest whose disk is still away pauses again."""


@dataclass(frozen=True, slots=True)
class SyncFacts:
    """What a Sync finds.

    Args:
        phase: of the VMI.
        domain: None while none is defined.
        has_run: it was started before; libvirtd forgets that when it is started again itself.
        ending: the pod must end, or the domain's end is recorded already.
    """

    phase: VMIPhase
    domain: Domain | None
    has_run: bool = False
    ending: bool = False


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """What a Sync does, in this order.

    Args:
        define: make the disks and define the domain.
        start: start it.
        resume: let its guest go on.
    """

    define: bool = False
    start: bool = False
    resume: bool = False


def sync_plan(facts: SyncFacts) -> SyncPlan:
    """Decide what a Sync does."""
    if facts.ending or facts.phase in FINAL_PHASES:
        return SyncPlan()
    domain, may_start = facts.domain, facts.phase is not VMIPhase.RUNNING and not facts.has_run
    if domain is None:
        return SyncPlan(define=may_start, start=may_start)
    if domain.state is DomainState.PAUSED:
        return SyncPlan(resume=domain.reason in _BY_ERROR)
    off = domain.state is DomainState.SHUTOFF
    return SyncPlan(start=may_start and off and domain.reason in _NEVER_RAN)
