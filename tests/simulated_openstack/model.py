"""The things in a simulated cloud."""

from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

Resources = dict[str, int]  # by resource class of Placement

# Keys are the last part of a server's `task_state`, as in "resize_…" and "rebuild_…".
_STATUSES: Final = {
    "building": "BUILD",
    "active": "ACTIVE",
    "stopped": "SHUTOFF",
    "resized": "VERIFY_RESIZE",
    "paused": "PAUSED",
    "suspended": "SUSPENDED",
    "rescued": "RESCUE",
    "error": "ERROR",
    "shelved": "SHELVED",
    "shelved_offloaded": "SHELVED_OFFLOADED",
}
RUNNING: Final = 1
_POWER: Final = {
    "active": RUNNING,
    "resized": RUNNING,
    "rescued": RUNNING,
    "paused": 3,
    "suspended": 4,
    "stopped": 4,
    "shelved": 4,
    "shelved_offloaded": 4,
}


def now() -> datetime:
    return datetime.now(UTC)


def stable_uuid(*names: str) -> str:
    """The same id for the same names, at every start."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "/".join(names)))


@dataclass(slots=True)
class Flavor:
    """What a server takes; memory in MiB, disk in GiB."""

    id: str
    name: str
    vcpus: int
    memory: int
    disk: int
    extra_specs: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def resources(self) -> Resources:
        wanted = {"VCPU": self.vcpus, "MEMORY_MB": self.memory, "DISK_GB": self.disk}
        return {name: amount for name, amount in wanted.items() if amount}


@dataclass(slots=True)
class Image:
    """An image; `properties` as Glance shows them."""

    id: str
    name: str
    properties: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(slots=True)
class Network:
    """A network."""

    id: str
    name: str
    project: str
    shared: bool = False


@dataclass(slots=True)
class Port:
    """A server's port on a network."""

    id: str
    network: str
    server: str
    host: str
    status: str = "DOWN"


@dataclass(slots=True)
class Inventory:
    """A resource class of a host."""

    total: int
    ratio: float = 1.0
    reserved: int = 0

    @property
    def capacity(self) -> int:
        return int((self.total - self.reserved) * self.ratio)


@dataclass(slots=True)
class Host:
    """A host: its compute service, its hypervisor, its resource provider.

    Args:
        name: of the compute service's host.
        hostname: of the hypervisor.
        power: set while its nova-compute runs.
        silent: its guests write nothing to their consoles.
        refuses: why it cannot boot a server; "" when it can.
        service: there is a record of its compute service.
        provider: there is a resource provider.
    """

    name: str
    hostname: str
    inventory: dict[str, Inventory]
    address: str = "192.0.2.1"
    enabled: bool = True
    disabled_reason: str | None = None
    forced_down: bool = False
    power: asyncio.Event = field(default_factory=asyncio.Event)
    last_report: float = field(default_factory=time.monotonic)
    silent: bool = False
    refuses: str = ""
    service: bool = True
    provider: bool = True
    traits: set[str] = field(default_factory=lambda: {"COMPUTE_NODE", "HW_CPU_X86_VMX"})
    generation: int = 1
    aggregates: set[str] = field(default_factory=set[str])
    used: Resources = field(default_factory=dict[str, int])
    servers: dict[str, Server] = field(default_factory=dict[str, "Server"])
    id: str = ""
    service_id: str = ""

    def __post_init__(self) -> None:
        self.id = self.id or stable_uuid("hypervisor", self.name)
        self.service_id = self.service_id or stable_uuid("service", self.name)
        self.power.set()

    @property
    def alive(self) -> bool:
        """Whether nova-compute of the host runs."""
        return self.power.is_set()

    def room_for(self, wanted: Resources) -> bool:
        """Whether it has as much left."""
        return all(
            name in self.inventory
            and self.used.get(name, 0) + amount <= self.inventory[name].capacity
            for name, amount in wanted.items()
        )


@dataclass(slots=True)
class Fault:
    """Why a server is in ERROR."""

    code: int
    message: str
    created: datetime = field(default_factory=now)


@dataclass(slots=True)
class Acted:
    """An action on a server; one without a user is the service's own.

    Args:
        migration: that it began; its end is the action's.
        ended: None while a host works at it.
        failure: why it failed on its host.
    """

    action: str
    user: str | None
    project: str | None
    migration: Migration | None = None
    id: str = field(default_factory=lambda: f"req-{uuid.uuid4()}")
    created: datetime = field(default_factory=now)
    ended: datetime | None = None
    failure: str = ""

    @property
    def updated(self) -> datetime:
        return self.migration.updated if self.migration else self.ended or self.created

    @property
    def why(self) -> str:
        """Why it failed."""
        return self.migration.why if self.migration else self.failure

    def end(self, failure: str = "") -> None:
        """Record how it went on its host."""
        self.ended, self.failure = now(), failure


