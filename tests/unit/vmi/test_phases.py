"""Phases, by pod and by domain, as tables."""

from __future__ import annotations

from itertools import product

import pytest

from hypercobalt.api.kubevirt.names import CONTROLLER_PHASES, FINAL_PHASES, HANDLER_PHASES
from hypercobalt.api.kubevirt.names import VMIPhase as Phase
from hypercobalt.vmi.phases import (
    DomainView,
    LauncherState,
    LifeCycle,
    LifeReason,
    PodStage,
    phase_by_domain,
    phase_by_pod,
)

P, S = Phase, PodStage
STAGES = (S.STARTING, S.READY, S.UNGUARANTEED, S.ENDING, S.GONE)

# One letter a stage of `STAGES`; p Pending, g Scheduling, d Scheduled, r Running, f Failed, s Succ.
LETTERS = {"p": P.PENDING, "g": P.SCHEDULING, "d": P.SCHEDULED, "r": P.RUNNING, "f": P.FAILED}
LETTERS["s"] = P.SUCCEEDED


@pytest.mark.parametrize(
    ("phase", "kept", "deleted"),
    [
        (P.UNSET, "ggggp", "ggggf"),
        (P.PENDING, "ggggp", "ggggf"),
        (P.SCHEDULING, "gdgff", "gggff"),
        (P.SCHEDULED, "ddddf", "ddddf"),
        (P.RUNNING, "rrrrf", "rrrrf"),
        (P.SUCCEEDED, "sssss", "sssss"),
        (P.FAILED, "fffff", "fffff"),
    ],
)
def test_phase_by_pod(phase: Phase, kept: str, deleted: str) -> None:
    for is_deleted, row in ((False, kept), (True, deleted)):
        found = [phase_by_pod(phase, stage, is_deleted=is_deleted) for stage in STAGES]
        assert found == [LETTERS[letter] for letter in row], is_deleted


C, R = LifeCycle, LifeReason
UNCHANGED = None


@pytest.mark.parametrize(
    ("state", "reasons", "expected"),
    [
        (C.RUNNING, tuple(R), P.RUNNING),
        (C.BLOCKED, tuple(R), P.RUNNING),
        (C.PM_SUSPENDED, tuple(R), P.RUNNING),
        (C.PAUSED, tuple(set(R) - {R.POSTCOPY_FAILED}), P.RUNNING),
        (C.PAUSED, (R.POSTCOPY_FAILED,), P.FAILED),
        (C.SHUTTING_DOWN, tuple(R), UNCHANGED),
        (C.NO_STATE, tuple(R), UNCHANGED),
        (C.SHUTOFF, (R.SHUTDOWN, R.SAVED, R.FROM_SNAPSHOT), P.SUCCEEDED),
        (C.SHUTOFF, (R.CRASHED, R.PANICKED), P.FAILED),
        (C.SHUTOFF, (R.MIGRATED, R.FAILED, R.UNKNOWN, R.OTHER), UNCHANGED),
        (C.CRASHED, tuple(R), P.FAILED),
    ],
)
@pytest.mark.parametrize("phase", sorted(HANDLER_PHASES))
def test_phase_by_domain(
    phase: Phase, state: LifeCycle, reasons: tuple[LifeReason, ...], expected: Phase | None
) -> None:
    for reason, launcher, asks in product(reasons, LauncherState, (True, False)):
        found = phase_by_domain(phase, DomainView(state, reason), launcher, asks_first=asks)
        assert found == (expected or phase), (reason, launcher, asks)


@pytest.mark.parametrize(("asks_first", "expected"), [(True, P.FAILED), (False, P.SUCCEEDED)])
def test_destroyed_domain_failed_only_after_a_shutdown_request(
    asks_first: bool, expected: Phase
) -> None:
    destroyed = DomainView(C.SHUTOFF, R.DESTROYED)
    found = phase_by_domain(P.RUNNING, destroyed, LauncherState.READY, asks_first=asks_first)
    assert found is expected


@pytest.mark.parametrize(
    ("launcher", "scheduled", "running"),
    [
        (LauncherState.STARTING, P.SCHEDULED, P.RUNNING),
        (LauncherState.READY, P.SCHEDULED, P.SCHEDULED),
        (LauncherState.UNRESPONSIVE, P.FAILED, P.FAILED),
    ],
)
def test_phase_without_a_domain(launcher: LauncherState, scheduled: Phase, running: Phase) -> None:
    found = [phase_by_domain(p, None, launcher, asks_first=True) for p in (P.SCHEDULED, P.RUNNING)]
    assert found == [scheduled, running]


@pytest.mark.parametrize("phase", sorted(HANDLER_PHASES))
def test_domain_that_can_never_start_fails(phase: Phase) -> None:
    for domain, launcher in product((None, DomainView(C.SHUTOFF)), LauncherState):
        found = phase_by_domain(phase, domain, launcher, asks_first=True, cannot_start=True)
        assert found is P.FAILED


@pytest.mark.parametrize("phase", sorted(CONTROLLER_PHASES | FINAL_PHASES))
def test_domain_changes_no_phase_that_is_not_the_handlers(phase: Phase) -> None:
    for state, launcher, cannot in product((None, *C), LauncherState, (True, False)):
        domain = DomainView(state, R.CRASHED) if state else None
        found = phase_by_domain(phase, domain, launcher, asks_first=True, cannot_start=cannot)
        assert found is phase


@pytest.mark.parametrize("phase", [P.WAITING_FOR_SYNC, P.UNKNOWN])
def test_phase_that_nothing_here_sets_is_left_alone(phase: Phase) -> None:
    assert phase_by_pod(phase, S.GONE, is_deleted=True) is phase
    assert phase_by_domain(phase, None, LauncherState.UNRESPONSIVE, asks_first=True) is phase
