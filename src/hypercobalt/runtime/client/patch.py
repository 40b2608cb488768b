"""JSON patches from two versions of an object. Pure.

Only what differs is sent, inside list items too, so that fields without a type here survive, as do
fields that others write. Positions in lists hold for the version that was read only; the patch must
be refused on any other.

Source: RFC 6902; RFC 6901 for paths.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Literal, NotRequired, TypedDict, cast

from hypercobalt.api.codec import to_builtins
from hypercobalt.api.meta import Struct

JsonObject = Mapping[str, object]

# What names an item of a list, in Kubernetes' kinds and in ours; the first that all items have.
_NAMES = ("uid", "id", "uuid", "name", "type", "key", "table", "cellID")

Operation = TypedDict(
    "Operation",
    {
        "op": Literal["add", "remove", "replace", "test", "move"],
        "path": str,
        "from": NotRequired[str],  # of a move
        "value": NotRequired[object],  # of an add, a replace and a test
    },
)
"""One operation of a JSON patch."""


def diff(old: Struct, new: Struct) -> list[Operation]:
    """The patch that makes `new` out of `old`; empty when they are equal on the wire.

    A field that `new` does not have is removed. An item of a list is the same item in both when it
    has the same name (`name`, `type`, `uid`...) or, in lists without names, when it is equal.
    """
    return list(_in_object("", to_builtins(old), to_builtins(new)))


def locked(patch: JsonObject, resource_version: str | None) -> dict[str, object]:
    """The merge patch, to be refused unless the object still has that version."""
    body = dict(patch)
    if resource_version:
        metadata = cast("JsonObject", body.get("metadata") or {})
        body["metadata"] = {**metadata, "resourceVersion": resource_version}
    return body


def _in_object(path: str, old: JsonObject, new: JsonObject) -> Iterator[Operation]:
    for key in old:
        if key not in new:
            yield {"op": "remove", "path": _join(path, key)}
    for key, value in new.items():
        if key in old:
            yield from _in_value(_join(path, key), old[key], value)
        else:
            yield {"op": "add", "path": _join(path, key), "value": value}


def _in_value(path: str, old: object, new: object) -> Iterator[Operation]:
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        yield from _in_object(path, cast("JsonObject", old), cast("JsonObject", new))
    elif isinstance(old, list) and isinstance(new, list):
        yield from _in_list(path, cast("list[object]", old), cast("list[object]", new))
    else:
        yield {"op": "replace", "path": path, "value": new}


def _in_list(path: str, old: list[object], new: list[object]) -> Iterator[Operation]:
    before, after = _objects(old), _objects(new)
    same = _same_items(before, after)
    if same:
        yield from _in_items(path, before, after, same)
    else:
        yield {"op": "replace", "path": path, "value": new}


def _in_items(
    path: str, old: Sequence[JsonObject], new: Sequence[JsonObject], same: Mapping[int, int]
) -> Iterator[Operation]:
    """Drop what is gone; then make the list right from its start, one item after the other."""
    kept = set(same.values())
    for index in reversed(range(len(old))):
        if index not in kept:
            yield {"op": "remove", "path": f"{path}/{index}"}
    order: list[int | None] = [*sorted(kept)]  # the list as it now is, by index in `old`
    for index, item in enumerate(new):
        here = f"{path}/{index}"
        was = same.get(index)
        if was is None:
            yield {"op": "add", "path": here, "value": item}
            order.insert(index, None)
            continue
        found = order.index(was)
        if found != index:
            yield {"op": "move", "from": f"{path}/{found}", "path": here}
            order.insert(index, order.pop(found))
        yield from _in_object(here, old[was], item)


def _same_items(old: Sequence[JsonObject], new: Sequence[JsonObject]) -> dict[int, int]:
    """Index in `new` to index in `old` of the items that both have."""
    for name in _NAMES:
        before, after = _named(old, name), _named(new, name)
        if before and after:
            return {index: before[value] for value, index in after.items() if value in before}
    left = list(range(len(old)))
    same: dict[int, int] = {}
    for index, item in enumerate(new):
        equal = next((candidate for candidate in left if old[candidate] == item), None)
        if equal is not None:
            left.remove(equal)
            same[index] = equal
    return same


def _named(items: Sequence[JsonObject], name: str) -> dict[Hashable, int]:
    """Name to index of each item; empty unless all have names, each another."""
    values = [item.get(name) for item in items]
    found = {value: index for index, value in enumerate(values) if isinstance(value, (str, int))}
    return cast("dict[Hashable, int]", found) if len(found) == len(items) else {}


def _objects(items: list[object]) -> Sequence[JsonObject]:
    """`items`, if all are objects; else none."""
    return cast("list[JsonObject]", items) if all(isinstance(i, dict) for i in items) else ()


def _join(path: str, key: str) -> str:
    return f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
