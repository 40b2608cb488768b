"""Evacuates servers of a host that was forced down.

From 2.95 on Nova leaves an evacuated server off, unless it is in ERROR: such a server runs
afterwards with any microversion. A paused server is not evacuated until its state is reset; its
memory is gone with the host, and it is left off. A server with a guest that died was stopped by
Nova itself, and would stay off with any microversion.

Source: OpenStack Compute API reference, "Evacuate Server"; nova, compute/api.py, `evacuate`, and
compute/manager.py, `_do_rebuild_instance`.
"""

from __future__ import annotations

from typing import Final

from hypercobalt.compute.errors import ComputeConflictError, RefusedError
from hypercobalt.compute.model import Server, ServerStatus
from hypercobalt.compute.nova.calls import Calls

_RUNS_AFTERWARDS: Final = (2, 94)
_STAYS_OFF: Final = (2, 95)
_ACTING: Final = (2, 90)
_REBUILDING: Final = "rebuild"
_RESET_TO_STAY_OFF: Final = frozenset({ServerStatus.PAUSED, ServerStatus.ERROR})


class NovaEvacuation:
    """Evacuation of a server: one call, or more where the server's state has to be reset first."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def of(self, server: Server, target: str, *, interrupted: bool) -> None:
        """See `hypercobalt.compute.server_port.Recovery.evacuate`; the server's id is checked."""
        if server.waits_for_host:
            raise RefusedError(
                f"server {server.id} waits for its host {server.host}: {server.waits_for_host}",
                reason="WaitsForHost",
            )
        # Recent releases would begin a second one.
        if server.task_state.startswith(_REBUILDING) and not interrupted:
            raise ComputeConflictError(
                f"server {server.id}: {server.task_state} is still under way"
            )
        if server.died and server.status == ServerStatus.SHUTOFF:
            await self._reset(server, "active", f"undo Nova's stop of server {server.id}")
        if not _ran(server) and server.status in _RESET_TO_STAY_OFF:
            await self._evacuate_off(server, target)
        else:
            await self._evacuate_whatever_is_done(server, target)

    async def _evacuate_off(self, server: Server, target: str) -> None:
        await self._reset(server, "active", f"end {server.status} of server {server.id}")
        try:
            await self._evacuate(server, target)
        except (ComputeConflictError, RefusedError):
            # Active, the next attempt would start it. The effect of a call without an answer is
            # unknown: a reset would break what it may have begun.
            await self._reset(server, "error", f"mark server {server.id} as not running")
            raise

    async def _evacuate_whatever_is_done(self, server: Server, target: str) -> None:
        try:
            await self._evacuate(server, target)
        except ComputeConflictError:
            if not server.task_state:
                raise
            # An operation begun on that host never ends: Nova up to 2023 evacuates only without it.
            await self._reset(server, "active", f"end {server.task_state} of server {server.id}")
            await self._evacuate(server, target)

    async def _reset(self, server: Server, state: str, what: str) -> None:
        action = {"os-resetState": {"state": state}}
        await self._calls.act(f"{what}, whose host is dead", server.id, action, _ACTING)

    async def _evacuate(self, server: Server, target: str) -> None:
        version = _RUNS_AFTERWARDS if _ran(server) else _STAYS_OFF
        arguments = {"host": target} if target else {}
        about = f"evacuate server {server.id} from host {server.host}"
        await self._calls.act(about, server.id, {"evacuate": arguments}, version)


def _ran(server: Server) -> bool:
    return server.running or server.status == ServerStatus.ACTIVE or bool(server.died)
