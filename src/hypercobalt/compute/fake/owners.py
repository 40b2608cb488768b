"""Owners of the servers in memory: their requests, and locks against them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from hypercobalt.compute.fake.moves import FakeMoves
from hypercobalt.compute.model import Server, ServerAction


class FakeOwners:
    """Owners of the servers of a `FakeMoves`."""

    def __init__(self, moves: FakeMoves) -> None:
        self._moves, self._servers = moves, moves.jobs.servers

    async def lock(self, server: Server, reason: str) -> None:
        await self._moves.call("lock", server.id)
        known = self._moves.known(server)
        self._servers[server.id] = replace(known, locked=True, locked_reason=reason)
        self._moves.did("lock", server.id)

    async def unlock(self, server: Server) -> None:
        await self._moves.call("unlock", server.id)
        if known := self._servers.get(server.id):
            self._servers[server.id] = replace(known, locked=False, locked_reason="")
        self._moves.did("unlock", server.id)

    async def locked(self, prefix: str) -> tuple[Server, ...]:
        await self._moves.call("locked", prefix)
        known = self._servers.values()
        return tuple(one for one in known if one.locked and one.locked_reason.startswith(prefix))

    async def actions(self, server: str, since: datetime) -> tuple[ServerAction, ...]:
        await self._moves.call("actions", server)
        found = (one for one in self._moves.acted.get(server, ()) if one.started >= since)
        return tuple(sorted(found, key=lambda one: one.started, reverse=True))
