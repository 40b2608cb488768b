"""Servers and the calls that move them, in memory.

As with Nova, a move is accepted at once and checked later, and a host's memory is claimed when a
target is found. What a move then comes to, and when, is in `hypercobalt.compute.fake.jobs`.

Source: `docs/openstack.md`, what Nova's API was seen to do.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from hypercobalt.compute.errors import ComputeConflictError, RefusedError, UnreachableError
from hypercobalt.compute.fake import capacity
from hypercobalt.compute.fake.jobs import Jobs
from hypercobalt.compute.fake.script import Script
from hypercobalt.compute.model import (
    Capacity,
    Move,
    MoveKind,
    Server,
    ServerAction,
    ServerStatus,
    Size,
)


@dataclass(slots=True)
class FakeMoves:
    """Moves of the fake.

    Args:
        hosts: capacity of each by name.
        chooses_target: the service finds targets itself.
        groups_refused: why servers have no groups; "" if they have.
        latency: seconds that each call takes.
        on_call: gets the name of each call and the server or host before the call has an effect;
            its exception goes to the caller.
        on_done: gets the same after the effect of a call, before the caller gets the answer.
        disabled: hosts that take no servers.
        dead: hosts that were forced down; `clean` is called for a host that is back.
        acted: requests of owners, by server.
        scripts: courses of moves, by server.
        calls: how often each call was made.
        started: how often a move of each server was accepted.
        fullest: the most MiB that each host ever had claimed on it.
        most_at_once: the most moves that were ever under way together.
    """

    hosts: dict[str, Size] = field(default_factory=dict[str, Size])
    chooses_target: bool = True
    groups_refused: str = ""
    latency: float = 0.0
    on_call: Callable[[str, str], None] | None = None
    on_done: Callable[[str, str], None] | None = None
    disabled: set[str] = field(default_factory=set[str])
    dead: set[str] = field(default_factory=set[str])
    acted: dict[str, list[ServerAction]] = field(default_factory=dict[str, list[ServerAction]])
    scripts: dict[str, Script] = field(default_factory=dict[str, Script])
    calls: Counter[str] = field(default_factory=Counter[str])
    started: Counter[str] = field(default_factory=Counter[str])
    fullest: dict[str, int] = field(default_factory=dict[str, int])
    most_at_once: int = 0
    jobs: Jobs = field(default_factory=Jobs, init=False)

    # What tests set and read, without a call of the service.

    def add(self, *servers: Server) -> None:
        """Add servers, each on the host that it names."""
        for server in servers:
            self.jobs.servers[server.id] = server

    def change(self, id_: str, **fields: object) -> Server:
        """Change a server."""
        self.jobs.advance()
        servers = self.jobs.servers
        changed = servers[id_] = replace(servers[id_], **fields)  # type: ignore[arg-type]
        return changed

    def remove(self, id_: str) -> None:
        """Delete a server."""
        self.jobs.advance()
        self.jobs.remove(id_)

    def script(self, id_: str, script: Script) -> None:
        """Set how the moves of a server go."""
        self.scripts[id_] = script

    def on(self, host: str) -> tuple[Server, ...]:
        """Return the servers on a host now."""
        self.jobs.advance()
        return tuple(server for server in self.jobs.servers.values() if server.host == host)

    def arriving(self, host: str) -> tuple[Move, ...]:
        """Return the moves to a host that go on."""
        self.jobs.advance()
        return tuple(move for move in self.jobs.moves() if move.target == host)

    def clean(self, host: str) -> None:
        """Have a host that is back remove the servers that were evacuated from it."""
        self.jobs.advance()
        for move in self.jobs.records.evacuated_from(host):
            self.jobs.records.change(move.id, status="completed")

    def is_clean(self, host: str) -> bool:
        """Whether the host has removed the servers that were evacuated from it."""
        self.jobs.advance()
        return not self.jobs.records.evacuated_from(host)

    @property
    def under_way(self) -> int:
        """Return how many moves are under way now."""
        self.jobs.advance()
        return len(self.jobs.moves())

    # The port.

    async def servers(self, host: str) -> tuple[Server, ...]:
        await self.call("servers", host)
        return self.on(host)

    async def server(self, id: str) -> Server | None:
        await self.call("server", id)
        return self.jobs.servers.get(id)

    async def in_error(self, ids: Collection[str]) -> tuple[Server, ...]:
        await self.call("in_error", "")
        found = (one for one in self.jobs.servers.values() if one.id in ids)
        return tuple(one for one in found if one.status == ServerStatus.ERROR)

    async def moves(self, host: str) -> tuple[Move, ...]:
        await self.call("moves", host)
        return self.jobs.recorded(host)

    async def incoming(self, host: str) -> tuple[Move, ...]:
        await self.call("incoming", host)
        return self.arriving(host)

    async def candidates(self, server: Server) -> tuple[Capacity, ...]:
        await self.call("candidates", server.id)
        return self._candidates(server)

    async def live_migrate(self, server: Server, target: str = "") -> None:
        await self.call("live_migrate", server.id)
        self.begin(server, target, MoveKind.LIVE, (ServerStatus.ACTIVE, ServerStatus.PAUSED))
        self.did("live_migrate", server.id)

    async def cold_migrate(self, server: Server, target: str = "") -> None:
        await self.call("cold_migrate", server.id)
        self.begin(server, target, MoveKind.COLD, (ServerStatus.ACTIVE, ServerStatus.SHUTOFF))
        self.did("cold_migrate", server.id)

    async def confirm(self, server: Server) -> None:
        await self.call("confirm", server.id)
        known = self.jobs.servers.get(server.id)
        if known is None or known.status != ServerStatus.VERIFY_RESIZE:
            raise ComputeConflictError(f"server {server.id}: nothing to confirm")
        status = ServerStatus.ACTIVE if known.running else ServerStatus.SHUTOFF
        self.jobs.servers[server.id] = replace(known, status=status)
        self.jobs.records.confirm(server.id)
        self.did("confirm", server.id)

    async def abort(self, move: Move) -> None:
        await self.call("abort", move.server)
        self.jobs.abort(move)
        self.did("abort", move.server)

    async def force_complete(self, move: Move) -> None:
        await self.call("force_complete", move.server)
        self.jobs.force_complete(move)
        self.did("force_complete", move.server)

    # What the calls of the port share, also those of recovery and owners.

    async def call(self, name: str, about: str) -> None:
        """Count a call, and bring the state up to the present."""
        self.calls[name] += 1
        if self.on_call is not None:
            self.on_call(name, about)
        if self.latency:
            await asyncio.sleep(self.latency)
        self.jobs.advance()

    def did(self, name: str, about: str) -> None:
        """Report the effect of a call to `on_done`."""
        if self.on_done is not None:
            self.on_done(name, about)

    def known(self, server: Server) -> Server:
        """Return a server as it is now, or refuse the call."""
        known = self.jobs.servers.get(server.id)
        if known is None:
            raise RefusedError(f"server {server.id}: not found", code=404)
        return known

    def script_of(self, server: Server) -> Script:
        """Return the course of a server's moves."""
        return self.scripts.setdefault(server.id, Script())

    def begin(self, server: Server, target: str, kind: MoveKind, allowed: Collection[str]) -> None:
        """Accept a move, or refuse it; without a valid host it is accepted, and fails.

        Args:
            server: as read.
            target: name of a host; "" for the emptiest.
            kind: of the move.
            allowed: statuses in which a server can be moved so.
        """
        known = self.known(server)
        if not target and not self.chooses_target:
            raise RefusedError(f"server {server.id}: name a target", code=400)
        script = self.script_of(server)
        if script.refusals:
            script.refusals -= 1
            raise RefusedError(f"server {server.id}: {script.why}", code=400)
        if known.status not in allowed or known.task_state:
            raise ComputeConflictError(f"server {server.id}: is {known.status} {known.task_state}")
        self.started[server.id] += 1
        candidates = self._candidates(known)
        target = target or capacity.emptiest(candidates)
        valid = any(each.host == target for each in candidates)
        self.jobs.begin(known, kind, target, script, valid=valid)
        if valid:
            self._measure(target)
        if script.lost:
            script.lost -= 1
            raise UnreachableError(f"server {server.id}: no answer")

    def _measure(self, target: str) -> None:
        self.most_at_once = max(self.most_at_once, len(self.jobs.moves()))
        claimed = capacity.used(target, self.jobs.claims()).memory_mib
        self.fullest[target] = max(self.fullest.get(target, 0), claimed)

    def _candidates(self, server: Server) -> tuple[Capacity, ...]:
        here = self.jobs.servers.get(server.id, server).host
        closed = {here} | self.disabled | self.dead
        open_hosts = {host: size for host, size in self.hosts.items() if host not in closed}
        return capacity.candidates(server.size, open_hosts, self.jobs.claims())
