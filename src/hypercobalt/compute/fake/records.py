"""Records of moves in memory, by their ids, oldest first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime

from hypercobalt.compute.model import Move, MoveKind, Server

_MIB = 1 << 20


class FakeRecords:
    """Moves that were ever begun.

    Args:
        now: the clock.
    """

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._moves: dict[str, Move] = {}

    def begin(self, server: Server, kind: str, target: str) -> Move:
        """Record a move that begins now."""
        now, size = self._now(), server.size.memory_mib * _MIB
        id_ = str(len(self._moves) + 1)
        move = Move(id_, server.id, kind, "running", server.host, target, now, now, size, size)
        self._moves[id_] = move
        return move

    def change(
        self,
        id_: str,
        *,
        status: str,
        message: str = "",
        claimed_by: str = "",
        remaining: int | None = None,
    ) -> Move:
        """Record a new status.

        Args:
            id_: of the record.
            status: see `Move`.
            message: why it failed; "" keeps what the record has.
            claimed_by: see `Move`; "" keeps what the record has.
            remaining: bytes still to be moved; None keeps what the record has.
        """
        move = self._moves[id_]
        changed = replace(
            move,
            updated=self._now(),
            status=status,
            message=message or move.message,
            claimed_by=claimed_by or move.claimed_by,
            remaining=move.remaining if remaining is None else remaining,
        )
        self._moves[id_] = changed
        return changed

    def of(self, source: str) -> Iterable[Move]:
        """Return moves away from a host, newest first."""
        return (move for move in reversed(self._moves.values()) if move.source == source)

    def confirm(self, server: str) -> None:
        """Confirm the server's cold move that has finished."""
        for move in list(self._moves.values()):
            if (move.server, move.status) == (server, "finished"):
                self.change(move.id, status="confirmed")

    def evacuated_from(self, host: str) -> list[Move]:
        """Return evacuations after which the host has not cleaned up."""
        moves = (move for move in self.of(host) if move.kind == MoveKind.EVACUATION)
        return [move for move in moves if move.status == "done"]
