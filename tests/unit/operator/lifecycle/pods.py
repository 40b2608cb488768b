"""The launcher pods of a host, without a server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from hypercobalt.operator.agents.launcher_pods import LauncherPods
from hypercobalt.operator.shared.guests import NO_GUESTS, HostGuests


@dataclass
class StoredPods:
    """Launcher pods of every host.

    Attributes:
        guests: that are read.
        followed: hosts whose pods are watched.
    """

    guests: HostGuests = NO_GUESTS
    followed: set[str] = field(default_factory=set[str])

    async def follow(self, key: str, _node: str) -> HostGuests:
        self.followed.add(key)
        return self.guests

    async def read(self, _node: str) -> HostGuests:
        return self.guests

    def release(self, key: str) -> None:
        self.followed.discard(key)


def launcher_pods(guests: HostGuests | StoredPods = NO_GUESTS) -> LauncherPods:
    """Those of every host."""
    given = guests if isinstance(guests, StoredPods) else StoredPods(guests)
    return cast("LauncherPods", given)
