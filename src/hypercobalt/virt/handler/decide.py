"""Decides a pass over a VMI that was handed over, from its object, its pod and its domain. Pure.

Invariant: no guest that was seen running is ended, and no VMI of it failed, for something that is
not known. A launcher that cannot be reached counts as running; only the end of its process, or of
its pod, is an end. A guest that was never seen running has a bounded time to be.

Source: KubeVirt, pkg/virt-handler/vm.go, in the order of its decisions (syncVirtualMachine).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from msgspec.structs import replace as with_fields

from hypercobalt.api.kubevirt.names import (
    FINAL_PHASES,
    HANDLER_PHASES,
    VMIEventReason,
    VMIPhase,
)
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.workloads import Pod
from hypercobalt.virt.handler.events import events_of
from hypercobalt.virt.handler.model import (
    DEAD,
    NEVER_RAN,
    Contact,
    HandlerCall,
    HandlerFacts,
    HandlerPlan,
)
from hypercobalt.virt.handler.reported import UNRESPONSIVE, reported
from hypercobalt.virt.wire.messages import DomainReport, PausedBy
from hypercobalt.vmi.events import VMIEvent
from hypercobalt.vmi.grace import RESEND, StopCall, grace_period, stop_step
from hypercobalt.vmi.launcher_pods import has_ended, is_ending
from hypercobalt.vmi.phases import DomainView, LauncherState, LifeCycle, phase_by_domain

_NOBODYS: Final = frozenset({PausedBy.IO_ERROR, PausedBy.OTHER})
"""Pauses that neither a user nor a migration has asked for."""
_LONGEST_WAIT: Final = timedelta(minutes=1)
_LONG_AGO: Final = timedelta(minutes=5)


def decide(facts: HandlerFacts) -> HandlerPlan:
    """Decide what is done now."""
    vmi, present = facts.vmi, phase_of(facts.vmi)
    if present in FINAL_PHASES:
        return _after_the_end(facts)
    if present is None or present not in HANDLER_PHASES:
        return HandlerPlan(vmi)
    phase = _phase(facts, present)
    late = phase is VMIPhase.SCHEDULED and facts.now >= facts.launcher.due
    phase = VMIPhase.FAILED if late else phase
    status = reported(facts, phase)
    if late:
        status = with_fields(status, reason=UNRESPONSIVE)
    planned = HandlerPlan(
        with_fields(vmi, status=status), events=events_of(vmi.status, status, facts)
    )
    if phase is not present:  # written first; the next pass goes on from there
        return planned
    if _must_stop(facts):
        return _in_time(facts, _stopping(facts, planned))
    return _in_time(facts, _syncing(facts, planned))


def decide_orphan(facts: HandlerFacts) -> HandlerPlan:
    """Decide about a launcher whose VMI is gone: its guest is shut down, then it may end.

    Args:
        facts: with the VMI as it was last.
    """
    planned = HandlerPlan(facts.vmi)
    if facts.launcher.contact is not Contact.CONNECTED:
        return planned
    return _stopping(facts, planned) if facts.launcher.alive else _deleting(facts, planned)


def phase_of(vmi: VirtualMachineInstance) -> VMIPhase | None:
    """The phase of a VMI; None for one that this version does not know."""
    try:
        return VMIPhase(vmi.status.phase)
    except ValueError:
        return None


def asks_first(vmi: VirtualMachineInstance) -> bool:
    """Whether the guest is asked to shut down before it is ended: it has ACPI and a grace."""
    grace = grace_period(vmi.spec.terminationGracePeriodSeconds)
    return has_acpi(vmi) and grace > timedelta()


def has_acpi(vmi: VirtualMachineInstance) -> bool:
    """Whether the guest sees the button that asks it to shut down."""
    features = vmi.spec.domain.features
    return features is None or features.acpi.enabled is not False


def sync_wait(tries: int) -> timedelta:
    """Time from one Sync to the next, after so many of them in a row: 1 s, doubled up to 1 min."""
    return min(timedelta(seconds=2 ** min(tries - 1, 10)), _LONGEST_WAIT)


def is_in_a_row(since: timedelta) -> bool:
    """Whether a call continues a row of calls whose last one is so long ago."""
    return since < _LONG_AGO


def _phase(facts: HandlerFacts, present: VMIPhase) -> VMIPhase:
    state, domain = _state(facts, present), _domain(facts)
    starting = facts.call(HandlerCall.SYNC).under_way and present is VMIPhase.SCHEDULED
    if starting and state is LauncherState.READY and not facts.launcher.alive:
        return present  # off until it runs: the answer comes with how it is then
    lost = present is VMIPhase.RUNNING and domain is None and state is LauncherState.READY
    if lost:  # the guest ran, and nobody can tell any more how it ended: it is not started again
        return VMIPhase.FAILED
    return phase_by_domain(
        present,
        domain,
        state,
        asks_first=asks_first(facts.vmi),
        cannot_start=bool(facts.unconnectable) and present is VMIPhase.SCHEDULED,
    )


def _domain(facts: HandlerFacts) -> DomainView | None:
    """The domain; one that was alive in a launcher that has ended since is gone with it."""
    launcher = facts.launcher
    report = launcher.report
    if report is None or report.state is None:
        return None
    if launcher.contact is Contact.CONNECTED:
        return DomainView(report.state, report.reason)
    if report.state in DEAD and report.reason not in NEVER_RAN:
        return DomainView(report.state, report.reason)  # how it ended stays true
    return None


def _state(facts: HandlerFacts, present: VMIPhase) -> LauncherState:
    launcher = facts.launcher
    if launcher.contact is Contact.CONNECTED:
        return LauncherState.READY
    if launcher.contact is Contact.ENDED or _has_ended(facts.pod):
        return LauncherState.UNRESPONSIVE
    # The launcher removes its socket when it ends, and only then.
    gone = present is VMIPhase.RUNNING and launcher.contact is Contact.ABSENT
    return LauncherState.UNRESPONSIVE if gone else LauncherState.STARTING


def _has_ended(pod: Pod | None) -> bool:
    """Whether the kubelet has reported the end of the launcher."""
    if pod is None:
        return False
    deleted = pod.metadata.deletionTimestamp is not None
    return has_ended(pod) or (is_ending(pod) and not deleted)


def _must_stop(facts: HandlerFacts) -> bool:
    """Whether VMI or pod has to go, as the API has it or as the launcher was told.

    The kernel drops a signal to the first process of a pod that has not begun to wait for it: a
    pod that is deleted as it starts never tells its launcher.
    """
    report, pod = facts.launcher.report, facts.pod
    if report is not None and report.marked_since is not None:
        return True
    goes = pod is not None and pod.metadata.deletionTimestamp is not None
    return goes or facts.vmi.metadata.deletionTimestamp is not None


def _stopping(facts: HandlerFacts, planned: HandlerPlan) -> HandlerPlan:
    """Ask the guest to shut down, and end it once its grace period is over."""
    launcher = facts.launcher
    if launcher.contact is not Contact.CONNECTED or not launcher.alive or launcher.report is None:
        return planned
    killed = facts.call(HandlerCall.KILL)
    if killed.sent is not None:  # once ended for good, nothing else is asked of the guest
        return _killing(facts, planned)
    # What the launcher has noted counts once, after a restart: its clock may step, or be made up.
    began = facts.stopping or launcher.report.shutdown_since
    asked = facts.call(HandlerCall.SHUTDOWN)
    step = stop_step(
        grace_period(facts.vmi.spec.terminationGracePeriodSeconds),
        None if began is None else min(began, facts.now),
        asked.sent,
        facts.now,
        can_ask=has_acpi(facts.vmi),
    )
    match step.call:
        case StopCall.KILL:
            return _killing(facts, planned)
        case StopCall.WAIT:
            return _with(planned, look_again=step.look_again)
        case StopCall.SHUTDOWN:
            note = "Signaled Graceful Shutdown"
            event = VMIEvent("Normal", VMIEventReason.SHUTTING_DOWN, note)
            return _with(
                planned,
                HandlerCall.SHUTDOWN,
                look_again=step.look_again,
                call_event=event if step.first else None,
            )


def _killing(facts: HandlerFacts, planned: HandlerPlan) -> HandlerPlan:
    record = facts.call(HandlerCall.KILL)
    due = record.sent + RESEND if record.sent else facts.now
    if facts.now < due:
        return _with(planned, look_again=due - facts.now)
    return _with(planned, HandlerCall.KILL, look_again=RESEND)


def _syncing(facts: HandlerFacts, planned: HandlerPlan) -> HandlerPlan:
    """Have the domain made and started, or resumed after an error."""
    launcher, record = facts.launcher, facts.call(HandlerCall.SYNC)
    if launcher.contact is not Contact.CONNECTED or launcher.report is None:
        return planned
    if record.under_way or record.refused or not _needs_sync(launcher.report, facts.vmi):
        return planned
    due = record.sent + sync_wait(record.tries) if record.sent else facts.now
    if facts.now < due:
        return _with(planned, look_again=due - facts.now)
    return _with(planned, HandlerCall.SYNC)


def _in_time(facts: HandlerFacts, planned: HandlerPlan) -> HandlerPlan:
    """The plan, looked at again when a guest that does not run yet is late."""
    if phase_of(facts.vmi) is not VMIPhase.SCHEDULED:
        return planned
    waits = facts.launcher.due - facts.now
    return replace(planned, look_again=min(planned.look_again or waits, waits))


def _needs_sync(report: DomainReport, vmi: VirtualMachineInstance) -> bool:
    if phase_of(vmi) is VMIPhase.RUNNING:
        # The launcher decides which pause of no user it ends.
        return report.state is LifeCycle.PAUSED and report.paused_by in _NOBODYS
    if report.state is None:
        return True
    return report.state is LifeCycle.SHUTOFF and report.reason in NEVER_RAN


def _after_the_end(facts: HandlerFacts) -> HandlerPlan:
    """A VMI whose end is recorded: nothing of it runs on, and its launcher may end."""
    planned = HandlerPlan(facts.vmi)
    if facts.launcher.contact is not Contact.CONNECTED:
        return planned
    return _killing(facts, planned) if facts.launcher.alive else _deleting(facts, planned)


def _deleting(facts: HandlerFacts, planned: HandlerPlan) -> HandlerPlan:
    record = facts.call(HandlerCall.DELETE)
    if record.succeeded or record.under_way:
        return planned
    due = record.sent + sync_wait(record.tries) if record.sent else facts.now
    if facts.now < due:
        return _with(planned, look_again=due - facts.now)
    event = VMIEvent("Normal", VMIEventReason.DELETED, "Signaled Deletion")
    first = record.sent is None
    return _with(planned, HandlerCall.DELETE, call_event=event if first else None)


def _with(
    planned: HandlerPlan,
    call: HandlerCall | None = None,
    *,
    look_again: timedelta | None = None,
    call_event: VMIEvent | None = None,
) -> HandlerPlan:
    return replace(planned, call=call, look_again=look_again, call_event=call_event)
