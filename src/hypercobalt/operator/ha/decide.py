"""Decides the next action on a host, by the facts and the records. Pure.

    silent → peers probed → gates open → maintenance `ha` → attempt recorded → fenced →
    proof recorded → forced down → Eviction → the host is back → it has its storage back, if it
    was cut off from it → released → maintenance back

Each pass takes the first step that is not done yet, by the stored objects alone; so any process may
take the next one. Nothing is evacuated before `is_fenced` holds for the stored object.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from msgspec.structs import replace as with_fields

from hypercobalt.api.eviction import Eviction, EvictionMode, evacuates, has_ended
from hypercobalt.api.fencing import (
    FencingMethod,
    FencingPhase,
    assertion_of,
    proven_boots,
)
from hypercobalt.api.hypervisor import Maintenance, is_fenced
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType, RecoveryBlockedReason
from hypercobalt.ha.host_failure import fencing_record
from hypercobalt.ha.host_failure.assertions import is_removable
from hypercobalt.ha.host_failure.doubts import PowerReport, doubts
from hypercobalt.ha.host_failure.fencing import Nothing, Record, next_step
from hypercobalt.ha.host_failure.fencing_record import A_SECOND
from hypercobalt.ha.host_failure.guard import is_open, summary
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
from hypercobalt.operator.ha.model.plan import (
    AT_ONCE,
    BEFORE,
    Action,
    AskPeers,
    DeleteEviction,
    Evict,
    ForceDown,
    RecoveryPlan,
    SetMaintenance,
    follow,
    no_later,
    then,
)
from hypercobalt.operator.ha.planning.crash_loop import named
from hypercobalt.operator.ha.planning.evictions import failed_before, recovery, was_made_by
from hypercobalt.operator.ha.planning.keeping import is_empty, is_undone
from hypercobalt.operator.ha.planning.returning import back, maintenance_of, reboot, storage_back
from hypercobalt.operator.ha.settings import HaSettings
from hypercobalt.operator.shared.evictions import is_recovery

OVERRULED: Final = frozenset({Maintenance.NONE, Maintenance.TERMINATION})
"""Modes that `ha` replaces; the others were set by a person or an automation."""

_Type = HypervisorConditionType
_Why = RecoveryBlockedReason
_SHOWN: Final = 5  # instances in a message
_PASS: Final = timedelta(minutes=1)
"""Longest time from what a pass over an Eviction reads to the end that it writes."""


def decide(facts: RecoveryFacts, settings: HaSettings) -> RecoveryPlan:
    """Return the next step for a host."""
    plan, assertion = _next(facts, settings), facts.assertion
    plan = replace(plan, returns=_returns(facts, plan))
    if assertion is None:
        return plan
    overtaken = fencing_record.is_overtaken(facts.hypervisor.fencing, plan.fencing)
    if (assertion.disproved or overtaken) and is_removable(assertion):
        return replace(plan, removes_assertion=True)  # and its record
    if assertion.disproved or overtaken:
        return replace(plan, assertion=with_fields(assertion, disproved=True))
    # The host may disprove the assertion. The watch reports that for one that is just recorded.
    return replace(no_later(plan, facts.now + settings.poll, facts.now), assertion=assertion)


def _next(facts: RecoveryFacts, settings: HaSettings) -> RecoveryPlan:
    stored = facts.hypervisor.status
    well = facts.ready in {"True", ""}
    # A moment ahead of the clock was taken before the clock went back: the wait begins again.
    since = None if well else min(stored.unhealthySince or facts.now, facts.now)
    since = since and since.replace(microsecond=0)
    recorded = facts.hypervisor.fencing
    plan = RecoveryPlan(since, recorded, look_again=settings.poll)
    if recorded is None and stored.fencing is not None:
        record = fencing_record.unproven(stored.fencing, facts.now)
        return replace(plan, fencing=record, look_again=AT_ONCE)
    if plan.fencing is not None:
        lasts = max(facts.fence.power.lasts, facts.fence.storage.lasts)
        record = fencing_record.by_this_clock(plan.fencing, lasts, facts.now)
        if record != plan.fencing:
            return replace(plan, fencing=record, look_again=AT_ONCE)
    if facts.is_stopped:
        return _stopped(facts, plan, settings)
    if recorded is not None and (life := _life_after_proof(facts)):
        by_storage = recorded.method == FencingMethod.STORAGE
        powered = facts.latest.power is PowerReport.ON and len(life) == 1 and not by_storage
        record = fencing_record.overtaken(
            recorded,
            life,
            facts.now,
            powered=powered,
            contradicted=next(iter(facts.latest.in_use), ""),
        )
        return replace(plan, fencing=record, look_again=AT_ONCE)
    if recorded is not None and facts.stopped and not facts.latest.agent:
        record = fencing_record.reordered(recorded, facts.now)
        return replace(plan, fencing=record, look_again=AT_ONCE)
    match facts.verdict:
        case Contradicted(evidence):
            return _contradicted(facts, plan, evidence)
        case Well() | Returned():
            return named(facts, back(facts, plan, settings))
        case Alive():
            return _alive(facts, facts.verdict, plan, settings)
        case Suspected() | RebootGrace() | Dead():
            return _silent(facts, plan, settings)


def _returns(facts: RecoveryFacts, plan: RecoveryPlan) -> bool:
    """Whether the host is Ready in a boot that nothing has proven dead: that is no failure."""
    if plan.fencing is None or not isinstance(facts.verdict, Well | Returned):
        return False
    boot = facts.latest.node_boot or facts.hypervisor.status.bootID
    return boot not in {"", None, *proven_boots(plan.fencing)}


def _contradicted(
    facts: RecoveryFacts, plan: RecoveryPlan, evidence: tuple[str, ...]
) -> RecoveryPlan:
    """Handle a host that lives: by the record, its agent must end what may run elsewhere."""
    wrong, stored = "; ".join(evidence), plan.fencing
    text = f"The proof that the host is dead was wrong: {wrong}; no further instance is evacuated"
    if stored is not None and stored.storageDevice is not None:
        text = (
            f"The host lives, cut off from its storage by {stored.storageDevice}: {wrong}; no "
            "further instance is evacuated; reboot the host, then it gets its storage back"
        )
    plan = replace(plan, blocked=(_Why.GATES_CLOSED, text))
    if stored is not None and stored.forcedDownAt is None:
        return replace(plan, fencing=fencing_record.void(stored, evidence, facts.now))
    if stored is not None and is_fenced(facts.hypervisor):
        record = fencing_record.overtaken(stored, evidence, facts.now)
        return replace(plan, fencing=record)
    running = next((eviction for eviction in _running(facts) if is_recovery(eviction)), None)
    return replace(plan, action=DeleteEviction(running)) if running is not None else plan


def _life_after_proof(facts: RecoveryFacts) -> tuple[str, ...]:
    """Return signs that a host ran after it was proven dead; its instances are unknown then."""
    stored = facts.hypervisor.fencing
    if stored is None or not is_fenced(facts.hypervisor):
        return ()
    match facts.verdict:
        case Alive(evidence):
            return evidence
        case Well() | Returned() if facts.is_booted_since:
            return (f"the kubelet reports boot {facts.latest.node_boot}",)
        case Contradicted():
            return ()
        case _:
            # Once no instance is left to start elsewhere, a person may be repairing the host. One
            # that was cut off from its storage may have guests that write to it all the same.
            repaired = is_empty(facts) and stored.method != FencingMethod.STORAGE
            return () if repaired else doubts(stored, facts.latest)


def _stopped(facts: RecoveryFacts, plan: RecoveryPlan, settings: HaSettings) -> RecoveryPlan:
    """Record the proof by a live agent that has ended every instance, valid until a reboot."""
    if facts.silenced:
        return _with_gates(facts, plan)
    step = next_step(plan.fencing, facts, settings.pace)
    if isinstance(step, Record):
        return replace(plan, fencing=step.fencing, look_again=AT_ONCE)
    return _fenced(facts, plan, settings)


def _alive(
    facts: RecoveryFacts, verdict: Alive, plan: RecoveryPlan, settings: HaSettings
) -> RecoveryPlan:
    """Handle a host that lives though its Node is not Ready: its instances migrate."""
    plan = _with_gates(facts, plan)
    gives = storage_back(facts, plan)
    if gives is not None:
        return gives
    if verdict.until is not None:
        return no_later(plan, verdict.until, facts.now)
    if not verdict.movable:
        signs = ", ".join(verdict.evidence)
        text = (
            f"The host is alive ({signs}), but its compute service does not answer: cannot migrate"
        )
        return replace(plan, blocked=(_Why.GATES_CLOSED, f"{text}; {summary(facts.gates)}"))
    if facts.silenced or not is_open(facts.gates) or _running(facts):
        return plan
    return _recover(facts, plan, EvictionMode.LIVE, settings)


def _silent(facts: RecoveryFacts, plan: RecoveryPlan, settings: HaSettings) -> RecoveryPlan:
    """Handle a silent host: fence it, then evacuate it."""
    plan = _with_gates(facts, plan)
    if not is_fenced(facts.hypervisor):
        if facts.rejected:
            text = f"{facts.rejected}; {summary(facts.gates)}"
            plan = replace(plan, blocked=(_Why.GATES_CLOSED, text))
        elif why := _contradicts(facts):
            text = (
                f"{_devices(facts)} reported the power as off, but {why}: the host may run; make "
                "sure that it does not, then set the annotation "
                f"{assertion_of(facts.hypervisor.status.bootID)}; {summary(facts.gates)}"
            )
            plan = replace(plan, blocked=(_Why.GATES_CLOSED, text))
        elif peer := facts.reached_by:
            text = (
                f"{peer} alone reports that the host answers, and no other host could check that: "
                f"the host is not switched off, but counts as dead once {_devices(facts)} reports "
                f"the power as off; {summary(facts.gates)}"
            )
            plan = replace(plan, blocked=(_Why.GATES_CLOSED, text))
        return _fence(facts, plan, settings)
    return plan if facts.silenced else _fenced(facts, plan, settings)


def _contradicts(facts: RecoveryFacts) -> str:
    """Return what contradicts the last report of the host's fence device; "" for nothing."""
    stored = facts.hypervisor.fencing
    return (stored.contradictedBy or "") if stored is not None else ""


