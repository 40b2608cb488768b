"""The network's part in a move: which hosts may have a domain's ports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Ports(Protocol):
    """Ports of a virtual network, named by the interface ids in the domains' definitions."""

    async def bind(self, ports: Iterable[str], hosts: tuple[str, ...]) -> None:
        """Set which hosts may have some ports: the present host first, then the target.

        A port that the network lacks is no error.

        Raises:
            TransientError: the network cannot be changed.
        """
        ...

    async def between_hosts(self) -> dict[str, tuple[str, ...]]:
        """Return ports that may be on several hosts, with the hosts, from unfinished moves.

        Raises:
            TransientError: the network cannot be reached.
        """
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


class NoPorts:
    """A network that finds out by itself where a port is."""

    async def bind(self, ports: Iterable[str], hosts: tuple[str, ...]) -> None:
        """Do nothing: there is nothing to bind."""

    async def between_hosts(self) -> dict[str, tuple[str, ...]]:
        return {}

    async def close(self) -> None:
        """Do nothing: no connection is held."""
