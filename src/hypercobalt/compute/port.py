"""What the operator needs of a compute service.

Every call has a deadline, and raises `UnreachableError` when nothing is known of its outcome,
`RefusedError` when the service will not, `ConflictError` when what was read is old. What is not
there is None or an empty answer. Reads that several passes need at the same time are one call.
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
    Server,
    ServerAction,
    TestServer,
)


class Fleet(Protocol):
    """All hosts in one listing."""

    def get(self, name: str) -> Host | None:
        """The host that `Hosts.get` finds; None too where the name fits several."""
        ...


class Hosts(Protocol):
    """Which hosts there are, and whether new servers are placed on them."""

    async def fleet(self) -> Fleet:
        """Every host as it is now, in as few calls as the service needs for that."""
        ...

    async def hindrance(self) -> str:
        """Why no server can be started on any host at present; "" without a known reason."""
        ...

    async def get(self, name: str, *, fresh: bool = False) -> Host | None:
        """The host of exactly this name, or of its first label where the service uses that.

        Args:
            name: of the Hypervisor; `node1` never finds `node10`.
            fresh: do not use an answer that other passes requested some seconds ago.
        """
        ...

    async def enable(self, host: Host) -> None:
        """Let new servers be placed on it, and take back `forced_down`.

        Raises:
            RefusedError: servers were evacuated from it, and it has not cleaned up after them yet.
        """
        ...

    async def disable(self, host: Host, reason: str) -> None:
        """Let no new servers be placed on it."""
        ...

    async def force_down(self, host: Host) -> None:
        """Declare it dead, so that its servers may be evacuated; `take_back` takes that back.

        Call it only with proof that nothing runs there any more: it proves nothing by itself.
        """
        ...

    async def take_back(self, host: Host) -> None:
        """Have it no longer declared dead, and clean of what was evacuated.

        Whether new servers are placed on it stays as it is.

        Raises:
            RefusedError: servers were evacuated from it, and it has not cleaned up after them yet.
        """
        ...

    async def remove(self, host: Host) -> None:
        """Forget the host's service; nothing happens if that is gone.

        Raises:
            RefusedError: something still runs there; the message names it.
        """
        ...

    async def has_provider(self, host: Host) -> bool:
        """Whether a resource provider of the host is there, which its service may leave behind."""
        ...

    async def left_over(self, name: str, provider: str) -> Host | None:
        """What is left of a host whose service is gone: its resource provider, without a service.

        Args:
            name: the host's; the provider has it too, or its first label where one of both is
                short. Any other provider is not this host's, whoever has its UUID.
            provider: its UUID, from a source that is not trusted; one of a listed host is that
                host's.
        """
        ...

    async def remove_provider(self, host: Host) -> None:
        """Remove the host's resource provider with its empty allocations; likewise.

        Raises:
            RefusedError: something still has resources there; the message names it.
        """
        ...


class Moves(Protocol):
    """Servers on a host, and their way to another."""

    @property
    def chooses_target(self) -> bool:
        """Whether the service finds a target itself; where it does not, "" is refused."""
        ...

    @property
    def groups_refused(self) -> str:
        """Why the last servers were read without their groups; "" if they have them."""
        ...

    async def servers(self, host: str) -> tuple[Server, ...]:
        """Everything on the host, in one call; never an answer from before the call.

        A host that is not known has nothing, or is `UnreachableError`.
        """
        ...

    async def server(self, id: str) -> Server | None:
        """One server, wherever it is; None when there is none any more."""
        ...

    async def in_error(self, ids: Collection[str]) -> tuple[Server, ...]:
        """Those of some servers that are in ERROR, wherever they are, in one call; without groups.

        Args:
            ids: of the servers; those that are gone are in no state.
        """
        ...

    async def moves(self, host: str) -> tuple[Move, ...]:
        """Records of moves away from the host, newest first, in one call; likewise."""
        ...

    async def incoming(self, host: str) -> tuple[Move, ...]:
        """Moves to the host that go on: a server may arrive there by each, or come back there.

        Not those that ended before the call, whatever their record shows: what they brought is
        among the `servers` of a later call.
        """
        ...

    async def candidates(self, server: Server) -> tuple[Capacity, ...]:
        """Hosts that could take the server as far as the service reports, with what they have left.

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

    async def restart(self, server: Server) -> None:
        """Begin to start a server that is off, or to reboot one hard, on the host that it is on.

        Raises:
            MayRunElsewhereError: it is not known yet whether it runs on another host.
            ConflictError: something else is being done to it, or it has left that host.
        """
        ...

    async def evacuate(
        self, server: Server, target: str = "", *, interrupted: bool = False
    ) -> None:
        """Begin to have a server of a host that was forced down on another one.

        What ran there, or has died, runs afterwards; what was off stays off. `moves` has the
        record, of kind `evacuation`. "" lets the service choose the target.

        Args:
            server: as read.
            target: name of a host.
            interrupted: it is shown as being rebuilt, but the host that did it is proven dead.

        Raises:
            RefusedError: its host is not forced down, or the server has to wait for it.
            ConflictError: it may run elsewhere, or something else is being done to it.
        """
        ...

    async def lock(self, server: Server, reason: str) -> None:
        """Have its owner's actions refused until `unlock`; an administrator's are not.

        Nothing happens where the service has no such locks, or could not show their reason.

        Args:
            server: as read; an owner's lock and its reason are overwritten.
            reason: for its owner, and to find it again; at most 255 characters.
        """
        ...

    async def unlock(self, server: Server) -> None:
        """Take back any lock; one that is not locked, or is gone, is no error."""
        ...

    async def locked(self, prefix: str) -> tuple[Server, ...]:
        """Servers of all hosts that are locked for a reason which begins so, in one call."""
        ...

    async def actions(self, server: str, since: datetime) -> tuple[ServerAction, ...]:
        """The requests for a server since then, newest first, without those of this operator.

        Args:
            server: its id; one that is gone has none.
            since: aware.
        """
        ...

    async def confirm(self, server: Server) -> None:
        """Confirm a cold migration; the source deletes its copy of the server."""
        ...

    async def abort(self, move: Move) -> None:
        """Stop a live migration; the server stays where it is. One that has ended is no error."""
        ...

    async def recover(self, server: Server) -> None:
        """Take a server out of ERROR that a live migration left there though it is where it was.

        One whose guest is paused is PAUSED afterwards; called for one that is out of ERROR, it only
        sees to that.

        Raises:
            RefusedError: it is not known to be there.
        """
        ...

    async def force_complete(self, move: Move) -> None:
        """Help a live migration that does not converge: pause the server, or post-copy."""
        ...


