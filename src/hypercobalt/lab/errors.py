"""Errors of the lab; their messages are for the person at the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from hypercobalt.errors import HypercobaltError, InvalidRequestError


class LabError(HypercobaltError):
    """The lab, or a host in it, cannot carry out a request; the message has cause and remedy."""


class LabRequestError(LabError, InvalidRequestError):
    """A value is invalid, or a name is not in the lab, or is taken."""


class CommandError(LabError):
    """A command failed, or was not done in time.

    Args:
        argv: the command.
        code: its exit code; None when it was not done in time.
        output: of both streams.
        where: the host it ran in; empty for the machine itself.
    """

    def __init__(
        self, argv: Sequence[str], code: int | None, output: str = "", where: str = ""
    ) -> None:
        how = "was not done in time" if code is None else f"failed with code {code}"
        place = f" in {where}" if where else ""
        printed = f": {output.strip()[-2000:]}" if output.strip() else ""
        super().__init__(f"`{' '.join(argv)}`{place} {how}{printed}")
        self.code = code
        self.output = output


def first_of(group: BaseExceptionGroup[HypercobaltError | OSError]) -> HypercobaltError | OSError:
    """Return the first error of a group, and of the groups in it."""
    first = group.exceptions[0]
    return first_of(first) if isinstance(first, BaseExceptionGroup) else first
