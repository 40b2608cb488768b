"""Whether an object already is as it is wanted. Pure.

What the server or others have added does not count: a map may have more keys than are wanted, an
object more owners. Any other list must have just the wanted items, in their order.
"""

from __future__ import annotations

from typing import cast

from hypercobalt.api.codec import to_builtins
from hypercobalt.api.meta import Object


def is_as_wanted(stored: Object, wanted: Object) -> bool:
    """Whether every field of `wanted` is in `stored` with the wanted value."""
    return _within(to_builtins(wanted), to_builtins(stored))


def _within(wanted: object, have: object) -> bool:
    if isinstance(wanted, dict) and isinstance(have, dict):
        there = cast("dict[str, object]", have)
        return all(
            key in there and _within(value, there[key])
            for key, value in cast("dict[str, object]", wanted).items()
        )
    if isinstance(wanted, list) and isinstance(have, list):
        mine, theirs = cast("list[object]", wanted), cast("list[object]", have)
        if mine and all(map(_uid, mine)):
            by_uid = {_uid(item): item for item in theirs}
            return all(_within(item, by_uid.get(_uid(item))) for item in mine)
        return len(mine) == len(theirs) and all(map(_within, mine, theirs))
    return wanted == have


def _uid(item: object) -> object:
    return cast("dict[str, object]", item).get("uid") if isinstance(item, dict) else None
