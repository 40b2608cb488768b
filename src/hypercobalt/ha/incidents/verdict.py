"""Verdict about a signal of an instance. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from hypercobalt.api.eviction import EvictionMode
from hypercobalt.api.incident import IncidentType, Reaction, Severity
from hypercobalt.ha.incidents.cases import Step


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
