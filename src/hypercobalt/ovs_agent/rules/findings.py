"""What a rule finds: something wrong with one object, under a stable identity."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, Generic, TypeVar

from hypercobalt.api.ovsnode import IssueSeverity
from hypercobalt.api.ovsnode_reasons import IssueCode

V = TypeVar("V")

LONGEST_OBJECT: Final = 128  # characters
LONGEST_MESSAGE: Final = 1024  # as in an Event


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong now; an issue once it has lasted for its grace.

    Args:
        code: with `object` the identity.
        object: what it is about.
        severity: of the issue.
        message: for a person; without values that change by themselves, as each is a write.
        grace: how long it must last to be an issue.
    """

    code: IssueCode
    object: str
    severity: IssueSeverity
    message: str
    grace: timedelta = timedelta()


def bounded(finding: Finding) -> Finding:
    """The finding as a status can have it.

    Names and external IDs of the switch may be of any length and have any characters: one must not
    make the whole status too large, nor begin a line of its own.
    """
    object_, message = plain(finding.object, LONGEST_OBJECT), finding.message
    message = plain(message, LONGEST_MESSAGE)
    if (object_, message) == (finding.object, finding.message):
        return finding
    return replace(finding, object=object_, message=message)


def plain(text: str, longest: int) -> str:
    """Printable characters of a text, on one line and cut visibly."""
    shown = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return shown if shown.isprintable() else "".join(c if c.isprintable() else "?" for c in shown)


@dataclass(frozen=True, slots=True)
class Assessed(Generic[V]):
    """What a rule gives.

    Args:
        value: for the status.
        findings: of this moment.
        unmeasured: codes of which nothing can be known now; their issues stay as they are.
    """

    value: V
    findings: tuple[Finding, ...] = ()
    unmeasured: frozenset[IssueCode] = frozenset()


def codes(*groups: Iterable[IssueCode]) -> frozenset[IssueCode]:
    """Codes of several groups."""
    return frozenset(code for group in groups for code in group)
