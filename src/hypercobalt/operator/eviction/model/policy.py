"""Choices of a site for its evictions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import Final

from hypercobalt.api.eviction import Eviction, Trigger

_MAX_DOUBLINGS: Final = 16
"""Keeps a wait below what a `timedelta` holds: moves that others have begun are attempts, too."""


class Order(StrEnum):
    """Which instances go first."""

    LARGEST = "largest"
    """Those with most memory: all are done soonest."""
    SMALLEST = "smallest"
    """Those with least memory: after a given time most have left."""
    URGENT = "urgent"
    """Running ones first, the smallest first: when the host may go at any moment."""


class Doubt(StrEnum):
    """What to do when preflight expects that not every instance can be moved."""

    WARN = "warn"
    """Report it, and move those that can be."""
    STOP = "stop"
    """Move nothing until the checks pass."""


class StuckHelp(StrEnum):
    """What to do first for a live migration without progress."""

    FORCE = "force"
    """Have the service complete it: it pauses the instance, or fetches its memory afterwards."""
    NONE = "none"
    """Nothing: it is aborted and tried elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Limits and choices.

    Args:
        per_source: moves away from one host at once; `spec.parallelism` replaces it.
        per_target: moves to one host at once, each to a target that is named; 0 leaves the targets
            to the compute service, and begins `per_possible_target` for each.
        per_possible_target: moves at once for each host that could take the next instance, until it
            has shown that it bears more; to each of them where the targets are ours to name.
            `spec.parallelism` goes before it.
        most_per_possible_target: limit to which `per_possible_target` may rise.
        per_cluster: moves at once, over all Evictions; and as many evacuations, which count apart.
        order: which instances go first; a shutdown of the host is always urgent.
        doubt: what to do when preflight is in doubt.
        stuck_help: what to do first for a live migration without progress.
        attempts: how often a move is begun before it is given up.
        evacuation_attempts: the same for an evacuation, for ten minutes: its instance is down, and
            remains of a dead host, such as locks of its disks, pass by themselves.
        stall: a live migration whose remaining memory has not become less for so long is stuck.
        longest: a move that reports no progress, or whose disks are still copied, is
            stuck after so long without any. After an abort the disks are copied again.
        patience: how long to wait for an instance that can be moved later (it is being built …).
        retry_after: wait before another attempt, doubled with each.
        longest_retry: upper bound of that wait.
        settle: how long after a live move has failed its server may still change: Nova 34 shows it
            as ACTIVE first, then in ERROR.
        unsure: after a call whose outcome is not known, how long to look before it is repeated.
        evacuations: from one dead host at once; `spec.parallelism` replaces it. Nothing is copied,
            so neither source nor targets bear more than the start of a guest.
        restarts: failed restarts after which an instance is moved, where it may be.
        restart_waits: before the second restart, the third …; after the last one it is given up,
            where it may not be moved.
        restart_within: how long a restart may take.
        power_lag: how long the compute service may show a dead instance as running: Nova
            waits 15 s after libvirt's event.
        report_lag: how long the node agent may take to report that an instance has died: it changes
            the incidents in its status once in five seconds.
        planned_within: how long before an incident its owner may have made the request that led to
            it.
    """

    per_source: int = 10
    per_target: int = 0
    per_possible_target: int = 2
    most_per_possible_target: int = 10
    per_cluster: int = 50
    order: Order = Order.LARGEST
    doubt: Doubt = Doubt.WARN
    stuck_help: StuckHelp = StuckHelp.FORCE
    attempts: int = 3
    evacuation_attempts: int = 12
    stall: timedelta = timedelta(seconds=150)
    longest: timedelta = timedelta(hours=1)
    patience: timedelta = timedelta(minutes=10)
    retry_after: timedelta = timedelta(seconds=5)
    longest_retry: timedelta = timedelta(seconds=60)
    settle: timedelta = timedelta(seconds=3)
    unsure: timedelta = timedelta(seconds=10)
    evacuations: int = 20
    restarts: int = 2
    restart_waits: tuple[timedelta, ...] = tuple(timedelta(seconds=s) for s in (10, 30, 120))
    restart_within: timedelta = timedelta(seconds=120)
    power_lag: timedelta = timedelta(seconds=20)
    report_lag: timedelta = timedelta(seconds=12)
    planned_within: timedelta = timedelta(minutes=2)

    def restart_wait(self, attempts: int) -> float:
        """Return the seconds to wait after a number of failed restarts."""
        return self.restart_waits[min(attempts, len(self.restart_waits)) - 1].total_seconds()

    def retry_wait(self, attempts: int) -> float:
        """Return the seconds to wait after a number of failed attempts."""
        doubled = self.retry_after * 2.0 ** min(max(0, attempts - 1), _MAX_DOUBLINGS)
        return min(doubled, self.longest_retry).total_seconds()

    def most_attempts(self, *, evacuates: bool) -> int:
        """Return how often a move is begun before it is given up."""
        return self.evacuation_attempts if evacuates else self.attempts

    @property
    def for_evacuation(self) -> Policy:
        """Return the policy for a dead host: other limits, and startable instances do not wait."""
        return replace(
            self,
            per_source=self.evacuations,
            per_possible_target=self.evacuations,
            most_per_possible_target=self.evacuations,
            doubt=Doubt.WARN,
        )


_URGENT: Final = frozenset({Trigger.HOST_SHUTDOWN, Trigger.NODE_FAILURE})


def order_of(eviction: Eviction, policy: Policy) -> Order:
    """Return the order of instances; when urgent, running ones first, and as many as possible."""
    return Order.URGENT if eviction.spec.trigger in _URGENT else policy.order
