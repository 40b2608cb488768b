"""Reads where the instances are that have left, past every cache.

Cost: nothing for those that their new host's node agent reports to run, but one call for all of
them, since it does not know which of them the compute service has in ERROR. For the others one
listing of each host that they went to, and one call for each that is not there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from hypercobalt.api.hypervisor import Hypervisor, is_claimed
from hypercobalt.compute.errors import ComputeError
from hypercobalt.compute.model import Move, Server, ServerStatus
from hypercobalt.compute.port import ComputeService
from hypercobalt.operator.eviction.assessing.arrivals import ran_when_it_left
from hypercobalt.operator.eviction.assessing.situation import Situation
from hypercobalt.operator.eviction.assessing.witnesses import sighting
from hypercobalt.operator.eviction.model.facts import Facts
from hypercobalt.operator.eviction.model.states import Sighting
from hypercobalt.operator.eviction.model.whereabouts import Whereabouts
from hypercobalt.operator.shared.node_facts import host_names


def expected(facts: Facts, left: Iterable[str]) -> Mapping[str, str]:
    """Return where each instance has gone by its newest move; "" where nothing shows it."""
    targets = {entry.id: entry.target or "" for entry in facts.status.instances}
    for move in reversed(facts.moves):
        if move.succeeded and move.target:
            targets[move.server] = move.target
    return {id_: targets.get(id_, "") for id_ in left}


def ran(situation: Situation, left: Collection[str]) -> frozenset[str]:
    """Return those of the instances that ran when they left."""
    facts, moves = situation.facts, defaultdict[str, list[Move]](list)
    for move in facts.moves:
        moves[move.server].append(move)
    return frozenset(
        entry.id
        for entry in facts.status.instances
        if entry.id in left
        and ran_when_it_left(entry, moves[entry.id], counts_entry=not situation.recovers)
    )


def reported(
    targets: Mapping[str, str], hypervisors: Iterable[Hypervisor]
) -> dict[str, Whereabouts]:
    """Return the instances that the node agents of their new hosts report to run.

    Args:
        targets: names of the hosts in the compute service, by UUID of the instance.
        hypervisors: all that are known.
    """
    wanted = defaultdict[str, list[str]](list)
    for id_, target in targets.items():
        wanted[target].append(id_)
    return {
        id_: Whereabouts(runs_on=name)
        for hypervisor in hypervisors
        if not is_claimed(hypervisor)
        for name in host_names(hypervisor)
        for id_ in wanted.get(name, ())
        if sighting(id_, hypervisor) is Sighting.RUNS
    }


@dataclass(slots=True)
class _Found:
    """What was read of servers so far."""

    servers: dict[str, Server] = field(default_factory=dict[str, Server])
    unread: dict[str, str] = field(default_factory=dict[str, str])


class WhereaboutsReader:
    """Reads where instances are.

    Args:
        compute: the service that has them.
    """

    def __init__(self, compute: ComputeService) -> None:
        self._compute = compute

    async def read(
        self,
        targets: Mapping[str, str],
        known: Mapping[str, Whereabouts],
        ran: Collection[str],
        since: datetime,
    ) -> Mapping[str, Whereabouts]:
        """Return the whereabouts of each instance.

        Args:
            targets: see `expected`.
            known: those that need no more than to be free of an ERROR.
            ran: those that ran when they left.
            since: requests of owners from before do not count.

        Raises:
            ComputeError: the service that keeps the servers cannot be read; where the hosts keep
                them, one that does not answer leaves its own instances unread.
        """
        found = _Found()
        if known:
            for server in await self._compute.moves.in_error(known.keys()):
                found.servers[server.id] = server
        await self._search(targets, targets.keys() - known.keys(), found)
        result = dict(known)
        for id_ in targets:
            if id_ in found.servers or id_ not in known:
                there = found.servers.get(id_)
                result[id_] = Whereabouts(there, unread=found.unread.get(id_, ""))
        for id_ in ran:
            result[id_] = await self._with_requests(id_, result[id_], since)
        return result

    async def _search(
        self, targets: Mapping[str, str], wanted: Collection[str], found: _Found
    ) -> None:
        moves, wanted = self._compute.moves, frozenset(wanted)
        for host in sorted({targets[id_] for id_ in wanted} - {""}):
            there = [id_ for id_ in wanted if targets[id_] == host]
            try:
                listed = await moves.servers(host)
            except ComputeError as error:
                self._note(error, there, found)
            else:
                found.servers |= {one.id: one for one in listed if one.id in wanted}
        for id_ in sorted(wanted - found.servers.keys() - found.unread.keys()):
            try:
                server = await moves.server(id_)
            except ComputeError as error:
                self._note(error, (id_,), found)
            else:
                if server is not None:
                    found.servers[id_] = server

    def _note(self, error: ComputeError, ids: Iterable[str], found: _Found) -> None:
        if self._compute.counts_servers:
            raise error
        found.unread |= dict.fromkeys(ids, str(error))

    async def _with_requests(self, id_: str, one: Whereabouts, since: datetime) -> Whereabouts:
        owners, server = self._compute.owners, one.server
        if owners is None or server is None or not _is_off(server):
            return one
        return replace(one, requests=await owners.actions(id_, since))


def _is_off(server: Server) -> bool:
    return not (server.running or server.paused or server.status == ServerStatus.ERROR)
