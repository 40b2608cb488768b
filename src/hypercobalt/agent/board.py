"""Where each concern of an agent puts its latest part of the status.

The board holds observations, not the API object: the applier makes one apply out of them. A part
that no concern has put yet is unknown, and the value that the API has is kept. No I/O here, and no
waiting but for a change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Generic, TypeVar

from hypercobalt.api.conditions import ConditionStatus
from hypercobalt.runtime import Clock
from hypercobalt.runtime.observable import Observable


@dataclass(frozen=True, slots=True)
class ConditionReport:
    """The report of a concern on one condition type.

    Args:
        reason: CamelCase, never empty.
        since: when the status became this one, UTC; the board fills it in.
    """

    status: ConditionStatus
    reason: str
    message: str = ""
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything on the board at one moment; an agent adds its own fields, None while unknown.

    Args:
        conditions: by type; None for a type that the object shall not have (any more).
    """

    conditions: Mapping[str, ConditionReport | None] = field(
        default_factory=dict[str, ConditionReport | None]
    )


P = TypeVar("P", bound=Parts)


class Board(Generic[P]):
    """The latest of everything; single-threaded, on the event loop."""

    def __init__(self, clock: Clock, parts: P) -> None:
        self._clock, self._parts = clock, Observable(parts)

    @property
    def parts(self) -> P:
        """The present content of the board; a new object after every change."""
        return self._parts.value

    def put(self, parts: P) -> None:
        """Replace what is on the board: `board.put(replace(board.parts, field=value))`."""
        if parts != self.parts:
            self._parts.set(parts)

    def put_condition(
        self, type_: str, status: ConditionStatus, reason: str, message: str = ""
    ) -> None:
        """Report a condition; reporting the same again changes nothing.

        Args:
            type_: of the condition, such as `libvirtd.service`.
            status: True, False or Unknown.
            reason: CamelCase, 1 to 1024 characters.
            message: for a person; hostile text is fine, it is cut and cleaned when written.
        """
        old = self.parts.conditions.get(type_)
        since = old.since if old and old.status == status else self._clock.now()
        verdict = ConditionReport(status, reason, message, since)
        self.put(replace(self.parts, conditions={**self.parts.conditions, type_: verdict}))

    def drop_condition(self, type_: str) -> None:
        """Report that the object shall not have this condition."""
        self.put(replace(self.parts, conditions={**self.parts.conditions, type_: None}))

    async def changed(self, since: P) -> P:
        """Wait until the board differs from `since`; return what is on it then."""
        return await self._parts.changed(since)
