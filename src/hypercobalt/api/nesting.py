"""JSON that nests deeper than a decoder goes, cut to what it can read.

kube-apiserver takes ten thousand levels, of a set of fields under its writer's own name for example
(`metadata.managedFields`), and a decoder that recurses gives up after about a thousand. One object
must hide no other from whoever lists or watches its kind. No field that is read nests so deep.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

MOST: Final = 100
"""Levels that are kept: four times what the deepest schema has."""

_LEVELS: Final = 12_000
# A bracket, with what precedes it; in C, since an object may have a million of them.
_BRACKET: Final = re.compile(rb'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+")*+([\[\]{}])', re.DOTALL)
_OPEN: Final = frozenset(b"[{")


def read(decode: Callable[[bytes], T], data: bytes) -> T:
    """Decode JSON, as deep as kube-apiserver takes it; what nests deeper is left out.

    A second attempt may recurse further, which costs no more than the first. Where the interpreter
    has a limit of its own for that, the document is cut: ten times as slow, in Python.

    Args:
        decode: of a decoder.
        data: one document, or lines of them.

    Raises:
        msgspec.DecodeError: as `decode` does.
    """
    try:
        return decode(data)
    except RecursionError:
        before = sys.getrecursionlimit()
    sys.setrecursionlimit(before + _LEVELS)
    try:
        return decode(data)
    except RecursionError:
        return decode(shallow(data))
    finally:
        sys.setrecursionlimit(before)


def shallow(data: bytes, most: int = MOST) -> bytes:
    """The same JSON with null in place of each object or list below so many others."""
    depth, kept = 0, 0
    parts: list[bytes] = []
    for found in _BRACKET.finditer(data):
        at = found.start(1)
        if data[at] in _OPEN:
            depth += 1
            if depth == most + 1:
                parts += (data[kept:at], b"null")
                kept = len(data)
        else:
            if depth == most + 1:
                kept = at + 1
            depth -= 1
    return b"".join((*parts, data[kept:]))
