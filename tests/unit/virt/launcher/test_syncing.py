"""What a Sync does, as a table: a guest is started at most once."""

from __future__ import annotations

import itertools

import pytest

from hypercobalt.adapters.libvirt.model import Domain, DomainState
from hypercobalt.adapters.libvirt.vocabulary import PausedReason, ShutoffReason
from hypercobalt.api.kubevirt.names import FINAL_PHASES, VMIPhase
from hypercobalt.virt.launcher.syncing import SyncFacts, SyncPlan, sync_plan

SCHEDULED, RUNNING = VMIPhase.SCHEDULED, VMIPhase.RUNNING
OFF = DomainState.SHUTOFF
START, RESUME, NOTHING = SyncPlan(start=True), SyncPlan(resume=True), SyncPlan()
MAKE = SyncPlan(define=True, start=True)


def domain(state: DomainState, reason: int = 0) -> Domain:
    active = state is not OFF
    return Domain("u", "lab_guest", active=active, state=state, reason=reason)


@pytest.mark.parametrize(
    ("phase", "found", "plan"),
    [
        (SCHEDULED, None, MAKE),
        (RUNNING, None, NOTHING),
        (SCHEDULED, domain(OFF, ShutoffReason.UNKNOWN), START),
        (SCHEDULED, domain(OFF, ShutoffReason.FAILED), START),
        (RUNNING, domain(OFF, ShutoffReason.UNKNOWN), NOTHING),
        (RUNNING, domain(OFF, ShutoffReason.FAILED), NOTHING),
        (SCHEDULED, domain(OFF, ShutoffReason.SHUTDOWN), NOTHING),
        (SCHEDULED, domain(OFF, ShutoffReason.DESTROYED), NOTHING),
        (SCHEDULED, domain(OFF, ShutoffReason.CRASHED), NOTHING),
        (SCHEDULED, domain(OFF, ShutoffReason.DAEMON), NOTHING),
        (SCHEDULED, domain(OFF, ShutoffReason.MIGRATED), NOTHING),
        (SCHEDULED, domain(DomainState.CRASHED), NOTHING),
        (SCHEDULED, domain(DomainState.SHUTDOWN), NOTHING),
        (RUNNING, domain(DomainState.RUNNING), NOTHING),
        (RUNNING, domain(DomainState.PMSUSPENDED), NOTHING),
        (RUNNING, domain(DomainState.PAUSED, PausedReason.USER), NOTHING),
        (SCHEDULED, domain(DomainState.PAUSED, PausedReason.USER), NOTHING),
        (RUNNING, domain(DomainState.PAUSED, PausedReason.UNKNOWN), NOTHING),
        (RUNNING, domain(DomainState.PAUSED, PausedReason.MIGRATION), NOTHING),
        (RUNNING, domain(DomainState.PAUSED, PausedReason.POSTCOPY_FAILED), NOTHING),
        (RUNNING, domain(DomainState.PAUSED, PausedReason.STARTING_UP), NOTHING),
        (RUNNING, domain(DomainState.PAUSED, PausedReason.IO_ERROR), RESUME),
        (SCHEDULED, domain(DomainState.PAUSED, PausedReason.API_ERROR), RESUME),
        (RUNNING, domain(DomainState.PAUSED, PausedReason.WATCHDOG), RESUME),
    ],
)
def test_sync_does_what_the_domain_lacks(
    phase: VMIPhase, found: Domain | None, plan: SyncPlan
) -> None:
    assert sync_plan(SyncFacts(phase, found)) == plan
    assert sync_plan(SyncFacts(phase, found, ending=True)) == NOTHING
    again = sync_plan(SyncFacts(phase, found, has_run=True))
    assert again == SyncPlan(resume=plan.resume)
    for final in FINAL_PHASES:
        assert sync_plan(SyncFacts(final, found)) == NOTHING


def test_domain_that_has_run_is_never_started() -> None:
    for phase, state, reason in itertools.product(VMIPhase, DomainState, range(16)):
        plan = sync_plan(SyncFacts(phase, domain(state, reason)))
        ran = state is not OFF or reason not in {ShutoffReason.UNKNOWN, ShutoffReason.FAILED}
        assert not (plan.start and ran)
        assert not plan.define
