"""Finds the hosts of the fake that have the capacity for a server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hypercobalt.compute.model import Capacity, Size, fits, total

Claim = tuple[str, Size]
"""A host, and the size of one server that runs on it or moves to it."""


def used(host: str, claims: Iterable[Claim]) -> Size:
    """Return the size of all servers on a host."""
    return total([size for at, size in claims if at == host])


def candidates(
    size: Size, hosts: Mapping[str, Size], claims: Sequence[Claim]
) -> tuple[Capacity, ...]:
    """Return the hosts on which a server of a size fits, in their order."""
    found = (Capacity(host, whole, used(host, claims)) for host, whole in hosts.items())
    return tuple(each for each in found if fits(size, each))


def emptiest(found: Iterable[Capacity]) -> str:
    """Return the host with the most free memory; "" without any."""
    free = min(found, key=lambda each: each.used.memory_mib - each.total.memory_mib, default=None)
    return free.host if free else ""
