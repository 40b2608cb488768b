"""What messages of several controllers call the same things."""

from __future__ import annotations

from hypercobalt.api.eviction import EvictionInstance


def count(number: int, what: str = "instance") -> str:
    """`1 instance`, `2 instances`."""
    return f"{number} {what}" + ("" if number == 1 else "s")


def called(entry: EvictionInstance) -> str:
    """What people call an instance."""
    return f"{entry.name} ({entry.id})" if entry.name else entry.id
