"""Merge patches from two versions of an object. Pure.

Only what differs is sent, so that fields we do not know, and fields that others write, survive.
Lists are replaced as a whole: that is what a merge patch can say.

Source: RFC 7386.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypedDict, cast

from hypercobalt.api.codec import to_builtins
from hypercobalt.api.meta import Struct

JsonObject = Mapping[str, object]


class _Path(TypedDict):
    op: Literal["add", "remove", "replace", "test"]
    path: str


class Operation(_Path, total=False):
    """One operation of a JSON patch (RFC 6902); move and copy are left out."""

    value: object


def diff(old: Struct, new: Struct) -> dict[str, object]:
    """The merge patch that makes `new` out of `old`; empty when they are equal on the wire.

    A field that `new` does not have is removed.
    """
    return _diff(to_builtins(old), to_builtins(new))


def _diff(old: JsonObject, new: JsonObject) -> dict[str, object]:
    patch: dict[str, object] = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            if inner := _diff(cast("JsonObject", before), cast("JsonObject", value)):
                patch[key] = inner
        elif value != before or key not in old:
            patch[key] = value
    return patch


def locked(patch: JsonObject, resource_version: str | None) -> dict[str, object]:
    """The merge patch, to be refused unless the object still has that version."""
    body = dict(patch)
    if resource_version:
        metadata = cast("JsonObject", body.get("metadata") or {})
        body["metadata"] = {**metadata, "resourceVersion": resource_version}
    return body
