"""Chooses the moves that begin now: within the limits, in the order of the policy. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from hypercobalt.compute.model import Capacity, Server, Size
from hypercobalt.operator.eviction.assessing.course import Course
from hypercobalt.operator.eviction.assessing.locks import Lock, is_to_be_locked
from hypercobalt.operator.eviction.assessing.situation import Situation
from hypercobalt.operator.eviction.model.actions import Start
from hypercobalt.operator.eviction.model.decision import Going, Load
from hypercobalt.operator.eviction.model.facts import Need, Networks, need
from hypercobalt.operator.eviction.model.policy import Order, Policy
from hypercobalt.operator.eviction.model.states import (
    Assessment,
    Evacuating,
    Mode,
    Ready,
    Unconfirmed,
)
from hypercobalt.operator.eviction.planning.targets import Reservations, choose

_NOT_CLAIMED: Final = "accepted"
"""State of a record while the target's capacity may not show the move yet."""


def going(instance: Assessment) -> Going:
    """Return where an instance that is on its way goes."""
    move, evacuates = instance.move, isinstance(instance.state, Evacuating)
    if move is None or move.ended:
        target = instance.observed.entry.target or ""
        return Going(target, instance.server, evacuates=evacuates)
    claimed = move.status != _NOT_CLAIMED
    return Going(move.target, instance.server, claimed=claimed, evacuates=evacuates)


def as_of(before: Iterable[Load], situation: Iterable[Load]) -> tuple[Load, ...]:
    """Return what others have under way now, as shown by capacities that were read before."""
    claimed = {id_ for load in before for id_, each in load.servers.items() if each.claimed}
    return tuple(
        replace(
            load,
            servers={
                id_: replace(each, claimed=each.claimed and id_ in claimed)
                for id_, each in load.servers.items()
            },
        )
        for load in situation
    )


@dataclass(frozen=True, slots=True)
class Starts:
    """Moves that begin now.

    Args:
        chosen: moves to begin.
        homeless: instances for which no host has room, each with why, by UUID.
    """

    chosen: tuple[Start, ...] = ()
    homeless: Mapping[str, str] = field(default_factory=dict[str, str])

    def explained(self, instances: Iterable[Assessment]) -> tuple[Assessment, ...]:
        """Return the instances; a homeless one shows why it waits."""
        return tuple(
            replace(instance, state=replace(instance.state, message=self.homeless[instance.id]))
            if instance.id in self.homeless and isinstance(instance.state, Ready)
            else instance
            for instance in instances
        )


def starts(situation: Situation, instances: Sequence[Assessment], others: Sequence[Load]) -> Starts:
    """Choose the moves that begin now; an evacuation locks its server against the owner's actions.

    Args:
        situation: with candidates for the servers of `unplaced`.
        instances: all.
        others: what other Evictions have under way; they keep their servers.
    """
    facts = situation.facts
    begin = choose_starts(
        instances,
        facts.candidates,
        _places(situation, instances, others),
        situation.policy,
        order=situation.order,
        chooses=facts.chooses_target,
        networks=facts.networks,
        others=others,
        limits=_limits(situation),
        evacuates=_evacuates(situation),
    )
    return replace(begin, chosen=tuple(_locking(start, situation) for start in begin.chosen))


def unplaced(
    situation: Situation, instances: Sequence[Assessment], others: Sequence[Load]
) -> tuple[Server, ...]:
    """Return the servers for which the operator must name a target now; none without a place."""
    if not _places(situation, instances, others).free:
        return ()
    return to_be_placed(instances, situation.policy, chooses=situation.facts.chooses_target)


def next_ready(situation: Situation, instances: Iterable[Assessment]) -> Server | None:
    """Return the server whose possible targets must be counted; None if they need not be."""
    if situation.facts.targets is not None or not _is_limited_by_targets(situation):
        return None
    return next((server for server, _ in ready(instances).values()), None)


def load_of(situation: Situation, instances: Iterable[Assessment]) -> Load:
    """Return the moves under way, for the other Evictions; none by the host's report alone."""
    _, host = situation.host()
    under_way = {
        instance.id: going(instance)
        for instance in instances
        if instance.occupies and not isinstance(instance.state, Unconfirmed)
    }
    return Load(host.name, under_way, most=situation.most_at_once)


