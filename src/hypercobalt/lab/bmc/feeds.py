"""The power feeds of one host, each behind an outlet of its own: one that is on suffices."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass

from hypercobalt.lab.bmc.board import Chassis


class Feeds:
    """The feeds of a host, switched by the threads of one process.

    Args:
        host: loses its power with the last feed; feeds that are on do not keep its BMC from
            switching it off.
        names: of the feeds.
    """

    def __init__(self, host: Chassis, names: Collection[str]) -> None:
        self._host, self._names = host, frozenset(names)
        self._on = set(self._names)
        self._switching = threading.Lock()

    def outlet(self, name: str) -> Chassis:
        """What switches one feed, as an outlet's board has it."""
        return _Outlet(self, name)

    def is_on(self, name: str) -> bool:
        with self._switching:
            self._look()
            return name in self._on

    def off(self, name: str) -> None:
        with self._switching:
            self._look()
            self._on.discard(name)
            if not self._on:
                self._host.off()

    def on(self, name: str) -> None:
        with self._switching:
            self._on.add(name)
        self._host.on()

    def _look(self) -> None:
        if not self._on and self._host.is_on():
            self._on.update(self._names)  # a person has started it, and so plugged it in


@dataclass(frozen=True, slots=True)
class _Outlet:
    feeds: Feeds
    name: str

    def is_on(self) -> bool:
        return self.feeds.is_on(self.name)

    def off(self) -> None:
        self.feeds.off(self.name)

    def on(self) -> None:
        self.feeds.on(self.name)
