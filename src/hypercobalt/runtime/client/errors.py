"""Errors of calls to the API server, within the one error hierarchy.

An answer with a Status becomes an `ApiError`; no answer becomes a `TransientError` of its own.
Whether trying again can help is in the class, so that a controller needs no table of codes.

Source: k8s.io/apimachinery, api/errors/errors.go and meta/v1 Status.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec

from hypercobalt.api.meta import Struct
from hypercobalt.errors import HypercobaltError, TerminalError, TransientError

MAX_RETRY_AFTER = timedelta(minutes=5)  # whatever a server requests
_MAX_TEXT = 512  # of a body that is no Status: enough to identify the proxy that wrote it


class StatusCause(Struct, frozen=True):
    """One field that the server refused."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Struct, frozen=True):
    """Which object a Status is about, and why."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retryAfterSeconds: int = 0  # noqa: N815 - wire name


class Status(Struct, frozen=True):
    """The API server's answer when it does not answer with an object."""

    status: str = ""
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None
    code: int = 0


class ApiError(HypercobaltError):
    """The API server refused.

    Attributes:
        status: its Status; made up from the HTTP code when the body was none.
        about: verb and object of the call, as in `patch Hypervisor kvm-a`.
    """

    def __init__(self, about: str, status: Status, *, retry_after: timedelta | None = None) -> None:
        # Past the mixed-in class, whose own arguments are the attributes set below.
        Exception.__init__(self, f"{about}: {status.message} ({status.code} {status.reason})")
        self.about, self.status = about, status
        self.retry_after = retry_after
        self.reason = status.reason

    @property
    def code(self) -> int:
        """HTTP status code."""
        return self.status.code

    @property
    def causes(self) -> tuple[StatusCause, ...]:
        """The refused fields, where the server names them."""
        return self.status.details.causes if self.status.details else ()


class TransientApiError(ApiError, TransientError):
    """Refused for now: overload, a server's fault, a missing permission that may be granted."""


class TerminalApiError(ApiError, TerminalError):
    """The request was refused for its content: sending it again gives the same answer."""


class NotFoundError(TransientApiError):
    """The object to change is not there; `get` and `delete` return None and ABSENT instead."""


class ConflictError(TransientApiError):
    """The object has changed since it was read, or another manager owns a field: read again."""


class AlreadyExistsError(TransientApiError):
    """The object to create is there already: read it."""


class GoneError(TransientApiError):
    """The requested version of the collection is no longer kept: list again."""


class InvalidError(TerminalApiError):
    """The object breaks its schema or a rule; `causes` names the fields."""


class UnauthorizedError(TransientApiError):
    """The credentials are not, or no longer, known; fresh ones were tried."""


class ForbiddenError(TransientApiError):
    """The credentials are known and may not do this; a role may be granted at any time."""


class ConnectionFailedError(TransientError):
    """No answer: refused, reset, or not even a name; the request may or may not have been done."""


class DeadlineExceededError(TransientError):
    """No answer in time; the request may or may not have been done."""


class WatchClosedError(TransientError):
    """A watch broke off, or went silent for longer than the server may be."""


class NotLeadingError(TransientError):
    """This process no longer leads, so it must not write."""


_BY_REASON: dict[str, type[ApiError]] = {
    "AlreadyExists": AlreadyExistsError,
    "Expired": GoneError,
    "Gone": GoneError,
    "Invalid": InvalidError,
}
_BY_CODE: dict[int, type[ApiError]] = {
    400: TerminalApiError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    405: TerminalApiError,
    406: TerminalApiError,
    409: ConflictError,
    410: GoneError,
    413: TerminalApiError,
    415: TerminalApiError,
    422: InvalidError,
}
_status_decoder = msgspec.json.Decoder(Status)


def from_status(about: str, status: Status, *, retry_after: timedelta | None = None) -> ApiError:
    """The error of the class that the Status calls for."""
    class_ = _BY_REASON.get(status.reason) or _BY_CODE.get(status.code, TransientApiError)
    if retry_after is None and status.details and status.details.retryAfterSeconds:
        retry_after = requested_wait(status.details.retryAfterSeconds)
    return class_(about, status, retry_after=retry_after)


def requested_wait(seconds: float) -> timedelta:
    """The wait that a server requests, within reason."""
    return timedelta(seconds=min(max(seconds, 0), MAX_RETRY_AFTER.total_seconds()))


def as_conflict(error: ApiError) -> ConflictError:
    """The same refusal, known to be for what another writer has changed meanwhile."""
    message = f"it has changed since it was read; {error.status.message}"
    status = Status(code=409, reason="Conflict", message=message)
    return ConflictError(error.about, status)


def read_status(code: int, body: bytes) -> Status:
    """The Status in a refusal's body; one that quotes the body when a proxy wrote it."""
    try:
        status = _status_decoder.decode(body)
    except msgspec.DecodeError:
        status = Status()
    text = status.message or body[:_MAX_TEXT].decode(errors="replace").strip() or "no message"
    return msgspec.structs.replace(
        status, code=code, message=text, reason=status.reason or f"HTTP{code}"
    )
