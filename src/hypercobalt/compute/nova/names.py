"""Which of Nova's hosts is a Hypervisor. Pure.

Nova's compute service and its hypervisor have a name each, short or whole, and a Node has one of
its own: `node1` and `node1.zone.example` are one host unless both are whole and differ.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

Item = TypeVar("Item")


def short(name: str) -> str:
    """The first label."""
    return name.partition(".")[0]


def same_host(name: str, *candidates: str) -> int | None:
    """How well a Hypervisor's name fits the names that Nova has for one host.

    Args:
        name: of the Hypervisor.
        candidates: of the compute service and of the hypervisor.

    Returns:
        0 for the same name, 1 for the first label of one of both, None when it is another host.
    """
    if name in candidates:
        return 0
    if short(name) in candidates:
        return 1
    return 1 if "." not in name and name in map(short, candidates) else None


def best(name: str, items: Iterable[tuple[Item, tuple[str, ...]]]) -> tuple[Item, ...]:
    """The items whose names fit best; more than one when it cannot be told which is meant.

    Args:
        name: of the Hypervisor.
        items: each with the names that Nova has for it.
    """
    found: dict[int, list[Item]] = {}
    for item, names in items:
        fit = same_host(name, *names)
        if fit is not None:
            found.setdefault(fit, []).append(item)
    return tuple(found[min(found)]) if found else ()
