"""Keeps texts that many objects have in common once.

Two thirds of the text in a cache are the same few words in every object: condition types, reasons,
versions, zones. They cost more than the objects' own structure.

Texts seen once wait in a small table that is emptied when full, so that names and ids, which are
seen once only, are not held; a text seen again moves to the table that stays.
"""

from __future__ import annotations

from typing import cast

import msgspec
from msgspec.structs import force_setattr

_YOUNG, _KEPT = 8192, 65536  # texts


class Sharer:
    """Replaces texts inside fresh objects by equal ones that are there already."""

    def __init__(self) -> None:
        self._young: dict[str, str] = {}
        self._kept: dict[str, str] = {}

    def share(self, obj: msgspec.Struct) -> None:
        """Go through an object that no reader has yet, and change it in place.

        Frozen structs included: equal texts are the same value, so no reader can distinguish them.
        """
        for name in obj.__struct_fields__:
            value: object = getattr(obj, name)
            shared = self._value(value)
            if shared is not value:
                force_setattr(obj, name, shared)

    def _value(self, value: object) -> object:
        type_ = type(value)
        if type_ is str:
            return self._text(cast("str", value))
        if type_ is tuple:
            return self._tuple(cast("tuple[object, ...]", value))
        if type_ is dict:
            return self._dict(cast("dict[str, object]", value))
        if isinstance(value, msgspec.Struct):
            self.share(value)
        return value

    def _tuple(self, value: tuple[object, ...]) -> tuple[object, ...]:
        if not value:
            return value
        if type(value[0]) is str:
            return tuple(map(self._value, value))
        for item in value:
            self._value(item)
        return value

    def _dict(self, value: dict[str, object]) -> dict[str, object]:
        for key, item in value.items():
            shared = self._value(item)
            if shared is not item:
                value[key] = shared
        return value

    def _text(self, text: str) -> str:
        kept = self._kept.get(text)
        if kept is not None:
            return kept
        seen = self._young.pop(text, None)
        if seen is None:
            if len(self._young) >= _YOUNG:
                self._young.clear()
            self._young[text] = text
            return text
        if len(self._kept) >= _KEPT:
            self._kept.clear()
        self._kept[seen] = seen
        return seen
