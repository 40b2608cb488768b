"""What a compute service reports of hosts, virtual machines and their moves.

Words are Nova's: server and migration states as its API writes them. Sizes: memory in MiB, disk in
GiB, as in a flavor.

Source: OpenStack Compute API reference, microversion 2.95.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class ServerStatus(StrEnum):
    """Those values of a server's `status` that need care; any other is passed on as it is."""

    ACTIVE = "ACTIVE"
    BUILD = "BUILD"
    ERROR = "ERROR"
    MIGRATING = "MIGRATING"
    PAUSED = "PAUSED"
    REBOOT = "REBOOT"
    RESCUE = "RESCUE"
    RESIZE = "RESIZE"
    SHELVED_OFFLOADED = "SHELVED_OFFLOADED"
    SHUTOFF = "SHUTOFF"
    SUSPENDED = "SUSPENDED"
    VERIFY_RESIZE = "VERIFY_RESIZE"


class MoveKind(StrEnum):
    """How a server goes to another host: `migration_type` of Nova's migration records."""

    LIVE = "live-migration"
    COLD = "migration"
    RESIZE = "resize"
    EVACUATION = "evacuation"


@dataclass(frozen=True, slots=True)
class Size:
    """What a server takes, or a host has.

    Args:
        vcpus: virtual CPUs.
        memory_mib: memory.
        disk_gib: disk on the host itself.
    """

    vcpus: float
    memory_mib: int
    disk_gib: int = 0


def total(sizes: Collection[Size]) -> Size:
    """All of them together."""
    return Size(
        sum(size.vcpus for size in sizes),
        sum(size.memory_mib for size in sizes),
        sum(size.disk_gib for size in sizes),
    )


@dataclass(frozen=True, slots=True)
class Server:
    """One virtual machine.

    Args:
        id: UUID.
        name: for people.
        host: compute host that it is on; "" when it is on none.
        status: see `ServerStatus`.
        task_state: what is being done to it (`deleting`, `migrating` …); "" for nothing.
        running: its power state is running.
        paused: its power state is paused, whatever its status.
        died: the server is off without a known request: it crashed, or its host went down; None
            when the service does not show why a server is off.
        size: by its flavor.
        local_disk: part of its disks lies on the host itself, not on storage that hosts share.
        locked: its owner's actions are refused; an administrator's are not.
        locked_reason: why, as given with the lock; "" when none was given.
        fault: why it is in ERROR, in the service's words.
        hindrance: why it cannot be moved at all (a pinned device, a vTPM …); "" when nothing is
            known to be in the way.
        group: its server group's policy and the group's other members, None without one.
        metadata: of its owner.
        priority: those with a higher one are recovered first.
        recovers: whether its owner, flavor or image requests high availability; None when none of
            them has a setting.
        waits_for_host: why it cannot be started elsewhere when its host is dead: data or devices
            that are there alone; "" when nothing is known to be in the way.
        claim: what `Moves.candidates` needs besides, in the service's own words.
    """

    id: str
    name: str
    host: str
    status: str
    task_state: str = ""
    running: bool = False
    paused: bool = False
    died: bool | None = None
    size: Size = Size(0, 0)
    local_disk: bool = False
    locked: bool = False
    locked_reason: str = ""
    fault: str = ""
    hindrance: str = ""
    group: ServerGroup | None = None
    metadata: dict[str, str] = field(default_factory=dict[str, str])
    priority: int = 0
    recovers: bool | None = None
    waits_for_host: str = ""
    claim: str = ""


