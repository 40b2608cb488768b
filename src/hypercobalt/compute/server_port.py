"""Calls of a compute service for servers: their moves, their recovery, their owners.

Deadlines and errors are those of every call, see `hypercobalt.compute.port`.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from hypercobalt.compute.model import Capacity, Move, RestartResult, Server, ServerAction


class Moves(Protocol):
    """Servers on a host, and their moves to another."""

    @property
    def chooses_target(self) -> bool:
        """Whether the service finds a target itself; where it does not, "" is refused."""
        ...

    @property
    def groups_refused(self) -> str:
        """Return why the last servers were read without their groups; "" if they have them."""
        ...

    async def servers(self, host: str) -> tuple[Server, ...]:
        """Return every server on the host, in one call; never an answer from before the call.

        An unknown host has no servers, or raises `UnreachableError`.
        """
        ...

    async def server(self, id: str) -> Server | None:
        """Return one server, wherever it is; None when there is none any more."""
        ...

    async def in_error(self, ids: Collection[str]) -> tuple[Server, ...]:
        """Return the given servers that are in ERROR, on any host, in one call; without groups.

        Args:
            ids: of the servers; a server that is gone is left out.
        """
        ...

    async def moves(self, host: str) -> tuple[Move, ...]:
        """Return records of moves away from the host, newest first, in one call.

        An unknown host has none, or raises `UnreachableError`.
        """
        ...

    async def incoming(self, host: str) -> tuple[Move, ...]:
        """Return moves to the host that go on: each may bring a server there, or back there.

        Moves that ended before the call are left out, whatever their records show: their servers
        are among the `servers` of a later call.
        """
        ...

    async def candidates(self, server: Server) -> tuple[Capacity, ...]:
        """Return hosts that could take the server, by the service's reports, with their resources.

        Its present host is not among them, nor are disabled ones.
        """
        ...

    async def live_migrate(self, server: Server, target: str = "") -> None:
        """Begin to move a running or paused server; "" lets the service choose the target.

        Local disks are copied where the server has them.
        """
        ...

    async def cold_migrate(self, server: Server, target: str = "") -> None:
        """Begin to move a stopped server; "" lets the service choose."""
        ...

    async def confirm(self, server: Server) -> None:
        """Confirm a cold migration; the source deletes its copy of the server."""
        ...

    async def abort(self, move: Move) -> None:
        """Stop a live migration; the server stays where it is. An ended migration is no error."""
        ...

    async def force_complete(self, move: Move) -> None:
        """Help a live migration that does not converge: pause the server, or post-copy."""
        ...


class Recovery(Protocol):
    """What brings a failed server up again, where it is or elsewhere."""

    async def restart(self, server: Server) -> None:
        """Begin to start a server that is off, or to reboot one hard, on its present host.

        Raises:
            MayRunElsewhereError: it is not known yet whether it runs on another host.
            ComputeConflictError: something else is being done to it, or it has left that host.
        """
        ...

    async def restarted(self, server: str, since: datetime) -> RestartResult:
        """Return the result of the newest restart of a server that was requested since then.

        A server that is shown as running is no proof: a service may show what was before a crash. A
        restart without a record has failed: the request did not arrive.

        Args:
            server: its id.
            since: time, timezone-aware.
        """
        ...

    async def evacuate(
        self, server: Server, target: str = "", *, interrupted: bool = False
    ) -> None:
        """Begin to evacuate a server from a host that was forced down to another host.

        A server that ran there, or has died, runs afterwards; one that was off stays off. `moves`
        has the record, of kind `evacuation`. "" lets the service choose the target.

        Args:
            server: as read.
            target: name of a host.
            interrupted: the server is shown as being rebuilt, but the rebuilding host is proven
                dead.

        Raises:
            RefusedError: its host is not forced down, or the server has to wait for it.
            ComputeConflictError: it may run elsewhere, or something else is being done to it.
        """
        ...

    async def recover(self, server: Server) -> None:
        """Take a server that has not moved out of the ERROR that a live migration left it in.

        A server with a paused guest is PAUSED afterwards; for a server that is out of ERROR, only
        this is ensured.

        Raises:
            RefusedError: the server is not known to be there.
        """
        ...


class Owners(Protocol):
    """Owners of servers: their requests, and locks against them."""

    async def lock(self, server: Server, reason: str) -> None:
        """Refuse the owner's actions on a server until `unlock`; an administrator's still work.

        Nothing happens where the service could not show the reason of a lock.

        Args:
            server: as read; an owner's lock and its reason are overwritten.
            reason: for its owner, and to find it again; at most 255 characters.
        """
        ...

    async def unlock(self, server: Server) -> None:
        """Unlock a server, whoever locked it; one that is unlocked or gone is no error."""
        ...

    async def locked(self, prefix: str) -> tuple[Server, ...]:
        """Return servers of all hosts locked for a reason with this beginning, in one call."""
        ...

    async def actions(self, server: str, since: datetime) -> tuple[ServerAction, ...]:
        """Return requests for a server since then, newest first, except this operator's own.

        Args:
            server: its id; one that is gone has none.
            since: time, timezone-aware.
        """
        ...
