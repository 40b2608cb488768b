"""Servers and their moves, in memory.

Time is the event loop's. Nothing runs in the background: each call first brings everything up to
the present, so that tests hold the clock. As with Nova, a move is accepted at once and judged
later, a server is elsewhere a moment before the record of its move has ended, and a host's memory
is claimed when a target is found.

Source: `docs/openstack.md`, what Nova's API was seen to do.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from hypercobalt.compute.errors import ConflictError, RefusedError, UnreachableError
from hypercobalt.compute.model import Capacity, Move, MoveKind, Server, ServerStatus, Size

_MIB = 1 << 20


@dataclass(slots=True, kw_only=True)
class Script:
    """How the moves of one server go.

    Args:
        seconds: that a move takes.
        refusals: so many calls are refused first; below 0: all are.
        failures: so many moves end in `error` first.
        stuck: so many moves make no progress first, until they are aborted or forced.
        lost: the answers of so many calls are lost; what was asked for is done.
        late: seconds until a record shows what was asked for; the server shows it at once.
        helpless: forcing a stuck move to complete changes nothing.
        stubborn: aborting a stuck move changes nothing.
        breaks: a live move that fails or is aborted leaves the server in ERROR, a moment later.
        lost_guest: such a server cannot be recovered.
        why: in the words of the service, for refusals and failures.
    """

    seconds: float = 2.0
    refusals: int = 0
    failures: int = 0
    stuck: int = 0
    lost: int = 0
    late: float = 0.0
    helpless: bool = False
    stubborn: bool = False
    breaks: bool = False
    lost_guest: bool = False
    why: str = "scripted"


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
    """What `compute.port.Moves` asks for.

    Args:
        hosts: capacity of each by name.
        chooses_target: it finds targets itself.
        groups_refused: why servers have no groups; "" if they have.
        record_lag: seconds between a server's arrival and the end of the record.
        latency: seconds that each call takes.
        on_call: is told the name of each call and the server or host, before anything happens;
            what it raises is what the caller gets.
        on_done: likewise when a call has had its effect, before the caller gets the answer.
    """

    hosts: dict[str, Size] = field(default_factory=dict[str, Size])
    chooses_target: bool = True
    groups_refused: str = ""
    record_lag: float = 0.05
    latency: float = 0.0
    on_call: Callable[[str, str], None] | None = None
    on_done: Callable[[str, str], None] | None = None
    disabled: set[str] = field(default_factory=set[str])
    scripts: dict[str, Script] = field(default_factory=dict[str, Script])
    calls: Counter[str] = field(default_factory=Counter[str])
    started: Counter[str] = field(default_factory=Counter[str])
    """How often a move of each server was accepted."""
    fullest: dict[str, int] = field(default_factory=dict[str, int])
    """The most MiB that each host ever had claimed on it."""
    most_at_once: int = 0
    """The most moves that were ever under way together."""
    _servers: dict[str, Server] = field(default_factory=dict[str, Server])
    _records: list[Move] = field(default_factory=list[Move])
    _jobs: dict[str, _Job] = field(default_factory=dict[str, "_Job"])
    _closing: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    _breaking: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    _epoch: tuple[datetime, float] | None = None

    def add(self, *servers: Server) -> None:
        """Put servers where they say they are."""
        for server in servers:
            self._servers[server.id] = server

    def change(self, id_: str, **fields: object) -> Server:
        """Change a server behind everybody's back."""
        self._advance()
        changed = replace(self._servers[id_], **fields)  # type: ignore[arg-type]
        self._servers[id_] = changed
        return changed

    def remove(self, id_: str) -> None:
        """Delete a server."""
        self._advance()
        self._servers.pop(id_, None)
        self._jobs.pop(id_, None)

    def script(self, id_: str, script: Script) -> None:
        """Say how the moves of a server go."""
        self.scripts[id_] = script

    def on(self, host: str) -> tuple[Server, ...]:
        """What is on a host now; no call of the service."""
        self._advance()
        return tuple(s for s in self._servers.values() if s.host == host)

    @property
    def under_way(self) -> int:
        """Moves under way now; no call of the service."""
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
        return tuple(
            self._shown(move)
            for move in reversed(self._records)
            if move.source == host and move.id not in hidden
        )

    async def candidates(self, server: Server) -> tuple[Capacity, ...]:
        await self._called("candidates", server.id)
        return tuple(self._candidates(server))

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

    async def confirm(self, server: Server) -> None:
        await self._called("confirm", server.id)
        known = self._servers.get(server.id)
        if known is None or known.status != ServerStatus.VERIFY_RESIZE:
            raise ConflictError(f"server {server.id}: nothing to confirm")
        status = ServerStatus.ACTIVE if known.running else ServerStatus.SHUTOFF
        self._servers[server.id] = replace(known, status=status)
        for index, move in enumerate(self._records):
            if move.server == server.id and move.status == "finished":
                self._records[index] = replace(move, status="confirmed", updated=self._now())
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
        status: ServerStatus,
    ) -> None:
        known = self._servers.get(server.id)
        if known is None:
            raise RefusedError(f"server {server.id}: there is none", code=404)
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
        found = target or next(iter(self._by_memory(known)), "")
        move = Move(
            id=str(len(self._records) + 1),
            server=known.id,
            kind=kind,
            status="running",
            source=known.host,
            target=found,
            created=self._now(),
            updated=self._now(),
            total=known.size.memory_mib * _MIB,
            remaining=known.size.memory_mib * _MIB,
        )
        self._records.append(move)
        fails = script.failures > 0
        script.failures -= fails
        ends = now + script.seconds
        if script.stuck:
            script.stuck -= 1
            ends = float("inf")
        job = _Job(move, known, now + script.late, ends, script, fails)
        if not found or not any(each.host == found for each in self._candidates(known)):
            self._set(move, status="error", message="No valid host was found")
        else:
            self._jobs[known.id] = job
            task = "migrating" if kind is MoveKind.LIVE else "resize_migrating"
            self._servers[known.id] = replace(known, status=status, task_state=task)
            self.most_at_once = max(self.most_at_once, len(self._jobs))
            self.fullest[found] = max(self.fullest.get(found, 0), self._used(found).memory_mib)
        if script.lost:
            script.lost -= 1
            raise UnreachableError(f"server {server.id}: no answer")

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
        """Bring everything up to the present."""
        now = self._time()
        for job in sorted(self._jobs.values(), key=lambda job: job.ends):
            if job.ends > now:
                continue
            if job.fails:
                self._end(job, "error", job.script.why)
            else:
                self._arrive(job)
        for due, id_ in list(self._breaking):
            if due <= now:
                self._breaking.remove((due, id_))
                move = next(move for move in self._records if move.id == id_)
                self._set(move, status="error")
                if known := self._servers.get(move.server):
                    self._servers[known.id] = replace(known, status=ServerStatus.ERROR)
        for due, id_ in list(self._closing):
            if due <= now:
                self._closing.remove((due, id_))
                move = next(move for move in self._records if move.id == id_)
                self._set(move, status="completed", remaining=0)

    def _arrive(self, job: _Job) -> None:
        del self._jobs[job.server.id]
        known = self._servers.get(job.server.id)
        if known is None:
            return
        cold = job.move.kind == MoveKind.COLD
        status = ServerStatus.VERIFY_RESIZE if cold else job.server.status
        self._servers[known.id] = replace(known, host=job.move.target, status=status, task_state="")
        if cold:
            self._set(job.move, status="finished", remaining=0)
        else:
            self._closing.append((job.ends + self.record_lag, job.move.id))

    def _end(self, job: _Job, status: str, why: str) -> None:
        del self._jobs[job.server.id]
        known = self._servers.get(job.server.id)
        if known is not None:
            self._servers[known.id] = replace(known, status=job.server.status, task_state="")
        self._set(job.move, status=status, message=why)
        if job.script.breaks and job.move.kind == MoveKind.LIVE:
            self._breaking.append((self._time() + self.record_lag, job.move.id))

    def _set(self, move: Move, **fields: object) -> None:
        for index, record in enumerate(self._records):
            if record.id == move.id:
                changed = replace(record, updated=self._now(), **fields)  # type: ignore[arg-type]
                self._records[index] = changed

    def _shown(self, move: Move) -> Move:
        job = self._jobs.get(move.server)
        if job is None or job.move.id != move.id or job.ends == float("inf"):
            return move
        begun = job.ends - job.script.seconds
        share = min(max((self._time() - begun) / (job.script.seconds or 1), 0.0), 1.0)
        return replace(move, remaining=round(move.total * (1 - share)))

    def _candidates(self, server: Server) -> Iterable[Capacity]:
        here = self._servers.get(server.id, server).host
        for host, capacity in self.hosts.items():
            used, size = self._used(host), server.size
            fits = (
                used.vcpus + size.vcpus <= capacity.vcpus
                and used.memory_mib + size.memory_mib <= capacity.memory_mib
            )
            if host != here and host not in self.disabled and fits:
                yield Capacity(host, capacity, used)

    def _by_memory(self, server: Server) -> list[str]:
        found = sorted(
            self._candidates(server),
            key=lambda each: each.used.memory_mib - each.total.memory_mib,
        )
        return [each.host for each in found]

    def _used(self, host: str) -> Size:
        sizes = [s.size for s in self._servers.values() if s.host == host]
        sizes += [job.server.size for job in self._jobs.values() if job.move.target == host]
        return Size(
            sum(size.vcpus for size in sizes),
            sum(size.memory_mib for size in sizes),
            sum(size.disk_gib for size in sizes),
        )

    def _time(self) -> float:
        return asyncio.get_running_loop().time()

    def _now(self) -> datetime:
        if self._epoch is None:
            self._epoch = (datetime.now(UTC), self._time())
        wall, at = self._epoch
        return wall + timedelta(seconds=self._time() - at)
