"""The three patch types that change an object without owning fields.

Source: RFC 6902 (JSON patch, by the jsonpatch library), RFC 7386 (merge patch), and Kubernetes'
strategic merge patch (apimachinery pkg/util/strategicpatch), for built-in kinds only.
"""

from __future__ import annotations

from collections import deque

import jsonpatch
import jsonpointer
import msgspec

from hypercobalt.apiserver.errors import (
    JSON,
    JSONObject,
    StatusError,
    bad_request,
)
from hypercobalt.apiserver.requests.bodies import MAX_BODY, check_shape
from hypercobalt.apiserver.schema.node import UNTYPED, Node
from hypercobalt.apiserver.values import clone

MAX_OPERATIONS = 10_000  # as kube-apiserver
MAX_COPIED = MAX_BODY  # bytes that the copies of one patch add, as kube-apiserver


def json_patch(obj: JSONObject, patch: JSON) -> JSONObject:
    """Apply a JSON patch.

    Raises:
        StatusError: 400 for a malformed patch; 422 when a path does not exist or a test fails.
    """
    if patch is None:
        return obj
    if not isinstance(patch, list):
        raise bad_request("error decoding patch: json: a JSON patch is a list of operations")
    if len(patch) > MAX_OPERATIONS:
        message = (
            "Request entity too large: The allowed maximum operations in a JSON patch is "
            f"{MAX_OPERATIONS}, got {len(patch)}"
        )
        raise StatusError(413, "RequestEntityTooLarge", message)
    operations = [operation for operation in patch if isinstance(operation, dict)]
    if len(operations) != len(patch):
        raise bad_request("error decoding patch: json: each operation of a JSON patch is an object")
    changed: JSON = obj
    copied = 0
    try:
        for operation in operations:
            if operation.get("op") == "copy":
                copied += _size(changed, operation.get("from"))
                if copied > MAX_COPIED:
                    text = f"the patch copied more than {MAX_COPIED} bytes"
                    raise StatusError(413, "RequestEntityTooLarge", text)
            patcher = jsonpatch.JsonPatch([_lenient(changed, operation)])
            changed = patcher.apply(changed, in_place=True)
    except (
        jsonpatch.InvalidJsonPatch,
        jsonpatch.JsonPatchException,
        jsonpointer.JsonPointerException,
    ) as error:
        reason = "the server rejected our request due to an error in our request"
        raise StatusError(422, "Invalid", reason, details={}) from error
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise bad_request(f"error decoding patch: {error}") from error
    if not isinstance(changed, dict):
        raise bad_request("error applying patch: the result is not an object")
    check_shape(changed)
    return changed


def _size(obj: JSON, path: JSON) -> int:
    """Bytes of what a copy would add; each may double the object, so they are counted."""
    if not isinstance(path, str):
        return 0  # the library refuses it
    return len(msgspec.json.encode(jsonpointer.JsonPointer(path).resolve(obj, None)))


def _lenient(obj: JSON, operation: JSONObject) -> JSONObject:
    """Complete an operation that RFC 6902 refuses and kube-apiserver's library accepts.

    A value left out is null; replacing a missing key adds it; a missing key equals null.
    Source: gopkg.in/evanphx/json-patch.v4.
    """
    kind = operation.get("op")
    if kind in ("add", "replace", "test") and "value" not in operation:
        operation = {**operation, "value": None}
    path = operation.get("path")
    if kind not in ("replace", "test") or not isinstance(path, str):
        return operation
    parent, key = jsonpointer.JsonPointer(path).to_last(obj)
    if not isinstance(parent, dict) or key is None or key in parent:
        return operation
    if kind == "replace":
        return {**operation, "op": "add"}
    return {"op": "test", "path": "", "value": obj} if operation["value"] is None else operation


