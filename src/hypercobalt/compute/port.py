"""Calls of a compute service that the operator needs.

Every call has a deadline, and raises `UnreachableError` when its outcome is unknown, `RefusedError`
when the service refuses, `ConflictError` when the data read before is old. An absent object is None
or an empty answer. Reads that several passes need at the same time are one call.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Protocol

from hypercobalt.compute.model import (
    Capacity,
    Host,
    HostAggregate,
    Move,
    ProviderTraits,
    RestartResult,
    Server,
    ServerAction,
    TestServer,
)


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


class Moves(Protocol):
    """Servers on a host, and their moves to another."""

    @property
    def chooses_target(self) -> bool:
        """Whether the service finds a target itself; where it does not, "" is refused."""
        ...

    @property
    def groups_refused(self) -> str:
        """Return why the last servers were read without their groups; "" if they have them."""
        ...

    async def servers(self, host: str) -> tuple[Server, ...]:
        """Return every server on the host, in one call; never an answer from before the call.

        An unknown host has no servers, or raises `UnreachableError`.
        """
        ...

    async def server(self, id: str) -> Server | None:
        """Return one server, wherever it is; None when there is none any more."""
        ...

    async def in_error(self, ids: Collection[str]) -> tuple[Server, ...]:
        """Return the given servers that are in ERROR, on any host, in one call; without groups.

        Args:
            ids: of the servers; a server that is gone is left out.
        """
        ...

    async def moves(self, host: str) -> tuple[Move, ...]:
        """Return records of moves away from the host, newest first, in one call.

        An unknown host has none, or raises `UnreachableError`.
        """
        ...

    async def incoming(self, host: str) -> tuple[Move, ...]:
        """Return moves to the host that go on: each may bring a server there, or back there.

        Moves that ended before the call are left out, whatever their records show: their servers
        are among the `servers` of a later call.
        """
        ...

    async def candidates(self, server: Server) -> tuple[Capacity, ...]:
        """Return hosts that could take the server, by the service's reports, with their resources.

        Its present host is not among them, nor are disabled ones.
        """
        ...

    async def live_migrate(self, server: Server, target: str = "") -> None:
        """Begin to move a running or paused server; "" lets the service choose the target.

        Local disks are copied where the server has them.
        """
        ...

    async def cold_migrate(self, server: Server, target: str = "") -> None:
        """Begin to move a stopped server; "" lets the service choose."""
        ...

    async def confirm(self, server: Server) -> None:
        """Confirm a cold migration; the source deletes its copy of the server."""
        ...

    async def abort(self, move: Move) -> None:
        """Stop a live migration; the server stays where it is. An ended migration is no error."""
        ...

    async def force_complete(self, move: Move) -> None:
        """Help a live migration that does not converge: pause the server, or post-copy."""
        ...


class Recovery(Protocol):
    """What brings a failed server up again, where it is or elsewhere."""

    async def restart(self, server: Server) -> None:
        """Begin to start a server that is off, or to reboot one hard, on its present host.

        Raises:
            MayRunElsewhereError: it is not known yet whether it runs on another host.
            ConflictError: something else is being done to it, or it has left that host.
        """
        ...

    async def restarted(self, server: str, since: datetime) -> RestartResult:
        """Return the result of the newest restart of a server that was requested since then.

        A server that is shown as running is no proof: a service may show what was before a crash. A
        restart without a record has failed: the request did not arrive.

        Args:
            server: its id.
            since: time, timezone-aware.
        """
        ...

    async def evacuate(
        self, server: Server, target: str = "", *, interrupted: bool = False
    ) -> None:
        """Begin to evacuate a server from a host that was forced down to another host.

        A server that ran there, or has died, runs afterwards; one that was off stays off. `moves`
        has the record, of kind `evacuation`. "" lets the service choose the target.

        Args:
            server: as read.
            target: name of a host.
            interrupted: the server is shown as being rebuilt, but the rebuilding host is proven
                dead.

        Raises:
            RefusedError: its host is not forced down, or the server has to wait for it.
            ConflictError: it may run elsewhere, or something else is being done to it.
        """
        ...

    async def recover(self, server: Server) -> None:
        """Take a server that has not moved out of the ERROR that a live migration left it in.

        A server with a paused guest is PAUSED afterwards; for a server that is out of ERROR, only
        this is ensured.

        Raises:
            RefusedError: the server is not known to be there.
        """
        ...


class Owners(Protocol):
    """Owners of servers: their requests, and locks against them."""

    async def lock(self, server: Server, reason: str) -> None:
        """Refuse the owner's actions on a server until `unlock`; an administrator's still work.

        Nothing happens where the service could not show the reason of a lock.

        Args:
            server: as read; an owner's lock and its reason are overwritten.
            reason: for its owner, and to find it again; at most 255 characters.
        """
        ...

    async def unlock(self, server: Server) -> None:
        """Unlock a server, whoever locked it; one that is unlocked or gone is no error."""
        ...

    async def locked(self, prefix: str) -> tuple[Server, ...]:
        """Return servers of all hosts locked for a reason with this beginning, in one call."""
        ...

    async def actions(self, server: str, since: datetime) -> tuple[ServerAction, ...]:
        """Return requests for a server since then, newest first, except this operator's own.

        Args:
            server: its id; one that is gone has none.
            since: time, timezone-aware.
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
            ConflictError: the generation is old.
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
