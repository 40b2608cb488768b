"""Which of Nova's hosts is a Hypervisor. Pure.

Nova's compute service and its hypervisor have a name each, short or whole, and a Node has one of
its own: `node1` and `node1.zone.example` are one host unless both are whole and differ.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

Item = TypeVar("Item")


def short(name: str) -> str:
    """The first label."""
    return name.partition(".")[0]


class Names(Generic[Item]):
    """Finds by name among many, without looking at each.

    Args:
        items: each with the names that Nova has for it, of the compute service and the hypervisor.
    """

    def __init__(self, items: Iterable[tuple[Item, tuple[str, ...]]]) -> None:
        self.items: list[Item] = []
        self._whole: dict[str, list[Item]] = {}
        self._short: dict[str, list[Item]] = {}
        for item, names in items:
            self.items.append(item)
            for name in dict.fromkeys(names):
                self._whole.setdefault(name, []).append(item)
            for name in dict.fromkeys(map(short, names)):
                self._short.setdefault(name, []).append(item)

    def best(self, name: str) -> tuple[Item, ...]:
        """The items whose names fit best; more than one when the name is ambiguous.

        The same name fits best, then the first label of one of both.

        Args:
            name: of the Hypervisor.
        """
        known = self._short if "." not in name else self._whole
        return tuple(self._whole.get(name) or known.get(short(name)) or ())
