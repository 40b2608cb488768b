"""Words and lines for people, the same in messages of controllers and on the terminal."""

from __future__ import annotations

from typing import Final

from hypercobalt.api.eviction import EvictionInstance
from hypercobalt.compute.model import Server

_LONGEST: Final = 2000  # characters of a line; messages have up to 32768


def count(number: int, what: str = "instance") -> str:
    """`1 instance`, `2 instances`."""
    return f"{number} {what}" + ("" if number == 1 else "s")


def called(one: EvictionInstance | Server) -> str:
    """What people call an instance."""
    return f"{one.name} ({one.id})" if one.name else one.id


def printable(line: str) -> str:
    """Text of others as one line without control characters; a very long one is cut."""
    plain = "".join(one if one.isprintable() else " " for one in line[:_LONGEST])
    return plain if len(line) <= _LONGEST else f"{plain} … (cut)"
