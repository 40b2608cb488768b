"""What the operator reaches besides the API server, in memory: each change is noted as a deed.

Daemons of libvirt, Nova's services and the boards that switch the hosts' power. They do what they
are told, as the real ones do: what they are told is what a test looks at.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from uuid import NAMESPACE_DNS, uuid5

from hypercobalt.adapters.fencing.devices import Device
from hypercobalt.adapters.fencing.fake import FakeFenceDevice
from hypercobalt.adapters.fencing.port import Credentials, FenceError, FenceFailure, PowerState
from hypercobalt.adapters.libvirt.fake import _HOST, FakeDaemons, FakeLibvirt
from hypercobalt.adapters.libvirt.model import DomainDocument, HostCapabilities, MigrationOptions
from hypercobalt.compute.errors import RefusedError
from hypercobalt.compute.fake import FakeCompute
from hypercobalt.compute.fake.registry import FEATURES, FakeHosts, FakeProviders, World
from hypercobalt.compute.model import Host, Server

LISTENER: Final = "6666"
"""Port at which a captured host listens: whoever logs in there has given the password away."""


@dataclass(frozen=True, slots=True)
class Deed:
    """A change that the operator has made outside of Kubernetes.

    Args:
        at: of the loop's clock.
        host: whose power, daemon or service it was.
        what: `off`, `on`, `login`, `define`, `boot`, `destroy`, `undefine`, `migrate`, `disable`,
            `enable`, `force_down`, `remove`, `evacuate`, `live_migrate` …
        about: UUID of an instance, or of a service.
        text: a definition that a host is given, or those that a move takes to one.
    """

    at: float
    host: str
    what: str
    about: str = ""
    text: str = field(default="", repr=False)


@dataclass(slots=True)
class Deeds:
    """All of them, in order."""

    clock: Callable[[], float]
    done: list[Deed] = field(default_factory=list[Deed])
    judge: Callable[[Deed], None] | None = None
    """Gets each at once, while everything is as it is at that moment."""

    def note(self, host: str, what: str, about: str = "", text: str = "") -> None:
        deed = Deed(self.clock(), host, what, about, text)
        self.done.append(deed)
        if self.judge is not None:
            self.judge(deed)


class Machines(FakeDaemons):
    """The hosts' libvirt daemons, by their addresses."""

    def __init__(self, deeds: Deeds) -> None:
        super().__init__()
        self._deeds = deeds
        self.names: dict[str, str] = {}
        """Names of hosts by their URIs."""

    def at(self, uri: str) -> NotedLibvirt:
        if uri not in self._known:
            host = dataclasses.replace(_HOST, uuid=str(uuid5(NAMESPACE_DNS, uri)))
            self._known[uri] = NotedLibvirt(self._deeds, self.names.get(uri, uri), host, self)
        found = self._known[uri]
        assert isinstance(found, NotedLibvirt)
        return found


class NotedLibvirt(FakeLibvirt):
    """The libvirt daemon of one host.

    Attributes:
        lie: what it gives as the definition of any of its domains; "" for the truth.
        given: UUIDs of domains that were started here, or moved here, by the operator.
        denies: that it sees any file.
    """

    def __init__(self, deeds: Deeds, name: str, host: HostCapabilities, peers: FakeDaemons) -> None:
        super().__init__(host=host, peers=peers)
        self._deeds, self.name, self.lie = deeds, name, ""
        self.given: set[str] = set()
        self.denies = False

    async def document(self, uuid: str, **more: bool) -> DomainDocument:
        found = await super().document(uuid, **more)
        if not self.lie:
            return found
        return dataclasses.replace(found, xml=self.lie.replace("UUID", uuid))

    async def define(self, document: DomainDocument) -> None:
        text = document.xml
        about = text if len(text) == 36 else text.partition("<uuid>")[2][:36]
        self._deeds.note(self.name, "define", about, text)
        await super().define(document)

    async def undefine(self, uuid: str) -> None:
        self._deeds.note(self.name, "undefine", uuid)
        await super().undefine(uuid)

    async def boot(self, uuid: str, *, paused: bool = False) -> None:
        self._deeds.note(self.name, "boot", uuid)
        await super().boot(uuid, paused=paused)
        self.given.add(uuid)

    async def destroy(self, uuid: str, *, graceful: bool = False) -> None:
        self._deeds.note(self.name, "destroy", uuid)
        await super().destroy(uuid, graceful=graceful)

    async def migrate(self, uuid: str, options: MigrationOptions) -> None:
        self._deeds.note(self.name, "migrate", uuid, f"{options.running}{options.defined}")
        await super().migrate(uuid, options)
        target = self._peers.at(options.destination)
        assert isinstance(target, NotedLibvirt)
        target.given.add(uuid)

    async def has_file(self, directory: str, name: str) -> bool:
        return await super().has_file(directory, name) and not self.denies

    async def delete_file(self, directory: str, name: str) -> None:
        self._deeds.note(self.name, "delete_file", f"{directory}/{name}")
        await super().delete_file(directory, name)


