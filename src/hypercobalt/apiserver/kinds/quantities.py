"""Quantities in their canonical form, in which Kubernetes writes them back: `1024Mi` is `1Gi`.

Source: apimachinery pkg/api/resource/quantity.go.
"""

from __future__ import annotations

from hypercobalt.api.quantity import Quantity, QuantityError
from hypercobalt.apiserver.errors import JSON
from hypercobalt.apiserver.schema.node import UNTYPED, Node


def canonicalise(node: Node, value: JSON) -> JSON:
    """`value` with every quantity in it in canonical form; changes maps and lists in place."""
    if isinstance(value, dict):
        for name, item in value.items():
            value[name] = canonicalise(node.fields.get(name) or node.values or UNTYPED, item)
    elif isinstance(value, list):
        value[:] = [canonicalise(node.items or UNTYPED, item) for item in value]
    elif node.one_of and not node.int_or_string and isinstance(value, (str, int, float)):
        return canonical(str(value))
    return value


def canonical(text: str) -> str:
    """A quantity in canonical form; what is none, or too large to be one, stays as it is."""
    try:
        return str(Quantity(text))
    except QuantityError:
        return text
