"""The network's part in a move: which hosts may have a domain's ports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Ports(Protocol):
    """Ports of a virtual network, by the interface ids in the domains' definitions."""

    async def bind(self, ports: Iterable[str], hosts: tuple[str, ...]) -> None:
        """Set which hosts may have some ports: the one they are on, then the one they go to.

        A port that the network does not have is no error.

        Raises:
            TransientError: the network cannot be changed.
        """
        ...

    async def between_hosts(self) -> dict[str, tuple[str, ...]]:
        """Ports that may be on several hosts, and on which: of moves that were not finished.

        Raises:
            TransientError: the network cannot be reached.
        """
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


class NoPorts:
    """A network that finds out by itself where a port is."""

    async def bind(self, ports: Iterable[str], hosts: tuple[str, ...]) -> None:
        """There is nothing to bind."""

    async def between_hosts(self) -> dict[str, tuple[str, ...]]:
        return {}

    async def close(self) -> None:
        """Nothing is held."""
