"""Hosts: Nova's compute services with their hypervisors.

Cost of a pass: with few passes, one call for its own host (two when that is down). With more
within two seconds, one listing of the fleet serves all of them, for longer the larger the fleet is.
A listing older than the request never proves that a host is absent: Nova may have registered it
since. `enable`, `disable`, `force_down`, `take_back` and `remove` are one call each; `has_provider`
is one, and all where Nova has taken the provider along; `remove_provider` is two, and one or two
per consumer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from hypercobalt.compute.errors import ComputeError, RefusedError
from hypercobalt.compute.model import Host
from hypercobalt.compute.nova.calls import (
    COMPUTE,
    LONG,
    Calls,
    read,
    refused,
)
from hypercobalt.compute.nova.names import NameIndex, short
from hypercobalt.compute.nova.pages import Link
from hypercobalt.compute.nova.shared import SharedRead
from hypercobalt.compute.port import Fleet

SHARED_SECONDS: Final = 2.0
"""Seconds for which a listing of the fleet serves passes that require no fresh one."""
HOSTS_A_SECOND: Final = 500
"""Hosts listed in a second, at most: the listing of a large fleet is shared for longer."""
FEW: Final = 4
"""Passes within two seconds that read their own host; further ones share a listing of all."""
_NEEDED: Final = ("nova-scheduler", "nova-conductor")
"""Binaries needed to evacuate and move servers, besides the hosts: one of each must be up."""
_LISTING = (2, 87)
"""From 2.88 on Nova queries each host's uptime, one after the other, for every listing."""
_WRITING = (2, 95)
_NOT_FOUND, _CONFLICT = 404, 409


class _Named(NameIndex[Host]):
    """Hosts, each with its names in Nova."""

    def __init__(self, items: Iterable[tuple[Host, tuple[str, ...]]]) -> None:
        super().__init__(items)
        self.ids = frozenset(host.hypervisor_id for host in self.items)


class NovaHosts:
    """See `hypercobalt.compute.port.Hosts`."""

    def __init__(self, calls: Calls, clock: Callable[[], float]) -> None:
        self._calls, self._clock = calls, clock
        self._alone = deque[float](maxlen=FEW)
        self._written: dict[str, _Written] = {}
        """Last changes of hosts by this process, by the hypervisor's id."""
        self._fleet = SharedRead("hypervisors", self._list, seconds=SHARED_SECONDS, clock=clock)

    async def get(self, name: str, *, fresh: bool = False) -> Host | None:
        if not fresh and (self._fleet.warm or self._crowded()):
            fleet = await self._fleet.seen_with(lambda known: bool(known.best(name)))
            found = _only(name, fleet.answer)
            written = self._written.get(found.hypervisor_id) if found else None
            if found is None or written is None or written.at < fleet.requested:
                return found
            if written.host is not None:
                return _with(found, written.host)
        return _only(name, await self._find(name))

    async def fleet(self) -> Fleet:
        """List them; passes of the next two seconds share the answer."""
        return _Listed((await self._fleet.seen(fresh=True)).answer)

    async def hindrance(self) -> str:
        """Check the binaries; one of which Nova lists no service is not counted as down."""
        for binary in _NEEDED:
            found = await self._services(f"check whether any {binary} is up", binary)
            if found and not any(one.state == "up" for one in found):
                names = ", ".join(sorted({one.host for one in found}))
                return f"no {binary} is up ({names}): Nova cannot start servers"
        return ""

    async def of_providers(self, providers: Collection[str]) -> dict[str, Host]:
        """Return the fleet by the UUIDs of the hosts' providers, some seconds old if complete.

        Args:
            providers: a listing without one of these is read again; the fresh one may lack it as
                well.
        """
        fleet = await self._fleet.seen_with(lambda known: known.ids.issuperset(providers))
        return {host.hypervisor_id: host for host in fleet.answer.items}

    async def lists(self, provider: str) -> bool:
        """Whether Nova lists a host with this resource provider now."""
        return provider in (await self._fleet.seen(fresh=True)).answer.ids

    async def enable(self, host: Host) -> None:
        after = replace(host, enabled=True, disabled_reason="", forced_down=False)
        await self._put(f"enable host {host.name}", after, status="enabled", forced_down=False)

    async def disable(self, host: Host, reason: str) -> None:
        after = replace(host, enabled=False, disabled_reason=reason)
        await self._put(
            f"disable host {host.name}", after, status="disabled", disabled_reason=reason
        )

    async def force_down(self, host: Host) -> None:
        after = replace(host, up=False, forced_down=True)
        await self._put(f"force host {host.name} down", after, forced_down=True)

    async def take_back(self, host: Host) -> None:
        after = replace(host, forced_down=False)
        await self._put(f"take back host {host.name}", after, forced_down=False)

    async def unstored(self, host: Host) -> frozenset[str]:
        """See the port. Nova's database has every server."""
        return frozenset()

    async def remove(self, host: Host) -> None:
        """Delete it, and look up whether it is gone unless Nova has deleted it."""
        about = f"delete the compute service of host {host.name}"
        try:
            await self._remove(about, f"/os-services/{host.service_id}")
        except ComputeError:
            left = await self._services(about, "nova-compute", host.name)
            if any(one.id == host.service_id for one in left):
                raise
        finally:
            self._written[host.hypervisor_id] = _Written(self._clock(), None)

    async def _remove(self, about: str, path: str) -> None:
        allow = {_NOT_FOUND, _CONFLICT}
        answer = await self._calls(about, COMPUTE, "DELETE", path, version=_WRITING, allow=allow)
        if answer.code == _CONFLICT:  # servers or moves are still there: read again
            raise refused(answer, COMPUTE)

    async def close(self) -> None:
        """End pending reads."""
        await self._fleet.close()

    async def _put(self, about: str, host: Host, **body: str | bool) -> None:
        path = f"/os-services/{host.service_id}"
        await self._calls(about, COMPUTE, "PUT", path, body=body, version=_WRITING)
        self._written[host.hypervisor_id] = _Written(self._clock(), host)

    def _crowded(self) -> bool:
        """Whether so many passes read their own host a moment ago that a listing is cheaper."""
        now, times = self._clock(), self._alone
        if len(times) == FEW and now - times[0] < SHARED_SECONDS:
            return True
        times.append(now)
        return False

    async def _find(self, name: str) -> _Named:
        """Find hosts with the first label anywhere in their names: `node1` also finds `node10`."""
        answer = await self._calls(
            f"find host {name}",
            COMPUTE,
            "GET",
            "/os-hypervisors/detail",
            query=(("hypervisor_hostname_pattern", short(name)), ("with_servers", "true")),
            version=_LISTING,
            allow={_NOT_FOUND},
        )
        if answer.code == _NOT_FOUND:
            return _Named(())
        return await self._with_forced_down(list(read(answer, _Hypervisors).hypervisors))

    async def _list(self) -> _Named:
        pages = await self._calls.pages(
            "list the hypervisors",
            "/os-hypervisors/detail",
            _Hypervisors,
            query=(("with_servers", "true"),),
            version=_LISTING,
        )
        found = [one for page in pages for one in page.hypervisors]
        self._fleet.seconds = max(SHARED_SECONDS, len(found) / HOSTS_A_SECOND)
        return await self._with_forced_down(found)

    async def _with_forced_down(self, found: list[_Hypervisor]) -> _Named:
        """Convert to the port's hosts; one more call reads whether a down host was forced down."""
        down = any(one.state == "down" for one in found)
        forced = await self._forced_down() if down else frozenset[str]()
        return _Named((_host(one, forced), _names(one)) for one in found)

    async def _forced_down(self) -> frozenset[str]:
        found = await self._services("list the compute services", "nova-compute")
        return frozenset(one.id for one in found if one.forced_down)

    async def _services(self, about: str, binary: str, host: str = "") -> tuple[_ServiceState, ...]:
        query = (("binary", binary), *((("host", host),) if host else ()))
        answer = await self._calls(
            about,
            COMPUTE,
            "GET",
            "/os-services",
            query=query,
            version=_WRITING,
            deadline=LONG,
        )
        return read(answer, _Services).services