class Aggregates(Protocol):
    """Host aggregates."""

    async def list(self, *, fresh: bool = False) -> tuple[HostAggregate, ...]:
        """All of them."""
        ...

    async def add(self, aggregate: HostAggregate, host: str) -> None:
        """Put the host in; one that is in already is no error."""
        ...

    async def remove(self, aggregate: HostAggregate, host: str) -> None:
        """Take the host out; one that is not in is no error."""
        ...


class Traits(Protocol):
    """Traits of hosts' resource providers."""

    async def get(self, provider: str, *, fresh: bool = False) -> ProviderTraits | None:
        """Those of a provider, by its UUID; None when there is none.

        Args:
            provider: its UUID.
            fresh: do not take an answer that was read earlier and that nothing has changed since,
                as far as `changed` has found.
        """
        ...

    async def changed(self, *, also: int = 0) -> Collection[str]:
        """Providers whose traits may differ from what `get` and `put` gave last.

        Each is named once, until it is read again. Those that were absent are named when they are
        there.

        Args:
            also: so many of those that were read longest ago are among them in any case.
        """
        ...

    async def put(self, provider: str, traits: ProviderTraits) -> ProviderTraits:
        """Set all of them, and make the custom ones that do not exist yet.

        Raises:
            ConflictError: the generation is old.
        """
        ...


class SmokeTests(Protocol):
    """Servers booted on a new host to see that it works: in a project of their own."""

    async def find(self, name: str) -> tuple[TestServer, ...]:
        """Those of exactly this name."""
        ...

    async def create(self, name: str, host: str, zone: str) -> TestServer:
        """Boot one on the host, as configured: flavor, image or volume, network."""
        ...

    async def console(self, server: TestServer, lines: int) -> str:
        """The last lines of its serial console."""
        ...

    async def delete(self, server: TestServer) -> None:
        """Delete it; one that is gone is no error."""
        ...


class ComputeService(Protocol):
    """A compute service. What it does not have (traits without Placement …) is None."""

    @property
    def name(self) -> str:
        """`nova`, `direct`: for messages."""
        ...

    @property
    def hosts(self) -> Hosts: ...

    @property
    def moves(self) -> Moves: ...

    @property
    def aggregates(self) -> Aggregates | None: ...

    @property
    def traits(self) -> Traits | None: ...

    @property
    def smoke_tests(self) -> SmokeTests | None: ...

    @property
    def counts_servers(self) -> bool:
        """Whether the count of a host's servers is the service's own, not the host's word."""
        ...

    @property
    def silence(self) -> timedelta:
        """How long a dead host may still be shown as up; zero where libvirtd answers each read."""
        ...

    @property
    def trouble(self) -> str:
        """Why the service does not answer at present, in words; "" when it can."""
        ...

    async def close(self) -> None:
        """Let go of connections and threads."""
        ...