def _places(
    situation: Situation, instances: Sequence[Assessment], others: Sequence[Load]
) -> Places:
    _, host = situation.host()
    return places(
        instances,
        others,
        situation.policy,
        host=host.name,
        parallelism=situation.facts.eviction.spec.parallelism,
        borne=_borne(situation) if _is_limited_by_targets(situation) else None,
        evacuates=_evacuates(situation),
    )


def _is_limited_by_targets(situation: Situation) -> bool:
    """Whether moves at once are bounded by the target hosts, as no other limit is set."""
    return not (situation.facts.eviction.spec.parallelism or situation.policy.per_target)


def _borne(situation: Situation) -> int | None:
    """Return how many moves the hosts that could take the next instance bear together."""
    targets, limits, lowest = (
        situation.facts.targets,
        _limits(situation),
        situation.policy.per_possible_target,
    )
    if targets is None:
        return None
    return max(sum(limits.get(host, lowest) for host in targets), lowest)


def _limits(situation: Situation) -> Mapping[str, int]:
    """Return the limits that targets have shown; none for an evacuation, which copies nothing."""
    return {} if _evacuates(situation) else situation.facts.limits


def _evacuates(situation: Situation) -> bool:
    return situation.course is Course.EVACUATE


def _locking(start: Start, situation: Situation) -> Start:
    if start.mode is not Mode.EVACUATE:
        return start
    hypervisor, _ = situation.host()
    lock = Lock(situation.facts.eviction.metadata.uid, hypervisor.metadata.uid)
    return replace(start, lock=lock.reason) if is_to_be_locked(start.server, lock) else start


def in_order(servers: Iterable[Server], order: Order) -> list[Server]:
    """Return the servers in order: by priority, then by the policy's order."""

    def key(server: Server) -> tuple[int, bool, int, str]:
        size = server.size.memory_mib
        late = order is Order.URGENT and not server.running
        return -server.priority, late, -size if order is Order.LARGEST else size, server.id

    return sorted(servers, key=key)


@dataclass(frozen=True, slots=True)
class Places:
    """Number of moves that may be under way, and that are.

    Args:
        free: moves that may begin now.
        busy: moves under way away from the host.
    """

    free: int
    busy: int


def places(
    instances: Sequence[Assessment],
    others: Sequence[Load],
    policy: Policy,
    *,
    host: str,
    parallelism: int | None,
    borne: int | None = None,
    evacuates: bool = False,
) -> Places:
    """Count the moves that may begin now.

    Each host that could take instances takes some moves, whether Nova or the operator selects it.
    Evacuations, which copy nothing, and other moves leave each other their places.

    Args:
        instances: all.
        others: what other Evictions have under way.
        policy: limits.
        host: that is emptied.
        parallelism: moves away from it at once; None takes the policy's.
        borne: moves that the hosts that could take the next instance bear together; None where that
            sets no limit.
        evacuates: the moves are evacuations.
    """
    busy = sum(instance.occupies for instance in instances)
    same = sum(len(load.servers) for load in others if load.host == host)
    everywhere = _elsewhere(others, evacuates=evacuates)
    own = (parallelism or policy.per_source) - busy - same
    if borne is not None:
        own = min(own, max(borne - busy - everywhere, 0 if busy else 1))
    return Places(max(min(own, policy.per_cluster - busy - everywhere), 0), busy)


def _elsewhere(others: Sequence[Load], *, evacuates: bool) -> int:
    """Count the moves of others; what a host has beyond its own limit holds no other host up."""
    under_way, most = Counter[str](), dict[str, int]()
    for load in others:
        alike = sum(each.evacuates is evacuates for each in load.servers.values())
        under_way[load.host] += alike
        most[load.host] = max(load.most, most.get(load.host, load.most))
    return sum(min(count, most[host]) for host, count in under_way.items())


def per_target(policy: Policy, *, chooses: bool) -> int:
    """Return the limit of moves to one host at once, where the operator names it; 0 for no limit.

    Args:
        policy: limits.
        chooses: the compute service finds targets itself.
    """
    return policy.per_target or (0 if chooses else policy.per_possible_target)


def ready(instances: Iterable[Assessment]) -> dict[str, tuple[Server, Ready]]:
    """Return the instances with moves that may begin, by UUID."""
    return {
        instance.id: (instance.server, instance.state)
        for instance in instances
        if instance.server is not None and isinstance(instance.state, Ready)
    }