def _devices(facts: RecoveryFacts) -> str:
    return facts.fence.power.devices or facts.fence.storage.devices or "a fence device"


def _fenced(facts: RecoveryFacts, plan: RecoveryPlan, settings: HaSettings) -> RecoveryPlan:
    """Handle a host that is proven dead."""
    if (action := _enter(facts)) is not None:
        return then(plan, action)
    stored = plan.fencing
    if facts.is_unconfirmed:
        step = next_step(plan.fencing, facts, settings.pace)
        if isinstance(step, Record):
            return replace(plan, fencing=step.fencing, look_again=AT_ONCE)
        return replace(plan, blocked=(_Why.GATES_CLOSED, _unconfirmed(facts)))
    if stored is not None and stored.forcedDownAt is None:
        return then(plan, ForceDown(stored))
    return _recover(facts, plan, EvictionMode.EVACUATE, settings)


def _unconfirmed(facts: RecoveryFacts) -> str:
    boot = facts.hypervisor.status.bootID
    return (
        f"Boot {boot} was proven dead, but {_device(facts)} no longer confirms that: no "
        "further instance is started elsewhere until it does, or the annotation "
        f"{assertion_of(boot)} asserts that the boot is dead"
    )


def _device(facts: RecoveryFacts) -> str:
    stored = facts.hypervisor.fencing
    return (stored.device if stored is not None else None) or "its fence device"


