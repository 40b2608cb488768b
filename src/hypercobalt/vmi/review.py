"""A request to create or change a VirtualMachineInstance, and the answers to it.

Objects are plain JSON as they came: what no struct holds survives admission.

Source: k8s.io/api, admission/v1; k8s.io/apimachinery, meta/v1 StatusCause.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
"""Any JSON value, as a decoder makes it."""
JsonObject = dict[str, Json]

MOST_CAUSES: Final = 10
"""Causes that an answer carries; KubeVirt cuts there, too."""


class CauseReason(StrEnum):
    """Kinds of causes, as clients compare them."""

    INVALID = "FieldValueInvalid"
    REQUIRED = "FieldValueRequired"
    NOT_SUPPORTED = "FieldValueNotSupported"
    DUPLICATE = "FieldValueDuplicate"
    NOT_FOUND = "FieldValueNotFound"
    FORBIDDEN = "FieldValueForbidden"
    TYPE_INVALID = "FieldValueTypeInvalid"


@dataclass(frozen=True, slots=True)
class FieldCause:
    """One reason for a refusal.

    Attributes:
        reason: for programs.
        field: path from the root of the object, such as `spec.domain.memory.guest`; "" for none.
        message: for people.
    """

    reason: CauseReason
    field: str
    message: str


@dataclass(frozen=True, slots=True)
class RequestUser:
    """Who sends a request.

    Attributes:
        username: as authenticated.
        groups: as authenticated.
        node: that the token of a service account is bound to; None for no node.
    """

    username: str
    groups: tuple[str, ...] = ()
    node: str | None = None


@dataclass(frozen=True, slots=True)
class Review:
    """One request.

    Attributes:
        operation: CREATE or UPDATE.
        requester: who sends it.
        object: as it would be stored.
        old: as it is stored; None on CREATE.
    """

    operation: Literal["CREATE", "UPDATE"]
    requester: RequestUser
    object: JsonObject
    old: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class ReviewRefusal:
    """The answer to a request that is refused.

    Attributes:
        code: HTTP status.
        causes: at most `MOST_CAUSES`.
        message: the causes in one text.
    """

    code: int
    causes: tuple[FieldCause, ...]
    message: str


def refusal(causes: Iterable[FieldCause], code: int = 422) -> ReviewRefusal:
    """The answer with these causes: the first ten, and how many more there are."""
    found = tuple(causes)
    message = ", ".join(cause.message for cause in found[:MOST_CAUSES])
    if len(found) > MOST_CAUSES:
        message += f", and {len(found) - MOST_CAUSES} more"
    return ReviewRefusal(code, found[:MOST_CAUSES], message)
