"""What the controller remembers of each Eviction between passes. A crash loses it without harm.

The truth is the compute service and the status. What is here times waits, keeps writes apart, and
tells each Eviction what the others have under way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hypercobalt.api.conditions import is_true
from hypercobalt.api.eviction import Eviction, EvictionStatus, InstancePhase
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType
from hypercobalt.compute.model import Host
from hypercobalt.operator.eviction.estimate import Pace, Sample
from hypercobalt.operator.eviction.follow import Moment, Standing
from hypercobalt.operator.eviction.observer import Found
from hypercobalt.operator.eviction.plan import Going, Load
from hypercobalt.operator.eviction.progress import Track

_HOST_AGE: Final = 10.0  # seconds; a host's state changes by hand


@dataclass(slots=True)
class Memory:
    """Of one Eviction.

    Attributes:
        host: as the compute service last told of it, at `host_at`.
        tracks: of each instance.
        sizes: memory in MiB of every instance that was seen.
        begun: when each move under way was first seen, by the clock that never steps.
        ended: how long moves took.
        status: as decided last; newer than what is written.
        written_at: when it was written last; -inf: never by this process.
        counted_since: since when the compute service counts what it does not list.
        unknown_since: since when it knows no such host, though moves have begun.
        load: what is under way.
        found: what the last look at the servers has found, if only the end of a move makes a
            difference to it.
        found_at: when that was.
        targets: hosts that could take the next instance.
        targets_at: when they were counted.
    """

    uid: str
    host: Host | None = None
    host_at: float = float("-inf")
    tracks: dict[str, Track] = field(default_factory=dict[str, Track])
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    begun: dict[str, float] = field(default_factory=dict[str, float])
    ended: list[Sample] = field(default_factory=list[Sample])
    status: EvictionStatus | None = None
    written_at: float = float("-inf")
    counted_since: float | None = None
    unknown_since: float | None = None
    load: Load | None = None
    found: Found | None = None
    found_at: float = float("-inf")
    targets: int = 0
    targets_at: float = float("-inf")

    def doubts_host(self, hypervisor: Hypervisor, moment: Moment) -> bool:
        """Whether the host may not be as it was: in time, and once a condition says otherwise."""
        disabled = is_true(hypervisor.conditions, HypervisorConditionType.HYPERVISOR_DISABLED)
        says_otherwise = disabled and self.host is not None and self.host.enabled
        return says_otherwise or moment.at - self.host_at > _HOST_AGE

    def time(self, standings: Iterable[Standing], moment: Moment) -> None:
        """Take in which moves are under way, and which have ended."""
        for standing in standings:
            if standing.seen.server is not None:
                self.sizes[standing.id] = standing.seen.server.size.memory_mib
            if standing.occupies:
                self.begun.setdefault(standing.id, moment.at)
                continue
            begun = self.begun.pop(standing.id, None)
            if begun is not None and standing.phase in {
                InstancePhase.SUCCEEDED,
                InstancePhase.CONFIRMING,
            }:
                size = self.sizes.get(standing.id, 0)
                self.ended.append(Sample(size, _lasted(standing, moment.at - begun)))

    def running(self, moment: Moment) -> list[Sample]:
        """The moves under way."""
        return [
            Sample(self.sizes.get(id_, 0), moment.at - begun) for id_, begun in self.begun.items()
        ]

    def soonest(self, pace: Pace, moment: Moment) -> float:
        """Seconds until the first of the moves under way should end, by the pace."""
        return min(
            (
                pace.seconds(self.sizes.get(id_, 0)) - (moment.at - begun)
                for id_, begun in self.begun.items()
            ),
            default=0.0,
        )

    def recall(self, status: EvictionStatus) -> None:
        """After a restart, take the pace from what is written."""
        for entry in status.instances:
            times = entry.startedAt, entry.finishedAt
            if entry.phase == InstancePhase.SUCCEEDED and entry.attempts and all(times):
                started, finished = times
                if started and finished:
                    seconds = max((finished - started).total_seconds(), 0.5)
                    self.ended.append(Sample(0, seconds))


class Memories:
    """Of all Evictions."""

    def __init__(self) -> None:
        self._by_name: dict[str, Memory] = {}

    def of(self, eviction: Eviction) -> Memory:
        """What is remembered of an Eviction; of an earlier one of that name nothing is."""
        meta = eviction.metadata
        known = self._by_name.get(meta.name)
        if known is None or known.uid != meta.uid:
            known = self._by_name[meta.name] = Memory(meta.uid)
            known.recall(eviction.status)
        return known

    def forget(self, name: str) -> None:
        """There is no such Eviction any more, or it is over."""
        self._by_name.pop(name, None)

    def others(self, evictions: Iterable[Eviction], name: str) -> tuple[Load, ...]:
        """What the other Evictions have under way.

        One that this process has not looked at yet counts as its status says.
        """
        found: list[Load] = []
        for eviction in evictions:
            other = eviction.metadata.name
            if other == name:
                continue
            memory = self._by_name.get(other)
            if memory is not None and memory.uid == eviction.metadata.uid and memory.load:
                found.append(memory.load)
            else:
                found.append(Load(eviction.spec.hypervisor, _moving(eviction.status)))
        return tuple(load for load in found if load.servers)


def _lasted(standing: Standing, seen: float) -> float:
    """Seconds that a move took, by its record: that it has ended is seen late.

    When to look for the next end depends on it, so a lag that counted would lead to a longer one.
    """
    move = standing.seen.move
    recorded = (move.updated - move.created).total_seconds() if move is not None else 0.0
    return min(recorded, seen) if recorded > 0 else seen


def _moving(status: EvictionStatus) -> Mapping[str, Going]:
    return {
        entry.id: Going(entry.target or "")
        for entry in status.instances
        if entry.phase == InstancePhase.MIGRATING
    }
