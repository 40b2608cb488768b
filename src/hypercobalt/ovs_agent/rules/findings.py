"""What a rule finds: something wrong with one object, under a stable identity."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, TypeVar

from hypercobalt.api.ovsnode import IssueSeverity
from hypercobalt.api.ovsnode_reasons import IssueCode

V = TypeVar("V")


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
