"""How far an Eviction is, as a line of text for each change."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.duration import human_duration
from hypercobalt.api.eviction import (
    UNDER_WAY,
    Eviction,
    EvictionConditionType,
    evicting,
    has_ended,
)
from hypercobalt.operator.shared.wording import count
from hypercobalt.text import printable

_MOMENT = timedelta(seconds=1)


def outcome(eviction: Eviction) -> str:
    """How it ended, in a line; "" when it has not."""
    found = evicting(eviction.status)
    return (
        printable(f"eviction/{eviction.metadata.name}: {found.message}")
        if found and has_ended(eviction.status)
        else ""
    )


def summary(eviction: Eviction, now: datetime) -> str:
    """How far it is, in a line."""
    status = eviction.status
    found = evicting(status)
    if found is None:
        return "waiting for the operator"
    checks = get_condition(status.conditions, EvictionConditionType.PREFLIGHT_CHECKS_SUCCEEDED)
    if checks is not None and checks.status == "False":
        return printable(f"waiting: {checks.message}")
    progress = status.progress
    if progress is None:
        return printable(found.message)
    text = f"{progress.done or 0} of {progress.total or 0} done"
    for phase in UNDER_WAY:
        if busy := sum(entry.phase == phase for entry in status.instances):
            text += f", {busy} {phase.lower()}"
    if progress.failed:
        text += f", {progress.failed} given up"
    guests = status.virtualMachineInstances
    for guest in guests[:1]:
        more = " …" if len(guests) > 1 else ""
        what = count(len(guests), "VirtualMachineInstance")
        text += f", waiting for {what}: {printable(guest)}{more}"
    done = progress.estimatedCompletion
    if done is not None and done - now >= _MOMENT:
        text += f", about {human_duration(done - now)} left"
    return text


class EvictionFollower:
    """The newest state of one Eviction, and whether anything has changed."""

    def __init__(self, eviction: Eviction) -> None:
        self.eviction, self.gone = eviction, False
        self.changed = asyncio.Event()

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""
        return self.gone or has_ended(self.eviction.status)

    def on_add(self, obj: Eviction) -> None:
        self._take(obj)

    def on_update(self, old: Eviction, new: Eviction) -> None:
        self._take(new)

    def on_delete(self, obj: Eviction) -> None:
        self.eviction, self.gone = obj, True
        self.changed.set()

    def lost(self) -> None:
        """There is no such object any more."""
        self.gone = True
        self.changed.set()

    def _take(self, obj: Eviction) -> None:
        if obj.metadata.uid == self.eviction.metadata.uid:
            self.eviction = obj
        else:
            self.gone = True
        self.changed.set()
