"""Host aggregates. One listing serves all passes of two seconds; a change is one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from hypercobalt.adapters.openstack.request import Answer
from hypercobalt.compute.model import HostAggregate
from hypercobalt.compute.nova.calls import COMPUTE, LONG, Calls, read, refused
from hypercobalt.compute.nova.shared import Shared

SHARED_SECONDS: Final = 2.0
_VERSION = (2, 93)
_NOT_FOUND, _CONFLICT = 404, 409


class Aggregates:
    """See `hypercobalt.compute.port.Aggregates`."""

    def __init__(self, calls: Calls, clock: Callable[[], float]) -> None:
        self._calls = calls
        self._all = Shared("aggregates", self._list, seconds=SHARED_SECONDS, clock=clock)

    async def list(self, *, fresh: bool = False) -> tuple[HostAggregate, ...]:
        return await self._all.get(fresh=fresh)

    async def add(self, aggregate: HostAggregate, host: str) -> None:
        """See the port. A refusal by 409 (another zone while servers are there) is for a person."""
        about = f"add host {host} to aggregate {aggregate.name}"
        answer = await self._act(about, aggregate, "add_host", host, _CONFLICT)
        if answer.code == _CONFLICT and host not in await self._members(aggregate):
            raise refused(answer, COMPUTE)

    async def remove(self, aggregate: HostAggregate, host: str) -> None:
        about = f"remove host {host} from aggregate {aggregate.name}"
        answer = await self._act(about, aggregate, "remove_host", host, _NOT_FOUND, _CONFLICT)
        if not answer.ok and host in await self._members(aggregate):
            raise refused(answer, COMPUTE)

    async def close(self) -> None:
        """End what is under way."""
        await self._all.close()

    async def _act(
        self, about: str, aggregate: HostAggregate, action: str, host: str, *allow: int
    ) -> Answer:
        path = f"/os-aggregates/{aggregate.id}/action"
        body = {action: {"host": host}}
        answer = await self._calls(
            about, COMPUTE, "POST", path, body=body, version=_VERSION, allow=allow
        )
        self._all.forget()
        return answer

    async def _members(self, aggregate: HostAggregate) -> tuple[str, ...]:
        """Who is in it now, after Nova refused a change: often it is as wanted already."""
        known = {one.id: one.hosts for one in await self._all.get(fresh=True)}
        return known.get(aggregate.id, ())

    async def _list(self) -> tuple[HostAggregate, ...]:
        about = "list the aggregates"
        answer = await self._calls(
            about, COMPUTE, "GET", "/os-aggregates", version=_VERSION, deadline=LONG
        )
        return tuple(
            HostAggregate(one.id, one.uuid, one.name, one.hosts, one.metadata)
            for one in read(answer, _Aggregates).aggregates
        )


class _Aggregate(msgspec.Struct, frozen=True):
    id: int
    name: str
    uuid: str = ""
    hosts: tuple[str, ...] = ()
    metadata: dict[str, str] = msgspec.field(default_factory=dict[str, str])


class _Aggregates(msgspec.Struct, frozen=True):
    aggregates: tuple[_Aggregate, ...]
