"""libvirt's states of a domain, in KubeVirt's words. Pure.

Source: libvirt-domain.h; KubeVirt, pkg/virt-launcher/virtwrap/util (ConvState, ConvReason).
"""

from __future__ import annotations

from typing import Final

from hypercobalt.adapters.libvirt.model import Domain, DomainState
from hypercobalt.adapters.libvirt.vocabulary import CrashedReason, PausedReason, ShutoffReason
from hypercobalt.virt.wire.messages import PausedBy
from hypercobalt.vmi.phases import DomainView, LifeCycle, LifeReason

_STATES: Final = {
    DomainState.NOSTATE: LifeCycle.NO_STATE,
    DomainState.RUNNING: LifeCycle.RUNNING,
    DomainState.BLOCKED: LifeCycle.BLOCKED,
    DomainState.PAUSED: LifeCycle.PAUSED,
    DomainState.SHUTDOWN: LifeCycle.SHUTTING_DOWN,
    DomainState.SHUTOFF: LifeCycle.SHUTOFF,
    DomainState.CRASHED: LifeCycle.CRASHED,
    DomainState.PMSUSPENDED: LifeCycle.PM_SUSPENDED,
}
_SHUTOFF: Final[dict[int, LifeReason]] = {
    ShutoffReason.UNKNOWN: LifeReason.UNKNOWN,
    ShutoffReason.SHUTDOWN: LifeReason.SHUTDOWN,
    ShutoffReason.DESTROYED: LifeReason.DESTROYED,
    ShutoffReason.CRASHED: LifeReason.CRASHED,
    ShutoffReason.MIGRATED: LifeReason.MIGRATED,
    ShutoffReason.SAVED: LifeReason.SAVED,
    ShutoffReason.FAILED: LifeReason.FAILED,
    ShutoffReason.FROM_SNAPSHOT: LifeReason.FROM_SNAPSHOT,
    # libvirtd found QEMU gone when it came back: nobody knows how, so it did not end well.
    ShutoffReason.DAEMON: LifeReason.CRASHED,
}
_PAUSED_BY: Final[dict[int, PausedBy]] = {
    PausedReason.USER: PausedBy.USER,
    PausedReason.MIGRATION: PausedBy.MIGRATION,
    PausedReason.IO_ERROR: PausedBy.IO_ERROR,
}


def view(domain: Domain) -> DomainView:
    """State and reason of a domain.

    libvirt starts each QEMU paused: such a domain neither runs nor is it paused for anybody.
    """
    if domain.state is DomainState.PAUSED and domain.reason == PausedReason.STARTING_UP:
        return DomainView(LifeCycle.NO_STATE)
    return DomainView(_STATES[domain.state], _reason(domain))


NEVER_RAN: Final = frozenset({LifeReason.UNKNOWN, LifeReason.FAILED})
"""Reasons of a domain that is off as it was defined, or whose start failed."""


def settled(
    seen: DomainView, *, has_run: bool, ended: LifeReason | None, panicked: bool = False
) -> DomainView:
    """What is known of a domain beyond what libvirtd has of it now.

    libvirtd has the reasons of domains that are off in memory alone, and none by which a panic
    differs from any other crash.

    Args:
        seen: as libvirtd has it now.
        has_run: it was seen alive before.
        ended: the reason that was seen after that; None: nobody saw how it ended.
        panicked: libvirtd has reported a panic of its guest.
    """
    if panicked and seen == DomainView(LifeCycle.SHUTOFF, LifeReason.CRASHED):
        return DomainView(LifeCycle.SHUTOFF, LifeReason.PANICKED)
    if not has_run or seen.state is not LifeCycle.SHUTOFF or seen.reason not in NEVER_RAN:
        return seen
    return DomainView(LifeCycle.SHUTOFF, ended or LifeReason.CRASHED)


def paused_by(domain: Domain) -> PausedBy:
    """Why a domain is paused, if it is."""
    if domain.state is not DomainState.PAUSED:
        return PausedBy.OTHER
    return _PAUSED_BY.get(domain.reason, PausedBy.OTHER)


def _reason(domain: Domain) -> LifeReason:
    match domain.state:
        case DomainState.SHUTOFF:
            return _SHUTOFF.get(domain.reason, LifeReason.UNKNOWN)
        case DomainState.CRASHED if domain.reason == CrashedReason.PANICKED:
            return LifeReason.PANICKED
        case DomainState.PAUSED if domain.reason == PausedReason.POSTCOPY_FAILED:
            return LifeReason.POSTCOPY_FAILED
        case _:
            return LifeReason.OTHER
