"""Copies what nothing on a host interprets: another program's notes among the metadata.

Its names and values still go into a document that libvirt parses, so they are of plain characters
and few; what is not is dropped whole.
"""

from __future__ import annotations

import re
from typing import Final

from hypercobalt.adapters.libvirt.documents.portable.rules import Inert
from hypercobalt.adapters.libvirt.documents.portable.values import LINE
from hypercobalt.adapters.libvirt.documents.tree import Element

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_MOST: Final = 2000
_MOST_CHARACTERS: Final = 64 * 1024
_DEEPEST: Final = 8


def copied(found: Element, rule: Inert) -> Element | None:
    """The element with its descendants; None where a part of it does not fit."""
    declared = f"xmlns:{rule.prefix}"
    namespace = found.attributes.get(declared, "")
    if rule.namespace.pattern.fullmatch(namespace) is None:
        return None
    others = {name: value for name, value in found.attributes.items() if name != declared}
    copy = _Copying(rule.prefix).copied(Element(found.tag, others, found.text, found.children), 1)
    if copy is not None:
        copy.attributes = {declared: namespace, **copy.attributes}
    return copy


class _Copying:
    def __init__(self, prefix: str) -> None:
        self._prefix = f"{prefix}:"
        self._left, self._characters = _MOST, _MOST_CHARACTERS

    def copied(self, found: Element, depth: int) -> Element | None:
        self._left -= 1
        text = "" if found.children else found.text.strip()
        values = [*found.attributes.values(), text]
        self._characters -= sum(map(len, values))
        if (
            self._left < 0
            or self._characters < 0
            or depth > _DEEPEST
            or not _NAME.fullmatch(found.tag.removeprefix(self._prefix))
            or not all(map(_NAME.fullmatch, found.attributes))
            or any(name.lower().startswith("xml") for name in found.attributes)
            or not all(map(LINE.pattern.fullmatch, values))
            or (found.children and found.text.strip())
        ):
            return None
        children = list[Element]()
        for child in found.children:
            copy = self.copied(child, depth + 1)
            if copy is None:
                return None
            children.append(copy)
        return Element(found.tag, dict(found.attributes), text, children)
