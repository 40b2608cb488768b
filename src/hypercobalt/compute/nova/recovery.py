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

from datetime import datetime
from typing import Final

from hypercobalt.compute.errors import ComputeConflictError, RefusedError
from hypercobalt.compute.model import RestartResult, Server, ServerStatus
from hypercobalt.compute.nova import actions
from hypercobalt.compute.nova.calls import ID, PLACEMENT, Allocations, Calls, checked, read
from hypercobalt.compute.nova.evacuation import NovaEvacuation
from hypercobalt.compute.nova.hosts import NovaHosts
from hypercobalt.compute.nova.times import read_time

_PLACING: Final = (1, 39)
_ACTING: Final = (2, 90)
_REQUEST_ID: Final = "x-openstack-request-id"
_RESTARTS: Final = frozenset({"start", "reboot"})
_KEPT: Final = 1000


class NovaRecovery:
    """See `hypercobalt.compute.server_port.Recovery`.

    A restart is one call, its result another one, or two of a restart by an earlier process. An
    evacuation is up to three. `recover` makes two or three, besides those that find the host.
    """

    def __init__(self, calls: Calls, hosts: NovaHosts) -> None:
        self._calls, self._hosts = calls, hosts
        self._evacuation = NovaEvacuation(calls)
        self._requested: dict[str, str] = {}
        """Id of the newest request for a restart by the server that it was for."""

    async def restart(self, server: Server) -> None:
        """Refuse a second restart during the first one: Nova would take it."""
        if server.task_state:
            raise ComputeConflictError(
                f"server {server.id}: {server.task_state} is still under way"
            )
        off = server.status == ServerStatus.SHUTOFF
        action = {"os-start": None} if off else {"reboot": {"type": "HARD"}}
        about, id_ = f"restart server {server.id}", checked(server.id)
        self._requested.pop(id_, None)
        answer = await self._calls.act(about, id_, action, _ACTING)
        request = answer.headers.get(_REQUEST_ID, "")
        if ID.fullmatch(request):
            if len(self._requested) >= _KEPT:
                self._requested.clear()
            self._requested[id_] = request

    async def restarted(self, server: str, since: datetime) -> RestartResult:
        """Read the action of the request: Nova records how its host has ended it.

        A reboot that fails in nova-compute before it does anything leaves the server ACTIVE with
        the power state from before, and the action with an error. Its end is recorded before the
        server's task ends if it fails, and just after that if it succeeds.

        Source: nova, compute/manager.py, `reboot_instance` (`reverts_task_state` around
        `wrap_instance_event`).
        """
        about, id_ = f"read the result of the restart of server {server}", checked(server)
        found: actions.ActionWithEvents | None = None
        if request := self._requested.get(id_):
            found = await actions.with_events(self._calls, about, id_, request)
        if found is None and (request := await self._newest(about, id_, since)):
            found = await actions.with_events(self._calls, about, id_, request)
        if found is None:
            return RestartResult(failed="Nova has no record of the request")
        failed = (found.cause or "Nova gives no reason") if found.failed else ""
        return RestartResult(succeeded=found.done_by_host, failed=failed)

    async def _newest(self, about: str, server: str, since: datetime) -> str:
        """Return the id of the newest request that restarts the server, whoever made it."""
        for one in await actions.listed(self._calls, about, server, since):
            began = read_time(one.start_time)
            restarts = one.action in _RESTARTS and ID.fullmatch(one.request_id)
            if restarts and began is not None and began >= since:
                return one.request_id
        return ""

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
