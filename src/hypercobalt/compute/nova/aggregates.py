"""Host aggregates. One listing serves all passes of two seconds, a change is one call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from hypercobalt.adapters.openstack.request import Answer
from hypercobalt.compute.model import HostAggregate
from hypercobalt.compute.nova.calls import COMPUTE, LONG, Calls, read, refused
from hypercobalt.compute.nova.shared import SharedRead

SHARED_SECONDS: Final = 2.0
_KEPT_SECONDS: Final = SHARED_SECONDS + LONG
"""Time after which no listing arrives that was requested before a change."""
_VERSION = (2, 93)
_NOT_FOUND, _CONFLICT = 404, 409


class NovaAggregates:
    """See `hypercobalt.compute.port.Aggregates`."""

    def __init__(self, calls: Calls, clock: Callable[[], float]) -> None:
        self._calls, self._clock = calls, clock
        self._changes: list[_Change] = []
        self._view: tuple[float, dict[int, HostAggregate]] = (-1.0, {})
        """Time of the request of the newest listing, and that listing with later changes."""
        self._all = SharedRead("aggregates", self._list, seconds=SHARED_SECONDS, clock=clock)

    async def list(self, *, fresh: bool = False) -> tuple[HostAggregate, ...]:
        """List the aggregates, with what this process has changed since it requested the list."""
        seen = await self._all.seen(fresh=fresh)
        if seen.requested != self._view[0]:
            oldest = self._clock() - _KEPT_SECONDS
            self._changes = [one for one in self._changes if one.at > oldest]
            later = [one for one in self._changes if one.at >= seen.requested]
            self._view = (seen.requested, _changed(seen.answer, later))
        return tuple(self._view[1].values())

    async def add(self, aggregate: HostAggregate, host: str) -> None:
        """Leave a refusal by 409 (another zone while servers are there) to a person."""
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
        """End pending reads."""
        await self._all.close()

    async def _act(
        self, about: str, aggregate: HostAggregate, action: str, host: str, *allow: int
    ) -> Answer:
        path = f"/os-aggregates/{aggregate.id}/action"
        body = {action: {"host": host}}
        answer = await self._calls(
            about, COMPUTE, "POST", path, body=body, version=_VERSION, allow=allow
        )
        if answer.ok:
            change = _Change(self._clock(), aggregate.id, host, enter=action == "add_host")
            self._changes.append(change)
            requested, view = self._view
            if aggregate.id in view:
                self._view = (requested, view | _changed((view[aggregate.id],), (change,)))
        return answer

    async def _members(self, aggregate: HostAggregate) -> tuple[str, ...]:
        """Return the present members after Nova refused a change: often they are as wanted."""
        known = {one.id: one.hosts for one in await self.list(fresh=True)}
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


@dataclass(frozen=True, slots=True)
class _Change:
    """Change of a host that entered an aggregate, or left it."""

    at: float
    aggregate: int
    host: str
    enter: bool


def _changed(
    known: Iterable[HostAggregate], changes: Iterable[_Change]
) -> dict[int, HostAggregate]:
    """Return the aggregates by their ids, as they are after the changes."""
    after = {one.id: one for one in known}
    hosts = dict[int, dict[str, None]]()
    for change in changes:
        aggregate = after.get(change.aggregate)
        if aggregate is None:
            continue
        if aggregate.id not in hosts:
            hosts[aggregate.id] = dict.fromkeys(aggregate.hosts)
        if change.enter:
            hosts[aggregate.id][change.host] = None
        else:
            hosts[aggregate.id].pop(change.host, None)
    return after | {id_: replace(after[id_], hosts=tuple(of)) for id_, of in hosts.items()}


class _Aggregate(msgspec.Struct, frozen=True):
    id: int
    name: str
    uuid: str = ""
    hosts: tuple[str, ...] = ()
    metadata: dict[str, str] = msgspec.field(default_factory=dict[str, str])


class _Aggregates(msgspec.Struct, frozen=True):
    aggregates: tuple[_Aggregate, ...]
