"""Finds hosts with room for a server, by Placement's allocation candidates.

One call for all servers of one size within a second; the names of the hosts come from the listing
of the fleet, which is shared as well.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final
from urllib.parse import parse_qsl

import msgspec

from hypercobalt.compute.model import Capacity, Host, Server, Size
from hypercobalt.compute.nova.calls import PLACEMENT, Calls, read
from hypercobalt.compute.nova.claims import CPUS
from hypercobalt.compute.nova.hosts import NovaHosts
from hypercobalt.compute.nova.shared import SharedRead

SHARED_SECONDS: Final = 1.0
CANDIDATES: Final = 500
"""Most hosts in a request: each comes with all of its traits, some 5 KiB."""
_VERSION = (1, 29)
"""Later ones add the resource classes of providers that were not requested."""
_KEPT: Final = 64
"""Number of sizes with candidates that are kept."""


class Candidates:
    """Free resources of the hosts that could take a server."""

    def __init__(self, calls: Calls, hosts: NovaHosts, clock: Callable[[], float]) -> None:
        self._calls, self._hosts, self._clock = calls, hosts, clock
        self._candidates: dict[str, SharedRead[_Candidates]] = {}

    async def of(self, server: Server) -> tuple[Capacity, ...]:
        """See `hypercobalt.compute.server_port.Moves.candidates`."""
        if not server.claim:
            return ()
        candidates = await self._shared(server.claim).get()
        hosts = await self._hosts.of_providers(candidates.homes)
        return capacities(candidates, hosts, server.host)

    async def close(self) -> None:
        """End pending reads."""
        for shared in self._candidates.values():
            await shared.close()

    def _shared(self, claim: str) -> SharedRead[_Candidates]:
        if claim not in self._candidates:
            for old in [c for c, shared in self._candidates.items() if not shared.warm][:-_KEPT]:
                del self._candidates[old]
            read = partial(self._fetch, claim)
            self._candidates[claim] = SharedRead(
                "candidates", read, seconds=SHARED_SECONDS, clock=self._clock
            )
        return self._candidates[claim]

    async def _fetch(self, claim: str) -> _Candidates:
        answer = await self._calls(
            f"find hosts with capacity for {claim}",
            PLACEMENT,
            "GET",
            "/allocation_candidates",
            query=(*parse_qsl(claim), ("limit", str(CANDIDATES))),
            version=_VERSION,
        )
        return read(answer, _Candidates)


def capacities(
    candidates: _Candidates, hosts: dict[str, Host], present: str
) -> tuple[Capacity, ...]:
    """Return the resources of the candidates, except the present host and down or disabled ones.

    Args:
        candidates: as Placement lists them; a resource may belong to a nested or sharing provider.
        hosts: by the UUID of their provider.
        present: name of the host that the server is on.
    """
    found = dict[str, Capacity]()
    for request in candidates.allocation_requests:
        providers = request.allocations
        roots = {candidates.root(provider) for provider in providers}
        host = next((hosts[root] for root in sorted(roots) if root in hosts), None)
        if host is None or not host.up or not host.enabled or host.name == present:
            continue
        resources = dict[str, _Resource]()
        for provider, allocation in providers.items():
            for name in allocation.resources:
                resources[name] = candidates.resource(provider, name)
        found.setdefault(host.name, Capacity(host.name, *_sizes(resources)))
    return tuple(found[name] for name in sorted(found))


def _sizes(resources: dict[str, _Resource]) -> tuple[Size, Size]:
    cpus = next((resources[name] for name in CPUS if name in resources), _Resource())
    memory = resources.get("MEMORY_MB", _Resource())
    disk = resources.get("DISK_GB", _Resource())
    return (
        Size(cpus.capacity, memory.capacity, disk.capacity),
        Size(cpus.used, memory.used, disk.used),
    )


class _Resource(msgspec.Struct, frozen=True):
    capacity: int = 0
    used: int = 0


class _Summary(msgspec.Struct, frozen=True):
    resources: dict[str, _Resource]
    root_provider_uuid: str = ""


class _Allocation(msgspec.Struct, frozen=True):
    resources: dict[str, int]


class _Request(msgspec.Struct, frozen=True):
    allocations: dict[str, _Allocation]


class _Candidates(msgspec.Struct, frozen=True):
    allocation_requests: tuple[_Request, ...]
    provider_summaries: dict[str, _Summary]

    @property
    def homes(self) -> frozenset[str]:
        """Return the roots that are hosts: a request may also have a provider that hosts share."""
        shared = {one for r in self.allocation_requests for one in r.allocations}
        return frozenset(self.root(one) for one in shared if self._has_cpus(one))

    def _has_cpus(self, provider: str) -> bool:
        summary = self.provider_summaries.get(provider)
        return summary is not None and not summary.resources.keys().isdisjoint(CPUS)

    def root(self, provider: str) -> str:
        summary = self.provider_summaries.get(provider)
        return summary.root_provider_uuid or provider if summary else provider

    def resource(self, provider: str, name: str) -> _Resource:
        summary = self.provider_summaries.get(provider)
        return summary.resources.get(name, _Resource()) if summary else _Resource()
