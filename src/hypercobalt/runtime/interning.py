"""Keeps texts that many objects have in common once.

Two thirds of the text in a cache are the same few words in every object: condition types, reasons,
versions, zones. They cost more than the objects' own structure.

Texts seen once wait in a small table that is emptied when full, so that names and ids, which are
seen once only, are not held; a text seen again moves to the table that stays. A text outlives its
object here, and a captured host writes what it likes: both tables are bounded by characters as
well, and long texts, which are no words, stay out of them.
"""

from __future__ import annotations

from typing import cast

import msgspec
from msgspec.structs import force_setattr

_YOUNG, _KEPT = 8192, 65536  # texts
_YOUNG_CHARACTERS, _KEPT_CHARACTERS = 2**18, 2**20
_LONGEST = (
    1024  # characters; a kernel's command line, which hosts have in common, has some hundreds
)


class _Table(dict[str, str]):
    """Texts, each under itself; emptied when full."""

    def __init__(self, most: int, characters: int) -> None:
        super().__init__()
        self._most, self._characters, self._held = most, characters, 0

    def add(self, text: str) -> None:
        if len(self) >= self._most or self._held + len(text) > self._characters:
            self.clear()
            self._held = 0
        self[text] = text
        self._held += len(text)

    def take(self, text: str) -> str | None:
        """Remove a text and return it; None if it is not there."""
        found = self.pop(text, None)
        if found is not None:
            self._held -= len(found)
        return found


class Sharer:
    """Replaces texts inside fresh objects by equal ones that are there already."""

    def __init__(self) -> None:
        self._young = _Table(_YOUNG, _YOUNG_CHARACTERS)
        self._kept = _Table(_KEPT, _KEPT_CHARACTERS)

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
        if len(text) > _LONGEST:
            return text
        kept = self._kept.get(text)
        if kept is not None:
            return kept
        seen = self._young.take(text)
        if seen is None:
            self._young.add(text)
            return text
        self._kept.add(seen)
        return seen
