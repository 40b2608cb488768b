"""What a call to OpenStack can fail with. An answer of 4xx is none of these: it is an `Answer`."""

from __future__ import annotations

from datetime import timedelta

from hypercobalt.errors import TransientError


class NoAnswerError(TransientError):
    """No useful answer: none at all, 5xx, 429, 401 for a fresh token, or a body that is garbage.

    Args:
        message: the request, its service, and what happened instead.
        retry_after: the wait that the service requested, or until the circuit closes.
        down: the service as a whole seems to be away, not this one call.
        sent: the service may have seen the request, and done it.
    """

    def __init__(
        self,
        message: str,
        *,
        retry_after: timedelta | None = None,
        down: bool = True,
        sent: bool = True,
    ) -> None:
        super().__init__(message, retry_after=retry_after)
        self.down = down
        self.sent = sent


class NotAuthenticatedError(NoAnswerError):
    """Keystone issues no token: it is away, the password is wrong, there is no such project."""


class NoEndpointError(NoAnswerError):
    """The catalogue does not have the service in this region."""


class CircuitOpenError(NoAnswerError):
    """The service was away a moment ago, so the call was not sent."""
