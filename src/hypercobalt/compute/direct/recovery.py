"""Failed servers brought up again: restarted on their host, or evacuated from a dead one.

Both are refused while a move of the server is under way: it must never run twice.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from hypercobalt.compute.direct import dead
from hypercobalt.compute.direct.answers import translated
from hypercobalt.compute.direct.dead import DeadDomain
from hypercobalt.compute.direct.directory import Place
from hypercobalt.compute.direct.evacuation import Evacuation
from hypercobalt.compute.direct.moves import DirectMoves
from hypercobalt.compute.direct.restart import restart
from hypercobalt.compute.direct.servers import called
from hypercobalt.compute.direct.site import Site
from hypercobalt.compute.direct.tasks import MoveTasks
from hypercobalt.compute.errors import ComputeConflictError, RefusedError
from hypercobalt.compute.model import MoveKind, RestartResult, Server


class DirectRecovery:
    """See `hypercobalt.compute.server_port.Recovery`.

    Args:
        site: see there.
        moves: finds the servers.
        tasks: those of the moves; an evacuation is one more.
    """

    def __init__(self, site: Site, moves: DirectMoves, tasks: MoveTasks) -> None:
        self._site, self._moves, self._tasks = site, moves, tasks

    async def restart(self, server: Server) -> None:
        place = self._tasks.place(server.host)
        if place.fenced:
            raise ComputeConflictError(f"{called(server)}: its host {place.name} is fenced")
        domain = await self._moves.domain_of(server, place)
        if self._site.records.under_way(server.id) or domain.moving_out:
            raise ComputeConflictError(f"{called(server)} is on its way to another host")
        await self._site.identities.check(place)
        with translated(called(server)):
            await restart(self._site, place, domain)

    async def restarted(self, server: str, since: datetime) -> RestartResult:
        """Report success: a restart that fails raises its error, and libvirt shows what runs."""
        del server, since
        return RestartResult(succeeded=True)

    async def evacuate(
        self, server: Server, target: str = "", *, interrupted: bool = False
    ) -> None:
        del interrupted  # its records belong to this process, and end with their moves
        source = self._tasks.place(server.host)
        if self._site.records.holds_back(server.id, source.name):
            return
        if not source.fenced:
            raise RefusedError(
                f"{called(server)}: {source.name} is not proven dead "
                "(status.fencing of its Hypervisor)",
                reason="NotFenced",
            )
        to = await self._tasks.target(server, target)
        found = await self._startable(server, source, to)
        await self._tasks.check_answer(server, source, found.domain)
        # Another pass may have begun meanwhile.
        if not self._site.records.holds_back(server.id, source.name):
            self._tasks.check_capacity(server, found.domain, to)
            move = self._tasks.begin(found.domain, MoveKind.EVACUATION, source, to)
            self._tasks.start(move, Evacuation(self._site, move, found, to).run())

    async def recover(self, server: Server) -> None:
        """Refuse: libvirt has no state ERROR, and a domain that is shown in it has crashed."""
        raise RefusedError(f"server {server.name} has crashed: start it")

    async def _startable(self, server: Server, source: Place, to: Place) -> DeadDomain:
        """Return what a dead host has stored of a server that may be started elsewhere.

        Raises:
            RefusedError: nothing is stored of it, or it has to wait for its host.
        """
        found = await dead.find(self._site, source, server.id, (to,))
        if found is None:
            raise RefusedError(
                f"{called(server)}: no definition of it is stored for {source.name}",
                reason="NotFound",
                code=404,
            )
        if server.died:
            found = replace(found, domain=replace(found.domain, active=True))
        was = dead.strict(self._site, found)
        if was.waits_for_host:
            raise RefusedError(
                f"{called(server)} waits for {source.name}: {was.waits_for_host}",
                reason="WaitsForHost",
            )
        return found
