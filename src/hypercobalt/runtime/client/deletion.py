"""The options of a delete, and the meaning of its answer. Pure.

Source: meta/v1 DeleteOptions.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Literal

import msgspec

from hypercobalt.api.nesting import read

Propagation = Literal["Background", "Foreground", "Orphan"]


class Deletion(StrEnum):
    """Result of a delete."""

    ABSENT = "absent"  # there was nothing to delete
    GONE = "gone"
    TERMINATING = "terminating"  # finalizers or a grace period keep it for now


class _DeletedMeta(msgspec.Struct, frozen=True):
    finalizers: tuple[str, ...] = ()
    deletionGracePeriodSeconds: int | None = None  # noqa: N815 - wire name


class _Deleted(msgspec.Struct, frozen=True):
    """The answer to a delete: the object that stays for now, or a Status."""

    metadata: _DeletedMeta = _DeletedMeta()


_decoder = msgspec.json.Decoder(_Deleted)


def delete_options(
    *,
    uid: str | None,
    resource_version: str | None,
    propagation: Propagation | None,
    grace: timedelta | None,
) -> dict[str, object]:
    """The body of a delete (meta/v1 DeleteOptions)."""
    options: dict[str, object] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if grace is not None:
        options["gracePeriodSeconds"] = round(grace.total_seconds())
    if propagation is not None:
        options["propagationPolicy"] = propagation
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    if present := {name: value for name, value in preconditions.items() if value}:
        options["preconditions"] = present
    return options


def read_deletion(data: bytes) -> Deletion:
    """Whether the answer to a delete shows that the object stays for now."""
    answer = read(_decoder.decode, data).metadata
    kept = answer.finalizers or answer.deletionGracePeriodSeconds
    return Deletion.TERMINATING if kept else Deletion.GONE
