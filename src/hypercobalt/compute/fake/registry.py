"""Hosts, aggregates, traits and smoke tests in memory, with faults on demand.

It keeps to the rules of the real one: a host has one availability zone, which does not change while
it has servers; traits are set with their generation; a removed host has to be empty.

Source: OpenStack Compute and Placement API references.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from hypercobalt.compute.errors import ComputeConflictError, RefusedError
from hypercobalt.compute.fake.moves import FakeMoves
from hypercobalt.compute.fake.owners import FakeOwners
from hypercobalt.compute.fake.recovery import FakeRecovery
from hypercobalt.compute.model import Host, HostAggregate, ProviderTraits, ServerStatus, TestServer
from hypercobalt.compute.port import Fleet

_TRAIT: Final = re.compile(r"(CUSTOM|HW|COMPUTE)_[A-Z0-9_]+")
_ZONE: Final = "availability_zone"
_NAMESPACE: Final = uuid.UUID("6f6b1d0e-0b6c-4a53-9d0b-6a4f1c2f3a10")

FEATURES: Final = frozenset(
    {"providers", "recovery", "owners", "aggregates", "traits", "smoke_tests"}
)
"""Parts of a compute service that may be absent."""

CallFault = Callable[[str, str], Exception | None]
"""Gets a call's name (`hosts.enable`, `traits.put` …) and subject, and may return an error."""


@dataclass(slots=True)
class World:
    """State of the fake, which tests may read and change.

    Args:
        now: the clock of the service.
        hosts: by name.
        aggregates: by number.
        traits: by provider.
        tests: servers of smoke tests.
        calls: calls in order, as `call subject`.
        fault: see `CallFault`; None for none.
        latency: of each call, in seconds.
        boots: status that a new test server takes, and the text on its console; {name} is its name.
        undying: the deletion of a test server is accepted, and changes nothing.
        listed_down: hosts that an old listing shows as down.
        hindrance: see `hypercobalt.compute.port.Hosts`.
    """

    now: Callable[[], datetime]
    hosts: dict[str, Host] = field(default_factory=dict[str, Host])
    aggregates: dict[int, HostAggregate] = field(default_factory=dict[int, HostAggregate])
    traits: dict[str, ProviderTraits] = field(default_factory=dict[str, ProviderTraits])
    tests: dict[str, TestServer] = field(default_factory=dict[str, TestServer])
    calls: list[str] = field(default_factory=list[str])
    fault: CallFault | None = None
    latency: float = 0.0
    boots: tuple[str, str] = (ServerStatus.ACTIVE, "login: {name}")
    undying: bool = False
    listed_down: set[str] = field(default_factory=set[str])
    hindrance: str = ""

    def add_host(self, name: str, *, enabled: bool = True, servers: Iterable[str] = ()) -> Host:
        """Register a compute service."""
        made = Host(
            name,
            provider_of(name),
            str(uuid.uuid5(_NAMESPACE, f"service {name}")),
            enabled=enabled,
            servers=tuple(servers),
        )
        self.hosts[name] = made
        self.traits.setdefault(made.hypervisor_id, ProviderTraits(("HW_CPU_X86_VMX",), 1))
        return made

    def change_host(self, name: str, **changes: object) -> None:
        """Change fields of a host without a call of the port."""
        self.hosts[name] = replace(self.hosts[name], **changes)  # type: ignore[arg-type]

    def add_aggregate(self, name: str, *, zone: str = "", hosts: Iterable[str] = ()) -> None:
        """Create an aggregate; with `zone` it is an availability zone."""
        number = len(self.aggregates) + 1
        metadata = {_ZONE: zone} if zone else {}
        made = str(uuid.uuid5(_NAMESPACE, f"aggregate {number}"))
        self.aggregates[number] = HostAggregate(number, made, name, tuple(hosts), metadata)

    def names_of(self, host: str) -> set[str]:
        """Return the aggregates that a host is in."""
        return {one.name for one in self.aggregates.values() if host in one.hosts}

    async def call(self, what: str, about: str) -> None:
        """Note a call, wait for its latency, and raise its fault, if any."""
        self.calls.append(f"{what} {about}".strip())
        if self.latency:
            await asyncio.sleep(self.latency)
        error = self.fault(what, about) if self.fault else None
        if error is not None:
            raise error


def provider_of(name: str) -> str:
    """Return the UUID of the resource provider of the host of a name."""
    return str(uuid.uuid5(_NAMESPACE, f"hypervisor {name}"))


