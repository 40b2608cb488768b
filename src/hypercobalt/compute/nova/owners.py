"""Owners of servers: Nova's instance actions, and locks that refuse their owners' actions.

An administrator's actions are not refused. The owner cannot clear a lock that an administrator has
set. Nova keeps a reason from 2.73 on; with an older version nothing is locked, since the lock could
not be distinguished from another owner's.

Source: OpenStack Compute API reference, "Lock Server"; nova, compute/api.py, `lock`, `unlock` and
`check_instance_lock`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from hypercobalt.compute.model import Server, ServerAction
from hypercobalt.compute.nova.actions import of_others
from hypercobalt.compute.nova.calls import COMPUTE, Calls, checked
from hypercobalt.compute.nova.servers import NovaServers, ToServer

_WITH_REASON: Final = (2, 73)
_READING: Final = (2, 98)
_NOT_FOUND: Final = 404


class NovaOwners:
    """See `hypercobalt.compute.server_port.Owners`; one call each."""

    def __init__(self, calls: Calls, to_server: ToServer) -> None:
        self._calls, self._to_server = calls, to_server

    async def lock(self, server: Server, reason: str) -> None:
        id_ = checked(server.id)
        if await self._have_reasons():
            action = {"lock": {"locked_reason": reason}}
            await self._calls.act(f"lock server {id_}", id_, action, _WITH_REASON)

    async def unlock(self, server: Server) -> None:
        id_ = checked(server.id)
        await self._calls(
            f"unlock server {id_}",
            COMPUTE,
            "POST",
            f"/servers/{id_}/action",
            body={"unlock": None},
            version=_WITH_REASON,
            allow={_NOT_FOUND},
        )

    async def locked(self, prefix: str) -> tuple[Server, ...]:
        """List them without their groups."""
        if not await self._have_reasons():
            return ()
        query = (("all_tenants", "1"), ("locked", "true"))
        about, path = "list the locked servers", "/servers/detail"
        pages = await self._calls.pages(about, path, NovaServers, query=query, version=_READING)
        listed = (one for page in pages for one in page.servers)
        ours = (one for one in listed if (one.locked_reason or "").startswith(prefix))
        return tuple(self._to_server(one, {}) for one in ours)

    async def actions(self, server: str, since: datetime) -> tuple[ServerAction, ...]:
        return await of_others(self._calls, checked(server), since)

    async def _have_reasons(self) -> bool:
        return await self._calls.offers(COMPUTE, _WITH_REASON)
