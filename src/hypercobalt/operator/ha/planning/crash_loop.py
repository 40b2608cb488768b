"""Reports a host that boots again and again, as `RecoveryBlocked` `CrashLoop`. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from hypercobalt.api.hypervisor import Maintenance
from hypercobalt.api.hypervisor_conditions import RecoveryBlockedReason
from hypercobalt.ha.crash_loop import WINDOW, loop
from hypercobalt.operator.ha.model.facts import RecoveryFacts
from hypercobalt.operator.ha.model.plan import RecoveryPlan

_WORKED_ON: Final = frozenset({Maintenance.MANUAL, Maintenance.AUTO})


def named(facts: RecoveryFacts, plan: RecoveryPlan) -> RecoveryPlan:
    """Return the plan for a host that is back, with `CrashLoop` while it loops in service."""
    boots = loop(facts.hypervisor.status.recentBoots, facts.now)
    if not boots or facts.hypervisor.spec.maintenance in _WORKED_ON:
        return plan
    text = (
        f"The host has booted {len(boots)} times since {boots[0]:%H:%M:%SZ}, last at "
        f"{boots[-1]:%H:%M:%SZ}, and its instances ended each time; empty the host, then repair it"
    )
    over = boots[0] + WINDOW + timedelta(seconds=1) - facts.now
    again = over if plan.look_again is None else min(plan.look_again, over)
    return replace(plan, blocked=(RecoveryBlockedReason.CRASH_LOOP, text), look_again=again)