class FakeHosts:
    """Hosts of a `World`, with the servers that its `Moves` have there."""

    def __init__(self, world: World, moves: FakeMoves) -> None:
        self._world, self._moves = world, moves

    async def fleet(self) -> Fleet:
        await self._world.call("hosts.fleet", "")
        return _Fleet(self)

    async def hindrance(self) -> str:
        await self._world.call("hosts.hindrance", "")
        return self._world.hindrance

    async def get(self, name: str, *, fresh: bool = False) -> Host | None:
        await self._world.call("hosts.get", name)
        found = self.find(name)
        late = found is not None and not fresh and found.name in self._world.listed_down
        return replace(found, up=False) if found is not None and late else found

    def find(self, name: str) -> Host | None:
        """Return the host of a name."""
        hosts = self._world.hosts
        found = hosts.get(name) or hosts.get(name.partition(".")[0])
        if found is None:
            return None
        there = (server.id for server in self._moves.on(found.name))
        up = found.up and not found.forced_down
        return replace(found, up=up, servers=(*found.servers, *there))

    async def enable(self, host: Host) -> None:
        await self._world.call("hosts.enable", host.name)
        self._up_again(host)
        self._world.change_host(host.name, enabled=True, disabled_reason="")
        self._moves.disabled.discard(host.name)

    async def disable(self, host: Host, reason: str) -> None:
        await self._world.call("hosts.disable", host.name)
        self._known(host)
        self._world.change_host(host.name, enabled=False, disabled_reason=reason)
        self._moves.disabled.add(host.name)

    async def force_down(self, host: Host) -> None:
        await self._world.call("hosts.force_down", host.name)
        self._known(host)
        self._moves.dead.add(host.name)
        self._world.change_host(host.name, forced_down=True)

    async def take_back(self, host: Host) -> None:
        await self._world.call("hosts.take_back", host.name)
        self._up_again(host)

    async def unstored(self, host: Host) -> frozenset[str]:
        return frozenset()

    def _up_again(self, host: Host) -> None:
        self._known(host)
        if not self._moves.is_clean(host.name):
            raise RefusedError(f"host {host.name}: `done` evacuation migration records remain")
        self._moves.dead.discard(host.name)
        self._world.change_host(host.name, forced_down=False)

    async def remove(self, host: Host) -> None:
        await self._world.call("hosts.remove", host.name)
        # As Nova: by the id of the service, whatever the caller takes the host's name for.
        hosts = self._world.hosts.values()
        named = next((one.name for one in hosts if one.service_id == host.service_id), None)
        known = self.find(named) if named is not None else None
        if known is None:
            return
        if known.servers:
            raise RefusedError(f"host {known.name} still has servers: {', '.join(known.servers)}")
        if self._moves.arriving(known.name):
            raise RefusedError(f"host {known.name} has in-progress migrations", code=409)
        self._world.hosts.pop(known.name, None)

    def _known(self, host: Host) -> None:
        if host.name not in self._world.hosts:
            raise RefusedError(f"no compute service {host.service_id}", code=404)


class FakeProviders:
    """Resource providers of a `World`: those with traits."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def exists(self, host: Host) -> bool:
        await self._world.call("providers.exists", host.name)
        return host.hypervisor_id in self._world.traits

    async def left_over(self, name: str, provider: str) -> Host | None:
        await self._world.call("providers.left_over", name)
        listed = {one.hypervisor_id for one in self._world.hosts.values()}
        is_named = provider == provider_of(name) and provider in self._world.traits
        if provider in listed or not is_named:
            return None
        return Host(name, provider, "", enabled=False, up=False)

    async def remove(self, host: Host) -> None:
        await self._world.call("providers.remove", host.name)
        self._world.traits.pop(host.hypervisor_id, None)


class _Fleet:
    """See `hypercobalt.compute.port.Fleet`."""

    def __init__(self, hosts: FakeHosts) -> None:
        self._hosts = hosts

    def get(self, name: str) -> Host | None:
        return self._hosts.find(name)


class FakeAggregates:
    """Aggregates of a `World`."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def list(self, *, fresh: bool = False) -> tuple[HostAggregate, ...]:
        await self._world.call("aggregates.list", "")
        return tuple(self._world.aggregates.values())

    async def add(self, aggregate: HostAggregate, host: str) -> None:
        await self._world.call("aggregates.add", f"{aggregate.name} {host}")
        known = self._known(aggregate)
        if host not in self._world.hosts:
            raise RefusedError(f"aggregate {known.name}: no host {host}", code=404)
        if host in known.hosts:
            return
        self._keep_zone(known, host)
        self._world.aggregates[known.id] = replace(known, hosts=(*known.hosts, host))

    async def remove(self, aggregate: HostAggregate, host: str) -> None:
        await self._world.call("aggregates.remove", f"{aggregate.name} {host}")
        known = self._known(aggregate)
        left = tuple(name for name in known.hosts if name != host)
        if left != known.hosts and _ZONE in known.metadata and self._world.hosts[host].servers:
            raise ComputeConflictError(
                f"aggregate {known.name}: host {host} has servers in its zone"
            )
        self._world.aggregates[known.id] = replace(known, hosts=left)

    def _known(self, aggregate: HostAggregate) -> HostAggregate:
        known = self._world.aggregates.get(aggregate.id)
        if known is None:
            raise RefusedError(f"no aggregate {aggregate.name}", code=404)
        return known

    def _keep_zone(self, aggregate: HostAggregate, host: str) -> None:
        zone = aggregate.metadata.get(_ZONE)
        there = {
            one.metadata[_ZONE]
            for one in self._world.aggregates.values()
            if host in one.hosts and _ZONE in one.metadata
        }
        if zone is None or there == {zone}:
            return
        if there or self._world.hosts[host].servers:
            raise ComputeConflictError(
                f"aggregate {aggregate.name}: availability zone of host {host} would change"
            )


