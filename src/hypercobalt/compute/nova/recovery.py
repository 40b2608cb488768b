"""Brings failed servers up again: restarts, evacuates, and takes them out of ERROR.

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

from hypercobalt.compute.errors import ConflictError, RefusedError
from hypercobalt.compute.model import Server, ServerStatus
from hypercobalt.compute.nova.calls import PLACEMENT, Allocations, Calls, checked, read
from hypercobalt.compute.nova.evacuation import Evacuation
from hypercobalt.compute.nova.hosts import Hosts

_PLACING: Final = (1, 39)
_ACTING: Final = (2, 90)


class Recovery:
    """See `hypercobalt.compute.port.Recovery`.

    A restart is one call, an evacuation up to three. `recover` makes two or three, besides those
    that find the host.
    """

    def __init__(self, calls: Calls, hosts: Hosts) -> None:
        self._calls, self._hosts = calls, hosts
        self._evacuation = Evacuation(calls)

    async def restart(self, server: Server) -> None:
        """Refuse a second restart during the first one: Nova would take it."""
        if server.task_state:
            raise ConflictError(f"server {server.id}: {server.task_state} is still under way")
        off = server.status == ServerStatus.SHUTOFF
        action = {"os-start": None} if off else {"reboot": {"type": "HARD"}}
        await self._calls.act(f"restart server {server.id}", checked(server.id), action, _ACTING)

    async def evacuate(
        self, server: Server, target: str = "", *, interrupted: bool = False
    ) -> None:
        checked(server.id)
        await self._evacuation.of(server, target, interrupted=interrupted)

    async def recover(self, server: Server) -> None:
        checked(server.id)
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
