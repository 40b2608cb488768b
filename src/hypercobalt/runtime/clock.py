"""The two clocks, injected so that tests can hold them.

`now()` is what people read and may step; `monotonic()` never steps and is what intervals, leases
and backoffs are measured by. Nothing in the runtime computes an interval from `now()`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """The time, as the runtime and the controllers read it."""

    def now(self) -> datetime:
        """The wall clock, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary moment; never steps back."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds since boot, the time that the machine was suspended included.

        CLOCK_MONOTONIC stands still during a suspend: a leader that wakes up would believe that its
        lease had not aged.
        """
        return time.clock_gettime(time.CLOCK_BOOTTIME)


class FakeClock:
    """A clock for tests: moves by `advance`, and its wall clock can be stepped by `step`.

    Args:
        now: what the wall clock shows first.
        source: seconds to follow besides, such as the event loop's `time`; None stands still but
            for `advance`.
    """

    def __init__(
        self,
        now: datetime = datetime(2026, 1, 1, tzinfo=UTC),
        *,
        source: Callable[[], float] | None = None,
    ) -> None:
        self._source = source
        self._started = source() if source else 0.0
        self._advanced = 0.0
        self._wall = now

    def now(self) -> datetime:
        return self._wall + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        followed = self._source() - self._started if self._source else 0.0
        return followed + self._advanced

    def advance(self, by: timedelta) -> None:
        """Let time pass on both clocks."""
        self._advanced += by.total_seconds()

    def step(self, by: timedelta) -> None:
        """Set the wall clock forward or back, as a time daemon or a person may."""
        self._wall += by
