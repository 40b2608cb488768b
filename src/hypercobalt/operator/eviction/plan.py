"""Which moves begin now: within the limits, in the order of the policy. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hypercobalt.compute.model import Capacity, Server, Size
from hypercobalt.operator.eviction.follow import Standing, Step
from hypercobalt.operator.eviction.policy import Order, Policy
from hypercobalt.operator.eviction.targets import Need, Promises, choose, need

_NOT_CLAIMED: Final = "accepted"
"""State of a record while the target's room may not tell of the move yet."""


@dataclass(frozen=True, slots=True)
class Going:
    """A move under way.

    Args:
        target: "" where none is known.
        server: None where only its UUID is known.
        claimed: the target's room tells of it.
    """

    target: str = ""
    server: Server | None = None
    claimed: bool = False


@dataclass(frozen=True, slots=True)
class Load:
    """What another Eviction has under way.

    Args:
        host: that it empties.
        servers: by UUID.
    """

    host: str
    servers: Mapping[str, Going]


def going(standing: Standing) -> Going:
    """Where an instance that is on its way goes."""
    move = standing.seen.move
    if move is None or move.ended:
        return Going(standing.seen.entry.target or "", standing.seen.server)
    return Going(move.target, standing.seen.server, claimed=move.status != _NOT_CLAIMED)


def as_of(before: Iterable[Load], now: Iterable[Load]) -> tuple[Load, ...]:
    """What others have under way now, as rooms tell of it that were asked for before."""
    claimed = {id_ for load in before for id_, each in load.servers.items() if each.claimed}
    return tuple(
        replace(
            load,
            servers={
                id_: replace(each, claimed=each.claimed and id_ in claimed)
                for id_, each in load.servers.items()
            },
        )
        for load in now
    )


@dataclass(frozen=True, slots=True)
class Start:
    """A move to begin.

    Args:
        server: which.
        live: by live migration; else cold.
        target: "" leaves it to the compute service.
    """

    server: Server
    live: bool
    target: str


@dataclass(frozen=True, slots=True)
class Starts:
    """What begins now.

    Args:
        chosen: moves to begin.
        standings: all, with what those that wait for a place are told.
    """

    chosen: tuple[Start, ...]
    standings: tuple[Standing, ...]


def in_order(servers: Iterable[Server], order: Order) -> list[Server]:
    """The servers, those that go first in front."""

    def key(server: Server) -> tuple[bool, int, str]:
        size = server.size.memory_mib
        late = order is Order.URGENT and not server.running
        return late, -size if order is Order.LARGEST else size, server.id

    return sorted(servers, key=key)


@dataclass(frozen=True, slots=True)
class Places:
    """How many moves may be under way, and are.

    Args:
        free: moves that may begin now.
        busy: those under way away from the host.
    """

    free: int
    busy: int


def places(
    standings: Sequence[Standing],
    others: Sequence[Load],
    policy: Policy,
    *,
    host: str,
    parallelism: int | None,
    targets: int | None = None,
) -> Places:
    """Count the moves that may begin now.

    Hosts that could take instances bear some moves each, whoever chooses among them.

    Args:
        standings: of every instance.
        others: what other Evictions have under way.
        policy: limits.
        host: that is emptied.
        parallelism: moves away from it at once; None takes the policy's.
        targets: hosts that could take the next instance; None where that sets no limit.
    """
    busy = sum(standing.occupies for standing in standings)
    same = sum(len(load.servers) for load in others if load.host == host)
    everywhere = sum(len(load.servers) for load in others)
    own = (parallelism or policy.per_source) - busy - same
    if targets is not None:
        borne = max(targets, 1) * policy.per_possible_target
        own = min(own, max(borne - busy - everywhere, 0 if busy else 1))
    return Places(max(min(own, policy.per_cluster - busy - everywhere), 0), busy)


def per_target(policy: Policy, *, chooses: bool) -> int:
    """Moves to one host at once, where we name it; 0 for any number.

    Args:
        policy: limits.
        chooses: the compute service finds targets itself.
    """
    return policy.per_target or (0 if chooses else policy.per_possible_target)


def needs_rooms(standings: Sequence[Standing], policy: Policy, *, chooses: bool) -> set[Need]:
    """Needs for which rooms must be known before anything begins.

    Args:
        standings: of every instance.
        policy: limits.
        chooses: the compute service finds targets itself.
    """
    return {
        need(standing.seen.server)
        for standing in standings
        if standing.step is Step.START
        and standing.seen.server is not None
        and _is_named(standing, policy, chooses=chooses)
    }


def plan(
    standings: Sequence[Standing],
    rooms: Mapping[Need, tuple[Capacity, ...]],
    places: Places,
    policy: Policy,
    *,
    order: Order,
    chooses: bool,
    others: Sequence[Load] = (),
) -> Starts:
    """Choose the moves that begin now.

    Args:
        standings: of every instance.
        rooms: for the needs of `needs_rooms`.
        places: how many may begin.
        policy: limits.
        order: which go first.
        chooses: the compute service finds targets itself.
        others: what other Evictions have under way; they keep their servers.
    """
    taken = {server for load in others for server in load.servers}
    promises, limit = _promised(standings, others), per_target(policy, chooses=chooses)
    ready = {
        standing.id: standing
        for standing in standings
        if standing.step is Step.START and standing.id not in taken
    }
    chosen: list[Start] = []
    told: dict[str, str] = {}
    for server in in_order((s.seen.server for s in ready.values() if s.seen.server), order):
        if len(chosen) >= places.free:
            break
        standing, target = ready[server.id], ""
        if _is_named(standing, policy, chooses=chooses):
            fitting = rooms.get(need(server), ())
            found = choose(server, fitting, promises, avoid=standing.avoid, per_target=limit)
            if found is None:
                told[server.id] = no_room(server.size, fitting, places.busy + len(chosen))
                continue
            target = found
            promises.add(server, target)
        chosen.append(Start(server, standing.live, target))
    return Starts(
        tuple(chosen),
        tuple(replace(s, message=told[s.id]) if s.id in told else s for s in standings),
    )


def no_room(size: Size, rooms: Sequence[Capacity], busy: int) -> str:
    """What an instance without a place is told."""
    wanted = f"{size.vcpus:g} vCPUs, {size.memory_mib} MiB"
    wanted += f" and {size.disk_gib} GiB of local disk" if size.disk_gib else ""
    later = "; it waits for moves under way" if busy else ""
    return f"none of {len(rooms)} possible hosts has room for {wanted}{later}"


def _is_named(standing: Standing, policy: Policy, *, chooses: bool) -> bool:
    """Whether we say where it goes: where nobody else does, for a limit, to try elsewhere."""
    return not chooses or policy.per_target > 0 or bool(standing.avoid)


def _promised(standings: Sequence[Standing], others: Sequence[Load]) -> Promises:
    promises = Promises()
    under_way = [each for load in others for each in load.servers.values()]
    under_way += [going(standing) for standing in standings if standing.occupies]
    for each in under_way:
        if not each.target:
            continue
        if each.server is None or each.claimed:
            promises.moves[each.target] += 1
        else:
            promises.add(each.server, each.target)
    return promises
