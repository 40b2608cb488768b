"""The moves of this process: those under way, and for a while those that have ended.

After a restart it is empty; moves under way are then found by the domains' jobs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from hypercobalt.compute.model import Move, MoveKind, Size

_KEPT: Final = timedelta(hours=1)
_MOST: Final = 2000


@dataclass(frozen=True, slots=True)
class MoveRecord:
    """A move, and the target's resources that it takes."""

    move: Move
    size: Size


class BytesLeft(NamedTuple):
    """How far a move is, in bytes: see `Move`."""

    total: int
    remaining: int
    disk_remaining: int


class Records:
    """Moves by their ids."""

    def __init__(self) -> None:
        self._records: dict[str, MoveRecord] = {}
        self._started: dict[tuple[str, str, str], str] = {}
        self._given: dict[tuple[str, str, str], set[str]] = {}
        self._awaited: dict[tuple[str, str], str] = {}

    def begin(
        self, server: str, size: Size, kind: MoveKind, *, source: str, target: str, now: datetime
    ) -> Move:
        """Record a move that begins now."""
        self._forget_old(now)
        id = f"{server}.{int(now.timestamp() * 1000)}"
        move = Move(id, server, kind, "preparing", source, target, created=now, updated=now)
        self._records[id] = MoveRecord(move, size)
        return move

    def change(
        self,
        move: Move,
        now: datetime,
        *,
        status: str | None = None,
        message: str = "",
        target: str | None = None,
        claimed_by: str = "",
        in_use: bool = False,
    ) -> None:
        """Record a change; fields that are not given stay as they are."""
        record = self._records[move.id]
        self._records[move.id] = replace(
            record,
            move=replace(
                record.move,
                status=status or record.move.status,
                message=message or record.move.message,
                claimed_by=claimed_by or record.move.claimed_by,
                in_use=in_use or record.move.in_use,
                target=record.move.target if target is None else target,
                updated=now,
            ),
        )

    def progress(self, move: Move, seen: BytesLeft, now: datetime) -> None:
        """Record the progress; `updated` changes only with the progress."""
        record = self._records.get(move.id)
        if record is None:
            return
        known = record.move
        if BytesLeft(known.total, known.remaining, known.disk_remaining) != seen:
            changed = replace(known, **seen._asdict(), updated=now)
            self._records[move.id] = replace(record, move=changed)

    def get(self, move: Move) -> Move:
        """Return a move in its present state."""
        record = self._records.get(move.id)
        return record.move if record else move

    def under_way(self, server: str) -> Move | None:
        """Return the server's move that has not ended."""
        return next(self._not_ended(server), None)

    def under_way_from(self, server: str, source: str) -> Move | None:
        """Return the server's move away from a host that has not ended."""
        return next((move for move in self._not_ended(server) if move.source == source), None)

    def holds_back(self, server: str, source: str) -> bool:
        """Whether a move of the server ends before it may be evacuated from a dead host.

        A live migration from another host lasts as long as that host says; the evacuation is
        refused by what it finds there.
        """
        return any(
            move.source == source or move.kind != MoveKind.LIVE for move in self._not_ended(server)
        )

    def _not_ended(self, server: str) -> Iterator[Move]:
        moves = (record.move for record in self._records.values())
        return (move for move in moves if move.server == server and not move.ended)

    def await_answer(self, server: str, source: str, host: str) -> None:
        """Record the host without whose answer a server does not leave another; "" for none."""
        if host:
            self._awaited[server, source] = host
        else:
            self._awaited.pop((server, source), None)

    def awaited(self, server: str, source: str) -> str:
        """Return the host that `await_answer` has recorded; "" for none."""
        return self._awaited.get((server, source), "")

    def moved_to(self, server: str, source: str) -> str:
        """Return where moves that have arrived took a server from a host; "" for nowhere else."""
        at = source
        for move in sorted((one.move for one in self._records.values()), key=lambda m: m.created):
            if move.server == server and move.succeeded and move.source == at:
                at = move.target
        return "" if at == source else at

    def targets(self, server: str) -> frozenset[str]:
        """Return where moves of a server that is alive go, went or were to go, however they ended.

        Evacuations do not count: see `given_to`.
        """
        moves = (record.move for record in self._records.values())
        alive = (one for one in moves if one.kind != MoveKind.EVACUATION)
        return frozenset(one.target for one in alive if one.server == server)

    def give(self, server: str, source: str, boot: str, target: str) -> None:
        """Record that a server of a dead host is about to be defined elsewhere."""
        self._given.setdefault((server, source, boot), set()).add(target)

    def given_to(self, server: str, source: str, boot: str) -> frozenset[str]:
        """Return all hosts that `give` has recorded."""
        return frozenset(self._given.get((server, source, boot), ()))

    def start(self, server: str, source: str, boot: str, target: str) -> None:
        """Record that a server of a dead host was started elsewhere: its owner's actions count."""
        self._started[server, source, boot] = target

    def started_on(self, server: str, source: str, boot: str) -> str:
        """Return where a server was started after its host died in that boot; "" for nowhere."""
        return self._started.get((server, source, boot), "")

    def of(self, source: str) -> tuple[Move, ...]:
        """Return moves away from a host, newest first."""
        found = [one.move for one in self._records.values() if one.move.source == source]
        return tuple(sorted(found, key=lambda move: move.created, reverse=True))

    def incoming(self, target: str) -> tuple[Move, ...]:
        """Return moves to a host that have not ended."""
        moves = (one.move for one in self._records.values())
        return tuple(move for move in moves if move.target == target and not move.ended)

    def claims(self, target: str, counted: frozenset[str], now: datetime) -> Size:
        """Return sizes of servers on their way to a host, or there and not counted by its agent."""
        taking = {
            record.move.server: record.size
            for record in self._records.values()
            if record.move.target == target
            and record.move.server not in counted
            and (not record.move.ended or _has_just_come(record.move, now))
        }
        return Size(
            vcpus=sum(size.vcpus for size in taking.values()),
            memory_mib=sum(size.memory_mib for size in taking.values()),
        )

    def _forget_old(self, now: datetime) -> None:
        ended = [record.move for record in self._records.values() if record.move.ended]
        old = [move for move in ended if now - move.updated > _KEPT]
        for move in old or (ended[:1] if len(self._records) >= _MOST else ()):
            del self._records[move.id]


def _has_just_come(move: Move, now: datetime) -> bool:
    return move.succeeded and now - move.updated < timedelta(minutes=1)
