"""Objects with the fields that our types lack, so that a write of all of them keeps those. Pure.

A write that replaces an object, or a patch that tests what it replaces, is computed from two typed
versions; what is sent is what the server had, with what differs between the two.

Source: RFC 6901 and 6902.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

import msgspec

from hypercobalt.api.codec import decode
from hypercobalt.api.meta import Object
from hypercobalt.runtime.client.patch import JsonObject, Operation, diff

T = TypeVar("T", bound=Object)


@dataclass(frozen=True, slots=True)
class Whole(Generic[T]):
    """An object as it was read.

    Args:
        obj: its typed part.
        fields: all of it, as JSON.
    """

    obj: T
    fields: JsonObject


def read_whole(data: bytes, type_: type[T]) -> Whole[T]:
    """Read one JSON document.

    Raises:
        DecodeError: it has not the shape of the type.
    """
    obj = decode(data, type_)
    return Whole(obj, cast("JsonObject", msgspec.json.decode(data)))


def changed(whole: Whole[T], new: T) -> dict[str, object]:
    """All of the object as it should be: `new`, and the fields that the type lacks."""
    document = cast("dict[str, object]", copy.deepcopy(whole.fields))
    for operation in diff(whole.obj, new):
        _apply(document, operation)
    return document


def checked_patch(whole: Whole[T], new: T) -> list[Operation]:
    """The JSON patch of what differs, refused by the server where any of it has changed meanwhile.

    Fields are replaced whole, one level below `metadata`, `spec` and `status`. The object must
    still be the same one; where a field is new, it must have the version that was read, since
    servers differ in how they test what is not there.
    """
    operations: list[Operation] = []
    versioned = False
    after = changed(whole, new)
    for top in after:
        old, value = _member(whole.fields, top), _member(after, top)
        for name in sorted({*old, *value}):
            if old.get(name) == value.get(name):
                continue
            path = f"/{top}/{_escaped(name)}"
            if name in old:
                operations.append({"op": "test", "path": path, "value": old[name]})
            versioned = versioned or name not in old
            if name in value:
                operations.append({"op": "add", "path": path, "value": value[name]})
            else:
                operations.append({"op": "remove", "path": path})
    if not operations:
        return []
    meta = whole.obj.metadata
    tests: list[Operation] = [{"op": "test", "path": "/metadata/uid", "value": meta.uid}]
    if versioned:
        path = "/metadata/resourceVersion"
        tests.append({"op": "test", "path": path, "value": meta.resourceVersion})
    return tests + operations


def _member(document: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = document.get(name)
    return cast("JsonObject", found) if isinstance(found, dict) else {}


def _apply(document: dict[str, object], operation: Operation) -> None:
    """Apply one operation of `diff`."""
    parent, key = _place(document, operation["path"])
    match operation["op"]:
        case "remove":
            _take(parent, key)
        case "move":
            _insert(parent, key, _take(*_place(document, operation.get("from", ""))))
        case "add":
            _insert(parent, key, operation.get("value"))
        case _:
            _set(parent, key, operation.get("value"))


_Parent = dict[str, object] | list[object]


def _place(document: dict[str, object], path: str) -> tuple[_Parent, str]:
    """Container and key that a path names."""
    *parents, key = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]
    at: _Parent = document
    for part in parents:
        child = at[part] if isinstance(at, dict) else at[int(part)]
        at = cast("_Parent", child)
    return at, key


def _take(parent: _Parent, key: str) -> object:
    return parent.pop(int(key)) if isinstance(parent, list) else parent.pop(key, None)


def _insert(parent: _Parent, key: str, value: object) -> None:
    if isinstance(parent, list):
        parent.insert(int(key), value)
    else:
        _set(parent, key, value)


def _set(parent: _Parent, key: str, value: object) -> None:
    if isinstance(parent, list):
        parent[int(key)] = value
    else:
        parent[key] = value


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