class Nova(FakeCompute):
    """A compute service that goes by the ids of its services, as Nova does."""

    def __init__(self, now: Callable[[], datetime], deeds: Deeds) -> None:
        super().__init__(now, has=FEATURES - {"smoke_tests"})
        self.name = "nova"
        self.hosts = NotedHosts(self, deeds)
        self.providers = NotedProviders(self.world, deeds)
        self.moves.on_done = self._moved
        self._deeds = deeds

    def _moved(self, call: str, about: str) -> None:
        if call in {"live_migrate", "cold_migrate", "evacuate", "restart"}:
            self._deeds.note(self.moves.jobs.servers[about].host, call, about)

    def service(self, name: str) -> Host | None:
        """The service of a host, as an administrator sees it."""
        return self.world.hosts.get(name)


class NotedHosts(FakeHosts):
    """Nova's services: a call names one by its id, whatever host the caller means."""

    def __init__(self, nova: Nova, deeds: Deeds) -> None:
        super().__init__(nova.world, nova.moves)
        self._deeds = deeds

    async def enable(self, host: Host) -> None:
        await super().enable(self._by_id(host, "enable"))

    async def disable(self, host: Host, reason: str) -> None:
        await super().disable(self._by_id(host, "disable"), reason)

    async def force_down(self, host: Host) -> None:
        await super().force_down(self._by_id(host, "force_down"))

    async def take_back(self, host: Host) -> None:
        await super().take_back(self._by_id(host, "take_back"))

    async def remove(self, host: Host) -> None:
        try:
            found = self._by_id(host, "remove")
        except RefusedError:
            return
        await super().remove(found)

    def _by_id(self, host: Host, what: str) -> Host:
        for one in self._world.hosts.values():
            if one.service_id == host.service_id:
                self._deeds.note(one.name, what, host.service_id)
                return one
        raise RefusedError(f"no compute service {host.service_id}", code=404)


class NotedProviders(FakeProviders):
    """Its resource providers, each found by its id."""

    def __init__(self, world: World, deeds: Deeds) -> None:
        super().__init__(world)
        self._deeds = deeds

    async def remove(self, host: Host) -> None:
        known = self._world.hosts.values()
        named = next((one.name for one in known if one.hypervisor_id == host.hypervisor_id), "")
        self._deeds.note(named, "remove_provider", host.hypervisor_id)
        await super().remove(host)


class Board(FakeFenceDevice):
    """The board of one host: it switches that host's power, whoever asks for it by its port."""

    def __init__(self, host: str, deeds: Deeds, off: Callable[[], None]) -> None:
        super().__init__(f"board of {host}")
        self.host, self._deeds, self._off = host, deeds, off
        self.uuids: frozenset[str] = frozenset()

    def _switch(self, state: PowerState, within: timedelta) -> None:
        self._deeds.note(self.host, state.value)
        super()._switch(state, within)
        if state is PowerState.OFF:
            self._off()


@dataclass(slots=True)
class Boards:
    """All boards, by their ports; they have one password."""

    deeds: Deeds
    password: str
    by_port: dict[str, Board] = field(default_factory=dict[str, Board])

    def open(self, device: Device, credentials: Credentials) -> FakeFenceDevice:
        """Log in to the board at the device's address, as `operator.ha.devices.fences` does."""
        address, port = device.parameters.get("ip", ""), device.parameters.get("ipport", "")
        if (address, port) != ("192.0.2.250", port) or port not in self.by_port:
            self.deeds.note(f"{address}:{port}", "login", text=credentials.password)
            nothing = FakeFenceDevice(f"nothing at {address}:{port}")
            nothing.failure = FenceError(f"{nothing.name}: no answer", FenceFailure.TIMED_OUT)
            return nothing
        board = self.by_port[port]
        if credentials.password != self.password:
            refusing = FakeFenceDevice(board.name)
            refusing.failure = FenceError(f"{board.name}: wrong password", FenceFailure.FAILED)
            return refusing
        return board


def servers_on(nova: Nova, hosts: Iterable[str]) -> dict[str, tuple[Server, ...]]:
    """What is where, as an administrator sees it."""
    return {host: nova.moves.on(host) for host in hosts}
