"""Whether two values are the same once KubeVirt has read them into its typed structures.

An absent member equals an empty text, number, flag, list or map; amounts are compared as amounts.
"""

from __future__ import annotations

from hypercobalt.api.kubevirt.schema import SchemaField
from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import Json


def same(left: Json, right: Json, schema: SchemaField) -> bool:
    """Whether two values of that schema say the same."""
    if schema.type == "quantity":
        return At(left).quantity == At(right).quantity
    if isinstance(left, list) and isinstance(right, list) and schema.items:
        inner = schema.items
        return len(left) == len(right) and all(
            same(one, other, inner) for one, other in zip(left, right, strict=True)
        )
    if isinstance(left, dict) and isinstance(right, dict):
        return all(
            _same_member(left.get(name), right.get(name), schema.values or schema.fields.get(name))
            for name in left.keys() | right.keys()
        )
    return left == right


def _same_member(left: Json, right: Json, schema: SchemaField | None) -> bool:
    if schema is None:
        return left == right
    if _is_empty(left, schema) and _is_empty(right, schema):
        return True
    return same(left, right, schema)


def _is_empty(value: Json, schema: SchemaField) -> bool:
    """Whether a typed structure would not write it; an object counts by its presence."""
    return not value and (value != {} or schema.values is not None)
