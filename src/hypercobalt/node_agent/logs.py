"""Lines of the host's journal for people, as a stream.

Source: docs/host.md, "Logs".
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from hypercobalt.adapters.host.journal import FOLLOW, KERNEL, LINES, UNITS, Journal, LineSelection
from hypercobalt.agent.diagnostics.use import RefusedUseError, Use, UseRequest
from hypercobalt.api.duration import parse_duration
from hypercobalt.api.times import parse_time
from hypercobalt.runtime import Clock
from hypercobalt.runtime.routes import Stream

PARAMETERS: Final = frozenset({"unit", "lines", "since", "follow"})
_DEFAULT_LINES: Final = 200
_LONGEST: Final = 64  # characters of a value in a message


class Logs:
    """What people may read of this host's journal.

    Args:
        journal: of the host.
        clock: for `since`.
    """

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal, self._clock = journal, clock

    def use(self) -> Use:
        """The one use."""
        return Use(
            name="logs",
            right="logs",
            handle=self._handle,
            parameters=PARAMETERS,
            seconds=25.0,
            lasts=FOLLOW.total_seconds(),
        )

    async def _handle(self, request: UseRequest) -> Stream:
        lines = self._journal.read(order_of(request.parameters, self._clock.now()))
        # The first item comes once the journal can be read; from then on, closing ends it.
        await anext(lines)
        return Stream(lines)


def order_of(parameters: Mapping[str, str], now: datetime) -> LineSelection:
    """The parameters of a request.

    Raises:
        RefusedUseError: a parameter has no such value.
    """
    unit = parameters.get("unit", "").removesuffix(".service")
    if unit and unit not in (*UNITS, KERNEL):
        known = ", ".join((*UNITS, KERNEL))
        raise RefusedUseError(f"unit {unit[:_LONGEST]!a}: must be one of {known}")
    follow = parameters.get("follow", "false")
    if follow not in {"true", "false"}:
        raise RefusedUseError(f"follow {follow[:_LONGEST]!a}: must be true or false")
    return LineSelection(unit, _lines(parameters), _since(parameters, now), follow == "true")


def _lines(parameters: Mapping[str, str]) -> int:
    text = parameters.get("lines", str(_DEFAULT_LINES))
    digits = text.isascii() and text.isdigit() and len(text) <= len(str(LINES))
    if not digits or int(text) > LINES:
        raise RefusedUseError(
            f"lines {text[:_LONGEST]!a}: must be a whole number from 0 to {LINES}"
        )
    return int(text)


def _since(parameters: Mapping[str, str], now: datetime) -> datetime | None:
    text = parameters.get("since", "")
    if not text:
        return None
    try:
        return now - parse_duration(text)
    except (ValueError, OverflowError):
        pass
    try:
        return parse_time(text)
    except ValueError as error:
        raise RefusedUseError(
            f"since {text[:_LONGEST]!a}: must be a duration such as 10m, or a time such as "
            "2026-01-31T12:00:00Z"
        ) from error
