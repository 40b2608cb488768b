"""Locks of servers: their owners' actions are refused, an administrator's are not.

The owner cannot clear a lock that an administrator has set. Nova keeps a reason from 2.73 on; with
an older version nothing is locked, since the lock could not be distinguished from another owner's.

Source: OpenStack Compute API reference, "Lock Server"; nova, compute/api.py, `lock`, `unlock` and
`check_instance_lock`.
"""

from __future__ import annotations

from typing import Final

from hypercobalt.compute.nova.calls import COMPUTE, Calls
from hypercobalt.compute.nova.servers import NovaServer, NovaServers

_WITH_REASON: Final = (2, 73)
_READING: Final = (2, 98)
_NOT_FOUND: Final = 404


class Locks:
    """Locks of servers; one call each."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def set(self, server: str, reason: str) -> None:
        """Lock a server, whose id has been checked."""
        if await self._have_reasons():
            action = {"lock": {"locked_reason": reason}}
            await self._calls.act(f"lock server {server}", server, action, _WITH_REASON)

    async def clear(self, server: str) -> None:
        """Unlock a server; one that is gone is no error."""
        await self._calls(
            f"unlock server {server}",
            COMPUTE,
            "POST",
            f"/servers/{server}/action",
            body={"unlock": None},
            version=_WITH_REASON,
            allow={_NOT_FOUND},
        )

    async def listed(self) -> list[NovaServer]:
        """Return every locked server of every project."""
        if not await self._have_reasons():
            return []
        query = (("all_tenants", "1"), ("locked", "true"))
        about, path = "list the locked servers", "/servers/detail"
        pages = await self._calls.pages(about, path, NovaServers, query=query, version=_READING)
        return [one for page in pages for one in page.servers]

    async def _have_reasons(self) -> bool:
        return await self._calls.offers(COMPUTE, _WITH_REASON)
