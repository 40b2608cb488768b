"""What can go wrong in a call to a compute service. Absence is None or an empty answer."""

from __future__ import annotations

from hypercobalt.errors import HypercobaltError, TerminalError, TransientError


class ComputeError(HypercobaltError):
    """A call to a compute service has failed; the subclass has the cause."""


class UnreachableError(ComputeError, TransientError):
    """The service did not answer, or answered that it cannot now: time-outs, 5xx, 429, bad answers.

    The effect of the call is unknown: read the state before calling again.
    """


class ComputeConflictError(ComputeError, TransientError):
    """Something has changed since it was read (409): read again, then decide again."""


class MayRunElsewhereError(ComputeConflictError):
    """A server is not started, as a host that may run it does not answer. Nothing was done.

    The same call is safe later, and this one does not count as a failed attempt.
    """


class RefusedError(ComputeError, TerminalError):
    """The service understood the call and refused it (400, 403, or 404 of an object that it needs).

    Args:
        message: the request, and the service's own text.
        reason: CamelCase reason for the condition that reports it.
        code: status code of HTTP; 0 where there is none.
    """

    def __init__(self, message: str, *, reason: str = "Refused", code: int = 0) -> None:
        super().__init__(message, reason=reason)
        self.code = code