def merge_patch(target: JSON, patch: JSON) -> JSON:
    """RFC 7386: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged: dict[str, JSON] = dict(target) if isinstance(target, dict) else {}
    for name, item in patch.items():
        if item is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), item)
    return merged


# -- strategic merge ---------------------------------------------------------------------------

_DIRECTIVE = "$patch"
_DELETE_FROM = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"
_RETAIN = "$retainKeys"


def strategic_merge(node: Node, target: JSONObject, patch: JSONObject) -> JSONObject:
    """Apply a strategic merge patch; lists merge by key where the schema names one.

    Raises:
        StatusError: 400 for a bad directive or an item without its merge key.
    """
    return _merge_map(node, clone(target), patch)


def _merge_map(node: Node, target: JSONObject, patch: JSONObject) -> JSONObject:
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return {name: item for name, item in patch.items() if name != _DIRECTIVE}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise bad_request(f"Unknown patch type found: {directive}")
    retain = patch.get(_RETAIN)
    if isinstance(retain, list):
        kept = {name for name in retain if isinstance(name, str)}
        target = {name: item for name, item in target.items() if name in kept}
    before = dict(target)
    for name, item in patch.items():
        if name in (_DIRECTIVE, _RETAIN) or name.startswith(_ORDER):
            continue
        if name.startswith(_DELETE_FROM):
            field = name.removeprefix(_DELETE_FROM)
            held = target.get(field)
            if isinstance(held, list) and isinstance(item, list):
                unwanted = {_mark(value, "") for value in item}
                target[field] = [value for value in held if _mark(value, "") not in unwanted]
            continue
        _merge_entry(node.child(name) or UNTYPED, target, name, item)
    for name, order in patch.items():
        if name.startswith(_ORDER) and isinstance(order, list):
            field = name.removeprefix(_ORDER)
            held = target.get(field)
            if isinstance(held, list):
                key = (node.child(field) or UNTYPED).patch_key
                target[field] = _ordered(held, order, before.get(field), key)
    return target


def _merge_entry(node: Node, target: JSONObject, name: str, item: JSON) -> None:
    held = target.get(name)
    if item is None:
        target.pop(name, None)
    elif isinstance(item, dict):
        if "replace" in node.patch_strategy.split(","):
            target[name] = item
        else:
            target[name] = _merge_map(node, held if isinstance(held, dict) else {}, item)
    elif isinstance(item, list) and "merge" in node.patch_strategy.split(","):
        target[name] = _merge_list(node, held if isinstance(held, list) else [], item)
    else:
        target[name] = item


def _merge_list(node: Node, target: list[JSON], patch: list[JSON]) -> list[JSON]:
    if any(isinstance(item, dict) and item == {_DIRECTIVE: "replace"} for item in patch):
        return [item for item in patch if item != {_DIRECTIVE: "replace"}]
    key = node.patch_key
    if not key:
        held = {_mark(item, "") for item in target}
        merged = target + [item for item in patch if _mark(item, "") not in held]
        return _ordered(merged, patch, target, "")
    below = node.items or UNTYPED
    by_mark: dict[object, JSON] = {}  # what is no object or a repeat stays, by its place
    for place, item in enumerate(target):
        mark = _mark(item, key) if isinstance(item, dict) else place
        by_mark[place if mark in by_mark else mark] = item
    for item in patch:
        if not isinstance(item, dict):
            raise bad_request("invalid patch: a list with a merge key holds objects only")
        if key not in item:
            text = ",".join(sorted(item))
            raise bad_request(f"map: [{text}] does not contain declared merge key: {key}")
        mark = _mark(item, key)
        if item.get(_DIRECTIVE) == "delete":
            by_mark.pop(mark, None)
        else:
            before = by_mark.get(mark)
            by_mark[mark] = _merge_map(below, before if isinstance(before, dict) else {}, item)
    return _ordered([*by_mark.values()], patch, target, key)


def _mark(item: JSON, key: str) -> bytes:
    """What identifies an item of a list: its merge key, or else all of it."""
    shown = item.get(key) if isinstance(item, dict) and key else item
    return msgspec.json.encode(shown, order="sorted")


def _places(items: JSON, key: str) -> dict[bytes, int]:
    listed = items if isinstance(items, list) else []
    return {_mark(item, key): place for place, item in reversed([*enumerate(listed)])}


def _ordered(items: list[JSON], order: list[JSON], original: JSON, key: str) -> list[JSON]:
    """Items that `order` names, in that order, woven with the others in their original order.

    An item that is new goes before those that only the server has.
    Source: strategicpatch normalizeElementOrder and mergeSortedSlice.
    """
    # An order names keys only, where a list holds whole objects.
    wanted, places = _places(order, key), _places(original, key)
    marked = [(_mark(item, key), item) for item in items]
    named = deque(sorted((m for m in marked if m[0] in wanted), key=lambda m: wanted[m[0]]))
    others = deque(m for m in marked if m[0] not in wanted)
    woven: list[JSON] = []
    while named and others:
        left, right = others[0][0], named[0][0]
        known = left in places and right in places
        earlier = known and places[left] < places[right]
        woven.append((others if earlier else named).popleft()[1])
    return [*woven, *(item for _, item in (*named, *others))]
