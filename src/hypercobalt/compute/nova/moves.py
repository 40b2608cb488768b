"""Servers on a host, and their moves.

Cost of a pass: the servers of a host are one call (one more page after each thousand), and the
groups one more, shared by passes of ten seconds unless a server has not been looked up in them. Its
moves are one call, one for each live migration that has taken long enough to read its progress, and
two, once, for each that failed. Every action is one call; an abort that comes too late is two.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from hypercobalt.adapters.openstack.request import Answer
from hypercobalt.compute.errors import RefusedError, UnreachableError
from hypercobalt.compute.model import (
    Capacity,
    Move,
    MoveKind,
    Server,
    ServerGroup,
    ServerStatus,
)
from hypercobalt.compute.nova.calls import COMPUTE, ID, LONG, Calls, checked, read, refused
from hypercobalt.compute.nova.candidates import Candidates
from hypercobalt.compute.nova.pages import LIMIT, MOST_PAGES
from hypercobalt.compute.nova.reasons import Reasons
from hypercobalt.compute.nova.servers import NovaServer, NovaServers, OneServer, ToServer
from hypercobalt.compute.nova.shared import SharedRead
from hypercobalt.compute.nova.times import read_time

GROUPS_SECONDS: Final = 10.0
NEWEST: Final = 500
"""Number of records of moves that are read: the newest ones."""
LONG_MOVE: Final = timedelta(seconds=10)
"""Age of a live migration from which its progress is read."""
RECENT: Final = timedelta(hours=1)
"""Age of a failed move up to which its reason is read."""
_READING = (2, 98)
_ACTING = (2, 90)
_MOVING = (2, 80)
_BAD_REQUEST, _NOT_FOUND, _CONFLICT = 400, 404, 409
_ENDED = (_BAD_REQUEST, _NOT_FOUND, _CONFLICT)
_FAILED = frozenset({"error", "failed"})
_REVERTING = "reverting"
_PROGRESSING = frozenset({"running", "post-migrating"})
_KEPT: Final = 50_000
"""Number of servers without a group that are remembered."""


class NovaMoves:
    """See `hypercobalt.compute.server_port.Moves`."""

    chooses_target = True

    def __init__(
        self,
        calls: Calls,
        candidates: Candidates,
        to_server: ToServer,
        clock: Callable[[], float],
    ) -> None:
        self._calls, self._candidates, self._to_server = calls, candidates, to_server
        self._reasons = Reasons(calls)
        self._groups = SharedRead("groups", self._list_groups, seconds=GROUPS_SECONDS, clock=clock)
        self._ungrouped: set[str] = set()
        """Servers in none of the groups of a listing that was requested while they existed."""
        self.groups_refused = ""

    async def servers(self, host: str) -> tuple[Server, ...]:
        found = await self._list_servers(host)
        groups = await self._groups_of({one.id for one in found}) if found else {}
        return tuple(self._to_server(one, groups) for one in found)

    async def server(self, id: str) -> Server | None:
        if not ID.fullmatch(id):
            return None
        answer = await self._calls(
            f"read server {id}",
            COMPUTE,
            "GET",
            f"/servers/{id}",
            version=_READING,
            allow={_NOT_FOUND},
        )
        if answer.code == _NOT_FOUND:
            return None
        found, groups = read(answer, OneServer).server, await self._groups_of({id})
        return self._to_server(found, groups)

    async def in_error(self, ids: Collection[str]) -> tuple[Server, ...]:
        query = (("all_tenants", "1"), ("status", ServerStatus.ERROR))
        about, path = "list the servers in ERROR", "/servers/detail"
        pages = await self._calls.pages(about, path, NovaServers, query=query, version=_READING)
        found = (one for page in pages for one in page.servers if one.id in ids)
        return tuple(self._to_server(one, {}) for one in found)

    async def moves(self, host: str) -> tuple[Move, ...]:
        answer = await self._calls(
            f"list moves away from host {host}",
            COMPUTE,
            "GET",
            "/os-migrations",
            query=(("source_compute", host), ("limit", str(NEWEST))),
            version=_MOVING,
        )
        found = sorted(read(answer, _Migrations).migrations, key=lambda m: (m.created_at, m.id))
        return await self._with_more([_move(one) for one in reversed(found)])

    async def incoming(self, host: str) -> tuple[Move, ...]:
        """Make one call, and one for each server with a record of a move on its way.

        Nova sets a server's task before the record of its move, and clears it at the end: a record
        of a server without a task was left behind by a nova-compute or conductor that died.
        """
        answer = await self._calls(
            f"list moves to host {host}",
            COMPUTE,
            "GET",
            "/os-migrations",
            query=(("host", host), ("limit", str(NEWEST))),
            version=_MOVING,
        )
        moves = (_move(one) for one in read(answer, _Migrations).migrations)
        found = [move for move in moves if _may_arrive(move, host)]
        return tuple([move for move in found if await self._is_on_its_way(move)])

    async def _is_on_its_way(self, move: Move) -> bool:
        about, path = f"read server {move.server}", f"/servers/{checked(move.server)}"
        answer = await self._calls(
            about, COMPUTE, "GET", path, version=_READING, allow={_NOT_FOUND}
        )
        return answer.ok and bool(read(answer, OneServer).server.task_state)

    async def candidates(self, server: Server) -> tuple[Capacity, ...]:
        return await self._candidates.of(server)

    async def live_migrate(self, server: Server, target: str = "") -> None:
        """Leave to Nova which local disks have to be copied."""
        block: bool | str = "auto" if server.local_disk else False
        move = {"host": target or None, "block_migration": block}
        await self._act(f"move server {server.id} live", server, {"os-migrateLive": move})

    async def cold_migrate(self, server: Server, target: str = "") -> None:
        move = {"host": target} if target else None
        await self._act(f"move server {server.id} cold", server, {"migrate": move})

    async def confirm(self, server: Server) -> None:
        await self._act(f"confirm the move of server {server.id}", server, {"confirmResize": None})

    async def abort(self, move: Move) -> None:
        answer = await self._change(f"abort {_named(move)}", "DELETE", _path(move))
        await self._unless_ended(answer, move)

    async def force_complete(self, move: Move) -> None:
        """Force it; a migration that has ended meanwhile is no error."""
        about, path = f"force {_named(move)} to complete", f"{_path(move)}/action"
        answer = await self._change(about, "POST", path, {"force_complete": None})
        await self._unless_ended(answer, move)

    async def close(self) -> None:
        """End pending reads."""
        await self._groups.close()
        await self._candidates.close()

    async def _act(self, about: str, server: Server, body: object) -> None:
        await self._calls.act(about, checked(server.id), body, _ACTING)

    async def _change(self, about: str, method: str, path: str, body: object = None) -> Answer:
        return await self._calls(
            about, COMPUTE, method, path, body=body, version=_ACTING, allow=_ENDED
        )

    async def _unless_ended(self, answer: Answer, move: Move) -> None:
        """Raise Nova's refusal unless the move has ended: 400, 404, 409 have other causes, too."""
        if not answer.ok and answer.code != _NOT_FOUND and await self._progress(move) is not None:
            raise refused(answer, COMPUTE)

    async def _list_servers(self, host: str) -> list[NovaServer]:
        query = (("all_tenants", "1"), ("host", host))
        about, path = f"list the servers on host {host}", "/servers/detail"
        pages = await self._calls.pages(about, path, NovaServers, query=query, version=_READING)
        return [one for page in pages for one in page.servers if one.host == host]

    async def _groups_of(self, servers: set[str]) -> dict[str, ServerGroup]:
        """Return the groups, listed again unless the listing at hand covers each of the servers.

        Nova puts a server into a group before it has a host, and never later: a server that was
        looked up once and is in none is not looked up again.

        Source: nova, compute/api.py, _provision_instances.
        """
        new = servers - self._ungrouped
        groups = (await self._groups.seen_with(new.issubset)).answer
        if len(self._ungrouped) > _KEPT:
            self._ungrouped.clear()
        self._ungrouped |= servers - groups.keys()
        return groups

    async def _list_groups(self) -> dict[str, ServerGroup]:
        """List the groups; None where Nova's policy forbids it: servers can be moved anyway."""
        try:
            found = await self._read_groups()
        except RefusedError as error:
            self.groups_refused = str(error)
            return {}
        self.groups_refused = ""
        return found

    async def _read_groups(self) -> dict[str, ServerGroup]:
        """Return the group of each grouped server, by offset: groups have no next links."""
        found = dict[str, ServerGroup]()
        size = int(LIMIT[1])
        for page in range(MOST_PAGES):
            query = (("all_projects", "True"), LIMIT, ("offset", str(page * size)))
            answer = await self._calls(
                "list the server groups",
                COMPUTE,
                "GET",
                "/os-server-groups",
                query=query,
                version=_ACTING,
                deadline=LONG,
            )
            groups = read(answer, _Groups).server_groups
            for one in groups:
                for member in one.members:
                    others = tuple(other for other in one.members if other != member)
                    found[member] = ServerGroup(one.policy, others)
            if len(groups) < size:
                return found
        raise UnreachableError(f"list the server groups: more than {MOST_PAGES} pages")

    async def _with_more(self, moves: list[Move]) -> tuple[Move, ...]:
        """Add what the records lack: the progress of long moves, and why failed ones failed."""
        now = datetime.now(UTC)
        async with asyncio.TaskGroup() as tasks:
            reads = {
                move.id: tasks.create_task(read_more(move), name=f"move-{move.id}")
                for move in moves
                if (read_more := self._unread(move, now))
            }
        return tuple(
            reads[move.id].result()
            if move.id in reads
            else replace(move, message=self._reasons.known.get(move.id, ""))
            for move in moves
        )

    def _unread(
        self, move: Move, now: datetime
    ) -> Callable[[Move], Coroutine[None, None, Move]] | None:
        """Return the call that reads more of a move than its record; None when none is needed."""
        if move.status in _FAILED:
            reads = move.id in self._reasons.known or now - move.updated > RECENT
            return None if reads else self._reasons.add
        live = move.kind == MoveKind.LIVE and move.status in _PROGRESSING
        return self._add_progress if live and now - move.created > LONG_MOVE else None

    async def _add_progress(self, move: Move) -> Move:
        try:
            return _updated(move, await self._progress(move))
        except (UnreachableError, RefusedError):
            return move  # the record is enough for now

    async def _progress(self, move: Move) -> _Progress | None:
        """Return the progress of a live migration; None when it has ended."""
        answer = await self._calls(
            f"read {_named(move)}",
            COMPUTE,
            "GET",
            _path(move),
            version=_MOVING,
            allow={_NOT_FOUND},
        )
        return read(answer, _OneProgress).migration if answer.ok else None


