"""Determines the outcome of a move from the reports of its two hosts. Pure.

libvirt starts a domain on the target only after the source has given it up, and gives up the
source's only after the target runs. So the running domain decides; a silent host decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from hypercobalt.adapters.libvirt.model import Domain
from hypercobalt.adapters.libvirt.vocabulary import ShutoffReason


class HostView(StrEnum):
    """State of a domain on a host."""

    SILENT = "silent"  # it does not answer
    FENCED = "fenced"  # it does not answer either, and is proven dead
    ABSENT = "absent"
    OFF = "off"
    RUNS = "runs"  # or is paused by its owner
    LEAVES = "leaves"
    ARRIVES = "arrives"
    HELD = "held"  # stopped by a migration that is over


class MoveOutcome(StrEnum):
    """Outcome of a move."""

    UNDER_WAY = "under way"
    UNKNOWN = "unknown"
    ARRIVED = "arrived"
    STAYED = "stayed"
    STAYED_HELD = "stayed, to be resumed"
    TWICE = "runs twice"
    LOST = "lost"


def view_of(domain: Domain | None) -> HostView:
    """Return how a host that answers has the domain."""
    if domain is None:
        return HostView.ABSENT
    if not domain.active:
        return HostView.OFF
    if domain.moving_in:
        return HostView.ARRIVES
    if domain.moving_out:
        return HostView.LEAVES
    return HostView.HELD if domain.held else HostView.RUNS


_ENDED_HERE = frozenset(
    {
        ShutoffReason.SHUTDOWN,
        ShutoffReason.DESTROYED,
        ShutoffReason.CRASHED,
        ShutoffReason.FAILED,
    }
)
_OFF = {HostView.ABSENT, HostView.OFF}
_GONE = {*_OFF, HostView.FENCED}


def ended_here(domain: Domain) -> bool:
    """Whether the domain is off and libvirt saw it end there: it has not run elsewhere since."""
    return not domain.active and domain.reason in _ENDED_HERE


def has_it(view: HostView, found: Domain | None) -> bool:
    """Whether a host that answers has the domain, and not only what a migration has left there."""
    if view is HostView.OFF:
        return found is not None and found.reason != ShutoffReason.MIGRATED
    return view not in {HostView.ABSENT, HostView.FENCED, HostView.SILENT}


def decide(source: HostView, target: HostView) -> MoveOutcome:
    """Return the outcome of a live migration between two hosts."""
    if source is HostView.LEAVES:
        # Also when the target runs it: by post-copy, which an operator may have started, a
        # part of its memory is still on the source.
        return MoveOutcome.UNDER_WAY
    if source is HostView.RUNS and target in {HostView.RUNS, HostView.LEAVES}:
        return MoveOutcome.TWICE
    if target is HostView.RUNS:
        return MoveOutcome.ARRIVED
    if target is HostView.LEAVES:
        return MoveOutcome.UNDER_WAY
    if source is HostView.RUNS:
        return MoveOutcome.UNDER_WAY if target is HostView.ARRIVES else MoveOutcome.STAYED
    if source is HostView.HELD and target in _OFF:
        return MoveOutcome.STAYED_HELD
    if source is HostView.HELD and target is HostView.FENCED:
        # It may have run there: its memory here is older than its disks.
        return MoveOutcome.LOST
    if source in _GONE and target in _GONE:
        return MoveOutcome.LOST
    if source is HostView.FENCED and target is HostView.HELD:
        return MoveOutcome.LOST
    return MoveOutcome.UNKNOWN


def holder(views: Mapping[str, HostView]) -> str:
    """Return the first host that reports an active domain, in whatever state; "" for none."""
    without = {*_GONE, HostView.SILENT}
    return next((host for host, view in sorted(views.items()) if view not in without), "")


def silent(views: Mapping[str, HostView]) -> str:
    """Return the first host whose answer is lacking; "" for none."""
    return next((host for host, view in sorted(views.items()) if view is HostView.SILENT), "")


def unanswered(host: str) -> str:
    """Return why nothing is started elsewhere while a host is silent."""
    return f"host {host} does not answer and is not fenced: it may run there"


def why_not(views: Mapping[str, HostView], target: str) -> str:
    """Return why a domain must not start on a host; "" when it runs nowhere, and can run nowhere.

    Args:
        views: how every host of the site has it, by the host's name.
        target: the host; it has to answer.
    """
    if host := holder(views):
        if views[host] is HostView.RUNS:
            return f"it runs on host {host}"
        return f"a migration has left it on host {host} ({views[host]})"
    if host := silent(views):
        return unanswered(host)
    return "" if views.get(target) in _OFF else f"host {target} does not answer"
