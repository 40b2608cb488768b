"""Who gets a place among connections: rules, by owner and in all.

A newcomer gets a free place as long as its owner then leaves as many free as it holds: alone it has
half of them, of two owners each a third. Beyond that the newcomer takes the place of another
connection of its own; where none is free at all, of the owner that has most. So a client that does
what it came for is served even where its own address floods.

Pure: no socket and no clock in here. An owner is a network address, or a user.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from typing import Final, Generic, TypeVar, cast

_SITE_BITS: Final = 64  # of an IPv6 address: one machine has all addresses of such a network
_MAPPED: Final = "::ffff:"  # an IPv4 address, as sockets for both show it


T = TypeVar("T")


class Crowd(Generic[T]):
    """Those who share so many places, by owner.

    Args:
        most: places in all.
    """

    def __init__(self, most: int) -> None:
        self._most, self._total = most, 0
        self._groups = dict[str, dict[T, None]]()  # the oldest first

    def __len__(self) -> int:
        return self._total

    def __iter__(self) -> Iterator[T]:
        return (member for group in self._groups.values() for member in group)

    def __contains__(self, member: object) -> bool:
        return any(member in group for group in self._groups.values())

    def of(self, owner: str) -> Iterator[T]:
        """The members of one owner, the oldest first."""
        return iter(self._groups.get(owner, ()))

    def add(self, owner: str, member: T) -> None:
        """Add a member that is not in it."""
        self._groups.setdefault(owner, {})[member] = None
        self._total += 1

    def remove(self, owner: str, member: T) -> None:
        """Remove a member; again is harmless."""
        group = self._groups.get(owner, {})
        if member in group:
            del group[member]
            self._total -= 1
            if not group:
                del self._groups[owner]

    def givers(self, newcomer: str) -> Sequence[str] | None:
        """Who has to give a place to a newcomer, the first who can; None where one is free."""
        own, free = len(self._groups.get(newcomer, ())), self._most - self._total
        if own < free:
            return None
        if free > 0:
            return [newcomer] if own else []
        above = [owner for owner, group in self._groups.items() if len(group) > own]
        above.sort(key=lambda owner: -len(self._groups[owner]))
        return [*above, newcomer] if own else above


def owner_of(peer: object) -> str:
    """Whom a connection counts for: an IPv4 address, or the network of an IPv6 address.

    Args:
        peer: as `socket.accept` gives it.
    """
    text = address_of(peer)
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return text
    return str(ipaddress.IPv6Network((int(address), _SITE_BITS), strict=False).network_address)


def address_of(peer: object) -> str:
    """The address of a peer; empty if it has none."""
    if not isinstance(peer, tuple) or not peer:
        return ""
    text = str(cast("tuple[object, ...]", peer)[0]).partition("%")[0]
    return text.removeprefix(_MAPPED) if "." in text else text
