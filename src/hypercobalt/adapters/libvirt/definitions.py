"""Remembers what was read from the domains' documents, until something changes them.

A listing reads only the documents that are not cached. An entry is dropped by
events of a change, by a new connection, by a new start of the domain, and by age: a few changes,
such as of `numatune`, have no event. A document that is the same as before is not parsed again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container
from datetime import timedelta
from time import monotonic
from typing import Final

from hypercobalt.adapters.libvirt.documents.domain import Definition

# Below the agent's full pass every five minutes, so that each of them reads everything.
_MAX_AGE: Final = timedelta(minutes=4)
WITHOUT_EVENTS: Final = timedelta(minutes=1)
"""Age where no event reports a change."""


class Definitions:
    """Definitions by domain uuid.

    Args:
        clock: seconds since an arbitrary moment.
        max_age: after which a document is read again.
    """

    def __init__(
        self, clock: Callable[[], float] = monotonic, max_age: timedelta = _MAX_AGE
    ) -> None:
        self._clock, self._max_age = clock, max_age.total_seconds()
        self._known: dict[str, tuple[int, float, Definition]] = {}
        self._parsed: dict[str, tuple[bytes, Definition]] = {}
        self._reading: dict[str, object] = {}

    def get(self, uuid: str, id_: int) -> Definition | None:
        """What is known of a domain and still holds.

        Args:
            uuid: of the domain.
            id_: of its present run; -1 of one that is off.
        """
        known_id, read_at, definition = self._known.get(uuid, (-1, 0.0, None))
        fresh = known_id == id_ and self._clock() - read_at < self._max_age
        return definition if fresh else None

    def same(self, uuid: str, document: str) -> Definition | None:
        """Return what the document gave when last parsed; None if another one was parsed."""
        digest, definition = self._parsed.get(uuid, (b"", None))
        return definition if digest == _digest(document) else None

    def parsed(self, uuid: str, document: str, definition: Definition) -> None:
        """Remember what a document gives, whatever changes the domain meanwhile."""
        self._parsed[uuid] = (_digest(document), definition)

    def start_reading(self, uuid: str) -> object:
        """Note that a domain's document is requested now, and return the ticket for `keep`."""
        ticket = object()
        self._reading[uuid] = ticket
        return ticket

    def keep(self, uuid: str, id_: int, definition: Definition, ticket: object) -> None:
        """Remember what was read, unless the domain has changed since reading started."""
        if self._reading.get(uuid) is ticket:
            del self._reading[uuid]
            self._known[uuid] = (id_, self._clock(), definition)

    def forget(self, uuid: str) -> None:
        """Drop what is known of a domain: it has changed."""
        self._known.pop(uuid, None)
        self._reading.pop(uuid, None)

    def forget_all(self) -> None:
        """Any domain may have changed."""
        self._known.clear()
        self._reading.clear()

    def retain(self, uuids: Container[str]) -> None:
        """Drop the domains that are no longer there."""
        for gone in [uuid for uuid in self._known if uuid not in uuids]:
            del self._known[gone]
        for gone in [uuid for uuid in self._parsed if uuid not in uuids]:
            del self._parsed[gone]


def _digest(document: str) -> bytes:
    return hashlib.sha256(document.encode(errors="surrogatepass")).digest()
