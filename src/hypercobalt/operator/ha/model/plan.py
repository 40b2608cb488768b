"""The plan of a pass over a host: at most one action, and how the status changes. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from hypercobalt.api.eviction import Eviction
from hypercobalt.api.fencing import Assertion, Fencing
from hypercobalt.api.hypervisor_conditions import RecoveryBlockedReason
from hypercobalt.api.recovery import Recovery
from hypercobalt.compute.model import Host
from hypercobalt.ha.host_failure.fencing import Fence, FencingStep, Nothing, Record, WaitUntil
from hypercobalt.ha.host_failure.rebooting import Reboot, RebootStep
from hypercobalt.ha.host_failure.unfencing import GiveBack, Held, UnfencingStep

BEFORE: Final = "kvm.cloud.sap/maintenance-before-ha"
"""Annotation of a Hypervisor: the mode that comes back when the HA service gives the host back."""

AT_ONCE: Final = timedelta(0)


@dataclass(frozen=True, slots=True)
class AskPeers:
    """Have other hosts' agents probe whether a program of this one answers."""


@dataclass(frozen=True, slots=True)
class SetMaintenance:
    """Set `spec.maintenance`, and note the mode to restore afterwards.

    Args:
        mode: the new one.
        before: the one that comes back; "" for none.
    """

    mode: str
    before: str = ""


@dataclass(frozen=True, slots=True)
class ForceDown:
    """Declare the host dead in the compute service: the proof is recorded.

    Args:
        fencing: the record.
    """

    fencing: Fencing


@dataclass(frozen=True, slots=True)
class TakeBack:
    """Have a host that is back no longer count as dead, and clean it of evacuated servers.

    Args:
        host: as the compute service has it.
        fencing: the record, closed: it is stored once that is done.
    """

    host: Host
    fencing: Fencing


@dataclass(frozen=True, slots=True)
class Evict:
    """Have all instances moved or evacuated."""

    eviction: Eviction


@dataclass(frozen=True, slots=True)
class DeleteEviction:
    """Delete an Eviction that is not needed any more."""

    eviction: Eviction


Action = (
    AskPeers
    | SetMaintenance
    | Fence
    | GiveBack
    | Reboot
    | ForceDown
    | TakeBack
    | Evict
    | DeleteEviction
)


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """What one pass does: at most one action, then one write of the status.

    Args:
        unhealthy_since: for the status.
        fencing: for the status.
        assertion: for the status.
        removes_assertion: remove the disproved annotation that asserts that the host is dead.
        blocked: reason and message of `RecoveryBlocked`; None leaves the condition as it is.
        action: to be taken before that.
        look_again: after this long; None waits for a change.
        recovery: for the status; see `hypercobalt.operator.ha.recording.phase`.
        returns: the host is Ready in another boot than those that were proven dead.
    """

    unhealthy_since: datetime | None
    fencing: Fencing | None
    blocked: tuple[RecoveryBlockedReason, str] | None = None
    action: Action | None = None
    look_again: timedelta | None = None
    recovery: Recovery | None = None
    assertion: Assertion | None = None
    removes_assertion: bool = False
    returns: bool = False


def then(plan: RecoveryPlan, action: Action) -> RecoveryPlan:
    return replace(plan, action=action, look_again=AT_ONCE)


def no_later(plan: RecoveryPlan, at: datetime, now: datetime) -> RecoveryPlan:
    until = time_until(at, now)
    sooner = until if plan.look_again is None else min(until, plan.look_again)
    return replace(plan, look_again=sooner)


def time_until(at: datetime, now: datetime) -> timedelta:
    return max(at - now, AT_ONCE)


def follow(
    plan: RecoveryPlan, step: FencingStep | UnfencingStep | RebootStep, now: datetime
) -> RecoveryPlan:
    """Return the plan with a step of the protocol of fencing, of its end, or of a reboot."""
    match step:
        case Nothing():
            return plan
        case Record(record):
            return replace(plan, fencing=record, look_again=AT_ONCE)
        case WaitUntil(at):
            return no_later(plan, at, now)
        case Held(why):
            blocked = (RecoveryBlockedReason.GATES_CLOSED, why)
            return replace(plan, blocked=blocked) if why else plan
        case Fence() | GiveBack() | Reboot():
            return then(plan, step)
