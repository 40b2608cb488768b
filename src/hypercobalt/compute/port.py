"""Calls of a compute service that the operator needs: for hosts, and the service as a whole.

Calls for servers are in `hypercobalt.compute.server_port`. Every call has a deadline, and raises
`UnreachableError` when its outcome is unknown, `RefusedError` when the service refuses,
`ComputeConflictError` when the data read before is old. An absent object is None or an empty
answer. Reads that several passes need at the same time are one call.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import Protocol

from hypercobalt.compute.model import Host, HostAggregate, ProviderTraits, TestServer
from hypercobalt.compute.server_port import Moves, Owners, Recovery


class Fleet(Protocol):
    """All hosts in one listing."""

    def get(self, name: str) -> Host | None:
        """Return the host that `Hosts.get` finds; None as well where the name fits several."""
        ...


class Hosts(Protocol):
    """Hosts, and whether new servers are placed on them."""

    async def fleet(self) -> Fleet:
        """Return every host as it is now, in as few calls as the service needs."""
        ...

    async def hindrance(self) -> str:
        """Return why no server can be started on any host at present; "" without a known reason."""
        ...

    async def get(self, name: str, *, fresh: bool = False) -> Host | None:
        """Return the host of exactly this name, or of its first label where the service uses that.

        Args:
            name: of the Hypervisor; `node1` never finds `node10`.
            fresh: do not use an answer that other passes requested some seconds ago.
        """
        ...

    async def enable(self, host: Host) -> None:
        """Allow new servers on the host, and take back `forced_down`.

        Raises:
            RefusedError: servers were evacuated from it, and it has not cleaned up after them yet.
        """
        ...

    async def disable(self, host: Host, reason: str) -> None:
        """Allow no new servers on the host."""
        ...

    async def force_down(self, host: Host) -> None:
        """Declare the host dead, so that its servers may be evacuated; `take_back` takes that back.

        Call it only with proof that nothing runs there any more: this call proves nothing itself.
        """
        ...

    async def take_back(self, host: Host) -> None:
        """Stop counting the host as dead, once evacuated servers are cleaned from it.

        Whether new servers are placed on it stays as it is.

        Raises:
            RefusedError: servers were evacuated from it, and it has not cleaned up after them yet.
        """
        ...

    async def unstored(self, host: Host) -> frozenset[str]:
        """Return servers that have left a dead host, but are recorded with that host alone.

        If the host that has them died now, they would be lost with the record. None where the
        service records them itself.
        """
        ...

    async def remove(self, host: Host) -> None:
        """Remove the host's service; nothing happens if it is gone.

        Raises:
            RefusedError: something still runs there; the message names it.
        """
        ...


class Providers(Protocol):
    """Resource providers of hosts, which a compute service may leave behind."""

    async def exists(self, host: Host) -> bool:
        """Whether the host has a resource provider, which its service may leave behind."""
        ...

    async def left_over(self, name: str, provider: str) -> Host | None:
        """Return what is left of a host without a service: its resource provider.

        Args:
            name: name of the host and of the provider, or its first label where one of both is
                short. A provider of another name is not this host's, whoever has its UUID.
            provider: UUID of the provider, from an untrusted source; a listed host keeps its own.
        """
        ...

    async def remove(self, host: Host) -> None:
        """Remove the host's resource provider and its empty allocations, unless it is gone.

        Raises:
            RefusedError: something still has resources there; the message names it.
        """
        ...


class Aggregates(Protocol):
    """Host aggregates."""

    async def list(self, *, fresh: bool = False) -> tuple[HostAggregate, ...]:
        """Return all aggregates."""
        ...

    async def add(self, aggregate: HostAggregate, host: str) -> None:
        """Add the host to an aggregate; nothing happens if it is a member."""
        ...

    async def remove(self, aggregate: HostAggregate, host: str) -> None:
        """Remove the host from an aggregate; nothing happens if it is no member."""
        ...


class Traits(Protocol):
    """Traits of hosts' resource providers."""

    async def get(self, provider: str, *, fresh: bool = False) -> ProviderTraits | None:
        """Return the traits of a provider, by its UUID; None when there is none.

        Args:
            provider: its UUID.
            fresh: use no earlier answer, even if `changed` has found no change since.
        """
        ...

    async def changed(self, *, also: int = 0) -> Collection[str]:
        """Return providers with traits that may differ from the last result of `get` or `put`.

        Each provider is named once, until it is read again. One that was absent is named when it
        appears.

        Args:
            also: number of providers read longest ago that are included in any case.
        """
        ...

    async def put(self, provider: str, traits: ProviderTraits) -> ProviderTraits:
        """Set all traits, and create custom ones that do not exist yet.

        Raises:
            ComputeConflictError: the generation is old.
        """
        ...


class SmokeTests(Protocol):
    """Servers booted on a new host, in a project of their own, to check that the host works."""

    async def find(self, name: str) -> tuple[TestServer, ...]:
        """Return the servers of exactly this name."""
        ...

    async def create(self, name: str, host: str, zone: str) -> TestServer:
        """Boot one on the host, as configured: flavor, image or volume, network."""
        ...

    async def console(self, server: TestServer, lines: int) -> str:
        """Return the last lines of the server's serial console."""
        ...

    async def delete(self, server: TestServer) -> None:
        """Delete the server; one that is gone is no error."""
        ...


class ComputeService(Protocol):
    """A compute service. A feature that it lacks (traits without Placement …) is None."""

    @property
    def name(self) -> str:
        """Name for messages: `nova`, `direct`."""
        ...

    @property
    def hosts(self) -> Hosts: ...

    @property
    def providers(self) -> Providers | None: ...

    @property
    def moves(self) -> Moves: ...

    @property
    def recovery(self) -> Recovery | None: ...

    @property
    def owners(self) -> Owners | None: ...

    @property
    def aggregates(self) -> Aggregates | None: ...

    @property
    def traits(self) -> Traits | None: ...

    @property
    def smoke_tests(self) -> SmokeTests | None: ...

    @property
    def counts_servers(self) -> bool:
        """Whether the service itself counts a host's servers, rather than the host."""
        ...

    @property
    def silence(self) -> timedelta:
        """How long a dead host may still be shown as up; zero where libvirtd answers each read."""
        ...

    @property
    def trouble(self) -> str:
        """Return why the service does not answer at present, in words; "" when it can."""
        ...

    async def close(self) -> None:
        """Close connections and threads."""
        ...