def _may_arrive(move: Move, host: str) -> bool:
    """Whether a server may arrive on the host by a move, or come back when a resize is reverted."""
    if move.status == _REVERTING:
        return move.source == host
    return move.target == host and not move.ended


def _named(move: Move) -> str:
    return f"migration {move.id} of server {move.server}"


def _path(move: Move) -> str:
    return f"/servers/{checked(move.server)}/migrations/{checked(move.id)}"


def _updated(move: Move, progress: _Progress | None) -> Move:
    if progress is None:
        return move
    return replace(
        move,
        total=progress.memory_total_bytes or 0,
        remaining=progress.memory_remaining_bytes or 0,
        disk_remaining=progress.disk_remaining_bytes or 0,
        updated=read_time(progress.updated_at) or move.updated,
    )


def _move(one: _Migration) -> Move:
    created = read_time(one.created_at) or datetime.fromtimestamp(0, UTC)
    return Move(
        id=str(one.id),
        server=one.instance_uuid,
        kind=one.migration_type,
        status=one.status,
        source=one.source_compute or "",
        target=one.dest_compute or "",
        created=created,
        updated=read_time(one.updated_at) or created,
    )


class _Migration(msgspec.Struct, frozen=True):
    id: int
    instance_uuid: str
    status: str
    migration_type: str = ""
    source_compute: str | None = None
    dest_compute: str | None = None
    created_at: str = ""
    updated_at: str | None = None


class _Migrations(msgspec.Struct, frozen=True):
    migrations: tuple[_Migration, ...]


class _Progress(msgspec.Struct, frozen=True):
    memory_total_bytes: int | None = None
    memory_remaining_bytes: int | None = None
    disk_remaining_bytes: int | None = None
    updated_at: str | None = None


class _OneProgress(msgspec.Struct, frozen=True):
    migration: _Progress


class _Group(msgspec.Struct, frozen=True):
    policy: str
    members: tuple[str, ...] = ()


class _Groups(msgspec.Struct, frozen=True):
    server_groups: tuple[_Group, ...]
