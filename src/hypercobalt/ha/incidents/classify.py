"""Judges a signal of an instance: planned, unplanned or only reported. Pure.

Evidence is weighed in order, and the first match decides; each verdict names its rule and evidence.
Rows 4 and 5, which need Nova, and row 3, which needs the Hypervisor as it is now, are applied right
before a reaction (`restraint.py`, and the operator's Eviction).

Source: the HA reference, sections 3 (measured sequences), 4 (evidence) and 5 (reactions).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hypercobalt.ha.incidents.cases import InstanceRecord, State
from hypercobalt.ha.incidents.config import HaConfig
from hypercobalt.ha.incidents.ends import ENDS
from hypercobalt.ha.incidents.signals import (
    EVENT_TYPE,
    STOPS,
    EventType,
    Kind,
    Signal,
)
from hypercobalt.ha.incidents.troubles import TROUBLES
from hypercobalt.ha.incidents.verdict import (
    NOTED,
    Nature,
    Rule,
    Verdict,
)

_UNMONITORED: Final = Verdict(nature=Nature.REPORT, rule="not monitored, by the configuration")


def classify(signal: Signal, instance: InstanceRecord, config: HaConfig) -> Verdict:
    """Judge a signal by the record of the instance before it.

    Args:
        signal: what happened.
        instance: its record before the signal.
        config: thresholds, and which events are monitored.
    """
    if not config.event(EVENT_TYPE.get(signal.kind, EventType.LIFECYCLE)).monitored:
        return _UNMONITORED
    if signal.kind in STOPS and instance.state is State.INCOMING:
        return Verdict(
            nature=Nature.REPORT, rule="an incoming migration ended before the instance ran here"
        )
    rule = _RULES.get(signal.kind)
    return rule(signal, instance, config) if rule else NOTED


_RULES: Final[Mapping[Kind, Rule]] = {**ENDS, **TROUBLES}
