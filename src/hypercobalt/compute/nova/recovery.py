"""Recovers servers that a live migration has left in ERROR.

Nova 34 fully rolls back every live migration that libvirt ends early, even an aborted one, and then
sets ERROR all the same. Placement shows whether it rolled back: the server's allocation is on the
source again; after a completed move it is on the target. A server that was paused before still is,
and Nova must be set to that: out of ERROR Nova takes it for ACTIVE, and its owner could not unpause
it.

Source: Nova, nova/virt/libvirt/driver.py `_live_migration` (collects the result of a thread whose
failure it has handled), nova/compute/manager.py `_rollback_live_migration`.
"""

from __future__ import annotations

from typing import Final

from hypercobalt.compute.errors import RefusedError
from hypercobalt.compute.model import Server, ServerStatus
from hypercobalt.compute.nova.calls import PLACEMENT, Allocations, Calls, read
from hypercobalt.compute.nova.hosts import Hosts

_PLACING: Final = (1, 39)
_ACTING: Final = (2, 90)


class Recovery:
    """Takes servers out of ERROR by two or three calls, besides those that find the host."""

    def __init__(self, calls: Calls, hosts: Hosts) -> None:
        self._calls, self._hosts = calls, hosts

    async def of(self, server: Server) -> None:
        """See `hypercobalt.compute.port.Moves.recover`; the server's id has been checked."""
        host = await self._hosts.get(server.host)
        answer = await self._calls(
            f"read the allocations of server {server.id}",
            PLACEMENT,
            "GET",
            f"/allocations/{server.id}",
            version=_PLACING,
        )
        claimed = read(answer, Allocations).allocations
        if host is None or host.hypervisor_id not in claimed:
            raise RefusedError(
                f"server {server.id} is not known to be on {server.host}: what it has claimed is "
                f"of provider {', '.join(claimed) or 'none'}; check both hosts"
            )
        if server.status == ServerStatus.ERROR:
            about = f"reset the state of server {server.id} from ERROR"
            action = {"os-resetState": {"state": "active"}}
            await self._calls.act(about, server.id, action, _ACTING)
        if server.paused:
            about = f"pause server {server.id}, since its guest is paused"
            await self._calls.act(about, server.id, {"pause": None}, _ACTING)
