"""Servers and their moves, in memory.

Time is the event loop's. Nothing runs in the background: each call first brings everything up to
the present, so that tests control the clock. As with Nova, a move is accepted at once and checked
later, a server is elsewhere a moment before the record of its move has ended, and a host's memory
is claimed when a target is found.

Source: `docs/openstack.md`, what Nova's API was seen to do.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from hypercobalt.compute.errors import ConflictError, RefusedError, UnreachableError
from hypercobalt.compute.fake import capacity
from hypercobalt.compute.fake.records import Records
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

_TASKS: dict[str, str] = {
    MoveKind.LIVE: "migrating",
    MoveKind.COLD: "resize_migrating",
    MoveKind.EVACUATION: "rebuilding",
}
_OVER: dict[str, str] = {MoveKind.COLD: "finished", MoveKind.EVACUATION: "done"}
"""Status of the record as soon as the server is there; a live migration's takes a moment."""


@dataclass(slots=True)
class _Job:
    """A move under way."""

    move: Move
    server: Server  # as it was before
    begins: float  # of the loop's clock; the record is not shown before
    ends: float  # never: it is stuck
    script: Script
    fails: bool


@dataclass(slots=True)
class FakeMoves:
    """Moves, recovery and owners of the fake.

    Args:
        hosts: capacity of each by name.
        chooses_target: the service finds targets itself.
        groups_refused: why servers have no groups; "" if they have.
        record_lag: seconds between a server's arrival and the end of the record.
        latency: seconds that each call takes.
        dead: hosts that were forced down; `clean` is called for a host that is back.
        acted: the result of `actions`, by server.
        on_call: gets the name of each call and the server or host before the call has an effect;
            its exception goes to the caller.
        on_done: gets the same after the effect of a call, before the caller gets the answer.
    """

    hosts: dict[str, Size] = field(default_factory=dict[str, Size])
    chooses_target: bool = True
    groups_refused: str = ""
    record_lag: float = 0.05
    latency: float = 0.0
    on_call: Callable[[str, str], None] | None = None
    on_done: Callable[[str, str], None] | None = None
    disabled: set[str] = field(default_factory=set[str])
    dead: set[str] = field(default_factory=set[str])
    acted: dict[str, list[ServerAction]] = field(default_factory=dict[str, list[ServerAction]])
    scripts: dict[str, Script] = field(default_factory=dict[str, Script])
    calls: Counter[str] = field(default_factory=Counter[str])
    started: Counter[str] = field(default_factory=Counter[str])
    """How often a move of each server was accepted."""
    fullest: dict[str, int] = field(default_factory=dict[str, int])
    """The most MiB that each host ever had claimed on it."""
    most_at_once: int = 0
    """The most moves that were ever under way together."""
    _servers: dict[str, Server] = field(default_factory=dict[str, Server])
    _jobs: dict[str, _Job] = field(default_factory=dict[str, "_Job"])
    _restarting: dict[str, float] = field(default_factory=dict[str, float])
    _closing: list[tuple[float, str, str]] = field(default_factory=list[tuple[float, str, str]])
    _breaking: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    _epoch: tuple[datetime, float] | None = None
    _records: Records = field(init=False)

    def __post_init__(self) -> None:
        self._records = Records(self._now)

    def add(self, *servers: Server) -> None:
        """Add servers, each on the host that it names."""
        for server in servers:
            self._servers[server.id] = server

    def change(self, id_: str, **fields: object) -> Server:
        """Change a server without a call of the port."""
        self._advance()
        changed = self._servers[id_] = replace(self._servers[id_], **fields)  # type: ignore[arg-type]
        return changed

    def remove(self, id_: str) -> None:
        """Delete a server."""
        self._advance()
        self._servers.pop(id_, None)
        self._jobs.pop(id_, None)

    def script(self, id_: str, script: Script) -> None:
        """Set how the moves of a server go."""
        self.scripts[id_] = script

    def on(self, host: str) -> tuple[Server, ...]:
        """Return the servers on a host now, without a call of the service."""
        self._advance()
        return tuple(s for s in self._servers.values() if s.host == host)

    def arriving(self, host: str) -> tuple[Move, ...]:
        """Return the moves to a host that go on, without a call of the service."""
        self._advance()
        return tuple(job.move for job in self._jobs.values() if job.move.target == host)

    def clean(self, host: str) -> None:
        """Have a host that is back remove the servers that were evacuated from it."""
        self._advance()
        for move in self._records.evacuated_from(host):
            self._records.change(move.id, status="completed")

    def is_clean(self, host: str) -> bool:
        """Whether the host has removed the servers that were evacuated from it."""
        self._advance()
        return not self._records.evacuated_from(host)

    @property
    def under_way(self) -> int:
        """Return the moves under way now, without a call of the service."""
        self._advance()
        return len(self._jobs)

    async def servers(self, host: str) -> tuple[Server, ...]:
        await self._called("servers", host)
        return self.on(host)

    async def server(self, id: str) -> Server | None:
        await self._called("server", id)
        return self._servers.get(id)

    async def moves(self, host: str) -> tuple[Move, ...]:
        await self._called("moves", host)
        now = self._time()
        hidden = {job.move.id for job in self._jobs.values() if job.begins > now}
        return tuple(self._shown(move) for move in self._records.of(host) if move.id not in hidden)

    async def incoming(self, host: str) -> tuple[Move, ...]:
        await self._called("incoming", host)
        return self.arriving(host)

    async def candidates(self, server: Server) -> tuple[Capacity, ...]:
        await self._called("candidates", server.id)
        return self._candidates(server)

    async def live_migrate(self, server: Server, target: str = "") -> None:
        await self._called("live_migrate", server.id)
        allowed = (ServerStatus.ACTIVE, ServerStatus.PAUSED)
        self._begin(server, target, MoveKind.LIVE, allowed, ServerStatus.MIGRATING)
        self._did("live_migrate", server.id)

    async def cold_migrate(self, server: Server, target: str = "") -> None:
        await self._called("cold_migrate", server.id)
        allowed = (ServerStatus.ACTIVE, ServerStatus.SHUTOFF)
        self._begin(server, target, MoveKind.COLD, allowed, ServerStatus.RESIZE)
        self._did("cold_migrate", server.id)

    async def restart(self, server: Server) -> None:
        await self._called("restart", server.id)
        known, script = self._known(server), self._script(server)
        if known.host != server.host or known.host in self.dead:
            raise ConflictError(f"server {server.id}: is not on {server.host}, or that is dead")
        if known.task_state or server.id in self._jobs:
            raise ConflictError(f"server {server.id}: is {known.status} {known.task_state}")
        off = known.status == ServerStatus.SHUTOFF
        status = ServerStatus.SHUTOFF if off else ServerStatus.REBOOT
        task = "powering-on" if off else "rebooting_hard"
        self._servers[server.id] = replace(known, status=status, task_state=task)
        self._restarting[server.id] = self._time() + script.seconds
        self._did("restart", server.id)

    async def evacuate(
        self, server: Server, target: str = "", *, interrupted: bool = False
    ) -> None:
        del interrupted  # no target dies here
        await self._called("evacuate", server.id)
        if self._known(server).host not in self.dead:
            raise RefusedError(f"server {server.id}: {server.host} is still in use", code=400)
        allowed = (ServerStatus.ACTIVE, ServerStatus.SHUTOFF, ServerStatus.ERROR)
        self._begin(server, target, MoveKind.EVACUATION, allowed, "REBUILD")
        self._did("evacuate", server.id)

    async def in_error(self, ids: Collection[str]) -> tuple[Server, ...]:
        await self._called("in_error", "")
        found = (one for one in self._servers.values() if one.id in ids)
        return tuple(one for one in found if one.status == ServerStatus.ERROR)

    async def lock(self, server: Server, reason: str) -> None:
        await self._called("lock", server.id)
        known = self._known(server)
        self._servers[server.id] = replace(known, locked=True, locked_reason=reason)
        self._did("lock", server.id)

    async def unlock(self, server: Server) -> None:
        await self._called("unlock", server.id)
        if known := self._servers.get(server.id):
            self._servers[server.id] = replace(known, locked=False, locked_reason="")
        self._did("unlock", server.id)

    async def locked(self, prefix: str) -> tuple[Server, ...]:
        await self._called("locked", prefix)
        known = self._servers.values()
        return tuple(one for one in known if one.locked and one.locked_reason.startswith(prefix))

    async def actions(self, server: str, since: datetime) -> tuple[ServerAction, ...]:
        await self._called("actions", server)
        found = (one for one in self.acted.get(server, ()) if one.started >= since)
        return tuple(sorted(found, key=lambda one: one.started, reverse=True))

    async def confirm(self, server: Server) -> None:
        await self._called("confirm", server.id)
        known = self._servers.get(server.id)
        if known is None or known.status != ServerStatus.VERIFY_RESIZE:
            raise ConflictError(f"server {server.id}: nothing to confirm")
        status = ServerStatus.ACTIVE if known.running else ServerStatus.SHUTOFF
        self._servers[server.id] = replace(known, status=status)
        self._records.confirm(server.id)
        self._did("confirm", server.id)

    async def abort(self, move: Move) -> None:
        await self._called("abort", move.server)
        job = self._jobs.get(move.server)
        if job is not None and job.move.id == move.id and not job.script.stubborn:
            self._end(job, "cancelled", "aborted")
        self._did("abort", move.server)

    async def recover(self, server: Server) -> None:
        await self._called("recover", server.id)
        known = self._servers.get(server.id)
        if known is None or known.status != ServerStatus.ERROR or self._script(server).lost_guest:
            raise RefusedError(f"server {server.id}: is not known to run")
        status = ServerStatus.PAUSED if known.paused else ServerStatus.ACTIVE
        self._servers[server.id] = replace(known, status=status)
        self._did("recover", server.id)

    async def force_complete(self, move: Move) -> None:
        await self._called("force_complete", move.server)
        job = self._jobs.get(move.server)
        if job is not None and job.move.id == move.id and not job.script.helpless:
            job.ends = self._time() + 0.2
        self._did("force_complete", move.server)

    # What happens inside.

    def _begin(
        self,
        server: Server,
        target: str,
        kind: MoveKind,
        allowed: Iterable[str],
        status: str,
    ) -> None:
        known = self._known(server)
        if not target and not self.chooses_target:
            raise RefusedError(f"server {server.id}: name a target", code=400)
        script = self._script(server)
        if script.refusals:
            script.refusals -= 1
            raise RefusedError(f"server {server.id}: {script.why}", code=400)
        if known.status not in allowed or known.task_state:
            raise ConflictError(f"server {server.id}: is {known.status} {known.task_state}")
        self.started[server.id] += 1
        now = self._time()
        candidates = self._candidates(known)
        found = target or capacity.emptiest(candidates)
        move = self._records.begin(known, kind, found)
        fails = script.failures > 0
        script.failures -= fails
        ends = now + script.seconds
        if script.stuck:
            script.stuck -= 1
            ends = float("inf")
        job = _Job(move, known, now + script.late, ends, script, fails)
        if not found or not any(each.host == found for each in candidates):
            self._records.change(move.id, status="error", message="No valid host was found")
        else:
            self._jobs[known.id] = job
            self._servers[known.id] = replace(known, status=status, task_state=_TASKS[kind])
            self.most_at_once = max(self.most_at_once, len(self._jobs))
            claimed = capacity.used(found, self._claims()).memory_mib
            self.fullest[found] = max(self.fullest.get(found, 0), claimed)
        if script.lost:
            script.lost -= 1
            raise UnreachableError(f"server {server.id}: no answer")

    def _known(self, server: Server) -> Server:
        known = self._servers.get(server.id)
        if known is None:
            raise RefusedError(f"server {server.id}: not found", code=404)
        return known

    def _script(self, server: Server) -> Script:
        return self.scripts.setdefault(server.id, Script())

    async def _called(self, name: str, about: str) -> None:
        self.calls[name] += 1
        if self.on_call is not None:
            self.on_call(name, about)
        if self.latency:
            await asyncio.sleep(self.latency)
        self._advance()

    def _did(self, name: str, about: str) -> None:
        if self.on_done is not None:
            self.on_done(name, about)

    def _advance(self) -> None:
        """Bring the state up to the present."""
        now = self._time()
        for job in sorted(self._jobs.values(), key=lambda job: job.ends):
            if job.ends > now:
                continue
            if job.fails:
                self._end(job, "error", job.script.why)
            else:
                self._arrive(job)
        for id_, due in list(self._restarting.items()):
            if due <= now:
                del self._restarting[id_]
                self._restarted(id_)
        for due, id_ in list(self._breaking):
            if due <= now:
                self._breaking.remove((due, id_))
                move = self._records.change(id_, status="error")
                if known := self._servers.get(move.server):
                    self._servers[known.id] = replace(known, status=ServerStatus.ERROR)
        for due, id_, status in list(self._closing):
            if due <= now:
                self._closing.remove((due, id_, status))
                self._records.change(id_, status=status, remaining=0)

    def _restarted(self, id_: str) -> None:
        known = self._servers.get(id_)
        if known is None:
            return
        script = self._script(known)
        runs = not script.failed_restarts
        script.failed_restarts -= not runs
        status = ServerStatus.ACTIVE if runs else ServerStatus.SHUTOFF
        self._servers[id_] = replace(
            known, status=status, task_state="", running=runs, paused=False
        )

    def _arrive(self, job: _Job) -> None:
        del self._jobs[job.server.id]
        known = self._servers.get(job.server.id)
        if known is None:
            return
        status = job.server.status
        if job.move.kind == MoveKind.COLD:
            status = ServerStatus.VERIFY_RESIZE
        elif job.move.kind == MoveKind.EVACUATION:
            ran = job.server.running or job.server.died
            status = ServerStatus.ACTIVE if ran else ServerStatus.SHUTOFF
        broken = job.script.arrives_in_error if job.move.kind == MoveKind.LIVE else ""
        status, fault = (ServerStatus.ERROR, job.script.why) if broken else (status, known.fault)
        there = replace(known, host=job.move.target, status=status, task_state="", fault=fault)
        self._servers[known.id] = there
        if over := _OVER.get(job.move.kind):
            self._records.change(job.move.id, status=over, remaining=0)
        else:
            ended = (job.ends + self.record_lag, job.move.id, broken or "completed")
            self._closing.append(ended)

    def _end(self, job: _Job, status: str, why: str) -> None:
        del self._jobs[job.server.id]
        known = self._servers.get(job.server.id)
        if known is not None:
            evacuated = job.move.kind == MoveKind.EVACUATION  # Nova leaves it in ERROR
            before = ServerStatus.ERROR if evacuated else job.server.status
            self._servers[known.id] = replace(known, status=before, task_state="")
        by = job.script.claimed_by if job.fails else ""
        self._records.change(job.move.id, status=status, message=why, claimed_by=by)
        if job.script.breaks and job.move.kind == MoveKind.LIVE:
            self._breaking.append((self._time() + self.record_lag, job.move.id))

    def _shown(self, move: Move) -> Move:
        job = self._jobs.get(move.server)
        if job is None or job.move.id != move.id or job.ends == float("inf"):
            return move
        begun = job.ends - job.script.seconds
        share = min(max((self._time() - begun) / (job.script.seconds or 1), 0.0), 1.0)
        return replace(move, remaining=round(move.total * (1 - share)))

    def _candidates(self, server: Server) -> tuple[Capacity, ...]:
        here = self._servers.get(server.id, server).host
        closed = {here} | self.disabled | self.dead
        open_hosts = {host: size for host, size in self.hosts.items() if host not in closed}
        return capacity.candidates(server.size, open_hosts, self._claims())

    def _claims(self) -> list[capacity.Claim]:
        there = [(server.host, server.size) for server in self._servers.values()]
        return there + [(job.move.target, job.server.size) for job in self._jobs.values()]

    def _time(self) -> float:
        return asyncio.get_running_loop().time()

    def _now(self) -> datetime:
        if self._epoch is None:
            self._epoch = (datetime.now(UTC), self._time())
        wall, at = self._epoch
        return wall + timedelta(seconds=self._time() - at)
