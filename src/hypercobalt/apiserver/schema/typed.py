"""Types of values: the schema's names for them, and what a typed decoder would refuse.

Source: OpenAPI's types; Go's encoding/json for the words.
"""

from __future__ import annotations

from collections.abc import Iterator

from hypercobalt.api import quantity
from hypercobalt.apiserver.errors import JSON, quote
from hypercobalt.apiserver.schema.node import Node
from hypercobalt.apiserver.schema.numbers import MAX_EXACT, is_int64
from hypercobalt.apiserver.schema.patterns import compile_pattern


def type_name(value: JSON) -> str:
    """The OpenAPI name of a JSON value's type."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list):
        return "array"
    if isinstance(value, int):
        return "integer" if is_int64(value) else "number"
    return "integer" if value.is_integer() and abs(value) <= MAX_EXACT else "number"


def has_type(node: Node, value: JSON) -> bool:
    """Whether a value is of the type of its schema."""
    if value is None:
        return node.nullable or not (node.type or node.int_or_string)
    if node.int_or_string:
        return type_name(value) in ("integer", "string")
    if not node.type:
        return True
    actual = type_name(value)
    return actual == node.type or (node.type == "number" and actual == "integer")


def mistyped(node: Node, value: JSON, path: str = "") -> Iterator[tuple[str, str, str]]:
    """What a typed decoder would refuse: where, what it found and what it wanted, in Go's words."""
    if value is None:
        return
    wanted = _unmet(node, value)
    if wanted:
        yield path, _go_type(value), wanted
    elif isinstance(value, dict):
        for name, item in value.items():
            known = node.fields.get(name) or node.values
            if known is not None:
                yield from mistyped(known, item, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and node.items is not None:
        for item in value:
            yield from mistyped(node.items, item, path)


def _unmet(node: Node, value: JSON) -> str:
    """The Go type that a value should have and has not; empty when it is right."""
    if node.int_or_string:
        return "" if type(value) in (int, str) else "string"
    if node.one_of:  # a quantity is written as a number too
        fits = type_name(value) in ("integer", "number")
        return "" if fits or (isinstance(value, str) and _QUANTITY.search(value)) else "quantity"
    if node.type == "integer":
        bits = 32 if node.format == "int32" else 64
        limit = 2 ** (bits - 1)
        whole = isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit
        return "" if whole else f"int{bits}"
    return "" if has_type(node, value) else _GO_TYPES.get(node.type, node.type)


_QUANTITY = compile_pattern(quantity.PATTERN)
_GO_TYPES = {"boolean": "bool", "number": "float64"}


def _go_type(value: JSON) -> str:
    name = type_name(value)
    if name in ("integer", "number"):
        return f"number {quote(value)}"
    return _GO_TYPES.get(name, name)
