"""What became of a move, by what its two hosts say. Pure.

libvirt starts a domain on the target only after the source has given it up, and gives up the
source's only after the target runs. So what runs says it all; a host that is silent is no answer.
"""

from __future__ import annotations

from enum import StrEnum

from hypercobalt.adapters.libvirt.model import Domain


class Sight(StrEnum):
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


def sight(domain: Domain | None) -> Sight:
    """How a host that answers has it."""
    if domain is None:
        return Sight.ABSENT
    if not domain.active:
        return Sight.OFF
    if domain.moving_in:
        return Sight.ARRIVES
    if domain.moving_out:
        return Sight.LEAVES
    return Sight.HELD if domain.held else Sight.RUNS


_GONE = {Sight.ABSENT, Sight.OFF}


def decide(source: Sight, target: Sight) -> Outcome:
    """The outcome of a live migration between two hosts."""
    if source is Sight.LEAVES:
        # Also when the target runs it: by post-copy, which somebody else may have asked for, a
        # part of its memory is still on the source.
        return Outcome.UNDER_WAY
    if target is Sight.RUNS:
        return Outcome.TWICE if source is Sight.RUNS else Outcome.ARRIVED
    if target is Sight.LEAVES:
        return Outcome.UNDER_WAY
    if source is Sight.RUNS:
        return Outcome.UNDER_WAY if target is Sight.ARRIVES else Outcome.STAYED
    if source is Sight.HELD and target in _GONE:
        return Outcome.STAYED_HELD
    if source in _GONE and target in _GONE:
        return Outcome.LOST
    return Outcome.UNKNOWN
