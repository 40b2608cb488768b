"""Conditions as the Kubernetes API conventions define them.

Invariant: one condition per type, and `lastTransitionTime` moves only when `status` does.

Source: k8s.io/apimachinery, meta/v1 Condition and api/meta/conditions.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

from hypercobalt.api.meta import Struct
from hypercobalt.api.schema import Field, Limits
from hypercobalt.errors import HypercobaltError

REASON_PATTERN = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
TYPE_PATTERN = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
MAX_MESSAGE = 32768  # characters
MAX_REASON = 1024
MAX_TYPE = 316
AGENT_MESSAGE = 2048
"""Characters of a message that an agent may write; its policy refuses a longer one."""
AGENT_REASON = 128
CUT_MARK = " … (cut)"

_REASON = re.compile(REASON_PATTERN, re.ASCII)
_TYPE = re.compile(TYPE_PATTERN, re.ASCII)


class InvalidConditionError(HypercobaltError, ValueError):
    """A condition that the API server would refuse."""


class ConditionStatus(StrEnum):
    """The three answers that a condition can give."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Struct, frozen=True):
    """One aspect of the current state of an object."""

    type: Annotated[
        str,
        Field(
            "What the condition is about, in CamelCase or as the name of a systemd unit.",
            limits=Limits(max_length=MAX_TYPE, pattern=TYPE_PATTERN),
        ),
    ]
    status: Annotated[
        str,
        Field(
            "Whether the condition holds: True, False or Unknown.",
            limits=Limits(enum=("True", "False", "Unknown")),
        ),
    ]
    reason: Annotated[
        str,
        Field(
            "Why the condition has this status: from a closed set, for programs.",
            limits=Limits(min_length=1, max_length=MAX_REASON, pattern=REASON_PATTERN),
        ),
    ]
    message: Annotated[
        str,
        Field(
            "Details for people; may be empty.",
            required=True,
            limits=Limits(max_length=MAX_MESSAGE),
        ),
    ]
    lastTransitionTime: Annotated[
        datetime, Field("When the status last changed from one value to another.")
    ]
    observedGeneration: Annotated[
        int | None,
        Field(
            "The metadata.generation that the condition was computed from. If it is older than "
            "the object's generation, the condition is out of date.",
            limits=Limits(minimum=0, format="int64"),
        ),
    ] = None


def set_condition(
    conditions: tuple[Condition, ...],
    type_: str,
    status: str,
    reason: str,
    message: str,
    *,
    now: datetime,
    observed_generation: int | None = None,
) -> tuple[Condition, ...]:
    """Return `conditions` with the one of `type_` set, in its old place or at the end.

    Args:
        conditions: as read; at most one per type.
        type_: at most 316 characters.
        status: True, False or Unknown.
        reason: CamelCase, 1 to 1024 characters.
        message: cut to 32768 characters, visibly.
        now: time of this pass, aware; kept to the second, as the API does. It becomes
            `lastTransitionTime` only if the status changes.
        observed_generation: generation of the object that was looked at; None keeps the old one.

    Returns:
        The same tuple object if nothing changes, so that `is` shows whether to write.

    Raises:
        InvalidConditionError: the API server would refuse the condition.
    """
    old = get_condition(conditions, type_)
    new = next_condition(
        old, type_, status, reason, message, now=now, observed_generation=observed_generation
    )
    if old is None:
        return (*conditions, new)
    if old == new:
        return conditions
    return tuple(new if c.type == type_ else c for c in conditions)


def next_condition(
    old: Condition | None,
    type_: str,
    status: str,
    reason: str,
    message: str,
    *,
    now: datetime,
    observed_generation: int | None = None,
) -> Condition:
    """The new version of the condition `old`, which may be None. See `set_condition`."""
    _check(type_, status, reason, now)
    since = now.astimezone(UTC).replace(microsecond=0)
    return Condition(
        type=type_,
        status=str(status),
        reason=str(reason),
        message=cut(message),
        lastTransitionTime=old.lastTransitionTime if old and old.status == status else since,
        observedGeneration=(
            old.observedGeneration if old and observed_generation is None else observed_generation
        ),
    )


def get_condition(conditions: Iterable[Condition], type_: str) -> Condition | None:
    """The condition of the given type, or None."""
    return next((c for c in conditions if c.type == type_), None)


def is_true(conditions: Iterable[Condition], type_: str) -> bool:
    """Whether the condition is there and True; absent and Unknown are both no."""
    found = get_condition(conditions, type_)
    return found is not None and found.status == ConditionStatus.TRUE


def is_false(conditions: Iterable[Condition], type_: str) -> bool:
    """Whether the condition is there and False; absent and Unknown are both no."""
    found = get_condition(conditions, type_)
    return found is not None and found.status == ConditionStatus.FALSE


def remove_condition(conditions: tuple[Condition, ...], type_: str) -> tuple[Condition, ...]:
    """Return `conditions` without the one of `type_`; the same tuple object if it is not there."""
    if get_condition(conditions, type_) is None:
        return conditions
    return tuple(c for c in conditions if c.type != type_)


def _check(type_: str, status: str, reason: str, now: datetime) -> None:
    if len(type_) > MAX_TYPE or not _TYPE.fullmatch(type_):
        raise InvalidConditionError(
            f"condition type {type_!r}: must be at most {MAX_TYPE} characters "
            f"matching {TYPE_PATTERN}"
        )
    if status not in tuple(ConditionStatus):
        raise InvalidConditionError(
            f"condition {type_}: status {status!r} must be True, False or Unknown"
        )
    if len(reason) > MAX_REASON or not _REASON.fullmatch(reason):
        raise InvalidConditionError(
            f"condition {type_}: reason {reason!r} must be 1 to {MAX_REASON} characters "
            f"matching {REASON_PATTERN}"
        )
    if now.tzinfo is None:
        raise InvalidConditionError(f"condition {type_}: time {now} has no time zone")


def cut(text: str, longest: int = MAX_MESSAGE) -> str:
    """`text` in so many characters at most, visibly cut."""
    if len(text) <= longest:
        return text
    return text[: longest - len(CUT_MARK)] + CUT_MARK
