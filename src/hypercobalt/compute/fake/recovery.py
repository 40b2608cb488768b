"""Brings failed servers in memory up again: restarts, evacuates, and takes them out of ERROR."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from hypercobalt.compute.errors import ComputeConflictError, RefusedError
from hypercobalt.compute.fake.moves import FakeMoves
from hypercobalt.compute.model import MoveKind, RestartResult, Server, ServerStatus


class FakeRecovery:
    """Recovery of the servers of a `FakeMoves`."""

    def __init__(self, moves: FakeMoves) -> None:
        self._moves = moves

    async def restart(self, server: Server) -> None:
        await self._moves.call("restart", server.id)
        known = self._moves.known(server)
        if known.host != server.host or known.host in self._moves.dead:
            raise ComputeConflictError(
                f"server {server.id}: is not on {server.host}, or that is dead"
            )
        if known.task_state or self._moves.jobs.is_moving(server.id):
            raise ComputeConflictError(f"server {server.id}: is {known.status} {known.task_state}")
        self._moves.jobs.restart(known, self._moves.script_of(server))
        self._moves.did("restart", server.id)

    async def restarted(self, server: str, since: datetime) -> RestartResult:
        await self._moves.call("restarted", server)
        return self._moves.jobs.restart_result(server, since)

    async def evacuate(
        self, server: Server, target: str = "", *, interrupted: bool = False
    ) -> None:
        del interrupted  # no target dies here
        await self._moves.call("evacuate", server.id)
        if self._moves.known(server).host not in self._moves.dead:
            raise RefusedError(f"server {server.id}: {server.host} is still in use", code=400)
        allowed = (ServerStatus.ACTIVE, ServerStatus.SHUTOFF, ServerStatus.ERROR)
        self._moves.begin(server, target, MoveKind.EVACUATION, allowed)
        self._moves.did("evacuate", server.id)

    async def recover(self, server: Server) -> None:
        await self._moves.call("recover", server.id)
        known = self._moves.jobs.servers.get(server.id)
        lost = self._moves.script_of(server).lost_guest
        if known is None or known.status != ServerStatus.ERROR or lost:
            raise RefusedError(f"server {server.id}: is not known to run")
        status = ServerStatus.PAUSED if known.paused else ServerStatus.ACTIVE
        self._moves.jobs.servers[server.id] = replace(known, status=status)
        self._moves.did("recover", server.id)
