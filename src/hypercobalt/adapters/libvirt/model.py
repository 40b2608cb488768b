"""What libvirt says about a host and its domains, converted once: bytes, sets, enums.

Source: libvirt's capabilities, domain-capabilities and domain XML formats; libvirt-domain.h.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions of the library and of the driver's backend (QEMU, Cloud Hypervisor), as `9.0.0`.

    Args:
        libvirt: version of the daemon's library.
        hypervisor: version of the backend.
    """

    libvirt: str
    hypervisor: str


@dataclass(frozen=True, slots=True)
class HostCell:
    """One NUMA cell of the host.

    Args:
        id: the host's number of the cell.
        memory_bytes: all of its memory.
        cpus: ids of its logical CPUs; empty when the document lists only how many there are.
        cpu_count: `cpus@num`.
    """

    id: int
    memory_bytes: int
    cpus: frozenset[int]
    cpu_count: int


@dataclass(frozen=True, slots=True)
class HostCapabilities:
    """`virsh capabilities`, what we use of it. A host always has at least one cell.

    Args:
        arch: for example `x86_64`.
        cells: NUMA cells.
        uuid: of the host, lower case; "" when libvirt does not know it.
    """

    arch: str
    cells: tuple[HostCell, ...]
    uuid: str = ""

    @property
    def memory_bytes(self) -> int:
        return sum(cell.memory_bytes for cell in self.cells)

    @property
    def cpu_count(self) -> int:
        return sum(cell.cpu_count for cell in self.cells)


@dataclass(frozen=True, slots=True)
class DomainCapabilities:
    """`virsh domcapabilities`, flattened as the Hypervisor's status lists it.

    Args:
        arch: for example `x86_64`.
        hypervisor_type: `kvm`, `qemu` or `ch`.
        devices: `video`, `video/nvidia`; supported ones, in the document's order.
        cpu_modes: `mode/host-passthrough`, `mode/host-passthrough/on`.
        features: names of those with supported='yes', with enum values as `feature/value`.
    """

    arch: str
    hypervisor_type: str
    devices: tuple[str, ...] = ()
    cpu_modes: tuple[str, ...] = ()
    features: tuple[str, ...] = ()


class DomainState(IntEnum):
    """virDomainState."""

    NOSTATE = 0
    RUNNING = 1
    BLOCKED = 2
    PAUSED = 3
    SHUTDOWN = 4
    SHUTOFF = 5
    CRASHED = 6
    PMSUSPENDED = 7


@dataclass(frozen=True, slots=True)
class MemoryNode:
    """Memory of one guest cell and the host cells that it may come from (`numatune`).

    Args:
        memory_bytes: of the guest cell.
        host_cells: ids of the host's cells; empty when this guest cell is not bound.
    """

    memory_bytes: int
    host_cells: frozenset[int]


@dataclass(frozen=True, slots=True)
class Domain:
    """One domain: identity, state, and what it takes of the host.

    Args:
        uuid: lower case with dashes; Nova's server id for Nova's domains.
        name: libvirt's name.
        active: it has an id, so a process of it exists (running, paused, …).
        state: virDomainState.
        memory_bytes: `<memory>`.
        vcpus: `<vcpu>`, the maximum.
        pins: vCPU number to the host CPUs that it may run on; only those that are pinned.
        memory_nodes: per guest cell when `numatune` binds memory to host cells, else empty; one
            entry with all memory when the guest has no cells.
        problem: why the document could not be read whole; the rest then has safe values.
    """

    uuid: str
    name: str
    active: bool
    state: DomainState
    memory_bytes: int = 0
    vcpus: int = 0
    pins: dict[int, frozenset[int]] = field(default_factory=dict[int, frozenset[int]])
    memory_nodes: tuple[MemoryNode, ...] = ()
    problem: str | None = None


class Lifecycle(IntEnum):
    """virDomainEventType."""

    DEFINED = 0
    UNDEFINED = 1
    STARTED = 2
    SUSPENDED = 3
    RESUMED = 4
    STOPPED = 5
    SHUTDOWN = 6
    PMSUSPENDED = 7
    CRASHED = 8


