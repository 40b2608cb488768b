"""Events that follow from a changed status, in KubeVirt's words. Pure.

Source: KubeVirt, pkg/virt-handler/vm.go (updateVMIStatus, recordPhaseChangeEvent).
"""

from __future__ import annotations

from hypercobalt.api.kubevirt.names import (
    VMIConditionReason,
    VMIConditionType,
    VMIEventReason,
    VMIPhase,
)
from hypercobalt.api.kubevirt.status import VMIStatus
from hypercobalt.virt.handler.model import HandlerFacts
from hypercobalt.virt.handler.reported import UNRESPONSIVE, trouble
from hypercobalt.vmi import conditions
from hypercobalt.vmi.events import VMIEvent
from hypercobalt.vmi.phases import LifeReason

_WORDS = {
    VMIPhase.RUNNING: (
        VMIEvent("Normal", VMIEventReason.CREATED, "VirtualMachineInstance defined."),
        VMIEvent("Normal", VMIEventReason.STARTED, "VirtualMachineInstance started."),
    ),
    VMIPhase.SUCCEEDED: (
        VMIEvent("Normal", VMIEventReason.STOPPED, "The VirtualMachineInstance was shut down."),
    ),
    VMIPhase.FAILED: (
        VMIEvent("Warning", VMIEventReason.STOPPED, "The VirtualMachineInstance crashed."),
    ),
}
_OUT_OF_MEMORY = (
    "The kernel killed the guest at the memory limit of its pod. "
    "Raise spec.domain.resources.limits.memory."
)

_UNRESPONSIVE = "The launcher has not made the guest run in time: "
_NO_WORD = "it reports no reason"


def events_of(old: VMIStatus, new: VMIStatus, facts: HandlerFacts) -> tuple[VMIEvent, ...]:
    """Events of what is new in a status."""
    found: tuple[VMIEvent, ...] = ()
    if new.phase != old.phase:
        if new.phase == VMIPhase.FAILED and _panicked(facts):
            note = "The guest's kernel panicked."
            found += (VMIEvent("Warning", VMIEventReason.GUEST_PANICKED, note),)
        if new.phase == VMIPhase.FAILED and facts.out_of_memory:
            found += (VMIEvent("Warning", VMIEventReason.STOPPED, _OUT_OF_MEMORY),)
        elif new.phase == VMIPhase.FAILED and new.reason == UNRESPONSIVE:
            note = f"{_UNRESPONSIVE}{trouble(facts) or _NO_WORD}"
            found += (VMIEvent("Warning", VMIEventReason.STOPPED, note),)
        else:
            found += _WORDS.get(VMIPhase(new.phase), ())
    if _appeared(old, new, VMIConditionType.PAUSED, VMIConditionReason.PAUSED_IO_ERROR):
        note = "The guest is paused: its disk had an I/O error. Check the storage of the node."
        found += (VMIEvent("Warning", VMIEventReason.IO_ERROR, note),)
    if _appeared(old, new, VMIConditionType.SYNCHRONIZED, VMIConditionReason.SYNC_FAILED):
        shown = conditions.get(new.conditions, VMIConditionType.SYNCHRONIZED)
        note = shown.message if shown is not None else ""
        found += (VMIEvent("Warning", VMIEventReason.SYNC_FAILED, note),)
    return found


def _panicked(facts: HandlerFacts) -> bool:
    report = facts.launcher.report
    return report is not None and report.reason is LifeReason.PANICKED


def _appeared(old: VMIStatus, new: VMIStatus, type_: str, reason: str) -> bool:
    before, now = conditions.get(old.conditions, type_), conditions.get(new.conditions, type_)
    is_there = now is not None and now.reason == reason
    return is_there and (before is None or before.reason != reason)
