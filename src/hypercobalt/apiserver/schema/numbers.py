"""Numbers as Go holds and writes them, so that what is stored depends on no client's spelling.

Go reads digits alone as a 64-bit integer where they fit, all else as a float; it writes a whole
float as digits alone, the shortest that read as the same float, below 1e21.

Source: sigs.k8s.io/json (UnmarshalCaseSensitivePreserveInts); Go's encoding/json (floatEncoder);
go-openapi swag.IsFloat64AJSONInteger.
"""

from __future__ import annotations

from decimal import Decimal

import msgspec

from hypercobalt.apiserver.errors import JSON

MAX_WHOLE = 1e21  # from here on Go writes floats with an exponent
MIN_PLAIN = 1e-6  # and below this
MAX_EXACT = 2**53 - 1  # above, a float stands for several integers


def is_int64(value: float) -> bool:
    """Whether a number fits a 64-bit integer."""
    return -(2**63) <= value < 2**63


def is_beyond_floats(value: int) -> bool:
    """Whether an integer is so large that Go reads it neither as an integer nor as a float."""
    try:
        float(value)
    except OverflowError:
        return True
    return False


def holds_beyond_floats(value: JSON) -> bool:
    """Whether such an integer is anywhere in a JSON value."""
    if isinstance(value, dict):
        return any(map(holds_beyond_floats, value.values()))
    if isinstance(value, list):
        return any(map(holds_beyond_floats, value))
    return isinstance(value, int) and is_beyond_floats(value)


def canonical(value: float) -> float:
    """A number as it is written after it was read."""
    if isinstance(value, int):
        if is_int64(value):  # a boolean, too
            return value
        value = float(value)
    if value.is_integer() and abs(value) < MAX_WHOLE:
        return int(Decimal(repr(value)))
    return value


def make_canonical(value: JSON) -> JSON:
    """A JSON value with its numbers as they are written; objects and lists change in place."""
    if isinstance(value, dict):
        for name, item in value.items():
            if not isinstance(item, (str, bool)):
                value[name] = make_canonical(item)
    elif isinstance(value, list):
        value[:] = map(make_canonical, value)
    elif isinstance(value, (int, float)):
        return canonical(value)
    return value


def key_text(keys: JSON) -> str:
    """A key of a list's item, as it is written in managedFields: floats as Go's strconv has them.

    Source: sigs.k8s.io/json and structured-merge-diff fieldpath/serialize-pe.go.
    """
    if isinstance(keys, float):
        plain = MIN_PLAIN <= abs(keys) < MAX_WHOLE or not keys
        return format(Decimal(repr(keys)), "f") if plain else repr(keys)
    if isinstance(keys, dict) and any(isinstance(value, float) for value in keys.values()):
        shown = (f"{key_text(name)}:{key_text(value)}" for name, value in sorted(keys.items()))
        return f"{{{','.join(shown)}}}"
    return msgspec.json.encode(keys, order="sorted").decode()
