"""Remembers what the domains' documents said, until something changes them.

A listing asks for the document of those domains only that it does not know. What is remembered is
dropped by the events that tell of a change, by a new connection, and by age: a few changes, such as
of `numatune`, have no event. Safe from every thread.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from datetime import timedelta
from threading import Lock
from time import monotonic

from hypercobalt.adapters.libvirt.documents.domain import Definition

# Below the agent's full pass every five minutes, so that each of them reads everything.
_MAX_AGE = timedelta(minutes=4)


class Definitions:
    """Definitions by domain uuid.

    Args:
        clock: seconds since an arbitrary moment.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._known: dict[str, tuple[float, Definition]] = {}
        self._reading: dict[str, object] = {}

    def get(self, uuid: str) -> Definition | None:
        """What is known of a domain and still holds."""
        with self._lock:
            read_at, definition = self._known.get(uuid, (0.0, None))
            fresh = self._clock() - read_at < _MAX_AGE.total_seconds()
            return definition if fresh else None

    def start_reading(self, uuid: str) -> object:
        """Say that a domain's document is asked for now; gives the ticket for `keep`."""
        ticket = object()
        with self._lock:
            self._reading[uuid] = ticket
        return ticket

    def keep(self, uuid: str, definition: Definition, ticket: object) -> None:
        """Remember what was read, unless the domain has changed since reading started."""
        with self._lock:
            if self._reading.get(uuid) is ticket:
                del self._reading[uuid]
                self._known[uuid] = (self._clock(), definition)

    def forget(self, uuid: str) -> None:
        """The domain has changed."""
        with self._lock:
            self._known.pop(uuid, None)
            self._reading.pop(uuid, None)

    def forget_all(self) -> None:
        """Any domain may have changed."""
        with self._lock:
            self._known.clear()
            self._reading.clear()

    def retain(self, uuids: Container[str]) -> None:
        """Drop the domains that are no longer there."""
        with self._lock:
            for gone in [uuid for uuid in self._known if uuid not in uuids]:
                del self._known[gone]
