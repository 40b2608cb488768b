"""Counts uses of diagnostics for `/metrics`, by kind and outcome: both closed sets.

Events record who used what, and the API server forgets them after an hour; the counters show how
often a use was requested, and how often it failed.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from http import HTTPStatus
from typing import Final

from prometheus_client import CollectorRegistry, Counter

NAME: Final = "hypercobalt_diagnostics_uses_total"

NO_USE: Final = "none"
"""Label of a request that names no use."""


class UseOutcome(StrEnum):
    """Outcomes of a request."""

    ANSWERED = "answered"
    """A whole answer, or a stream until its end, its time, or its client's leaving."""

    REFUSED = "refused"
    """The request is invalid."""

    DENIED = "denied"
    """The requester is unknown, or lacks the right."""

    BUSY = "busy"
    """As many requests as are allowed at once were under way."""

    UNAVAILABLE = "unavailable"
    """What is behind it, or the API server, does not answer."""

    TIMEOUT = "timeout"
    """The answer took too long."""

    FAILED = "failed"
    """A bug."""

    ABANDONED = "abandoned"
    """The client left, or the agent stopped, before there was an answer."""


_OF_STATUS: Final = {
    HTTPStatus.OK: UseOutcome.ANSWERED,
    HTTPStatus.UNAUTHORIZED: UseOutcome.DENIED,
    HTTPStatus.FORBIDDEN: UseOutcome.DENIED,
    HTTPStatus.TOO_MANY_REQUESTS: UseOutcome.BUSY,
    HTTPStatus.SERVICE_UNAVAILABLE: UseOutcome.UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT: UseOutcome.TIMEOUT,
    HTTPStatus.INTERNAL_SERVER_ERROR: UseOutcome.FAILED,
}


def outcome_of(status: int) -> UseOutcome:
    """The outcome of an answer, by its HTTP status."""
    return next((one for code, one in _OF_STATUS.items() if code == status), UseOutcome.REFUSED)


class Counts:
    """The counters of one agent; each has a series from the start, so that the first use is seen.

    Args:
        uses: names of what the agent offers.
        registry: of the agent's metrics.
    """

    def __init__(self, uses: Iterable[str], registry: CollectorRegistry) -> None:
        self._uses = frozenset(uses)
        text = "Uses of diagnostics by people, by kind and outcome."
        self._counter = Counter(NAME, text, ("use", "outcome"), registry=registry)
        for use in sorted(self._uses):
            for outcome in UseOutcome:
                self._counter.labels(use, outcome)

    def add(self, use: str, outcome: UseOutcome) -> None:
        """Count a request; one for no use counts as NO_USE."""
        self._counter.labels(use if use in self._uses else NO_USE, outcome).inc()