def _fence(facts: RecoveryFacts, plan: RecoveryPlan, settings: HaSettings) -> RecoveryPlan:
    verdict = facts.verdict
    if not facts.hypervisor.status.bootID or facts.silenced:
        return plan
    step = next_step(plan.fencing, facts, settings.pace)
    if isinstance(step, Record) and step.fencing.phase == FencingPhase.FENCED:
        return replace(plan, fencing=step.fencing, look_again=AT_ONCE)
    if isinstance(verdict, Suspected) and verdict.probe:
        return replace(plan, action=AskPeers()) if is_open(facts.gates) else plan
    if facts.is_dead and (action := _enter(facts)) is not None:
        return then(plan, action)
    return _soon(plan, facts) if isinstance(step, Nothing) else follow(plan, step, facts.now)


def _recover(
    facts: RecoveryFacts, plan: RecoveryPlan, mode: EvictionMode, settings: HaSettings
) -> RecoveryPlan:
    """Have one Eviction of all instances, in maintenance `ha` where that may be set."""
    if (action := _enter(facts, mode)) is not None:
        return then(plan, action)
    wanted = recovery(facts.hypervisor, mode, plan.unhealthy_since)
    for eviction in _running(facts):
        # One that moves instances live or cold cannot go on from a host that is dead, whoever
        # created it: a recovery makes way, another one waits for the host and holds nothing up.
        if _is_other(eviction, mode):
            return replace(plan, action=DeleteEviction(eviction))
        if evacuates(eviction.spec):
            return plan
    if is_empty(facts, mode):
        return _emptied(facts, plan, settings)
    for eviction in facts.evictions:
        if eviction.metadata.name == wanted.metadata.name:  # it has failed: a person sees it there
            again = is_undone(facts, eviction) or _is_due_again(eviction, plan, facts, settings)
            return replace(plan, action=DeleteEviction(eviction)) if again else plan
    return replace(plan, action=Evict(wanted))