class EventKind(StrEnum):
    """The domain events that we subscribe to, where the driver has them (virDomainEventID)."""

    LIFECYCLE = "lifecycle"
    REBOOT = "reboot"
    WATCHDOG = "watchdog"
    IO_ERROR = "io-error"  # VIR_DOMAIN_EVENT_ID_IO_ERROR_REASON
    CONTROL_ERROR = "control-error"
    AGENT_LIFECYCLE = "agent-lifecycle"
    MIGRATION_ITERATION = "migration-iteration"
    JOB_COMPLETED = "job-completed"  # QEMU's driver tells of jobs that succeeded only
    MEMORY_FAILURE = "memory-failure"
    MIGRATION_STATUS = "migration-status"  # QEMU's own word; it has an end that failed as well
    DEVICE_CHANGED = "device-changed"  # added, removed, tunable, balloon: the inventory may differ


JobValue = int | bool | str | float


class JobType(StrEnum):
    """virDomainJobType, by the words of Migration's `status.type`; none is `not found`."""

    NONE = "not found"
    BOUNDED = "bounded"
    UNBOUNDED = "unbounded"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class JobStats:
    """Statistics of a domain's job (virDomainGetJobStats).

    Args:
        type: state of the job.
        values: libvirt's typed parameters by their documented names (`time_elapsed`,
            `memory_total`, `operation`, `errmsg`, `success` …), as Python values.
    """

    type: JobType
    values: dict[str, JobValue] = field(default_factory=dict[str, JobValue])

    @property
    def is_migration(self) -> bool:
        """The job moves the domain between hosts (VIR_DOMAIN_JOB_OPERATION_MIGRATION_IN, _OUT)."""
        return self.values.get("operation") in (4, 5)


@dataclass(frozen=True, slots=True)
class DomainEvent:
    """Something happened to a domain.

    Args:
        kind: which subscription told it.
        uuid: of the domain.
        name: of the domain.
        at: when this process received it, UTC.
        type: virDomainEventType of a lifecycle event, else 0.
        detail: virDomainEvent…DetailType of a lifecycle event; the watchdog's or I/O error's
            action; the iteration's number.
        reason: text of an I/O error (`enospc`, `eio`); QEMU's status of a migration (`cancelling`,
            `failed`); else "".
        stats: of a completed job.
    """

    kind: EventKind
    uuid: str
    name: str
    at: datetime
    type: int = 0
    detail: int = 0
    reason: str = ""
    stats: JobStats | None = None


@dataclass(frozen=True, slots=True)
class Connected:
    """The connection stands and its subscriptions are made: list everything now.

    Args:
        versions: of this daemon.
        missing: what this driver does not offer, in words for a person; empty for QEMU.
    """

    versions: Versions
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Disconnected:
    """There is no connection, and why; attempts go on by themselves."""

    reason: str


@dataclass(frozen=True, slots=True)
class Lost:
    """Events came faster than they were read and some were dropped: list everything again."""


Notice = DomainEvent | Connected | Disconnected | Lost


@dataclass(frozen=True, slots=True)
class VcpuStats:
    """Time that one vCPU has run."""

    vcpu: int
    time: timedelta


@dataclass(frozen=True, slots=True)
class BlockStats:
    """Counters of one disk since the domain's start."""

    device: str
    read_bytes: int = 0
    read_requests: int = 0
    write_bytes: int = 0
    write_requests: int = 0


@dataclass(frozen=True, slots=True)
class InterfaceStats:
    """Counters of one network interface since the domain's start."""

    device: str
    receive_bytes: int = 0
    receive_packets: int = 0
    receive_errors: int = 0
    receive_drops: int = 0
    transmit_bytes: int = 0
    transmit_packets: int = 0
    transmit_errors: int = 0
    transmit_drops: int = 0


@dataclass(frozen=True, slots=True)
class DomainStats:
    """One domain's line of virConnectGetAllDomainStats.

    Args:
        memory_bytes: balloon.current, the memory that the guest has now.
        memory_maximum_bytes: balloon.maximum.
        memory_usage_bytes: what the guest uses by its balloon driver; 0 when it does not say.
    """

    uuid: str
    name: str
    state: DomainState
    vcpus: tuple[VcpuStats, ...] = ()
    vcpu_count: int = 0
    memory_bytes: int = 0
    memory_maximum_bytes: int = 0
    memory_usage_bytes: int = 0
    blocks: tuple[BlockStats, ...] = ()
    interfaces: tuple[InterfaceStats, ...] = ()
