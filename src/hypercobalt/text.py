"""Text of others, made safe for a terminal and a log."""

from __future__ import annotations

from typing import Final

_LONGEST: Final = 2000  # characters of a line; messages have up to 32768


def printable(line: str) -> str:
    """Text of others as one line without control characters; a very long one is cut."""
    plain = "".join(one if one.isprintable() else " " for one in line[:_LONGEST])
    return plain if len(line) <= _LONGEST else f"{plain} … (cut)"
