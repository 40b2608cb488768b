"""Plans for a host that is back: its storage, its record, its service. Pure.

A host that was cut off from its storage gets it back first. Evacuated servers are cleaned away
while the record of the fencing still has the host as dead. New servers are placed on it by
the lifecycle controller, which alone enables and disables it, once its maintenance is over.
"""

from __future__ import annotations

from dataclasses import replace

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.fencing import Fencing, FencingPhase, is_declared_dead
from hypercobalt.api.hypervisor import Hypervisor, Maintenance
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType, RecoveryBlockedReason
from hypercobalt.ha.host_failure import fencing_record, rebooting, unfencing
from hypercobalt.ha.host_failure.facts import healthy_since
from hypercobalt.ha.host_failure.fencing import Nothing
from hypercobalt.operator.ha.model.facts import RecoveryFacts
from hypercobalt.operator.ha.model.plan import (
    AT_ONCE,
    BEFORE,
    DeleteEviction,
    RecoveryPlan,
    SetMaintenance,
    TakeBack,
    follow,
    then,
    time_until,
)
from hypercobalt.operator.ha.settings import HaSettings
from hypercobalt.operator.shared.evictions import is_recovery

_Why = RecoveryBlockedReason


def back(facts: RecoveryFacts, plan: RecoveryPlan, settings: HaSettings) -> RecoveryPlan:
    """Plan for a Node that is Ready, or reports a boot other than the fenced one."""
    hypervisor, stored = facts.hypervisor, plan.fencing
    if stored is not None and fencing_record.may_act_late(stored, facts.now):
        at = fencing_record.late_until(stored) or facts.now
        return replace(plan, look_again=time_until(at, facts.now))  # it may be switched off yet
    if maintenance_of(hypervisor) != Maintenance.HA and not is_unreleased(hypervisor):
        return replace(_at_rest(facts, plan), look_again=None)
    if (gives := storage_back(facts, plan)) is not None:
        return gives
    healthy = healthy_since(hypervisor)
    if healthy is None or is_awaited(hypervisor):
        return plan
    due = healthy + settings.waits.healthy
    if healthy <= facts.now < due:  # ahead of the clock: long ago, before the clock went back
        return replace(plan, look_again=time_until(due, facts.now))
    if stored is not None and stored.phase != FencingPhase.RELEASED:
        return _take_back(facts, plan, stored)
    done = next((eviction for eviction in facts.evictions if is_recovery(eviction)), None)
    if done is not None:
        return replace(plan, action=DeleteEviction(done))
    if maintenance_of(hypervisor) == Maintenance.HA:
        if facts.host is not None and not facts.host.up:
            text = (
                f"The host is back; it stays in maintenance while its compute service "
                f"{facts.host.name} does not report"
            )
            return replace(plan, blocked=(_Why.NOT_NEEDED, text))
        return then(plan, SetMaintenance(hypervisor.metadata.annotations.get(BEFORE, "")))
    return replace(_at_rest(facts, plan), look_again=None)


def storage_back(facts: RecoveryFacts, plan: RecoveryPlan) -> RecoveryPlan | None:
    """Return the plan for a host that was cut off from its storage; None for one that has it."""
    stored = plan.fencing
    if stored is None:
        return None
    step = unfencing.next_step(stored, facts)
    return None if isinstance(step, Nothing) else follow(plan, step, facts.now)


def reboot(facts: RecoveryFacts, plan: RecoveryPlan, settings: HaSettings) -> RecoveryPlan:
    """Plan for an empty host that lives in a boot that counts as dead: reboot it."""
    stored, power = plan.fencing, facts.fence.power
    if stored is None or stored.forcedDownAt is None:
        return plan
    empty = (
        f"Boot {stored.bootID} counts as dead, though the host lives: its instances are elsewhere, "
        "and it returns to service with its next boot"
    )
    why = "--ha-reboot-fenced is off" if not settings.reboots else ""
    why = why or ("" if power.devices else "no fence device switches its power")
    if maintenance_of(facts.hypervisor) != Maintenance.HA:
        why = f"it is in maintenance {maintenance_of(facts.hypervisor) or 'none'}"
    if why:
        return replace(plan, blocked=(_Why.AWAITS_REBOOT, f"{empty}: reboot it; {why}"))
    problem = rebooting.last(stored)
    text = f"{empty}: reboot it; {problem}" if problem else f"{empty}: {power.devices} reboots it"
    plan = replace(plan, blocked=(_Why.AWAITS_REBOOT if problem else _Why.NOT_NEEDED, text))
    return follow(plan, rebooting.next_step(stored, facts, settings.pace), facts.now)


def _take_back(facts: RecoveryFacts, plan: RecoveryPlan, stored: Fencing) -> RecoveryPlan:
    """Clean away evacuated servers by the record of the fencing, which is closed after that.

    The compute service may have the host as dead without the record: after a pass that declared it
    dead and could not store that.
    """
    boot = facts.hypervisor.status.bootID or facts.latest.node_boot
    closed = fencing_record.released(stored, boot)
    is_down = facts.host is not None and facts.host.forced_down
    if not (is_declared_dead(stored) or is_down):
        return replace(plan, fencing=closed, look_again=AT_ONCE)
    return then(plan, TakeBack(facts.host, closed)) if facts.host is not None else plan


def is_awaited(hypervisor: Hypervisor) -> bool:
    """Whether a host was declared dead, and the agent of its next boot has not reported yet."""
    stored, boot = hypervisor.fencing, hypervisor.status.bootID
    return stored is not None and is_declared_dead(stored) and stored.bootID == boot


def is_unreleased(hypervisor: Hypervisor) -> bool:
    """Whether the record of a fencing is still open."""
    stored = hypervisor.fencing
    return stored is not None and stored.phase != FencingPhase.RELEASED


def _at_rest(facts: RecoveryFacts, plan: RecoveryPlan) -> RecoveryPlan:
    blocked = get_condition(facts.hypervisor.conditions, HypervisorConditionType.RECOVERY_BLOCKED)
    return replace(plan, blocked=(_Why.NOT_NEEDED, "The host is healthy")) if blocked else plan


def maintenance_of(hypervisor: Hypervisor) -> str:
    return hypervisor.spec.maintenance or Maintenance.NONE