def to_be_placed(
    instances: Iterable[Assessment], policy: Policy, *, chooses: bool
) -> tuple[Server, ...]:
    """Return the servers with moves that may begin, to a host that the operator names.

    Args:
        instances: all.
        policy: limits.
        chooses: the compute service finds targets itself.
    """
    waiting = ready(instances).values()
    return tuple(s for s, state in waiting if _is_named(state, policy, chooses=chooses))


def choose_starts(
    instances: Sequence[Assessment],
    candidates: Mapping[Need, tuple[Capacity, ...]],
    places: Places,
    policy: Policy,
    *,
    order: Order,
    chooses: bool,
    networks: Networks,
    others: Sequence[Load],
    limits: Mapping[str, int],
    evacuates: bool = False,
) -> Starts:
    """Choose the moves that begin now.

    Args:
        instances: all.
        candidates: for the needs of `to_be_placed`.
        places: how many may begin.
        policy: limits.
        order: which go first.
        chooses: the compute service finds targets itself.
        networks: hosts whose networks keep instances out.
        others: what other Evictions have under way; see `_taken`.
        limits: moves at once that targets have shown to bear, where the site sets no limit.
        evacuates: the moves are evacuations.
    """
    taken = _taken(others, evacuates=evacuates)
    reservations = _reserved(instances, others, evacuates=evacuates)
    limit = per_target(policy, chooses=chooses)
    shown: Mapping[str, int] = limits if limit and not policy.per_target else {}
    waiting = {id_: pair for id_, pair in ready(instances).items() if id_ not in taken}
    chosen: list[Start] = []
    homeless: dict[str, str] = {}
    for server in in_order((server for server, _ in waiting.values()), order):
        if len(chosen) >= places.free:
            break
        (_, state), target = waiting[server.id], ""
        if _is_named(state, policy, chooses=chooses):
            fitting = candidates.get(need(server), ())
            taking = networks.taking(state.mode, fitting)
            place = choose(
                server,
                taking,
                reservations,
                avoid=state.avoid,
                latest=state.latest,
                last=networks.unbound,
                per_target=limit,
                limits=shown,
            )
            if place is None and fitting and not taking:
                homeless[server.id] = unbound_text(len(fitting))
                continue
            if place is None:
                homeless[server.id] = no_room(server.size, taking, places.busy + len(chosen))
                continue
            target = place
            reservations.add(server, target)
        chosen.append(Start(server, state.mode, target, state.interrupted))
    return Starts(tuple(chosen), homeless)


def _taken(others: Iterable[Load], *, evacuates: bool) -> set[str]:
    """Return the servers that other Evictions keep.

    A captured host shows any server as leaving it: such a move keeps no server of a dead host. The
    compute service refuses an evacuation of what is on its way, and names the host.
    """
    return {
        server
        for load in others
        for server, each in load.servers.items()
        if each.evacuates or not evacuates
    }


def no_room(size: Size, candidates: Sequence[Capacity], busy: int) -> str:
    """Return why an instance has no place."""
    wanted = f"{size.vcpus:g} vCPUs, {size.memory_mib} MiB"
    wanted += f" and {size.disk_gib} GiB of local disk" if size.disk_gib else ""
    later = "; waiting for running migrations" if busy else ""
    return f"none of {len(candidates)} candidate hosts has capacity for {wanted}{later}"


def unbound_text(count: int) -> str:
    """Return why a running instance waits though hosts have capacity for it."""
    return (
        f"OVN binds no ports on any of {count} candidate hosts (NetworkHealthy of their "
        "Hypervisors); waiting until ovn-controller is connected there"
    )


def _is_named(state: Ready, policy: Policy, *, chooses: bool) -> bool:
    """Whether the operator names the target: without a scheduler, for a limit, to try elsewhere."""
    return not chooses or policy.per_target > 0 or bool(state.avoid)


def _reserved(
    instances: Sequence[Assessment], others: Sequence[Load], *, evacuates: bool
) -> Reservations:
    reservations = Reservations()
    under_way = [each for load in others for each in load.servers.values()]
    under_way += [going(instance) for instance in instances if instance.occupies]
    for each in under_way:
        if not each.target:
            continue
        if each.evacuates is evacuates:
            reservations.moves[each.target] += 1
        if each.server is not None and not each.claimed:
            reservations.claim(each.server, each.target)
    return reservations