class FakeTraits:
    """Traits of a `World`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._given: dict[str, ProviderTraits | None] = {}

    async def get(self, provider: str, *, fresh: bool = False) -> ProviderTraits | None:
        await self._world.call("traits.get", provider)
        return self._give(provider)

    async def changed(self, *, also: int = 0) -> Collection[str]:
        await self._world.call("traits.changed", "")
        there = self._world.traits
        found = {one for one, given in self._given.items() if there.get(one) != given}
        for provider in found:
            del self._given[provider]
        return found

    def _give(self, provider: str) -> ProviderTraits | None:
        found = self._given[provider] = self._world.traits.get(provider)
        return found

    async def put(self, provider: str, traits: ProviderTraits) -> ProviderTraits:
        await self._world.call("traits.put", provider)
        known = self._world.traits.get(provider)
        if known is None:
            raise RefusedError(f"no resource provider {provider}", code=404)
        if known.generation != traits.generation:
            raise ComputeConflictError(
                f"resource provider {provider}: generation {known.generation}"
            )
        unknown = [name for name in traits.names if not _TRAIT.fullmatch(name)]
        if unknown:
            raise RefusedError(f"no such trait: {', '.join(unknown)}", code=400)
        after = ProviderTraits(tuple(sorted(traits.names)), known.generation + 1)
        self._world.traits[provider] = self._given[provider] = after
        return after


class FakeSmokeTests:
    """Test servers of a `World`."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def find(self, name: str) -> tuple[TestServer, ...]:
        await self._world.call("smoke_tests.find", name)
        return tuple(one for one in self._world.tests.values() if one.name == name)

    async def create(self, name: str, host: str, zone: str) -> TestServer:
        await self._world.call("smoke_tests.create", f"{name} {zone}:{host}")
        now, status = self._world.now(), self._world.boots[0]
        launched = now if status == ServerStatus.ACTIVE else None
        fault = "No valid host was found." if status == ServerStatus.ERROR else ""
        made = TestServer(str(uuid.uuid4()), name, status, now, launched, fault)
        self._world.tests[made.id] = made
        there = self._world.hosts[host].servers
        self._world.change_host(host, servers=(*there, made.id))
        return made

    async def console(self, server: TestServer, lines: int) -> str:
        await self._world.call("smoke_tests.console", server.id)
        return self._world.boots[1].format(name=server.name)

    async def delete(self, server: TestServer) -> None:
        await self._world.call("smoke_tests.delete", server.id)
        if self._world.undying:
            return
        self._world.tests.pop(server.id, None)
        for host in self._world.hosts.values():
            left = tuple(one for one in host.servers if one != server.id)
            if left != host.servers:
                self._world.change_host(host.name, servers=left)


class FakeCompute:
    """A compute service in memory.

    Args:
        now: its clock.
        moves: servers and their moves.
        has: its features besides hosts and moves, of `FEATURES`.
    """

    name = "fake"
    counts_servers = True
    silence = timedelta(0)

    def __init__(
        self,
        now: Callable[[], datetime],
        *,
        moves: FakeMoves | None = None,
        has: Iterable[str] = FEATURES,
    ) -> None:
        self.world, self.moves = World(now), moves or FakeMoves()
        there = set(has)
        self.hosts = FakeHosts(self.world, self.moves)
        self.providers = FakeProviders(self.world) if "providers" in there else None
        self.recovery = FakeRecovery(self.moves) if "recovery" in there else None
        self.owners = FakeOwners(self.moves) if "owners" in there else None
        self.aggregates = FakeAggregates(self.world) if "aggregates" in there else None
        self.traits = FakeTraits(self.world) if "traits" in there else None
        self.smoke_tests = FakeSmokeTests(self.world) if "smoke_tests" in there else None
        self.trouble = ""

    async def close(self) -> None:
        """Do nothing: it holds no connection."""
