"""`Fenced`, `RecoveryBlocked` and the Events of a plan. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from hypercobalt.api.conditions import Condition, get_condition, set_condition
from hypercobalt.api.fencing import Fencing, FencingMethod, FencingPhase
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import (
    FencedReason,
    HypervisorConditionType,
    RecoveryBlockedReason,
)
from hypercobalt.operator.ha.model.plan import RecoveryPlan
from hypercobalt.operator.shared.status_writer import Part
from hypercobalt.operator.shared.wording import Note

_Type = HypervisorConditionType
TYPES: Final = frozenset({_Type.FENCED, _Type.RECOVERY_BLOCKED})

_Why = RecoveryBlockedReason
_BLOCKING: Final = frozenset(
    {_Why.GATES_CLOSED, _Why.MANY_HOSTS, _Why.CRASH_LOOP, _Why.AWAITS_REBOOT}
)
_FENCED: Final[Mapping[str, tuple[str, FencedReason]]] = {
    FencingPhase.FENCED: ("True", FencedReason.PROVEN),
    FencingPhase.ATTEMPTING: ("Unknown", FencedReason.ATTEMPTING),
    FencingPhase.FAILED: ("Unknown", FencedReason.FAILED),
    FencingPhase.RELEASED: ("False", FencedReason.RELEASED),
}


def part(hypervisor: Hypervisor, plan: RecoveryPlan, now: datetime) -> Part:
    """Return the part of the status that a plan sets."""
    own = tuple(condition for condition in hypervisor.conditions if condition.type in TYPES)
    if plan.fencing is not None:
        text = _text(plan.fencing, returns=plan.returns)
        state = _state(plan.fencing, returns=plan.returns)
        own = set_condition(own, _Type.FENCED, *state, text, now=now)
    if plan.blocked is not None:
        reason, text = plan.blocked
        blocked = "True" if reason in _BLOCKING else "False"
        own = set_condition(own, _Type.RECOVERY_BLOCKED, blocked, reason, text, now=now)
    fields = {
        "unhealthySince": plan.unhealthy_since,
        "fencing": plan.fencing,
        "assertion": plan.assertion,
        "recovery": plan.recovery,
    }
    return Part(TYPES, own, fields)


def notes(hypervisor: Hypervisor, after: Part) -> Iterable[Note]:
    """Return the Events for a change of the status."""
    before = hypervisor.status
    since = after.fields.get("unhealthySince")
    if before.unhealthySince is None and isinstance(since, datetime):
        yield Note("Warning", "HostUnwell", f"The Node is not Ready since {since:%H:%M:%SZ}")
    for condition in after.conditions:
        old = get_condition(before.conditions, condition.type)
        if old is None or (old.status, old.reason) != (condition.status, condition.reason):
            yield from _note(condition)


def _note(condition: Condition) -> Iterable[Note]:
    if condition.type == _Type.FENCED:
        bad = condition.reason in {FencedReason.FAILED, FencedReason.REFUSED, FencedReason.PROVEN}
        yield Note("Warning" if bad else "Normal", f"Fencing{condition.reason}", condition.message)
    elif condition.status == "True":
        yield Note("Warning", "RecoveryBlocked", condition.message)
    elif condition.reason == RecoveryBlockedReason.GATES_PASSED:
        yield Note("Normal", "RecoveryAllowed", "Every gate of the host's recovery is open")


def _state(fencing: Fencing, *, returns: bool) -> tuple[str, FencedReason]:
    holds = fencing.phase != FencingPhase.FENCED or fencing.livesSince is None
    if not holds and returns:
        return "Unknown", FencedReason.RETURNING
    if fencing.phase == FencingPhase.FAILED and fencing.refused:
        return "Unknown", FencedReason.REFUSED
    return _FENCED[fencing.phase if holds else FencingPhase.FAILED]


def _text(fencing: Fencing, *, returns: bool) -> str:
    last = fencing.evidence[-1] if fencing.evidence else ""
    match fencing.phase:
        case FencingPhase.FENCED if fencing.livesSince is not None and returns:
            state = _state_of_boot(fencing)
            return f"Boot {fencing.bootID} was {state}; the host is back with another boot"
        case FencingPhase.FENCED if fencing.livesSince is not None:
            return f"Boot {fencing.bootID} was {_state_of_boot(fencing)}, but {last}"
        case FencingPhase.FENCED:
            return f"Boot {fencing.bootID} is {_state_of_boot(fencing)}: {fencing.proof}"
        case FencingPhase.ATTEMPTING:
            storage = fencing.method == FencingMethod.STORAGE
            what = "cut the host off from its storage" if storage else "switch the host off"
            return f"Attempt {fencing.attempts} by {fencing.device} may still {what}"
        case FencingPhase.RELEASED:
            return "The host is back"
        case FencingPhase.FAILED if fencing.refused:
            return (
                f"Boot {fencing.bootID} is not proven dead: {fencing.refused}; correct the device, "
                "its entry in the document or its Secret: a change there is tried at once"
            )
        case _:
            return f"Boot {fencing.bootID} is not proven dead: {last}"


def _state_of_boot(fencing: Fencing) -> str:
    storage = fencing.method == FencingMethod.STORAGE
    return "cut off from its storage" if storage else "proven dead"
