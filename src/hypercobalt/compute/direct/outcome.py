"""What became of a move, by what its two hosts report. Pure.

libvirt starts a domain on the target only after the source has given it up, and gives up the
source's only after the target runs. So what runs decides; a host that is silent decides nothing.
"""

from __future__ import annotations

from enum import StrEnum

from hypercobalt.adapters.libvirt.model import Domain


class HostView(StrEnum):
    """How a host has a domain."""

    SILENT = "silent"  # it does not answer
    ABSENT = "absent"
    OFF = "off"
    RUNS = "runs"  # or is paused by its owner
    LEAVES = "leaves"
    ARRIVES = "arrives"
    HELD = "held"  # stopped by a migration that is over


class Outcome(StrEnum):
    """What is to be concluded."""

    UNDER_WAY = "under way"
    UNKNOWN = "unknown"
    ARRIVED = "arrived"
    STAYED = "stayed"
    STAYED_HELD = "stayed, to be resumed"
    TWICE = "runs twice"
    LOST = "lost"


def view_of(domain: Domain | None) -> HostView:
    """How a host that answers has it."""
    if domain is None:
        return HostView.ABSENT
    if not domain.active:
        return HostView.OFF
    if domain.moving_in:
        return HostView.ARRIVES
    if domain.moving_out:
        return HostView.LEAVES
    return HostView.HELD if domain.held else HostView.RUNS


_GONE = {HostView.ABSENT, HostView.OFF}


def decide(source: HostView, target: HostView) -> Outcome:
    """The outcome of a live migration between two hosts."""
    if source is HostView.LEAVES:
        # Also when the target runs it: by post-copy, which an operator may have started, a
        # part of its memory is still on the source.
        return Outcome.UNDER_WAY
    if target is HostView.RUNS:
        return Outcome.TWICE if source is HostView.RUNS else Outcome.ARRIVED
    if target is HostView.LEAVES:
        return Outcome.UNDER_WAY
    if source is HostView.RUNS:
        return Outcome.UNDER_WAY if target is HostView.ARRIVES else Outcome.STAYED
    if source is HostView.HELD and target in _GONE:
        return Outcome.STAYED_HELD
    if source in _GONE and target in _GONE:
        return Outcome.LOST
    return Outcome.UNKNOWN
