"""Pace of the decisions about one host's CertificateRequests: they keep no other host's waiting.

An agent makes any number of requests for its own host, and each costs the operator a read of the
Node and a write of the request. An agent in earnest has one, and makes the next when it renews. So
a host has a few decisions at once, and then one after the other with a pause; each request has its
time in the order in which they came, and costs nothing until then.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

AT_ONCE: Final = 32
"""Decisions about requests of a host that wait for nothing."""
PAUSE: Final = timedelta(seconds=1)
"""Between two decisions beyond these."""


class HostPace:
    """When the requests of each host are decided."""

    def __init__(self) -> None:
        self._next: dict[str, float] = {}  # by host: when all given times have passed
        self._times: dict[str, tuple[str, float]] = {}  # by key: UID, and when it is decided

    def wait(self, host: str, key: str, uid: str, now: float) -> timedelta:
        """Return how long a request has to wait for its decision; zero when it is its time.

        Args:
            host: the Node of the requester; "" for none.
            key: of the request.
            uid: of the request: one that is made again under its name has another time.
            now: monotonic seconds.
        """
        known, time = self._times.get(key, ("", 0.0))
        if known != uid:
            pause = PAUSE.total_seconds()
            after = max(self._next.get(host, now), now)
            self._next[host] = after + pause
            time = after - (AT_ONCE - 1) * pause
            self._times[key] = uid, time
        return timedelta(seconds=max(time - now, 0.0))

    def forget(self, key: str) -> None:
        """Take note that a request is decided, or gone."""
        self._times.pop(key, None)
