"""Whether what is stored already has what is wanted. Pure.

What the server or other managers have added does not count: a map may have more keys than are
wanted. A list must have just the wanted items, in their order, unless they have keys.
"""

from __future__ import annotations

from typing import cast

from hypercobalt.api.codec import to_builtins
from hypercobalt.api.meta import Struct


def is_within(wanted: Struct, stored: Struct, *, key: str) -> bool:
    """Whether every field of `wanted` is in `stored` with the wanted value.

    Args:
        wanted: fields that it does not have do not matter.
        stored: as read.
        key: items of lists are matched by this field where all wanted ones have it: `uid` for
            owners, `type` for conditions.
    """
    return _within(to_builtins(wanted), to_builtins(stored), key)


def _within(wanted: object, have: object, key: str) -> bool:
    if isinstance(wanted, dict) and isinstance(have, dict):
        there = cast("dict[str, object]", have)
        return all(
            name in there and _within(value, there[name], key)
            for name, value in cast("dict[str, object]", wanted).items()
        )
    if isinstance(wanted, list) and isinstance(have, list):
        mine, theirs = cast("list[object]", wanted), cast("list[object]", have)
        if mine and all(_key(item, key) for item in mine):
            by_key = {_key(item, key): item for item in theirs}
            return all(_within(item, by_key.get(_key(item, key)), key) for item in mine)
        return len(mine) == len(theirs) and all(
            _within(item, other, key) for item, other in zip(mine, theirs, strict=True)
        )
    return wanted == have


def _key(item: object, key: str) -> object:
    return cast("dict[str, object]", item).get(key) if isinstance(item, dict) else None
