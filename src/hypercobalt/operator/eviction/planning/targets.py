"""Selects the host that an instance goes to, where the operator does so. Pure.

Capacity is what the compute service last reported, less what has been reserved since: no host is
filled above it while many moves begin at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from hypercobalt.compute.model import Capacity, Server, ServerGroup, Size


class Reservations:
    """Capacity for moves that have begun and that no reported capacity includes yet."""

    def __init__(self) -> None:
        self.moves: Counter[str] = Counter()
        """Moves under way to each host."""
        self._sizes: dict[str, list[Size]] = {}
        self._apart: set[tuple[tuple[str, ...], str]] = set()
        """Groups whose members must part, by their members, and the hosts of one."""

    def add(self, server: Server, host: str) -> None:
        """Reserve capacity of a host, and one of its moves."""
        self.moves[host] += 1
        self.claim(server, host)

    def claim(self, server: Server, host: str) -> None:
        """Reserve capacity of a host, and none of its moves."""
        self._sizes.setdefault(host, []).append(server.size)
        if _must_part(server.group):
            self._apart.add((_members(server), host))

    def fits(self, server: Server, on: Capacity) -> bool:
        """Whether the host has capacity for the server besides what is reserved."""
        sizes = self._sizes.get(on.host, [])
        wanted, left, used = server.size, on.total, on.used
        return (
            used.vcpus + sum(s.vcpus for s in sizes) + wanted.vcpus <= left.vcpus
            and used.memory_mib + sum(s.memory_mib for s in sizes) + wanted.memory_mib
            <= left.memory_mib
            and used.disk_gib + sum(s.disk_gib for s in sizes) + wanted.disk_gib <= left.disk_gib
            and (_members(server), on.host) not in self._apart
        )

    def free_mib(self, on: Capacity) -> int:
        """Memory that the host has left."""
        reserved = sum(size.memory_mib for size in self._sizes.get(on.host, []))
        return on.total.memory_mib - on.used.memory_mib - reserved


def choose(
    server: Server,
    candidates: Sequence[Capacity],
    reservations: Reservations,
    *,
    avoid: Collection[str] = (),
    latest: str = "",
    last: Collection[str] = (),
    per_target: int = 0,
    limits: Mapping[str, int] | None = None,
) -> str | None:
    """Return the host with most memory left among those that fit; None if there is none.

    A host in `last`, or one that answers late, is still better than one in `avoid`, where a move
    has failed already. Of those to avoid the one of the last failure comes last: no host alone
    decides how moves end.

    Args:
        server: to be moved.
        candidates: hosts that could take it.
        reservations: made since the candidates were read.
        avoid: hosts not to go to, unless no other fits.
        latest: the one of them to which the last move has failed.
        last: hosts to go to where no other fits but those to avoid.
        per_target: most moves to one host at once; 0 for any number.
        limits: the same of hosts that bear another number.
    """
    own = limits or {}

    def bears(each: Capacity) -> bool:
        return not 0 < own.get(each.host, per_target) <= reservations.moves[each.host]

    fitting = [each for each in candidates if reservations.fits(server, each) and bears(each)]

    def key(each: Capacity) -> tuple[bool, bool, bool, int]:
        host = each.host
        good = host not in last and not each.is_late
        return host not in avoid, good, host != latest, reservations.free_mib(each)

    best = max(fitting, key=key, default=None)
    return best.host if best else None


def _must_part(group: ServerGroup | None) -> bool:
    return group is not None and group.policy == "anti-affinity"


def _members(server: Server) -> tuple[str, ...]:
    """Return the members of its group, itself included: the same for all of them."""
    return tuple(sorted({server.id, *(server.group.members if server.group else ())}))
