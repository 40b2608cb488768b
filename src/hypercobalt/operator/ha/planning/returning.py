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
from hypercobalt.ha.host_failure import fencing, fencing_record, rebooting, unfencing
from hypercobalt.operator.ha.model.facts import (
    BEFORE,
    DeleteEviction,
    Facts,
    GiveBack,
    Plan,
    Reboot,
    SetMaintenance,
    TakeBack,
)
from hypercobalt.operator.ha.model.plans import AT_ONCE, no_later, then, time_until
from hypercobalt.operator.ha.observing.fleet import healthy_since
from hypercobalt.operator.ha.settings import HaSettings
from hypercobalt.operator.shared.evictions import is_recovery

_Why = RecoveryBlockedReason


def back(facts: Facts, plan: Plan, settings: HaSettings) -> Plan:
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
    done = next((one for one in facts.evictions if is_recovery(one)), None)
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


def storage_back(facts: Facts, plan: Plan) -> Plan | None:
    """Return the plan for a host that was cut off from its storage; None for one that has it."""
    stored, status = plan.fencing, facts.hypervisor.status
    if stored is None:
        return None
    back = unfencing.Back(
        boot=status.bootID or "",
        node_boot=facts.latest.node_boot,
        reporting=healthy_since(facts.hypervisor) is not None,
        running=tuple(one.name for one in status.instances if one.active),
        storage=facts.fence.storage,
        mine=facts.mine,
    )
    match unfencing.next_step(stored, back, facts.now):
        case fencing.Nothing():
            return None
        case fencing.Record(record):
            return replace(plan, fencing=record, look_again=AT_ONCE)
        case unfencing.GiveBack(record):
            return then(plan, GiveBack(record))
        case fencing.WaitUntil(at):
            return no_later(plan, at, facts.now)
        case unfencing.Held(why):
            return replace(plan, blocked=(_Why.GATES_CLOSED, why)) if why else plan


def reboot(facts: Facts, plan: Plan, settings: HaSettings) -> Plan:
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
    match rebooting.next_step(stored, power, facts.mine, settings.pace, facts.now):
        case fencing.Record(record):
            return replace(plan, fencing=record, look_again=AT_ONCE)
        case rebooting.Reboot(record):
            return then(plan, Reboot(record))
        case fencing.WaitUntil(at):
            return no_later(plan, at, facts.now)


def _take_back(facts: Facts, plan: Plan, stored: Fencing) -> Plan:
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


def _at_rest(facts: Facts, plan: Plan) -> Plan:
    blocked = get_condition(facts.hypervisor.conditions, HypervisorConditionType.RECOVERY_BLOCKED)
    return replace(plan, blocked=(_Why.NOT_NEEDED, "The host is healthy")) if blocked else plan


def maintenance_of(hypervisor: Hypervisor) -> str:
    return hypervisor.spec.maintenance or Maintenance.NONE
