"""Quantities in their canonical form, in which Kubernetes writes them back: `1024Mi` is `1Gi`.

Source: apimachinery pkg/api/resource/quantity.go.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

from hypercobalt.apiserver.schema.node import UNTYPED, Node
from hypercobalt.apiserver.status import JSON

_FORM = re.compile(
    r"([+-]?(?:[0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40}))"
    r"([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?",
    re.ASCII,
)
_KI = 1024
_BINARY: tuple[str, ...] = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL: tuple[str, ...] = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_ONE = _DECIMAL.index("")


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
    found = _FORM.fullmatch(text)
    if found is None:
        return text
    suffix = found[2] or ""
    value = Fraction(found[1])
    if suffix in _BINARY[1:]:
        value *= _KI ** _BINARY.index(suffix)
        if abs(value) >= _KI:
            return _scaled(_up(value), _KI, _BINARY)
        suffix = ""
    exponential = suffix not in _DECIMAL
    value *= Fraction(10) ** (
        int(suffix[1:]) if exponential else 3 * (_DECIMAL.index(suffix) - _ONE)
    )
    names = _DECIMAL
    if exponential:
        powers = (3 * (place - _ONE) for place in range(len(_DECIMAL)))
        names = tuple(f"e{power}" if power else "" for power in powers)
    return _scaled(_up(value * 1000**_ONE), 1000, names)


def _up(value: Fraction) -> int:
    """Rounded away from zero."""
    return math.ceil(value) if value > 0 else math.floor(value)


def _scaled(number: int, base: int, names: tuple[str, ...]) -> str:
    place = 0
    while number and number % base == 0 and place < len(names) - 1:
        number, place = number // base, place + 1
    return f"{number}{names[place]}" if number else "0"
