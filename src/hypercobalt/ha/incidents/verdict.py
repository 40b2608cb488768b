"""Verdict about a signal of an instance: its form, its waits, and the most frequent ones. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from hypercobalt.api.eviction import EvictionMode
from hypercobalt.api.incident import IncidentType, Reaction, Severity
from hypercobalt.ha.incidents.cases import InstanceRecord, Step
from hypercobalt.ha.incidents.config import HaConfig
from hypercobalt.ha.incidents.signals import Signal

SETTLE: Final = timedelta(milliseconds=300)
"""Wait after a stop: related events, such as the stops of many instances, arrive within it."""
PANIC_SETTLE: Final = timedelta(seconds=2)
"""Wait after a panic: libvirt may restart the guest itself (`on_crash`). Also after a watchdog's
NMI, which makes a guest panic to save its memory.
"""
COALESCE: Final = timedelta(seconds=2)
"""A reset gives two REBOOT events within 0.2 to 0.7 s."""
SAME_WATCHDOG: Final = timedelta(seconds=120)
"""A stop so soon after a watchdog's poweroff or shutdown belongs to it."""
PROBE_AGAIN: Final = timedelta(seconds=10)
SHORTLY: Final = timedelta(minutes=10)
"""How long a report stays open when nothing closes it."""


class Nature(StrEnum):
    """Whether an event was meant to happen."""

    PLANNED = "planned"
    UNPLANNED = "unplanned"
    REPORT = "report"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Meaning of a signal, with the reason.

    Args:
        nature: whether it was meant.
        rule: the rule that decided, for a person.
        type: of the incident; None: there is none.
        severity: of the incident.
        reaction: what follows.
        step: the next step, due `after` this time.
        mode: of the Eviction, if there will be one.
        shown: the incident stands in the status at once.
    """

    nature: Nature
    rule: str
    type: IncidentType | None = None
    severity: Severity = Severity.INFO
    reaction: Reaction = Reaction.REPORT
    step: Step = Step.NONE
    after: timedelta = timedelta(0)
    mode: EvictionMode = EvictionMode.AUTO
    shown: bool = True


Rule = Callable[[Signal, InstanceRecord, HaConfig], Verdict]
"""Judges a signal by the record of the instance before it."""

NOTED: Final = Verdict(nature=Nature.REPORT, rule="recorded only")


def planned(rule: str) -> Verdict:
    return Verdict(nature=Nature.PLANNED, rule=rule)


def probed_first(
    rule: str,
    type_: IncidentType,
    severity: Severity,
    nature: Nature = Nature.UNPLANNED,
    after: timedelta = PROBE_AGAIN,
) -> Verdict:
    """An incident that may pass by itself: the instance is probed before any reaction."""
    return Verdict(
        nature=nature,
        rule=rule,
        type=type_,
        severity=severity,
        reaction=Reaction.WAIT,
        step=Step.PROBE,
        after=after,
    )


def out_of_band(rule: str) -> Verdict:
    return Verdict(
        nature=Nature.REPORT,
        rule=rule,
        type=IncidentType.OUT_OF_BAND,
        step=Step.EXPIRE,
        after=SHORTLY,
    )
