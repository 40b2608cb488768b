"""Requests for a server: Nova's instance actions.

Source: OpenStack Compute API reference, "Servers - instance actions", microversion 2.84.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec

from hypercobalt.compute.model import ServerAction
from hypercobalt.compute.nova.calls import COMPUTE, Calls, read
from hypercobalt.compute.nova.times import read_time

VERSION: Final = (2, 84)
_NOT_FOUND: Final = 404


class InstanceAction(msgspec.Struct, frozen=True):
    """An instance action; `message` is `Error` when it failed."""

    action: str
    request_id: str
    user_id: str | None = None
    project_id: str | None = None
    start_time: str = ""
    message: str | None = None


class _Actions(msgspec.Struct, frozen=True):
    actions: tuple[InstanceAction, ...] = msgspec.field(name="instanceActions")


async def listed(
    calls: Calls, about: str, server: str, since: datetime | None = None
) -> tuple[InstanceAction, ...]:
    """Return the actions of a server, newest first; none for a server that Nova does not have.

    Args:
        calls: to Nova.
        about: purpose of the call, for messages and logs.
        server: id of the server, already checked.
        since: only actions that changed since then.
    """
    query = (("changes-since", since.astimezone(UTC).isoformat()),) if since else ()
    path = f"/servers/{server}/os-instance-actions"
    answer = await calls(
        about, COMPUTE, "GET", path, query=query, version=VERSION, allow={_NOT_FOUND}
    )
    return read(answer, _Actions).actions if answer.ok else ()


async def of_others(calls: Calls, server: str, since: datetime) -> tuple[ServerAction, ...]:
    """See `hypercobalt.compute.port.Owners.actions`."""
    found = await listed(calls, f"list the actions of server {server}", server, since)
    own = await calls.user() if found else ""
    actions = (_action(one) for one in found if not (own and one.user_id == own))
    return tuple(one for one in actions if one.started >= since)


def _action(one: InstanceAction) -> ServerAction:
    started = read_time(one.start_time) or datetime.fromtimestamp(0, UTC)
    return ServerAction(one.action, started, one.user_id or "", one.project_id or "")
