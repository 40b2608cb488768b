"""The one error hierarchy.

Every error that hypercobalt raises on purpose is a `HypercobaltError`. Its message names the
object, the field, the value and the way out. Adapters translate their library's errors into one of
these at the door (`raise … from exc`); absence is `None`, not an error.
"""

from __future__ import annotations

from datetime import timedelta


class HypercobaltError(Exception):
    """Root of every error raised on purpose."""


class TransientError(HypercobaltError):
    """The same call may succeed later: try again, with backoff.

    Args:
        message: what failed, on which object, and what to look at.
        retry_after: the wait that the server requested, if it did.
    """

    def __init__(self, message: str, *, retry_after: timedelta | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class TerminalError(HypercobaltError):
    """A retry cannot succeed until the object is changed.

    Args:
        message: what is wrong, where, and what to change.
        reason: CamelCase reason for the condition that reports it.
    """

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class InvalidRequestError(HypercobaltError):
    """What is requested cannot be: a name, a value or the state of an object is in the way.

    A command ends with exit code 2, where any other error ends it with 1.
    """


class ConfigurationError(InvalidRequestError):
    """A flag, an environment variable or a configuration file cannot be used."""


def words(error: BaseException) -> str:
    """The message of an error; its class where it has none, as a TimeoutError of asyncio."""
    return str(error) or type(error).__name__
