"""When the launcher ends its domain, and when itself: the rule alone. Pure.

virt-handler ends the guest; the launcher does so only when the pod must end and virt-handler has
not done it by G+15. Once QEMU is gone the launcher stays until virt-handler has recorded how it
ended: afterwards nobody could tell any more.

Source: KubeVirt, cmd/virt-launcher (waitForFinalNotify), pkg/virt-launcher/monitor.go.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Final

RECORD: Final = timedelta(minutes=5)
"""Longest wait for a handler that is away; after it the node counts as dead and its VMIs fail."""
RECORD_IN_HASTE: Final = timedelta(seconds=15)
"""The same once the pod must end."""
UNNOTICED: Final = timedelta(seconds=45)
"""Longest wait for libvirtd to notice that QEMU is gone: one that hangs never does."""
AFTER_KILL: Final = timedelta(seconds=10)
"""Longest wait for QEMU after SIGTERM; then the pod's first process ends it."""


class EndAct(Enum):
    """What the launcher does now."""

    WAIT = auto()
    KILL = auto()
    EXIT = auto()
    ABORT = auto()  # exit, as a failure


@dataclass(frozen=True, slots=True)
class EndFacts:
    """What the end of a launcher depends on; all times are aware.

    Args:
        started: when the launcher started.
        appeared: a domain has been started.
        alive: the domain has a process.
        gone: since when it has none after its start, or while that is under way.
        recorded: virt-handler has sent Delete.
        marked: when the pod was told to end.
        killed: when the launcher sent SIGTERM to QEMU.
        vanished: when the process of QEMU has ended, whatever libvirtd shows.
    """

    started: datetime
    appeared: bool = False
    alive: bool = False
    gone: datetime | None = None
    recorded: bool = False
    marked: datetime | None = None
    killed: datetime | None = None
    vanished: datetime | None = None


@dataclass(frozen=True, slots=True)
class EndStep:
    """The next step, and when to decide again if nothing happens before."""

    act: EndAct
    look_again: timedelta | None = None


def after_reading(
    facts: EndFacts, now: datetime, *, appeared: bool, alive: bool, recorded: bool
) -> EndFacts:
    """The facts once the domain was read.

    Args:
        facts: of before.
        now: time of the reading.
        appeared: see `EndFacts`, as the next two.
        alive: the same.
        recorded: the same.
    """
    off = appeared and not alive
    gone = (facts.gone or now) if off else None
    return replace(facts, appeared=appeared, alive=alive, recorded=recorded, gone=gone)


def end_step(
    facts: EndFacts, now: datetime, *, grace: timedelta, qemu_timeout: timedelta
) -> EndStep:
    """Decide the next step.

    Args:
        facts: see there.
        now: time of this decision.
        grace: G+15.
        qemu_timeout: how long a domain may take to appear.
    """
    if facts.alive:
        return _while_alive(facts, now, grace)
    if facts.recorded or (facts.marked and not facts.appeared):
        return EndStep(EndAct.EXIT)
    if not facts.appeared:
        return _until(facts.started + qemu_timeout, now, EndAct.ABORT)
    since, haste = facts.gone or now, facts.marked is not None
    return _until(since + (RECORD_IN_HASTE if haste else RECORD), now, EndAct.EXIT)


def _while_alive(facts: EndFacts, now: datetime, grace: timedelta) -> EndStep:
    if facts.vanished:
        return _until(facts.vanished + UNNOTICED, now, EndAct.ABORT)
    if facts.killed:
        return _until(facts.killed + AFTER_KILL, now, EndAct.EXIT)
    if facts.marked:
        return _until(facts.marked + grace, now, EndAct.KILL)
    return EndStep(EndAct.WAIT)


def _until(due: datetime, now: datetime, act: EndAct) -> EndStep:
    return EndStep(act) if now >= due else EndStep(EndAct.WAIT, due - now)
