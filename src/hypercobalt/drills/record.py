"""Record of a drill's moments, in order, with the time since its start."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum

import msgspec

from hypercobalt.errors import HypercobaltError


class DrillError(HypercobaltError):
    """Something did not become of a drill what should have."""


class Mark(StrEnum):
    """Kinds of moments."""

    DONE = "done"
    """Something was done to the lab."""
    SEEN = "seen"
    """Something became as it should; `took` is the wait for it."""
    FAILED = "failed"
    STATE = "state"
    """State of the lab when the drill had failed."""


class Moment(msgspec.Struct, frozen=True):
    """One line of a drill's timeline. Seconds."""

    at: float
    mark: Mark
    text: str
    took: float | None = None


class Result(msgspec.Struct, frozen=True):
    """One drill, as it is kept.

    Args:
        failure: why it failed; "" where it passed.
        figures: measured, by name; seconds unless the name has another unit.
    """

    name: str
    purpose: str
    seconds: float
    failure: str = ""
    figures: dict[str, float] = {}
    moments: tuple[Moment, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.failure


class DrillRecord:
    """The timeline of a drill that runs.

    Args:
        show: called with each moment when it comes.
    """

    def __init__(self, show: Callable[[Moment], None] = lambda _: None) -> None:
        self._show = show
        self._began = time.monotonic()
        self.moments: list[Moment] = []
        self.figures: dict[str, float] = {}

    @property
    def now(self) -> float:
        """Seconds since the drill began."""
        return time.monotonic() - self._began

    def add(self, mark: Mark, text: str, took: float | None = None) -> None:
        moment = Moment(round(self.now, 2), mark, text, took and round(took, 2))
        self.moments.append(moment)
        self._show(moment)

    def measure(self, name: str, began: float) -> None:
        """Keep how long something took that began then, as `now` had it."""
        self.figures[name] = round(self.now - began, 2)

    def result(self, name: str, purpose: str, failure: str) -> Result:
        return Result(
            name, purpose, round(self.now, 2), failure, dict(self.figures), tuple(self.moments)
        )
