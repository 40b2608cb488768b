"""Decides which of several running Evictions has an instance. Pure.

An Eviction that has begun an action for it has it; before any has, the oldest Eviction. An Eviction
that its checks stop has only the instances that it has begun. On a host that is proven dead only
evacuations count: the evacuating Eviction reads the outcome of other moves, and an Eviction with a
mode that needs a living host has no instance there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hypercobalt.api.eviction import (
    UNDER_WAY,
    Eviction,
    InstancePhase,
    evacuates,
    has_begun,
    has_ended,
)
from hypercobalt.operator.eviction.assessing.course import Course
from hypercobalt.operator.eviction.assessing.situation import Situation

_BEGUN: Final = frozenset({*UNDER_WAY, InstancePhase.CONFIRMING})


def held_by(situation: Situation, evictions: Iterable[Eviction]) -> dict[str, str]:
    """Return the instances that another Eviction has, each with its name.

    Args:
        situation: of the pass.
        evictions: all, as known now.
    """
    mine, claimed = situation.facts.eviction, dict[str, str]()
    dead = situation.course is Course.EVACUATE
    begun = {InstancePhase.EVACUATING} if dead else _BEGUN
    own = {entry.id for entry in situation.facts.status.instances if entry.phase in _BEGUN}
    for other in evictions:
        if other.metadata.name == mine.metadata.name or has_ended(other.status):
            continue
        stuck = dead and not evacuates(other.spec)
        first = _age(other) < _age(mine) and not (other.metadata.deletionTimestamp or stuck)
        for entry in other.status.instances:
            waits = first and entry.phase == InstancePhase.PENDING and has_begun(other.status)
            if entry.id not in own and (waits or entry.phase in begun):
                claimed[entry.id] = other.metadata.name
    return claimed


def _age(eviction: Eviction) -> tuple[str, str]:
    made = eviction.metadata.creationTimestamp
    return made.isoformat() if made else "", eviction.metadata.name
