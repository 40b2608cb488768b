"""Connections of users between two requests: kept open, as long as they are not too many.

A client that sends its next request soon saves a handshake. One that keeps a thousand connections
to none loses the oldest, and so do clients when all of them together keep more than the server has
room for; the next request then comes over a new connection.
"""

from __future__ import annotations

from typing import Final, Protocol

from hypercobalt.runtime.places import Crowd

KEPT: Final = 2048
"""Connections between two requests; one user alone has half of them."""


class Connection(Protocol):
    """A connection that can be ended."""

    def abort(self) -> None:
        """End it."""
        ...


class Kept:
    """The connections that wait for their next request, by user."""

    def __init__(self) -> None:
        self._crowd = Crowd[Connection](KEPT)

    def add(self, user: str, connection: Connection) -> None:
        """Keep a connection; the user with the most connections loses the oldest to make room."""
        for giver in (self._crowd.givers(user) or ())[:1]:
            oldest = next(self._crowd.of(giver))
            self._crowd.remove(giver, oldest)
            oldest.abort()
        self._crowd.add(user, connection)

    def remove(self, user: str, connection: Connection) -> None:
        """Forget a connection that has a request, or is lost; again is harmless."""
        self._crowd.remove(user, connection)