@dataclass(frozen=True, slots=True)
class ServerGroup:
    """Servers that should be together on a host, or apart.

    Args:
        policy: `affinity`, `anti-affinity`, `soft-affinity`, `soft-anti-affinity`.
        members: UUIDs.
    """

    policy: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """A record of a server's way from one host to another: a Nova migration, a libvirt job.

    Args:
        id: of the record, for `Moves.abort` and `Moves.force_complete`.
        server: UUID.
        kind: see `MoveKind`.
        status: `queued`, `preparing`, `running`, `post-migrating`, `completed`, `error`, `failed`,
            `cancelled`, `reverted`, `finished`, `confirmed`, `done` …
        source: host that it leaves.
        target: host that it goes to; "" while none is chosen.
        created: when it was requested.
        updated: when the record last changed.
        total: bytes of memory to move, 0 when not known.
        remaining: those of them still to be moved.
        disk_remaining: bytes of disks still to be copied; the memory goes after them, and what the
            server writes meanwhile is copied until the end.
        message: why it failed; "" when the service does not report it.
        claimed_by: host that has something of the server as well, for which it failed; "" else.
        in_use: it failed since another process holds the lock of a disk.
    """

    id: str
    server: str
    kind: str
    status: str
    source: str
    target: str
    created: datetime
    updated: datetime
    total: int = 0
    remaining: int = 0
    disk_remaining: int = 0
    message: str = ""
    claimed_by: str = ""
    in_use: bool = False

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to it, well or not."""
        return self.succeeded or self.status in {"error", "failed", "cancelled", "reverted"}

    @property
    def succeeded(self) -> bool:
        """Whether the server is where it should go; a cold move then waits to be confirmed."""
        return self.status in {"completed", "finished", "confirmed", "done"}


@dataclass(frozen=True, slots=True)
class ServerAction:
    """An action that was requested for a server.

    Args:
        name: `stop`, `start`, `reboot`, `delete`, `evacuate` …
        started: when it began.
        user: id of the requester; "" for the service itself.
        project: id, of that user; "" likewise.
    """

    name: str
    started: datetime
    user: str = ""
    project: str = ""

    @property
    def by_service(self) -> bool:
        """Whether the service began it: Nova stops an instance whose guest has crashed."""
        return not self.user


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a host has left.

    Args:
        host: its name.
        total: all that may be promised on it, overcommit included.
        used: what has been promised.
    """

    host: str
    total: Size
    used: Size


def fits(size: Size, left: Capacity) -> bool:
    """Whether a host has room for so much more."""
    return (
        left.used.vcpus + size.vcpus <= left.total.vcpus
        and left.used.memory_mib + size.memory_mib <= left.total.memory_mib
    )


@dataclass(frozen=True, slots=True)
class Host:
    """A host as the compute service reports it.

    Args:
        name: of the compute service's host; equal to the Hypervisor's, or its first label.
        hypervisor_id: UUID of the hypervisor, which is that of its resource provider.
        service_id: UUID of the compute service.
        enabled: new servers may be placed on it.
        disabled_reason: why not; "" when enabled, or without a reason.
        up: its service reports.
        forced_down: it was declared down.
        servers: UUIDs of what is on it.
    """

    name: str
    hypervisor_id: str
    service_id: str
    enabled: bool
    disabled_reason: str = ""
    up: bool = True
    forced_down: bool = False
    servers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostAggregate:
    """A host aggregate.

    Args:
        id: number, for calls.
        uuid: for people and other systems.
        name: unique by convention only.
        hosts: names of its members.
        metadata: with `availability_zone` where it is one.
    """

    id: int
    uuid: str
    name: str
    hosts: tuple[str, ...]
    metadata: dict[str, str]


@dataclass(frozen=True, slots=True)
class ProviderTraits:
    """The traits of a resource provider.

    Args:
        names: sorted.
        generation: what `Traits.put` needs to change them.
    """

    names: tuple[str, ...]
    generation: int


@dataclass(frozen=True, slots=True)
class TestServer:
    """What onboarding has booted on a new host.

    Args:
        id: UUID.
        name: whole.
        status: see `ServerStatus`.
        launched: when it first ran, None before.
        created: when it was requested.
        fault: why it is in ERROR.
    """

    id: str
    name: str
    status: str
    created: datetime
    launched: datetime | None = None
    fault: str = ""

    __test__ = False  # no test of pytest's, in spite of its name
