"""A plan, changed in one respect: what is done next, when it is looked at again. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from hypercobalt.operator.ha.model.facts import Action, Plan

AT_ONCE: Final = timedelta(0)


def then(plan: Plan, action: Action) -> Plan:
    return replace(plan, action=action, look_again=AT_ONCE)


def no_later(plan: Plan, at: datetime, now: datetime) -> Plan:
    until = time_until(at, now)
    sooner = until if plan.look_again is None else min(until, plan.look_again)
    return replace(plan, look_again=sooner)


def time_until(at: datetime, now: datetime) -> timedelta:
    return max(at - now, AT_ONCE)
