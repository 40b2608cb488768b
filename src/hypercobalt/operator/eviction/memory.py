"""The controller's memory of each Eviction between passes. A crash loses it without harm.

The truth is the compute service and the status. This memory times waits, keeps writes apart, and
shows each Eviction the moves of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hypercobalt.api.eviction import Eviction, EvictionStatus, InstancePhase, has_ended
from hypercobalt.compute.model import Host, Move, Server
from hypercobalt.operator.eviction.assessing.deaths import Death
from hypercobalt.operator.eviction.model.claims import Claim
from hypercobalt.operator.eviction.model.decision import Going, Load
from hypercobalt.operator.eviction.model.policy import Policy
from hypercobalt.operator.eviction.model.tracks import Begun, Track
from hypercobalt.operator.eviction.planning.estimate import Timings
from hypercobalt.operator.eviction.planning.target_limits import (
    Bearing,
    EndedMove,
    limit_of,
    with_end,
)

_NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class Listing:
    """Servers on a host and moves away from it, as last listed.

    Args:
        deaths: that its node agent had reported then.
    """

    servers: tuple[Server, ...]
    moves: tuple[Move, ...]
    deaths: frozenset[Death] = frozenset()

    def goes_on_as(self, moves: Iterable[Move], begun: Iterable[str] = ()) -> bool:
        """Whether every move that was under way still is: new ones may have begun.

        Args:
            moves: records as they are now.
            begun: servers whose moves were begun since, and had no record: they have one now.
        """
        going = [move for move in moves if not move.ended]
        ids, servers = {move.id for move in going}, {move.server for move in going}
        still = all(move.ended or move.id in ids for move in self.moves)
        return still and servers.issuperset(begun)

    def explains(self, moves: Iterable[Move], servers: Iterable[Server]) -> bool:
        """Whether moves that were read before the servers show how each missing one has left.

        A record that is new, or was open, is of a move that may have taken its server along.
        """
        over = {move.id for move in self.moves if move.ended}
        moved = {move.server for move in moves if move.id not in over}
        return {server.id for server in self.servers} <= moved | {server.id for server in servers}


@dataclass(slots=True)
class Memory:
    """Memory of one Eviction.

    Attributes:
        host: the host as the compute service last reported it, at `host_at`.
        tracks: of each instance.
        timings: of its moves.
        status: as decided last; newer than what is written.
        written_at: when it was written last; -inf: never by this process.
        lingered: the compute service has counted servers that it does not list.
        counted_since: since when it counts such servers; None while it does not.
        unknown_since: since when the compute service has no such host, though moves have begun.
        load: moves under way.
        listing: the last one, if only the end of a move makes a difference to it.
        listed_at: when the servers were listed last.
        targets: hosts that could take the next instance, read at `targets_at`.
        claims: of other hosts on its instances, as they were shown last.
        noted: how many claims there were so far.
    """

    uid: str
    host: Host | None = None
    host_at: float = _NEVER
    tracks: dict[str, Track] = field(default_factory=dict[str, Track])
    timings: Timings = field(default_factory=Timings)
    status: EvictionStatus | None = None
    written_at: float = _NEVER
    lingered: bool = False
    counted_since: float | None = None
    unknown_since: float | None = None
    load: Load | None = None
    listing: Listing | None = None
    listed_at: float = _NEVER
    targets: tuple[str, ...] = ()
    targets_at: float = _NEVER
    claims: frozenset[Claim] = frozenset()
    noted: int = 0

    @property
    def begun(self) -> frozenset[str]:
        """Servers whose moves were begun, of which no record was seen yet."""
        return frozenset(
            id_ for id_, track in self.tracks.items() if isinstance(track.follows, Begun)
        )

    def counted(self, at: float, *, lingering: bool) -> bool:
        """Record whether servers are counted but not listed, and return whether that is new."""
        if not lingering:
            self.counted_since = None
            return False
        is_new, self.lingered = self.counted_since is None, True
        self.counted_since = at if self.counted_since is None else self.counted_since
        return is_new


class Memories:
    """Memory of all Evictions.

    Args:
        policy: of the site.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._by_name: dict[str, Memory] = {}
        self._targets: dict[str, Bearing] = {}

    def of(self, eviction: Eviction) -> Memory:
        """Return the memory of an Eviction; an earlier one of the same name has none."""
        meta = eviction.metadata
        known = self._by_name.get(meta.name)
        if known is None or known.uid != meta.uid:
            known = self._by_name[meta.name] = Memory(meta.uid)
            known.timings.recall(eviction.status)
        return known

    def forget(self, name: str) -> None:
        """Drop the memory of an Eviction that is deleted or has ended."""
        self._by_name.pop(name, None)

    def others(self, evictions: Iterable[Eviction], name: str) -> tuple[Load, ...]:
        """Return what the other Evictions have under way.

        One that this process has not looked at yet counts by its status.
        """
        loads: list[Load] = []
        for eviction in evictions:
            other = eviction.metadata.name
            if other == name or has_ended(eviction.status):
                continue
            memory = self._by_name.get(other)
            if memory is not None and memory.uid == eviction.metadata.uid and memory.load:
                loads.append(memory.load)
            else:
                loads.append(self._by_status(eviction))
        return tuple(load for load in loads if load.servers)

    def _by_status(self, eviction: Eviction) -> Load:
        spec, under_way = eviction.spec, _moving(eviction.status)
        evacuates = any(each.evacuates for each in under_way.values())
        policy = self._policy.for_evacuation if evacuates else self._policy
        return Load(spec.hypervisor, under_way, most=spec.parallelism or policy.per_source)

    def ended(self, moves: Iterable[EndedMove], at: float) -> None:
        """Record ended moves of any Eviction, to learn how many their targets bear."""
        for move in moves:
            known = self._targets.get(move.target)
            self._targets[move.target] = with_end(known, move, self._policy, at)

    def limits(self, at: float) -> Mapping[str, int]:
        """Return how many moves at once each target bears, where it has shown that."""
        return {host: limit_of(known, self._policy, at) for host, known in self._targets.items()}


def _moving(status: EvictionStatus) -> Mapping[str, Going]:
    return {
        entry.id: Going(entry.target or "", evacuates=entry.phase == InstancePhase.EVACUATING)
        for entry in status.instances
        if entry.phase in {InstancePhase.MIGRATING, InstancePhase.EVACUATING}
    }
