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
_ERROR: Final = "Error"
"""Message of an action, and result of a part, that has failed."""
_SUCCESS: Final = "Success"
_BY_HOST: Final = "compute_"
_LONGEST: Final = 500  # characters
_NOT_FOUND: Final = 404


class InstanceAction(msgspec.Struct, frozen=True):
    """An instance action; `message` is `Error` when it failed."""

    action: str
    request_id: str
    user_id: str | None = None
    project_id: str | None = None
    start_time: str = ""
    message: str | None = None

    @property
    def failed(self) -> bool:
        """Whether a part of it has failed; Nova has no other field for it."""
        return self.message == _ERROR


class ActionEvent(msgspec.Struct, frozen=True):
    """A part of an instance action; it has no result before its end."""

    event: str = ""
    result: str | None = None
    details: str | None = None


class ActionWithEvents(msgspec.Struct, frozen=True):
    """An instance action and its parts."""

    message: str | None = None
    events: tuple[ActionEvent, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether a part of it has failed."""
        return self.message == _ERROR or any(event.result == _ERROR for event in self.events)

    @property
    def cause(self) -> str:
        """Why it failed; "" where Nova gives no reason."""
        texts = (e.details for e in self.events if e.result == _ERROR and e.details)
        return " ".join(next(texts, "").split())[:_LONGEST]

    @property
    def done_by_host(self) -> bool:
        """Whether the host of the server has carried it out."""
        by_host = (event for event in self.events if event.event.startswith(_BY_HOST))
        return not self.failed and any(event.result == _SUCCESS for event in by_host)


class _OneAction(msgspec.Struct, frozen=True):
    action: ActionWithEvents = msgspec.field(name="instanceAction")


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


async def with_events(
    calls: Calls, about: str, server: str, request: str
) -> ActionWithEvents | None:
    """Return the action of a request; None for one that Nova does not have.

    Args:
        calls: to Nova.
        about: purpose of the call, for messages and logs.
        server: id of the server, already checked.
        request: its id.
    """
    path = f"/servers/{server}/os-instance-actions/{request}"
    answer = await calls(about, COMPUTE, "GET", path, version=VERSION, allow={_NOT_FOUND})
    return read(answer, _OneAction).action if answer.ok else None


async def of_others(calls: Calls, server: str, since: datetime) -> tuple[ServerAction, ...]:
    """See `hypercobalt.compute.server_port.Owners.actions`."""
    found = await listed(calls, f"list the actions of server {server}", server, since)
    own = await calls.user() if found else ""
    actions = (_action(one) for one in found if not (own and one.user_id == own))
    return tuple(one for one in actions if one.started >= since)


def _action(one: InstanceAction) -> ServerAction:
    started = read_time(one.start_time) or datetime.fromtimestamp(0, UTC)
    return ServerAction(
        one.action, started, one.user_id or "", one.project_id or "", failed=one.failed
    )
