"""Reasons of failed moves: Nova's record does not have them, but the server's actions do.

Each failed move costs two calls, once.

Source: OpenStack Compute API reference, "Servers - instance actions", microversion 2.84.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from hypercobalt.compute.errors import RefusedError, UnreachableError
from hypercobalt.compute.model import Move
from hypercobalt.compute.nova import actions
from hypercobalt.compute.nova.calls import Calls
from hypercobalt.compute.nova.times import read_time

_SLACK: Final = timedelta(seconds=5)
"""Tolerance for the start of an action, before its move's record, and for Nova's clocks."""
_SETTLED: Final = timedelta(seconds=30)
"""Age from which a record without a reason is taken to have none."""
_KEPT: Final = 1000


class Reasons:
    """Reasons of failed moves, kept."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self.known: dict[str, str] = {}
        """Reason by the id of the move."""

    async def add(self, move: Move) -> Move:
        """Return a failed move with its reason, if Nova reports it."""
        try:
            why = await self._fetch(move)
        except (UnreachableError, RefusedError):
            return move  # read again with the next listing
        if why or datetime.now(UTC) - move.updated > _SETTLED:
            if len(self.known) >= _KEPT:
                self.known.clear()
            self.known[move.id] = why
        return replace(move, message=why)

    async def _fetch(self, move: Move) -> str:
        about = f"read why migration {move.id} failed"
        before = move.created + _SLACK
        for action in await actions.listed(self._calls, about, move.server):
            began = read_time(action.start_time)
            if action.failed and began is not None and began <= before:
                id_ = action.request_id
                found = await actions.with_events(self._calls, about, move.server, id_)
                return found.cause if found is not None else ""
        return ""
