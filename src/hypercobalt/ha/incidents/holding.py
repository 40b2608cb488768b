"""Holds back reactions that are not allowed now: they wait, or are only reported. Pure.

A reaction that waits is checked again, and follows once nothing holds it back and libvirt still
shows the instance off or failing. An incident that is over by then, or may be, has no reaction.

Source: the HA reference, section 9.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from hypercobalt.api.incident import IncidentType, Reaction
from hypercobalt.ha.incidents.cases import Case, InstanceRecord, State, Step, reaction_of
from hypercobalt.ha.incidents.config import HaConfig
from hypercobalt.ha.incidents.history import earliest
from hypercobalt.ha.incidents.restraint import Restraint
from hypercobalt.ha.incidents.signals import HOST

LOOK_AGAIN: Final = timedelta(seconds=30)
"""Interval between checks of whether the reason for holding a case back is over."""

_PROBED: Final = (
    IncidentType.IO_ERROR,
    IncidentType.CONTROL_ERROR,
    IncidentType.MONITOR_HUNG,
)
"""Types of incidents that a probe confirms or ends."""
_MAY_BE_OVER: Final = (IncidentType.WATCHDOG, IncidentType.REBOOT_FAILED)
"""Types of incidents with a running instance, where libvirt does not show if its guest works."""


def reported(instance: InstanceRecord, case_id: str, why: str) -> InstanceRecord:
    """Return the instance with a case that is only reported."""
    return _changed(instance, case_id, Reaction.REPORT, why)


def held(
    instance: InstanceRecord, case_id: str, restraint: Restraint, now: datetime
) -> InstanceRecord:
    """Return the instance with a case that waits for a restraint's end, or is only reported."""
    why = f"held back: {restraint.why}"
    if instance.uuid == HOST:
        text = f"{why}, and not recovered later: set maintenance to empty the host"
        return reported(instance, case_id, text)
    if restraint.for_good:
        text = f"{why}, and not recovered later: restart the instance in the compute service"
        return reported(instance, case_id, text)
    return waiting(instance, case_id, f"{why}; recovered once that is over, if still needed", now)


def waiting(instance: InstanceRecord, case_id: str, why: str, now: datetime) -> InstanceRecord:
    """Return the instance with a case that waits for something that ends.

    A case of the host itself, its memory, does not wait: the memory may be replaced by then.
    """
    if instance.uuid == HOST:
        return reported(instance, case_id, why)
    due = now + LOOK_AGAIN
    return _changed(instance, case_id, Reaction.WAIT, why, step=Step.HELD, due=due)


def withdrawn(host: InstanceRecord, eviction: str, why: str) -> InstanceRecord:
    """Return the host's record after an Eviction for many of its instances was not created."""
    cases = tuple(
        replace(case, eviction="", reaction=Reaction.WAIT).with_evidence(why)
        if case.eviction == eviction
        else case
        for case in host.cases
    )
    return replace(host, cases=cases)


def released(
    instance: InstanceRecord, case: Case, state: State, config: HaConfig, now: datetime
) -> InstanceRecord:
    """Return the instance with a case that is no longer held back, and its next step.

    Args:
        instance: of the case.
        case: the case that was held back.
        state: of the instance in libvirt's newest listing: PAUSED by its watchdog, else RUNNING or
            OFF; UNKNOWN: not listed.
        config: for the waits between recoveries.
        now: time of this pass, UTC.
    """
    seen = replace(case, last_seen=max(case.last_seen, now))
    if state is State.UNKNOWN:
        return instance.without_case(case.id)
    if case.type in _PROBED:
        return instance.with_case(seen.then(Step.PROBE, now))
    if state is State.OFF or (state is State.PAUSED and case.type is IncidentType.WATCHDOG):
        due = max(now, earliest(instance, now, config))
        changed = replace(seen, reaction=reaction_of(case.mode))
        return instance.with_case(changed.then(Step.RECOVER, due))
    if case.type in _MAY_BE_OVER:
        text = (
            "the instance runs: check its console; if it hangs, restart it in the compute service"
        )
        return reported(instance, case.id, text)
    # The start is judged in a moment, and closes the case.
    return instance.with_case(case.then(Step.HELD, now + LOOK_AGAIN))


def _changed(
    instance: InstanceRecord,
    case_id: str,
    reaction: Reaction,
    why: str,
    *,
    step: Step = Step.NONE,
    due: datetime | None = None,
) -> InstanceRecord:
    """Return the instance with the case shown.

    One of many crashes is otherwise shown by the host's incident, which expires.
    """
    cases = tuple(
        replace(case, eviction="", shown=True, reaction=reaction).with_evidence(why).then(step, due)
        if case.id == case_id
        else case
        for case in instance.cases
    )
    return replace(instance, cases=cases)
