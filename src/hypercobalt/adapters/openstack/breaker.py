"""A circuit breaker: a service that is away gets one call from time to time, not all of them.

Closed, everything passes. After some failures in a row it opens for a while, then lets one call
through as a probe; that closes it, or opens it for twice as long. No I/O, and the clock is given.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

_random = random.SystemRandom()
_PROBE_SECONDS = 1.0  # others look again after this long while one call probes


def jitter(seconds: float) -> float:
    """Add up to a fifth, so that processes that failed together do not call together again."""
    return seconds * _random.uniform(1.0, 1.2)


@dataclass(frozen=True, slots=True)
class Rules:
    """When a breaker opens, and for how long.

    Args:
        failures: in a row, that open it.
        first: seconds that it stays open the first time.
        longest: seconds that it stays open at most.
        jitter: turns those seconds into the wait.
    """

    failures: int = 5
    first: float = 1.0
    longest: float = 60.0
    jitter: Callable[[float], float] = jitter


class Breaker:
    """Circuit breaker of one service.

    Args:
        clock: seconds that never step back.
        rules: when it opens.
    """

    def __init__(self, clock: Callable[[], float], rules: Rules) -> None:
        self._clock, self._rules = clock, rules
        self._failures = 0
        self._wait = 0.0  # seconds that it was opened for last; 0 while closed
        self._until = 0.0
        self._probing = False
        self.why = ""

    @property
    def open_for(self) -> float:
        """Seconds until a call may be tried; 0 when one may now."""
        return max(0.0, self._until - self._clock()) if self._wait else 0.0

    def admit(self) -> float:
        """Request permission for a call: 0 permits it, else the seconds to wait.

        A caller that is let through records the end: `succeeded`, `failed` or `unknown`.
        """
        if not self._wait:
            return 0.0
        if self.open_for:
            return self.open_for
        if self._probing:
            return _PROBE_SECONDS
        self._probing = True
        return 0.0

    def succeeded(self) -> None:
        """The service answered."""
        self._failures, self._wait, self._probing, self.why = 0, 0.0, False, ""

    def failed(self, why: str, *, at_once: bool = False) -> None:
        """The service did not answer.

        Args:
            why: for people.
            at_once: open without waiting for more failures.
        """
        self._failures += 1
        if self._wait and not self._probing:
            return  # a call from before it opened
        self._probing, self.why = False, why
        if self._wait or at_once or self._failures >= self._rules.failures:
            self._wait = min(self._wait * 2 or self._rules.first, self._rules.longest)
            self._until = self._clock() + self._rules.jitter(self._wait)

    def unknown(self) -> None:
        """The caller went away before there was an answer."""
        self._probing = False
