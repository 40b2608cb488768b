"""Moves and restarts under way: how each progresses, and how it ends or fails.

Time is the event loop's. Nothing runs in the background: `advance` brings everything up to the
present, so that tests control the clock. As with Nova, a server is elsewhere a moment before the
record of its move has ended.

Source: `docs/openstack.md`, what Nova's API was seen to do.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from hypercobalt.compute.fake.capacity import Claim
from hypercobalt.compute.fake.records import FakeRecords
from hypercobalt.compute.fake.script import Script
from hypercobalt.compute.model import Move, MoveKind, RestartResult, Server, ServerStatus

_UNDER_WAY: dict[MoveKind, tuple[str, str]] = {
    MoveKind.LIVE: (ServerStatus.MIGRATING, "migrating"),
    MoveKind.COLD: (ServerStatus.RESIZE, "resize_migrating"),
    MoveKind.EVACUATION: ("REBUILD", "rebuilding"),
}
"""Status and task of a server during a move."""
_OVER: dict[str, str] = {MoveKind.COLD: "finished", MoveKind.EVACUATION: "done"}
"""Status of the record as soon as the server is there; a live migration's takes a moment."""
_FORCED = 0.2
"""Seconds that a move takes once it was forced to complete."""


@dataclass(slots=True)
class _Job:
    """A move under way."""

    move: Move
    server: Server  # as it was before
    begins: float  # of the loop's clock; the record is not shown before
    ends: float  # never: it is stuck
    script: Script
    fails: bool


