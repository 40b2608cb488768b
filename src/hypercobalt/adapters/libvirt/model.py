"""What libvirt reports about a host and its domains, converted once: bytes, sets, enums.

Source: libvirt's capabilities, domain-capabilities and domain XML formats; libvirt-domain.h.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final

from hypercobalt.adapters.libvirt.vocabulary import (
    ControlState,
    DiskFault,
    PausedReason,
    ShutoffReason,
)


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
        uuid: of the host, lower case; "" when libvirt has none.
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
        features: names of those with supported='yes'.
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
class Disk:
    """A disk, CD-ROM or floppy of a domain.

    Args:
        target: name in the guest, `vda`.
        device: `disk`, `cdrom`, `floppy` or `lun`.
        path: of the file or block device on the host; "" for empty drives, for network disks, and
            for disks of all other kinds, which are among what ties the domain to its host.
        block: the path is a block device.
        readonly: the guest cannot write to it.
        volume: what it is on the network or in a pool, `rbd:pool/image`; "" for a path.
        backing: files of the images that it is built upon.
    """

    target: str
    device: str = "disk"
    path: str = ""
    block: bool = False
    readonly: bool = False
    volume: str = ""
    backing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Devices:
    """Properties of a domain that decide whether and how it can migrate.

    Args:
        disks: all of them.
        ports: interface ids of its Open vSwitch ports.
        plugged: devices of interfaces that another tool plugs into a switch, such as `tap1`.
        bound: what ties it to its host, such as `host device pci 0000:3b:00.0`: every part of the
            definition that is not known to be portable (`documents.portable`).
        nvram: file of its firmware's variables; "" without one.
        kernels: files of the kernel and the initial RAM disk that it boots directly.
        logs: files that keep what its serial ports, consoles and channels print.
        sockets: sockets of these on the host.
    """

    disks: tuple[Disk, ...] = ()
    ports: tuple[str, ...] = ()
    plugged: tuple[str, ...] = ()
    bound: tuple[str, ...] = ()
    nvram: str = ""
    kernels: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()
    sockets: tuple[str, ...] = ()


MIGRATION_IN: Final = 4
MIGRATION_OUT: Final = 5
"""virDomainJobOperation."""

JobValue = int | bool | str | float


class JobType(StrEnum):
    """virDomainJobType, by the values of Migration's `status.type`; none is `not found`."""

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
    def is_incoming(self) -> bool:
        """The job is the far end of a migration (VIR_DOMAIN_JOB_OPERATION_MIGRATION_IN)."""
        return self.values.get("operation") == MIGRATION_IN

    @property
    def is_outgoing(self) -> bool:
        """The job moves the domain away (VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT)."""
        return self.values.get("operation") == MIGRATION_OUT

    @property
    def is_running(self) -> bool:
        return self.type in {JobType.BOUNDED, JobType.UNBOUNDED}


@dataclass(frozen=True, slots=True)
class Evacuated:
    """From where a domain was evacuated, as its definition has it.

    Args:
        host: that it was on.
        boot: id of the boot that has ended there.
        pending: it has not been started here yet.
        seal: what proves whose the mark is; see `compute/direct/marks.py`.
    """

    host: str
    boot: str
    pending: bool = False
    seal: str = field(default="", compare=False)


_BY_OWNER = frozenset({PausedReason.UNKNOWN, PausedReason.USER, PausedReason.FROM_SNAPSHOT})