def _is_due_again(
    eviction: Eviction, plan: RecoveryPlan, facts: RecoveryFacts, settings: HaSettings
) -> bool:
    """Whether a failed Eviction makes way for another one.

    One that was made before the newest proof may have kept what that lets go: its last pass may
    have read the host before, and ended after the proof was recorded.
    """
    proven = plan.fencing.fencedAt if plan.fencing is not None else None
    if failed_before(eviction, facts.now - settings.again):
        return True
    if proven is None:
        return False
    of_before = failed_before(eviction, proven + _PASS) and was_made_by(eviction, proven)
    return of_before or failed_before(eviction, proven - A_SECOND)


def _running(facts: RecoveryFacts) -> list[Eviction]:
    return [eviction for eviction in facts.evictions if not has_ended(eviction.status)]


def _is_other(eviction: Eviction, mode: EvictionMode) -> bool:
    return is_recovery(eviction) and eviction.spec.mode != mode


def _emptied(facts: RecoveryFacts, plan: RecoveryPlan, settings: HaSettings) -> RecoveryPlan:
    """Handle a host with nothing left to recover; a termination that was under way continues."""
    text = "None of its instances is left on the host"
    if facts.unstored:
        named = ", ".join(sorted(facts.unstored)[:_SHOWN])
        text += f"; it stays until the agents of their new hosts have stored {named}"
    plan = replace(plan, blocked=(_Why.NOT_NEEDED, text))
    before = facts.hypervisor.metadata.annotations.get(BEFORE, "")
    if maintenance_of(facts.hypervisor) == Maintenance.HA and before == Maintenance.TERMINATION:
        return then(plan, SetMaintenance(before))
    return reboot(facts, plan, settings) if facts.is_stopped else plan


def _enter(facts: RecoveryFacts, recovers: EvictionMode = EvictionMode.EVACUATE) -> Action | None:
    """Set maintenance `ha`, unless it is set or may not be.

    A host that had to go for good stays in `termination` once it is empty.
    """
    mode = maintenance_of(facts.hypervisor)
    if mode not in OVERRULED:
        return None
    if mode == Maintenance.TERMINATION and is_empty(facts, recovers):
        return None
    return SetMaintenance(Maintenance.HA, before=mode)


def _soon(plan: RecoveryPlan, facts: RecoveryFacts) -> RecoveryPlan:
    verdict = facts.verdict
    if isinstance(verdict, Suspected | RebootGrace) and verdict.until is not None:
        return no_later(plan, verdict.until, facts.now)
    return plan


def _with_gates(facts: RecoveryFacts, plan: RecoveryPlan) -> RecoveryPlan:
    reason = _Why.GATES_PASSED
    if not is_open(facts.gates):
        many = any(gate.storm and not gate.passed for gate in facts.gates)
        reason = _Why.MANY_HOSTS if many else _Why.GATES_CLOSED
    return replace(plan, blocked=(reason, summary(facts.gates)))
