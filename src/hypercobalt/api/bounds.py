"""An object within the bounds of its schema, so that the API server takes it.

One text that is too long, as a host may have it, would have the whole status refused, and what was
stored before would stay. Texts are cut, lists and maps end at their bound: whoever makes one puts
what matters first.
"""

from __future__ import annotations

import functools
from enum import Enum
from typing import TypeVar, cast

import msgspec

from hypercobalt.api.fields import bounds_of, fields_of
from hypercobalt.api.meta import Struct
from hypercobalt.api.schema import OF_OTHERS, Bounds, Field, Limits

S = TypeVar("S", bound=Struct)

_NONE = Limits()


def within(struct: S, bounds: Bounds = OF_OTHERS) -> S:
    """Return the struct within its bounds; the same object if it is so already.

    Args:
        struct: a status, a spec, or a part of one.
        bounds: of what gives none itself, where no writer of a field is named.
    """
    changes: dict[str, object] = {}
    for name, field in _fields(type(struct)):
        old: object = getattr(struct, name)
        if old is None or isinstance(old, bool | int | Enum):
            continue
        limits, items = (field.limits, field.items) if field else (_NONE, _NONE)
        new = _bounded(old, limits, items, bounds_of(type(struct), field, bounds))
        if new is not old:
            changes[name] = new
    return msgspec.structs.replace(struct, **changes) if changes else struct


@functools.cache
def _fields(struct: type[Struct]) -> tuple[tuple[str, Field | None], ...]:
    names = {info.encode_name: info.name for info in msgspec.structs.fields(struct)}
    return tuple((names[wire], field) for wire, (_, field) in fields_of(struct).items())


def _bounded(value: object, limits: Limits, items: Limits, bounds: Bounds) -> object:
    match value:
        case Enum():
            return value
        case str():
            longest = limits.max_length or bounds.text
            return value if len(value) <= longest else value[:longest]
        case Struct():
            return within(value, bounds)
        case tuple():
            most = limits.max_items or bounds.items
            old = cast("tuple[object, ...]", value)
            new = tuple(_bounded(item, items, _NONE, bounds) for item in old[:most])
            same = len(new) == len(old) and all(a is b for a, b in zip(new, old, strict=True))
            return old if same else new
        case dict():
            most = limits.max_properties or bounds.properties
            known = cast("dict[str, object]", value)
            return known if len(known) <= most else dict(list(known.items())[:most])
        case _:
            return value