@dataclass(frozen=True, slots=True)
class Domain:
    """One domain: identity, state, what it takes of the host, and its devices.

    Args:
        uuid: lower case with dashes; Nova's server id for Nova's domains.
        name: libvirt's name.
        active: it has an id, so it has a process (running, paused, …).
        state: virDomainState.
        reason: of the state, a number of the enum in `vocabulary` that belongs to it. The reasons
            of domains that are off live in the daemon's memory: 0 after the host has booted.
        id: of the present start, the same for as long as its process lives; -1 while it is off.
        memory_bytes: `<memory>`.
        vcpus: `<vcpu>`, the maximum.
        pins: vCPU number to the host CPUs that it may run on; only those that are pinned.
        memory_nodes: per guest cell when `numatune` binds memory to host cells, else empty; one
            entry with all memory when the guest has no cells.
        devices: see there.
        problem: why the document could not be read whole; the rest then has safe values.
        saved: its memory lies in a file on the host, to be loaded at its next start.
        evacuated: why it is here, if it was started again after its host had died.
        earlier: the same for the hosts before that one, the latest first.
        job: what it does now; only in a listing with jobs.
    """

    uuid: str
    name: str
    active: bool
    state: DomainState
    memory_bytes: int = 0
    vcpus: int = 0
    pins: dict[int, frozenset[int]] = field(default_factory=dict[int, frozenset[int]])
    memory_nodes: tuple[MemoryNode, ...] = ()
    devices: Devices = Devices()
    problem: str | None = None
    saved: bool = False
    evacuated: Evacuated | None = None
    earlier: tuple[Evacuated, ...] = ()
    job: JobStats | None = None
    reason: int = 0
    id: int = -1

    @property
    def marks(self) -> tuple[Evacuated, ...]:
        """From which hosts it was evacuated, the last one first."""
        return (*((self.evacuated,) if self.evacuated else ()), *self.earlier)

    @property
    def halted(self) -> bool:
        """Its owner has suspended it, or its guest sleeps: its memory is all that goes on.

        libvirtd has no reason for a pause that it finds after its restart.
        """
        if self.state is DomainState.PMSUSPENDED:
            return True
        return self.state is DomainState.PAUSED and self.reason in _BY_OWNER

    @property
    def crashed(self) -> bool:
        """Its process has ended by itself, and no memory of it was saved.

        Known until libvirtd restarts, or the host does.
        """
        if self.active or self.saved:
            return False
        return self.state is DomainState.SHUTOFF and self.reason == ShutoffReason.CRASHED

    @property
    def paused_by_migration(self) -> bool:
        """A migration pauses it, on either end."""
        return self.state is DomainState.PAUSED and self.reason == PausedReason.MIGRATION

    @property
    def moving_in(self) -> bool:
        """Whether the domain is the far end of a migration and does not run here yet."""
        return self.paused_by_migration and self.job is not None and self.job.is_incoming

    @property
    def moving_out(self) -> bool:
        """Whether the domain migrates to another host now."""
        return self.job is not None and self.job.is_running and self.job.is_outgoing

    @property
    def held(self) -> bool:
        """A migration that has ended has left it paused on this host."""
        return self.paused_by_migration and not self.moving_in and not self.moving_out


@dataclass(frozen=True, slots=True)
class MigrationOptions:
    """How a domain migrates to another daemon.

    Args:
        destination: URI by which this daemon reaches the other one.
        stream: URI of the memory's own stream, `tcp://192.0.2.1`; "" leaves it to libvirt.
        copies: targets of the disks that are copied along.
        tls: QEMU encrypts its own streams, by its certificates.
        running: document that the target gets of the domain as it runs; "": the source's own.
        defined: the same of its definition. Neither may be logged.
    """

    destination: str
    stream: str = ""
    copies: tuple[str, ...] = ()
    tls: bool = False
    running: str = field(default="", repr=False)
    defined: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class DomainDocument:
    """The whole document of a domain that is off, to be defined elsewhere.

    Args:
        xml: with the passwords that libvirt otherwise hides; never to be logged.
        autostart: it is started with its host.
        validated: libvirt refuses what its schema does not know, which it drops otherwise.
    """

    xml: str = field(repr=False)
    autostart: bool
    validated: bool = False


@dataclass(frozen=True, slots=True)
class ControlInfo:
    """The way from libvirt to a domain's emulator (virDomainGetControlInfo).

    Args:
        state: `OCCUPIED` while a call waits for the emulator, `ERROR` once it is lost for good.
        seconds: for which it has been a job or occupied; else 0.
    """

    state: ControlState
    seconds: float = 0


@dataclass(frozen=True, slots=True)
class DiskError:
    """A disk whose errors have paused its domain.

    Args:
        target: name in the guest, `vda`.
        fault: what is wrong with it.
    """

    target: str
    fault: DiskFault