@dataclass(slots=True)
class Server:
    """A server.

    Args:
        shared: its disks are on storage that all hosts share.
        memory_left: live migrations of it never get below so many bytes: they are stuck.
        move_fails: why its live migrations fail in the end; "" when they do not.
        reboot_fails: why its host fails to reboot it before it does anything: the server stays
            as it was, with the power state from before; "" when it does not fail.
        pace: how long a live migration of it takes, the world's pace when None.
        power_state: of its guest, as Nova knew it last: neither an error nor a reset changes it.
        locked_by: `owner` or `admin`; "" while it is not locked.
        acted: actions on it, oldest first.
    """

    id: str
    name: str
    project: str
    user: str
    flavor: Flavor
    image: str = ""
    volumes: tuple[str, ...] = ()
    host: str = ""
    vm_state: str = "building"
    task_state: str | None = None
    created: datetime = field(default_factory=now)
    updated: datetime = field(default_factory=now)
    launched: datetime | None = None
    locked_by: str = ""
    locked_reason: str | None = None
    metadata: dict[str, str] = field(default_factory=dict[str, str])
    fault: Fault | None = None
    group: str = ""
    zone: str | None = None
    before_resize: str = "active"
    booted: float = 0.0
    shared: bool = True
    memory_left: int = 0
    move_fails: str = ""
    reboot_fails: str = ""
    pace: float | None = None
    power_state: int = 0
    acted: list[Acted] = field(default_factory=list[Acted])

    @property
    def status(self) -> str:
        """The status as the API shows it."""
        task = self.task_state or ""
        if task == "migrating" and self.vm_state in {"active", "paused"}:
            return "MIGRATING"
        if task.startswith("resize_") and self.vm_state in {"active", "stopped"}:
            return "RESIZE"
        if task.startswith("rebuild"):
            return "REBUILD"
        if task == "rebooting":
            return "REBOOT"
        return _STATUSES[self.vm_state]

    def __post_init__(self) -> None:
        self.power_state = _POWER.get(self.vm_state, 0)

    def set(self, vm_state: str | None = None, task_state: str | None = None) -> None:
        """Change its state; the task ends when none is given."""
        self.reset(vm_state or self.vm_state)
        self.power_state = _POWER.get(vm_state or "", self.power_state)
        self.task_state = task_state

    def reset(self, vm_state: str) -> None:
        """Have Nova take it for that, and end its task; its guest is as it was."""
        self.vm_state, self.task_state, self.updated = vm_state, None, now()


@dataclass(slots=True)
class Migration:
    """A record of a move; sizes of memory and disks in bytes."""

    id: int
    uuid: str
    server: Server
    kind: str
    status: str
    source: str
    target: str | None
    total: int | None = None
    remaining: int | None = None
    disk_remaining: int = 0
    created: datetime = field(default_factory=now)
    updated: datetime = field(default_factory=now)
    why: str = ""

    def set(self, status: str, why: str = "") -> None:
        self.status, self.why = status, why
        self.updated = now()

    @property
    def in_progress(self) -> bool:
        """A live migration that is neither over nor refused."""
        return self.kind == "live-migration" and self.status in {
            *("queued", "preparing", "running", "post-migrating")
        }


@dataclass(slots=True)
class Aggregate:
    """A host aggregate."""

    id: int
    uuid: str
    name: str
    metadata: dict[str, str] = field(default_factory=dict[str, str])
    hosts: dict[str, None] = field(default_factory=dict[str, None])  # in order
    created: datetime = field(default_factory=now)
    updated: datetime | None = None

    @property
    def zone(self) -> str | None:
        return self.metadata.get("availability_zone")


@dataclass(slots=True)
class Group:
    """A server group."""

    id: str
    name: str
    policy: str
    project: str
    user: str
    members: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class Volume:
    """A volume of block storage."""

    id: str
    name: str
    size: int
    kind: str
    project: str


@dataclass(frozen=True, slots=True)
class Token:
    """The user that calls."""

    id: str
    user: str
    project: str
    project_name: str
    roles: tuple[str, ...]
    issued: datetime
    expires: datetime

    @property
    def admin(self) -> bool:
        return "admin" in self.roles


def later(moment: datetime, seconds: float) -> datetime:
    return moment + timedelta(seconds=seconds)
