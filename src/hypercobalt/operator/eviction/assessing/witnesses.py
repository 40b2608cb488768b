"""Reads the reports of other hosts' node agents about an instance. Pure.

A live migration may have come to its end on its target while the source died, or while nova-compute
there was restarted: Nova shows the instance on the source for ever then. So its targets are checked
before it is started again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Final

from hypercobalt.api.conditions import is_true
from hypercobalt.api.duration import short_duration
from hypercobalt.api.hypervisor import Hypervisor, is_fenced, lists_all
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType
from hypercobalt.compute.model import Move, MoveKind, Server, ServerStatus
from hypercobalt.operator.eviction.assessing.case import Case
from hypercobalt.operator.eviction.model.states import Sighting

_NOT_THERE_YET: Final = frozenset({"accepted", "queued", "preparing", "pre-migrating"})
"""States of a record in which nothing of the instance can run on the target yet."""


def lacks_guest(server: Server) -> bool:
    """Whether the compute service shows a server as active, and no guest of it."""
    return server.status == ServerStatus.ACTIVE and not (server.running or server.paused)


def targets_to_check(
    servers: Iterable[Server], moves: Iterable[Move], *, source_is_dead: bool
) -> frozenset[str]:
    """Return the hosts on which instances may run though the compute service does not show it."""
    lost = {server.id for server in servers if lacks_guest(server)}
    return frozenset(
        move.target for move in moves if move.target and (source_is_dead or move.server in lost)
    )


def sightings(
    id_: str, moves: Iterable[Move], neighbours: Mapping[str, Hypervisor]
) -> dict[str, Sighting]:
    """Return the reports of the agents on the targets of an instance's moves, by host."""
    targets = {move.target for move in moves if move.target}
    return {target: sighting(id_, neighbours[target]) for target in targets if target in neighbours}


def sighting(id_: str, host: Hypervisor) -> Sighting:
    """Return the report of a host's agent about an instance."""
    if is_fenced(host):
        return Sighting.DEAD
    is_current = _is_current(host)
    if any(instance.id == id_ and instance.active for instance in host.status.instances):
        return Sighting.RUNS if is_current else Sighting.RAN
    return Sighting.ABSENT if is_current and lists_all(host) else Sighting.SILENT


def _is_current(host: Hypervisor) -> bool:
    """Whether the instances in the status are what the host has now.

    While libvirt is away, the agent keeps those that it read last; of one that has read none, the
    API server shows 0 by default.
    """
    wanted = (HypervisorConditionType.AGENT_REPORTING, HypervisorConditionType.LIBVIRT_CONNECTION)
    return all(is_true(host.conditions, type_) for type_ in wanted)


def doubt(case: Case) -> str:
    """Return why an instance of a dead host may run elsewhere all the same; "" when it does not."""
    left = (case.left_over,) if case.left_over else ()
    for move in (*case.seen.moves, *left):
        recent = move.created >= case.about.began
        if move.target and not move.succeeded and (recent or not move.ended):
            quiet_for = case.moment.now - move.updated
            if why := _doubt(case, move, quiet_for):
                return why
    return ""


def _doubt(case: Case, move: Move, quiet_for: timedelta) -> str:
    seen = case.seen.sightings.get(move.target, Sighting.SILENT)
    if seen is Sighting.RUNS:
        return (
            f"runs on {move.target}, as its node agent reports, though the compute service shows "
            "it on the dead host"
        )
    if seen is Sighting.RAN:
        return (
            f"ran on {move.target} by the last report of its node agent, though the compute "
            "service shows it on the dead host"
        )
    if move.ended or move.status in _NOT_THERE_YET:
        return ""
    text = f"its migration to {move.target} was {move.status} when the host died"
    if seen is Sighting.SILENT:
        return f"{text}, and the node agent of {move.target} does not report whether it runs there"
    if move.kind == MoveKind.COLD and quiet_for <= case.policy.stall:
        stall = short_duration(case.policy.stall)
        return f"{text}; waiting until its record has not changed for {stall}"
    return ""
