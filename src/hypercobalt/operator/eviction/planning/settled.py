"""Passes that end before any instance is looked at. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from hypercobalt.api.conditions import Condition, ConditionStatus, get_condition
from hypercobalt.api.eviction import (
    FINALIZER,
    EvictionReason,
    InstancePhase,
    evicting,
    has_begun,
    has_ended,
)
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType
from hypercobalt.errors import TransientError
from hypercobalt.operator.eviction.model.decision import End, EvictionPlan, Wait
from hypercobalt.operator.eviction.model.facts import Facts
from hypercobalt.operator.eviction.model.policy import Policy
from hypercobalt.operator.eviction.planning.cancel import (
    LONGEST,
    left_behind,
    since_deletion,
)
from hypercobalt.operator.eviction.planning.polling import AWAY, IDLE, poll_deletion
from hypercobalt.operator.eviction.planning.preflight import refusal, unproven
from hypercobalt.operator.shared.guests import reported, waiting_text
from hypercobalt.operator.shared.wording import count

_STOPPED: Final = {InstancePhase.MIGRATING, InstancePhase.CONFIRMING}
"""Phases of actions that a deletion stops; an evacuation and a restart go on by themselves."""


def settled(facts: Facts, policy: Policy) -> EvictionPlan | None:
    """Return the plan of a pass that ends before its instances are read; None otherwise."""
    if facts.is_deleted:
        return _settled_deletion(facts, policy)
    if has_ended(facts.eviction.status):
        return EvictionPlan(release=True)
    if facts.of_other_shard:
        return EvictionPlan()
    if facts.hypervisor is None:
        way_out = "spec.hypervisor is immutable: delete and recreate the Eviction"
        return _waits(f"Hypervisor {facts.source} does not exist; {way_out}", IDLE)
    if refused := refusal(facts.hypervisor, facts.eviction):
        return _ends(EvictionReason.FAILED, refused)
    if facts.trouble is not None:
        later = facts.trouble.retry_after if isinstance(facts.trouble, TransientError) else None
        text = f"cannot read from the compute service {facts.service}: {facts.trouble}"
        host = facts.host
        if host is not None and (why := unproven(facts.eviction.spec, facts.hypervisor, host)):
            text = f"{why}; {text}"
        return _waits(text, later or AWAY)
    if not facts.looked or facts.host is not None:
        return None
    plan = _unknown_host(facts, facts.hypervisor, policy)
    return _kept_by_guests(facts, plan) or plan


def _waits(text: str, look_again: timedelta) -> EvictionPlan:
    return EvictionPlan(wait=Wait(f"Running: waits; {text}", text), look_again=look_again)


def _ends(reason: EvictionReason, text: str) -> EvictionPlan:
    return EvictionPlan(end=End(reason, text), release=True)


def _unknown_host(facts: Facts, hypervisor: Hypervisor, policy: Policy) -> EvictionPlan:
    name, service, status = facts.source, facts.service, hypervisor.status
    begun = has_begun(facts.status)
    if begun or (status.hypervisorId and status.serviceId):
        text = f"failed to get hypervisor {name}: got 404, {service} has no such host"
        # For a moment it reports nothing of the moves; an empty host has none to wait for.
        may_move = begun and (facts.status.instances or facts.lingered)
        if may_move and facts.unknown_for <= policy.patience:
            return _waits(text, AWAY)
        return _ends(EvictionReason.FAILED, text)
    domains = (status.numInstances or 0) - len(reported(hypervisor))
    if domains > 0:
        text = (
            f"failed to get hypervisor {name}: {service} has no such host, but its node agent "
            f"reports {count(domains)} there"
        )
        return _ends(EvictionReason.FAILED, text)
    if (libvirt := _away(hypervisor)) is not None:
        text = (
            f"{service} has no host {name}, and its node agent cannot list its instances: "
            f"{libvirt.message}"
        )
        return _waits(text, IDLE)
    text = f"eviction completed successfully: {name} was never registered with {service}"
    return _ends(EvictionReason.SUCCEEDED, text)


def _away(hypervisor: Hypervisor) -> Condition | None:
    """Return the report of a node agent that does not reach libvirt; None for any other report.

    The number of instances is the one that it read last, or the API server's default.
    """
    found = get_condition(hypervisor.conditions, HypervisorConditionType.LIBVIRT_CONNECTION)
    return found if found is not None and found.status == ConditionStatus.FALSE else None


def _kept_by_guests(facts: Facts, plan: EvictionPlan) -> EvictionPlan | None:
    """Return the plan of waiting for the guests of a host; None if the given one may be made."""
    if plan.end is None or not facts.guests.any:
        return None
    text = waiting_text(facts.guests, facts.source)
    if plan.end.reason is EvictionReason.FAILED:
        return replace(plan, end=replace(plan.end, message=f"{plan.end.message}; {text}"))
    return _waits(text, IDLE)


def _settled_deletion(facts: Facts, policy: Policy) -> EvictionPlan | None:
    stored = facts.eviction.status
    if FINALIZER not in facts.eviction.metadata.finalizers:
        return EvictionPlan()
    if has_ended(stored) and not _is_cancelled(facts):
        return EvictionPlan(release=True)
    noted = [entry for entry in stored.instances if entry.phase in _STOPPED]
    error = str(facts.trouble) if facts.trouble is not None else ""
    if facts.looked and facts.host is None and not error:
        if not noted:
            return EvictionPlan(release=True)
        error = f"{facts.service} has no host {facts.source}"
    if not error:
        return None
    # Which of them are cold is not noted.
    limit, waited = policy.longest if noted else LONGEST, since_deletion(facts)
    if waited > limit:
        return EvictionPlan(release=True, left_behind=left_behind(noted, limit))
    latest = facts.moment.now - waited + limit
    until = f"until {latest:%H:%M:%SZ} at the latest"
    text = f"deleted; waiting to stop its migrations, {until}: {error}"
    wait = None if has_ended(stored) else Wait(text)
    return EvictionPlan(wait=wait, look_again=poll_deletion(waited))


def _is_cancelled(facts: Facts) -> bool:
    condition = evicting(facts.eviction.status)
    return condition is not None and condition.reason == EvictionReason.CANCELLED