@dataclass(frozen=True, slots=True)
class _Listed:
    """See `hypercobalt.compute.port.Fleet`."""

    known: _Named

    def get(self, name: str) -> Host | None:
        found = self.known.best(name)
        return found[0] if len(found) == 1 else None


def _only(name: str, known: _Named) -> Host | None:
    found = known.best(name)
    if len(found) > 1:
        names = ", ".join(sorted(host.name for host in found))
        raise RefusedError(
            f"find host {name}: it could be any of {names}. Give the Node the whole name",
            reason="Ambiguous",
        )
    return found[0] if found else None


def _host(one: _Hypervisor, forced: frozenset[str]) -> Host:
    return Host(
        name=one.service.host,
        hypervisor_id=one.id,
        service_id=one.service.id,
        enabled=one.status == "enabled",
        disabled_reason=one.service.disabled_reason or "",
        up=one.state == "up",
        forced_down=one.service.id in forced,
        servers=tuple(server.uuid for server in one.servers or ()),
    )


def _names(one: _Hypervisor) -> tuple[str, ...]:
    return one.service.host, one.hypervisor_hostname


@dataclass(frozen=True, slots=True)
class _Written:
    """A host as this process has left it; None when this process has forgotten it."""

    at: float
    host: Host | None


def _with(seen: Host, written: Host) -> Host:
    return replace(
        seen,
        enabled=written.enabled,
        disabled_reason=written.disabled_reason,
        up=seen.up and not written.forced_down,
        forced_down=written.forced_down,
    )


class _Server(msgspec.Struct, frozen=True):
    uuid: str


class _Service(msgspec.Struct, frozen=True):
    id: str
    host: str
    disabled_reason: str | None = None


class _Hypervisor(msgspec.Struct, frozen=True):
    id: str
    hypervisor_hostname: str
    service: _Service
    state: str = "up"
    status: str = "enabled"
    servers: tuple[_Server, ...] | None = None


class _Hypervisors(msgspec.Struct, frozen=True):
    hypervisors: tuple[_Hypervisor, ...]
    links: tuple[Link, ...] = msgspec.field(default=(), name="hypervisors_links")


class _ServiceState(msgspec.Struct, frozen=True):
    id: str
    forced_down: bool = False
    host: str = ""
    state: str = "up"


class _Services(msgspec.Struct, frozen=True):
    services: tuple[_ServiceState, ...]
