"""libvirt's states lead to the phases of KubeVirt's table."""

from __future__ import annotations

import pytest

from hypercobalt.adapters.libvirt.model import Domain, DomainState
from hypercobalt.adapters.libvirt.vocabulary import CrashedReason, PausedReason, ShutoffReason
from hypercobalt.virt.launcher.states import paused_by, settled, view
from hypercobalt.virt.wire.messages import PausedBy
from hypercobalt.vmi.phases import DomainView, LifeCycle, LifeReason


def domain(state: DomainState, reason: int = 0) -> Domain:
    return Domain("u", "n", active=True, state=state, reason=reason)


@pytest.mark.parametrize(
    ("state", "reason", "seen"),
    [
        (DomainState.NOSTATE, 0, (LifeCycle.NO_STATE, LifeReason.OTHER)),
        (DomainState.RUNNING, 1, (LifeCycle.RUNNING, LifeReason.OTHER)),
        (DomainState.BLOCKED, 0, (LifeCycle.BLOCKED, LifeReason.OTHER)),
        (DomainState.SHUTDOWN, 1, (LifeCycle.SHUTTING_DOWN, LifeReason.OTHER)),
        (DomainState.PMSUSPENDED, 0, (LifeCycle.PM_SUSPENDED, LifeReason.OTHER)),
        (DomainState.PAUSED, PausedReason.STARTING_UP, (LifeCycle.NO_STATE, LifeReason.OTHER)),
        (DomainState.PAUSED, PausedReason.USER, (LifeCycle.PAUSED, LifeReason.OTHER)),
        (
            DomainState.PAUSED,
            PausedReason.POSTCOPY_FAILED,
            (LifeCycle.PAUSED, LifeReason.POSTCOPY_FAILED),
        ),
        (DomainState.CRASHED, CrashedReason.UNKNOWN, (LifeCycle.CRASHED, LifeReason.OTHER)),
        (DomainState.CRASHED, CrashedReason.PANICKED, (LifeCycle.CRASHED, LifeReason.PANICKED)),
        (DomainState.SHUTOFF, ShutoffReason.UNKNOWN, (LifeCycle.SHUTOFF, LifeReason.UNKNOWN)),
        (DomainState.SHUTOFF, ShutoffReason.SHUTDOWN, (LifeCycle.SHUTOFF, LifeReason.SHUTDOWN)),
        (DomainState.SHUTOFF, ShutoffReason.DESTROYED, (LifeCycle.SHUTOFF, LifeReason.DESTROYED)),
        (DomainState.SHUTOFF, ShutoffReason.CRASHED, (LifeCycle.SHUTOFF, LifeReason.CRASHED)),
        (DomainState.SHUTOFF, ShutoffReason.MIGRATED, (LifeCycle.SHUTOFF, LifeReason.MIGRATED)),
        (DomainState.SHUTOFF, ShutoffReason.SAVED, (LifeCycle.SHUTOFF, LifeReason.SAVED)),
        (DomainState.SHUTOFF, ShutoffReason.FAILED, (LifeCycle.SHUTOFF, LifeReason.FAILED)),
        (DomainState.SHUTOFF, ShutoffReason.DAEMON, (LifeCycle.SHUTOFF, LifeReason.CRASHED)),
        (DomainState.SHUTOFF, 99, (LifeCycle.SHUTOFF, LifeReason.UNKNOWN)),
    ],
)
def test_state_has_its_words(
    state: DomainState, reason: int, seen: tuple[LifeCycle, LifeReason]
) -> None:
    assert view(domain(state, reason)) == DomainView(*seen)


@pytest.mark.parametrize("reason", [LifeReason.UNKNOWN, LifeReason.FAILED])
def test_end_is_remembered_when_libvirtd_has_forgotten_it(reason: LifeReason) -> None:
    forgotten = DomainView(LifeCycle.SHUTOFF, reason)
    assert settled(forgotten, has_run=False, ended=None) == forgotten
    for ended in (LifeReason.SHUTDOWN, LifeReason.DESTROYED):
        known = DomainView(LifeCycle.SHUTOFF, ended)
        assert settled(forgotten, has_run=True, ended=ended) == known
        assert settled(known, has_run=True, ended=LifeReason.CRASHED) == known
    unseen = DomainView(LifeCycle.SHUTOFF, LifeReason.CRASHED)
    assert settled(forgotten, has_run=True, ended=None) == unseen
    running = DomainView(LifeCycle.RUNNING)
    assert settled(running, has_run=True, ended=LifeReason.SHUTDOWN) == running


def test_panic_is_remembered_when_libvirtd_shows_a_crash() -> None:
    crash = DomainView(LifeCycle.SHUTOFF, LifeReason.CRASHED)
    panic = DomainView(LifeCycle.SHUTOFF, LifeReason.PANICKED)
    assert settled(crash, has_run=True, ended=None, panicked=True) == panic
    assert settled(crash, has_run=True, ended=None) == crash
    killed = DomainView(LifeCycle.SHUTOFF, LifeReason.DESTROYED)
    assert settled(killed, has_run=True, ended=None, panicked=True) == killed


def test_only_a_paused_domain_has_a_pauser() -> None:
    shown = {reason: paused_by(domain(DomainState.PAUSED, reason)) for reason in range(20)}
    assert {by for by in shown.values() if by} == {
        PausedBy.USER,
        PausedBy.MIGRATION,
        PausedBy.IO_ERROR,
    }
    assert shown[PausedReason.IO_ERROR] is PausedBy.IO_ERROR
    assert paused_by(domain(DomainState.RUNNING, PausedReason.USER)) is PausedBy.OTHER


def test_every_state_has_a_word() -> None:
    assert {view(domain(state)).state for state in DomainState} == set(LifeCycle)
