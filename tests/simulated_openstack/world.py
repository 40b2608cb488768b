"""The objects of a simulated cloud, and how they depend on each other."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from tests.simulated_openstack.http import RefusalError
from tests.simulated_openstack.model import (
    RUNNING,
    Acted,
    Aggregate,
    Flavor,
    Group,
    Host,
    Image,
    Inventory,
    Migration,
    Network,
    Port,
    Resources,
    Server,
    Volume,
    stable_uuid,
)
from tests.simulated_openstack.pace import Pace

DISABLED: Final = "COMPUTE_STATUS_DISABLED"
DEFAULT_ZONE: Final = "nova"
_NOWHERE: Final = "No valid host was found. There are not enough hosts available."


@dataclass(slots=True)
class User:
    """A user, with the roles it has in projects, by the project's id."""

    id: str
    name: str
    password: str
    domain: str
    roles: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


@dataclass(frozen=True, slots=True)
class Project:
    """A project; `domain` is an id."""

    id: str
    name: str
    domain: str


class World:
    """A cloud. Change it as a test needs: its parts are plain."""

    def __init__(self, pace: Pace | None = None) -> None:
        self.pace = pace or Pace()
        self.domains = {"default": "Default", "cc3test": "cc3test"}
        self.projects: dict[str, Project] = {}
        self.users: dict[str, User] = {}
        self.application_credentials: dict[tuple[str, str], tuple[User, Project]] = {}
        self.hosts: dict[str, Host] = {}
        self.servers: dict[str, Server] = {}
        self.migrations: dict[int, Migration] = {}
        self.aggregates: dict[int, Aggregate] = {}
        self.flavors: dict[str, Flavor] = {}
        self.images: dict[str, Image] = {}
        self.networks: dict[str, Network] = {}
        self.ports: dict[str, Port] = {}
        self.volumes: dict[str, Volume] = {}
        self.groups: dict[str, Group] = {}
        self.failures_break = False  # failed live migrations leave servers in ERROR, as in Nova 34
        self.evacuation_needs_no_task = False  # as in Nova up to 2023
        self.shared = True  # disks of new servers lie where all hosts see them
        self.custom_traits: set[str] = set()
        self.parts = {"nova-scheduler": {"ctl-1": "up"}, "nova-conductor": {"ctl-1": "up"}}
        self.allocations: dict[str, dict[str, Resources]] = {}
        self.by_id: dict[str, Host] = {}
        self.by_service: dict[str, Host] = {}
        self._numbers = itertools.count(1)
        self._populate()

    def _populate(self) -> None:
        for name, domain in (("admin", "default"), ("test", "default"), ("test", "cc3test")):
            project = Project(stable_uuid("project", domain, name), name, domain)
            self.projects[project.id] = project
        admin = User(stable_uuid("user", "admin"), "admin", "secret", "default")
        admin.roles = dict.fromkeys(self.projects, ("admin", "member", "reader"))
        tester = User(stable_uuid("user", "test"), "test", "secret", "default")
        tester.roles = {stable_uuid("project", "default", "test"): ("member", "reader")}
        self.users = {user.id: user for user in (admin, tester)}
        for flavor in (
            Flavor("1", "tiny", 1, 192, 1),
            Flavor("2", "large", 1, 1024, 1),
            Flavor("3", "huge", 8, 65536, 100),
        ):
            self.flavors[flavor.id] = flavor
        for name in ("empty", "guest", "cirros-kvm"):
            image = Image(stable_uuid("image", name), name)
            self.images[image.id] = image
        for name, owner, shared in (("net", "admin", True), ("private", "test", False)):
            id = stable_uuid("project", "default", owner)
            network = Network(stable_uuid("network", name), name, id, shared)
            self.networks[network.id] = network

    # -- hosts -------------------------------------------------------------------------------------

    def add_host(
        self,
        name: str,
        *,
        hostname: str = "",
        vcpus: int = 64,
        memory: int = 262144,
        disk: int = 4000,
        enabled: bool = True,
    ) -> Host:
        """Add a host; memory in MiB, disk in GiB."""
        inventory = {
            "VCPU": Inventory(vcpus, 4.0),
            "MEMORY_MB": Inventory(memory, 1.0, 512),
            "DISK_GB": Inventory(disk),
        }
        host = Host(name, hostname or name, inventory, enabled=enabled)
        if not enabled:
            host.traits.add(DISABLED)
        self.hosts[name] = self.by_id[host.id] = self.by_service[host.service_id] = host
        return host

    def crash(self, name: str) -> None:
        """Cut a host's power: nothing happens there any more."""
        host = self.hosts[name]
        host.last_report = time.monotonic()
        host.power.clear()

    def restore(self, name: str) -> None:
        """Boot a host that is off; it removes what was evacuated from it."""
        host = self.hosts[name]
        host.power.set()
        if not host.service:
            self._enlist(host)
        for migration in self.migrations.values():
            if (migration.source, migration.kind, migration.status) == (
                *(name, "evacuation", "done"),
            ):
                migration.set("completed")
                self.release(migration.uuid, host)
        self.sync_disabled(host)

    def _enlist(self, host: Host) -> None:
        """Add a host again that was deleted: its hypervisor's id is kept on its disk."""
        del self.by_service[host.service_id]
        fresh = Host(host.name, host.hostname, host.inventory, service_id=str(uuid.uuid4()))
        self.hosts[host.name] = self.by_id[fresh.id] = self.by_service[fresh.service_id] = fresh

    def last_report(self, host: Host) -> float:
        """When its compute service last reported, by the monotonic clock."""
        if not host.alive:
            return host.last_report
        pace = self.pace.report
        return time.monotonic() // pace * pace

    def is_up(self, host: Host) -> bool:
        """Whether the API shows the host as up."""
        silence = time.monotonic() - self.last_report(host)
        return not host.forced_down and (host.alive or silence < self.pace.down_after)

    def sync_disabled(self, host: Host) -> None:
        """Show in Placement whether it takes servers; nova-compute does that, if it runs."""
        if not host.alive or (DISABLED in host.traits) is not host.enabled:
            return
        host.generation += 1
        if host.enabled:
            host.traits.discard(DISABLED)
        else:
            host.traits.add(DISABLED)

    def zone(self, name: str) -> str:
        """The availability zone of a host."""
        zones = (a.zone for a in self.aggregates.values() if name in a.hosts and a.zone)
        return next(zones, DEFAULT_ZONE)

    def zones(self) -> set[str]:
        """Every availability zone that has hosts; the default one also without."""
        return {a.zone for a in self.aggregates.values() if a.zone and a.hosts} | {DEFAULT_ZONE}

    def remove_provider(self, host: Host) -> None:
        """Forget a resource provider and what is allocated from it."""
        for allocation in self.allocations.values():
            allocation.pop(host.id, None)
        host.used.clear()
        host.provider = False

    # -- allocations -------------------------------------------------------------------------------

    def allocate(self, consumer: str, host: Host, wanted: Resources) -> None:
        """Take resources of a host, whether it has them or not."""
        self.release(consumer, host)
        self.allocations.setdefault(consumer, {})[host.id] = dict(wanted)
        for name, amount in wanted.items():
            host.used[name] = host.used.get(name, 0) + amount
        host.generation += 1

    def release(self, consumer: str, host: Host) -> None:
        """Give back what a consumer has of a host."""
        taken = self.allocations.get(consumer, {}).pop(host.id, None)
        if taken is None:
            return
        if not self.allocations[consumer]:
            del self.allocations[consumer]
        for name, amount in taken.items():
            host.used[name] -= amount
        host.generation += 1

    def hold(self, migration: Migration) -> None:
        """Let a move hold what its server has at the source; the server has its target's."""
        source = self.hosts[migration.source]
        self.release(migration.server.id, source)
        self.allocate(migration.uuid, source, migration.server.flavor.resources)

    def settle(self, migration: Migration, *, moved: bool) -> None:
        """Give back what a move holds: at its source, or at its target when it did not go."""
        server, source = migration.server, self.hosts.get(migration.source)
        target = self.hosts.get(migration.target or "")
        if source is not None:
            self.release(migration.uuid, source)
        if not moved:
            if target is not None:
                self.release(server.id, target)
            if source is not None and server.id in self.servers:
                self.allocate(server.id, source, server.flavor.resources)

    # -- servers -----------------------------------------------------------------------------------

    def add_server(
        self,
        host: str,
        *,
        name: str = "",
        flavor: str = "1",
        vm_state: str = "active",
        project: str = "",
        group: str = "",
        shared: bool = True,
    ) -> Server:
        """A server that is there already, on a host, or on none with ""."""
        number = next(self._numbers)
        made = Server(
            stable_uuid("server", str(number)),
            name or f"server-{number}",
            project or next(iter(self.projects)),
            next(iter(self.users)),
            self.flavors[flavor],
            image=next(iter(self.images)),
            vm_state=vm_state,
            group=group,
            shared=shared,
        )
        made.launched = made.created
        if vm_state == "error":
            made.power_state = RUNNING  # it ran before
        made.booted = time.monotonic()
        self.servers[made.id] = made
        if group:
            self.groups[group].members.append(made.id)
        if host:
            self.put(made, self.hosts[host])
        return made

    def put(self, server: Server, host: Host) -> None:
        """Have a server on a host, with an allocation there."""
        self.place(server, host.name)
        self.allocate(server.id, host, server.flavor.resources)

    def place(self, server: Server, host: str) -> None:
        """Put a server on a host."""
        if server.host in self.hosts:
            self.hosts[server.host].servers.pop(server.id, None)
        server.host = host
        if host in self.hosts:
            self.hosts[host].servers[server.id] = server
        for port in self.ports_of(server):
            port.host = host

    def remove_server(self, server: Server) -> None:
        """Have a server gone, at once."""
        self.servers.pop(server.id, None)
        self.place(server, "")
        for provider in tuple(self.allocations.get(server.id, ())):
            self.release(server.id, self.by_id[provider])
        for port in tuple(self.ports_of(server)):
            del self.ports[port.id]
        for group in self.groups.values():
            if server.id in group.members:
                group.members.remove(server.id)
        for volume in server.volumes:
            self.volumes.pop(volume, None)
        # Records of moves go with the server.
        for migration in [m for m in self.migrations.values() if m.server is server]:
            del self.migrations[migration.id]

    def power_sync(self, server: Server) -> None:
        """Have Nova find, some seconds after a guest crashed, that its server does not run.

        It calls its own stop for one that is active, without a user.
        Source: nova, compute/manager.py, `_sync_instance_power_state`.
        """
        if server.vm_state == "active" and server.task_state is None:
            server.acted.append(Acted("stop", None, None))
            server.set("stopped")

    def ports_of(self, server: Server) -> Iterator[Port]:
        return (port for port in self.ports.values() if port.server == server.id)

    def new_migration(
        self, server: Server, kind: str, target: str | None, status: str
    ) -> Migration:
        """A record of a move of a server from where it is."""
        number = next(self._numbers)
        id = stable_uuid("migration", str(number))
        made = Migration(number, id, server, kind, status, server.host, target)
        self.migrations[number] = made
        return made

    # -- scheduling --------------------------------------------------------------------------------

    def candidates(self, wanted: Resources) -> Iterator[Host]:
        """Hosts with capacity, as Placement has them."""
        return (h for h in self.hosts.values() if h.provider and h.room_for(wanted))

    def choose(self, server: Server, *, only: str = "", zone: str | None = None) -> Host:
        """A host for a server, which is not the one it is on.

        Args:
            server: with its flavor and its group.
            only: name of the only host to consider.
            zone: availability zone that it must be in.

        Raises:
            RefusalError: 400: there is none.
        """
        hosts: Iterable[Host] = self.candidates(server.flavor.resources)
        if only:
            hosts = (h for h in hosts if h.name == only)
        fit = (h for h in hosts if self._suits(server, h) and zone in {None, self.zone(h.name)})
        best = min(fit, key=lambda h: h.used.get("MEMORY_MB", 0), default=None)
        if best is None:
            raise RefusalError(
                400, "No valid host was found. There are not enough hosts available."
            )
        return best

    def _suits(self, server: Server, host: Host) -> bool:
        if not (host.service and host.enabled and self.is_up(host)) or host.name == server.host:
            return False
        if DISABLED in host.traits:
            return False
        group = self.groups.get(server.group)
        if group is None or group.policy.startswith("soft-"):
            return True
        others = {self.servers[id].host for id in group.members if id in self.servers}
        others -= {server.host, ""}
        return (
            (host.name in others)
            if group.policy == "affinity" and others
            else (group.policy != "anti-affinity" or host.name not in others)
        )
