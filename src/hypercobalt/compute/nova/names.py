"""Finds the host in Nova that a Hypervisor is. Pure.

Nova's compute service, its hypervisor and the Node each have a name, short or whole: `node1` and
`node1.zone.example` are one host unless both are whole and differ.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

Item = TypeVar("Item")


def short(name: str) -> str:
    """Return the first label of a name."""
    return name.partition(".")[0]


class NameIndex(Generic[Item]):
    """Index of items by name, without a search through all of them.

    Args:
        items: each with its names in Nova, of the compute service and of the hypervisor.
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
        """Return the items that fit a name best; more than one when the name is ambiguous.

        The same name fits best, then a name of which one is the first label of the other.

        Args:
            name: of the Hypervisor.
        """
        known = self._short if "." not in name else self._whole
        return tuple(self._whole.get(name) or known.get(short(name)) or ())
