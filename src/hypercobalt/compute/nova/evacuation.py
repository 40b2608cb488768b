"""Servers of a host that was forced down, on another host.

From 2.95 on Nova leaves an evacuated server off; with an older microversion it runs afterwards if
Nova has it as running, which one that is in ERROR may not be known to be. A paused server is not
evacuated by Nova until its state is reset; its memory is gone with the host, and it is left off.
One whose guest has died was stopped by Nova itself, and would stay off with any microversion.

Source: OpenStack Compute API reference, "Evacuate Server"; nova, compute/api.py, `evacuate`.
"""

from __future__ import annotations

from typing import Final

from hypercobalt.compute.errors import ConflictError, RefusedError
from hypercobalt.compute.model import Server, ServerStatus
from hypercobalt.compute.nova.calls import Calls

_RUNS_AFTERWARDS: Final = (2, 94)
_STAYS_OFF: Final = (2, 95)
_ACTING: Final = (2, 90)
_REBUILDING: Final = "rebuild"


class Evacuation:
    """One call; three where an old Nova insists that nothing else is being done to the server."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def of(self, server: Server, target: str, *, interrupted: bool) -> None:
        """See `hypercobalt.compute.port.Moves.evacuate`; the server's id has been checked."""
        if server.waits_for_host:
            raise RefusedError(
                f"server {server.id} waits for its host {server.host}: {server.waits_for_host}",
                reason="WaitsForHost",
            )
        # Recent releases would begin a second one.
        if server.task_state.startswith(_REBUILDING) and not interrupted:
            raise ConflictError(f"server {server.id}: {server.task_state} is still under way")
        if server.status == ServerStatus.PAUSED:
            # In ERROR, not active: an attempt that follows has to leave it off as well.
            await self._reset(server, "error", f"end the pause of server {server.id}")
        if server.died and server.status == ServerStatus.SHUTOFF:
            await self._reset(server, "active", f"undo Nova's stop of server {server.id}")
        try:
            await self._evacuate(server, target)
        except ConflictError:
            if not server.task_state:
                raise
            # What was begun there never ends: Nova up to 2023 evacuates only without it.
            await self._reset(server, "active", f"end {server.task_state} of server {server.id}")
            await self._evacuate(server, target)

    async def _reset(self, server: Server, state: str, what: str) -> None:
        action = {"os-resetState": {"state": state}}
        await self._calls.act(f"{what}, whose host is dead", server.id, action, _ACTING)

    async def _evacuate(self, server: Server, target: str) -> None:
        ran = server.running or server.status == ServerStatus.ACTIVE or bool(server.died)
        version = _RUNS_AFTERWARDS if ran else _STAYS_OFF
        arguments = {"host": target} if target else {}
        about = f"evacuate server {server.id} from host {server.host}"
        await self._calls.act(about, server.id, {"evacuate": arguments}, version)
