"""Phase of a host's recovery, for `status.recovery`. Pure; no decision depends on it."""

from __future__ import annotations

from datetime import datetime

from hypercobalt.api.eviction import EvictionMode, has_ended
from hypercobalt.api.hypervisor import Maintenance, is_fenced
from hypercobalt.api.recovery import Recovery, RecoveryPhase
from hypercobalt.ha.host_failure import fencing_record
from hypercobalt.ha.host_failure.facts import healthy_since
from hypercobalt.ha.host_failure.guard import is_open
from hypercobalt.ha.host_failure.node_failure import (
    Alive,
    Contradicted,
    Dead,
    RebootGrace,
    Returned,
    Suspected,
    Well,
)
from hypercobalt.operator.ha.model.facts import RecoveryFacts
from hypercobalt.operator.ha.model.plan import RecoveryPlan
from hypercobalt.operator.ha.planning.keeping import is_empty
from hypercobalt.operator.ha.planning.returning import is_awaited, is_unreleased
from hypercobalt.operator.ha.settings import HaSettings

_Phase = RecoveryPhase


def recovery(facts: RecoveryFacts, plan: RecoveryPlan, settings: HaSettings) -> Recovery | None:
    """Return the phase that the plan leaves the host in; None for a host that is well."""
    match facts.verdict:
        case Well() | Returned():
            return _back(facts, plan, settings)
        case Contradicted():
            return Recovery(_Phase.BLOCKED)
        case Alive(_, until, movable):
            if until is not None:
                return Recovery(_Phase.UNWELL, until)
            moves = EvictionMode.LIVE
            return _elsewhere(facts, moves) if movable else Recovery(_Phase.BLOCKED)
        case Suspected() | RebootGrace() | Dead():
            if facts.is_unconfirmed:
                return Recovery(_Phase.BLOCKED)
            if facts.is_stopped or is_fenced(facts.hypervisor):
                return _elsewhere(facts, EvictionMode.EVACUATE)
            return _silent(facts, plan, settings)


def _silent(facts: RecoveryFacts, plan: RecoveryPlan, settings: HaSettings) -> Recovery:
    stored = plan.fencing
    if stored is not None and fencing_record.is_under_way(stored, facts.now):
        return Recovery(_Phase.FENCING, stored.deadline)
    if _is_held(facts) or not facts.hypervisor.status.bootID:
        return Recovery(_Phase.BLOCKED)
    match facts.verdict:
        case RebootGrace(_, until):
            return Recovery(_Phase.REBOOT_GRACE, until)
        case Suspected(_, until):
            since = min(plan.unhealthy_since or facts.now, facts.now)
            return Recovery(_Phase.SUSPECTED, until or _ahead(since + settings.waits.dead, facts))
        case _:
            return Recovery(_Phase.FENCING)


def _elsewhere(facts: RecoveryFacts, mode: EvictionMode) -> Recovery:
    """Return the phase of a host whose instances may run elsewhere."""
    if facts.abandoned and not is_empty(facts, mode):
        return Recovery(_Phase.BLOCKED)
    if any(not has_ended(eviction.status) for eviction in facts.evictions):
        return Recovery(_Phase.RECOVERING)
    if is_empty(facts, mode):
        return Recovery(_Phase.RECOVERED)
    return Recovery(_Phase.BLOCKED if _is_held(facts) else _Phase.RECOVERING)


def _back(facts: RecoveryFacts, plan: RecoveryPlan, settings: HaSettings) -> Recovery | None:
    hypervisor, stored = facts.hypervisor, plan.fencing
    if facts.is_stopped:
        return _elsewhere(facts, EvictionMode.EVACUATE)
    if stored is not None and fencing_record.may_act_late(stored, facts.now):
        return Recovery(_Phase.FENCING, fencing_record.late_until(stored))
    if hypervisor.spec.maintenance != Maintenance.HA and not is_unreleased(hypervisor):
        return None
    healthy = healthy_since(hypervisor)
    if healthy is None or is_awaited(hypervisor):
        return Recovery(_Phase.RETURNING)
    return Recovery(_Phase.RETURNING, healthy + settings.waits.healthy)


def _is_held(facts: RecoveryFacts) -> bool:
    return bool(facts.silenced) or not is_open(facts.gates)


def _ahead(at: datetime, facts: RecoveryFacts) -> datetime | None:
    return at if at > facts.now else None
