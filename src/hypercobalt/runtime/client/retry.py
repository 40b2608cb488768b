"""Which failed request is sent again, and when. Pure: the transport does the waiting.

Exponential backoff with full jitter; the server's own Retry-After goes first. A request that is not
idempotent is sent again only when the server certainly has not done it.

Source: AWS Architecture Blog, "Exponential Backoff And Jitter"; client-go rest/with_retry.go.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from email.utils import parsedate_to_datetime

from hypercobalt.errors import HypercobaltError
from hypercobalt.runtime.client.errors import (
    ApiError,
    ConnectionFailedError,
    DeadlineExceededError,
    requested_wait,
)
from hypercobalt.runtime.clock import Clock

_random = random.SystemRandom()
_TOO_MANY = 429
_SERVER_FAULTS = frozenset({500, 502, 503, 504})
_MAX_DOUBLINGS = 16  # keeps 2 ** attempt small; the cap is reached long before


class NotSentError(ConnectionFailedError):
    """No connection, so the server cannot have seen the request."""


def full_jitter(ceiling: float) -> float:
    """Seconds between 0 and `ceiling`, uniformly: callers that failed together part again."""
    return _random.uniform(0, ceiling)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential growth up to a cap."""

    base: timedelta = timedelta(milliseconds=100)
    cap: timedelta = timedelta(seconds=5)
    jitter: Callable[[float], float] = full_jitter

    def wait(self, attempt: int) -> float:
        """Seconds to wait after failure number `attempt`, counted from 0."""
        grown = self.base.total_seconds() * 2.0 ** min(attempt, _MAX_DOUBLINGS)
        return self.jitter(min(grown, self.cap.total_seconds()))


def retry_wait(
    error: HypercobaltError, *, idempotent: bool, attempt: int, backoff: Backoff
) -> float | None:
    """Seconds until the request may be sent again; None if it must not be."""
    if not _may_repeat(error, idempotent=idempotent):
        return None
    if isinstance(error, ApiError) and error.retry_after is not None:
        # Jitter on top: every refused client got the same number.
        return error.retry_after.total_seconds() + backoff.wait(0)
    return backoff.wait(attempt)


def _may_repeat(error: HypercobaltError, *, idempotent: bool) -> bool:
    if isinstance(error, NotSentError):
        return True
    if isinstance(error, ApiError):
        return error.code == _TOO_MANY or (idempotent and error.code in _SERVER_FAULTS)
    return idempotent and isinstance(error, (ConnectionFailedError, DeadlineExceededError))


def read_retry_after(value: str | None, clock: Clock) -> timedelta | None:
    """The wait that a Retry-After header requests, in its seconds or its date form; else None."""
    if not value:
        return None
    try:
        if value.strip().isdecimal():
            return requested_wait(float(value))
        until = parsedate_to_datetime(value)
        return requested_wait((until - clock.now()).total_seconds())
    except (ValueError, TypeError, OverflowError):  # no date; without zone; of a year out of range
        return None
