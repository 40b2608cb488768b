"""Change values by their schema, in place: prune, default, read and leave out nulls.

Source: apiextensions-apiserver pkg/apiserver/schema/{pruning,defaulting}; Go's encoding/json.
"""

from __future__ import annotations

from hypercobalt.apiserver.errors import JSON, JSONObject
from hypercobalt.apiserver.schema.node import UNTYPED, Node
from hypercobalt.apiserver.schema.numbers import MAX_EXACT, canonical, make_canonical
from hypercobalt.apiserver.values import clone

# What Go reads null as.
_EMPTY: dict[str, JSON] = {
    "string": "",
    "object": {},
    "boolean": False,
    "integer": 0,
    "number": 0,
}


def prune(node: Node, value: JSON) -> list[str]:
    """Remove in place every field that the schema does not declare; return their paths.

    Numbers become what Go writes for them.
    """
    removed: list[str] = []
    _prune(node, value, "", removed)
    return removed


def _prune(node: Node, value: JSON, path: str, removed: list[str]) -> None:
    if isinstance(value, dict):
        for name, item in list(value.items()):
            known = node.fields.get(name) or node.values
            if known is None and not _keeps(node, name):
                del value[name]
                removed.append(_join(path, name))
            elif known is None:
                value[name] = make_canonical(item)
            elif isinstance(item, (dict, list)):
                _prune(known, item, _join(path, name), removed)
            elif isinstance(item, float):
                value[name] = canonical(item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if node.items is None:
                value[index] = make_canonical(item)
            elif isinstance(item, (dict, list)):
                _prune(node.items, item, f"{path}[{index}]", removed)
            elif isinstance(item, float):
                value[index] = canonical(item)


def _keeps(node: Node, name: str) -> bool:
    """Whether an undeclared field stays."""
    embedded = node.embedded and name in ("apiVersion", "kind", "metadata")
    return embedded or node.opaque or not node.type


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def apply_defaults(node: Node, value: JSON) -> None:
    """Fill in place what is missing, top down; null counts as missing where it is not allowed."""
    if isinstance(value, dict):
        for name in node.structs:
            value.setdefault(name, {})
        for name in node.nulls:
            value.setdefault(name, None)
        for name, known in node.fields.items():
            if known.has_default and (
                name not in value or (value[name] is None and not known.nullable)
            ):
                value[name] = clone(known.default)
            if name in value:
                apply_defaults(known, value[name])
        if node.values is not None:
            for name, item in value.items():
                if name not in node.fields:
                    apply_defaults(node.values, item)
    elif isinstance(value, list) and node.items is not None:
        for item in value:
            apply_defaults(node.items, item)


def drop_nulls(node: Node, value: JSON) -> None:
    """Read null in place as a typed decoder does: no field, an empty entry or item."""
    if isinstance(value, dict):
        for name, item in list(value.items()):
            known = node.fields.get(name) or node.values
            if known is None:
                continue
            if item is not None:
                drop_nulls(known, item)
            elif name in node.fields:
                del value[name]
            else:
                value[name] = clone(_EMPTY.get(known.type))
    elif isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            if item is None:
                value[index] = clone(_EMPTY.get(node.items.type))
            else:
                drop_nulls(node.items, item)


def read_custom(node: Node, value: JSON) -> list[str]:
    """Read a custom resource in place as Go does; return the paths of undeclared fields.

    These are removed, and nulls that are not allowed and have no default; whole floats become
    integers.
    """
    removed: list[str] = []
    _read(node, value, "", removed)
    return removed


def _read(node: Node, value: JSON, path: str, removed: list[str]) -> None:
    if isinstance(value, dict):
        for name, item in list(value.items()):
            known = node.fields.get(name) or node.values
            if known is None and not _keeps(node, name):
                del value[name]
                removed.append(_join(path, name))
            elif known is None:
                value[name] = make_canonical(item)
            elif item is None and not (known.nullable or known.has_default):
                del value[name]
            elif isinstance(item, (dict, list)):
                _read(known, item, _join(path, name), removed)
            elif isinstance(item, (int, float)):
                value[name] = _number(known, item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if node.items is None:
                value[index] = make_canonical(item)
            elif isinstance(item, (dict, list)):
                _read(node.items, item, f"{path}[{index}]", removed)
            elif isinstance(item, (int, float)):
                value[index] = _number(node.items, item)


def _number(node: Node, value: float) -> float:
    """A number as it is written; a float that stands for several integers is none of them."""
    counted = node.type == "integer" or node.int_or_string
    inexact = not isinstance(value, int) and abs(value) > MAX_EXACT
    return value if counted and inexact else canonical(value)


def drop_empty(node: Node, value: JSON) -> None:
    """Remove in place the empty maps and lists that Go's omitempty does not write."""
    if isinstance(value, dict):
        for name, known in node.fields.items():
            collection = known.values is not None or known.type == "array"
            if collection and name not in node.required and value.get(name) in ({}, []):
                if name in node.nulls:
                    value[name] = None
                else:
                    del value[name]
        for name, item in value.items():
            drop_empty(node.fields.get(name) or node.values or UNTYPED, item)
    elif isinstance(value, list) and node.items is not None:
        for item in value:
            drop_empty(node.items, item)


def skeleton(node: Node) -> JSONObject:
    """The fields that an object of a built-in kind has before any is set."""
    if not node.typed:
        return {}
    below: JSONObject = {name: skeleton(node.fields[name]) for name in node.structs}
    zeros: JSONObject = {
        name: known.default
        for name, known in node.fields.items()
        if known.has_default and not known.default
    }
    unset = (
        *node.nulls,
        *(
            # Sets that a client must give are left out all the same where they are empty.
            name
            for name in node.required
            if name in node.fields and node.fields[name].list_type != "set"
        ),
    )
    return {**dict.fromkeys(unset), **zeros, **below}
