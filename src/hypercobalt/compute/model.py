"""Reports of a compute service about hosts, virtual machines and their moves.

The words are Nova's: server and migration states as its API writes them. Sizes: memory in MiB, disk
in GiB, as in a flavor.

Source: OpenStack Compute API reference, microversion 2.95.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class ServerStatus(StrEnum):
    """Values of a server's `status` that need care; any other is passed on as it is."""

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
    """Kind of a server's way to another host: `migration_type` of Nova's migration records."""

    LIVE = "live-migration"
    COLD = "migration"
    RESIZE = "resize"
    EVACUATION = "evacuation"


@dataclass(frozen=True, slots=True)
class Size:
    """Resources that a server takes, or a host has.

    Args:
        vcpus: virtual CPUs.
        memory_mib: memory.
        disk_gib: disk on the host itself.
    """

    vcpus: float
    memory_mib: int
    disk_gib: int = 0


def total(sizes: Collection[Size]) -> Size:
    """Return the sum of all of them."""
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
        host: its compute host; "" for none.
        status: see `ServerStatus`.
        task_state: operation in progress (`deleting`, `migrating` …); "" for none.
        running: its power state is running.
        paused: its power state is paused, whatever its status.
        died: the server is off without a known request: it crashed, or its host went down; None
            when the service does not show why it is off.
        size: by its flavor.
        local_disk: part of its disks is on the host itself, not on storage that hosts share.
        locked: its owner's actions are refused; an administrator's are not.
        locked_reason: why, as given with the lock; "" when none was given.
        fault: why it is in ERROR, in the service's words.
        hindrance: why it cannot be moved at all (a pinned device, a vTPM …); "" when nothing is
            known to be in the way.
        group: its server group's policy and the group's other members, None without one.
        metadata: set by its owner.
        priority: servers with a higher value are recovered first.
        recovers: whether its owner, flavor or image requests high availability; None when none of
            them has a setting.
        waits_for_host: why it cannot be started elsewhere when its host is dead: data or devices
            that are there alone; "" when nothing is known to be in the way.
        claim: further resources that `Moves.candidates` needs, in the service's own words.
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
        remaining: bytes of memory not moved yet.
        disk_remaining: bytes of disks not copied yet; the memory follows the disks, and writes of
            the server are copied until the end.
        message: why it failed; "" when the service does not report it.
        claimed_by: host with a claim to a part of the server, for which the move failed; "" for
            none.
        in_use: the move failed since another process holds the lock of a disk.
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
        """Whether the move has ended, successfully or not."""
        return self.succeeded or self.status in {"error", "failed", "cancelled", "reverted"}

    @property
    def succeeded(self) -> bool:
        """Whether the server is on its target; a cold move then waits for confirmation."""
        return self.status in {"completed", "finished", "confirmed", "done"}


@dataclass(frozen=True, slots=True)
class ServerAction:
    """An action that was requested for a server.

    Args:
        name: `stop`, `start`, `reboot`, `delete`, `evacuate` …
        started: when it began.
        user: id of the requester; "" for the service itself.
        project: id of that user's project; "" for the service itself.
        failed: the service accepted it, and has failed since.
    """

    name: str
    started: datetime
    user: str = ""
    project: str = ""
    failed: bool = False

    @property
    def by_service(self) -> bool:
        """Whether the service began it: Nova stops an instance whose guest has crashed."""
        return not self.user


@dataclass(frozen=True, slots=True)
class RestartResult:
    """Result of a server's newest restart by the service's own record; empty before its end.

    Args:
        succeeded: the service has started the guest.
        failed: why it has not; "" if nothing shows a failure.
    """

    succeeded: bool = False
    failed: str = ""


@dataclass(frozen=True, slots=True)
class Capacity:
    """Resources of a host.

    Args:
        host: its name.
        total: resources that may be promised on it, overcommit included.
        used: resources that have been promised.
        is_late: it has answered late, or started nothing for long: a host for want of another.
    """

    host: str
    total: Size
    used: Size
    is_late: bool = False


def fits(size: Size, left: Capacity) -> bool:
    """Whether a host has room for a further size."""
    return (
        left.used.vcpus + size.vcpus <= left.total.vcpus
        and left.used.memory_mib + size.memory_mib <= left.total.memory_mib
    )


@dataclass(frozen=True, slots=True)
class Host:
    """A host as the compute service reports it.

    Args:
        name: of the compute service's host; equal to the Hypervisor's, or its first label.
        hypervisor_id: UUID of the hypervisor and of its resource provider.
        service_id: UUID of the compute service.
        enabled: new servers may be placed on it.
        disabled_reason: why it is disabled; "" when enabled, or without a reason.
        up: its service reports.
        forced_down: it was declared down.
        servers: UUIDs of the servers on it.
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
        generation: number that `Traits.put` needs to change them.
    """

    names: tuple[str, ...]
    generation: int


@dataclass(frozen=True, slots=True)
class TestServer:
    """A server that onboarding has booted on a new host.

    Args:
        id: UUID.
        name: the whole name.
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