class Jobs:
    """Servers, the jobs that go on with them, and the records of their moves.

    Attributes:
        servers: by id, each as it was at the last `advance`.
        records: of all moves that ever began.
    """

    def __init__(self) -> None:
        self.servers: dict[str, Server] = {}
        self.records = FakeRecords(self._now)
        self._moves: dict[str, _Job] = {}
        self._restarts: dict[str, tuple[float, Script, Server]] = {}
        self._results: dict[str, tuple[datetime, RestartResult]] = {}
        self._closing: list[tuple[float, str, str]] = []
        self._breaking: list[tuple[float, str]] = []
        self._epoch: tuple[datetime, float] | None = None

    def begin(
        self, server: Server, kind: MoveKind, target: str, script: Script, *, valid: bool
    ) -> None:
        """Begin a move, or record at once that it has failed.

        Args:
            server: as it is now.
            kind: of the move.
            target: name of a host; "" for none.
            script: the course; what it lets happen to the first moves counts down.
            valid: the target can take the server.
        """
        move = self.records.begin(server, kind, target)
        job = self._job(move, server, script)
        if not valid:
            self.records.change(move.id, status="error", message="No valid host was found")
            return
        status, task = _UNDER_WAY[kind]
        self._moves[server.id] = job
        self.servers[server.id] = replace(server, status=status, task_state=task)

    def restart(self, server: Server, script: Script) -> None:
        """Begin to start a server that is off, or to reboot one."""
        off = server.status == ServerStatus.SHUTOFF
        status = ServerStatus.SHUTOFF if off else ServerStatus.REBOOT
        task = "powering-on" if off else "rebooting_hard"
        self.servers[server.id] = replace(server, status=status, task_state=task)
        self._restarts[server.id] = (self._time() + script.seconds, script, server)
        self._results[server.id] = (self._now(), RestartResult())

    def restart_result(self, id_: str, since: datetime) -> RestartResult:
        """Return the result of the newest restart of a server since then."""
        began, result = self._results.get(id_, (since, RestartResult(failed="no such request")))
        return result if began >= since else RestartResult(failed="no such request")

    def abort(self, move: Move) -> None:
        """Cancel a move that has not ended."""
        job = self._job_of(move)
        if job is not None and not job.script.stubborn:
            self._end(job, "cancelled", "aborted")

    def force_complete(self, move: Move) -> None:
        """Let a move that has not ended end soon."""
        job = self._job_of(move)
        if job is not None and not job.script.helpless:
            job.ends = self._time() + _FORCED

    def remove(self, id_: str) -> None:
        """Forget a server, and its move."""
        self.servers.pop(id_, None)
        self._moves.pop(id_, None)

    def moves(self) -> tuple[Move, ...]:
        """Return the moves under way."""
        return tuple(job.move for job in self._moves.values())

    def is_moving(self, id_: str) -> bool:
        """Whether a move of a server is under way."""
        return id_ in self._moves

    def recorded(self, source: str) -> tuple[Move, ...]:
        """Return records of moves away from a host, newest first, with their progress."""
        now = self._time()
        hidden = {job.move.id for job in self._moves.values() if job.begins > now}
        moves = self.records.of(source)
        return tuple(self._with_progress(move) for move in moves if move.id not in hidden)

    def claims(self) -> list[Claim]:
        """Return what servers take on their hosts, and on those that they move to."""
        there = [(server.host, server.size) for server in self.servers.values()]
        return there + [(job.move.target, job.server.size) for job in self._moves.values()]

    def advance(self) -> None:
        """Bring the state up to the present."""
        now = self._time()
        for job in sorted(self._moves.values(), key=lambda job: job.ends):
            if job.ends > now:
                continue
            if job.fails:
                self._end(job, "error", job.script.why)
            else:
                self._arrive(job)
        for id_, (due, script, before) in list(self._restarts.items()):
            if due <= now:
                del self._restarts[id_]
                self._restarted(id_, script, before)
        for due, id_ in list(self._breaking):
            if due <= now:
                self._breaking.remove((due, id_))
                move = self.records.change(id_, status="error")
                if known := self.servers.get(move.server):
                    self.servers[known.id] = replace(known, status=ServerStatus.ERROR)
        for due, id_, status in list(self._closing):
            if due <= now:
                self._closing.remove((due, id_, status))
                self.records.change(id_, status=status, remaining=0)

    def _job(self, move: Move, server: Server, script: Script) -> _Job:
        now, fails, stuck = self._time(), script.failures > 0, bool(script.stuck)
        script.failures -= fails
        script.stuck -= stuck
        ends = float("inf") if stuck else now + script.seconds
        return _Job(move, server, now + script.late, ends, script, fails)

    def _job_of(self, move: Move) -> _Job | None:
        job = self._moves.get(move.server)
        return job if job is not None and job.move.id == move.id else None

    def _arrive(self, job: _Job) -> None:
        del self._moves[job.server.id]
        known = self.servers.get(job.server.id)
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
        if job.script.arrives_off and job.move.kind == MoveKind.LIVE:
            there = replace(there, status=ServerStatus.SHUTOFF, running=False)
        self.servers[known.id] = there
        if over := _OVER.get(job.move.kind):
            self.records.change(job.move.id, status=over, remaining=0)
        else:
            ended = (job.ends + job.script.record_lag, job.move.id, broken or "completed")
            self._closing.append(ended)

    def _end(self, job: _Job, status: str, why: str) -> None:
        del self._moves[job.server.id]
        known = self.servers.get(job.server.id)
        if known is not None:
            evacuated = job.move.kind == MoveKind.EVACUATION  # Nova leaves it in ERROR
            before = ServerStatus.ERROR if evacuated else job.server.status
            self.servers[known.id] = replace(known, status=before, task_state="")
        by = job.script.claimed_by if job.fails else ""
        self.records.change(job.move.id, status=status, message=why, claimed_by=by)
        if job.script.breaks and job.move.kind == MoveKind.LIVE:
            self._breaking.append((self._time() + job.script.record_lag, job.move.id))

    def _restarted(self, id_: str, script: Script, before: Server) -> None:
        known = self.servers.get(id_)
        if known is None:
            return
        runs = not (script.failed_restarts or script.unmade_restarts)
        result = RestartResult(succeeded=True) if runs else RestartResult(failed=script.why)
        self._results[id_] = (self._results[id_][0], result)
        if script.unmade_restarts:
            script.unmade_restarts -= 1
            self.servers[id_] = replace(known, status=before.status, task_state="")
            return
        script.failed_restarts -= not runs
        status = ServerStatus.ACTIVE if runs else ServerStatus.SHUTOFF
        self.servers[id_] = replace(known, status=status, task_state="", running=runs, paused=False)

    def _with_progress(self, move: Move) -> Move:
        job = self._job_of(move)
        if job is None or job.ends == float("inf"):
            return move
        begun = job.ends - job.script.seconds
        share = min(max((self._time() - begun) / (job.script.seconds or 1), 0.0), 1.0)
        return replace(move, remaining=round(move.total * (1 - share)))

    def _time(self) -> float:
        return asyncio.get_running_loop().time()

    def _now(self) -> datetime:
        if self._epoch is None:
            self._epoch = (datetime.now(UTC), self._time())
        wall, at = self._epoch
        return wall + timedelta(seconds=self._time() - at)
