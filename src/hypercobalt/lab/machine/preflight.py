"""Can this machine run a lab? Facts in, readiness out.

`decide` is pure. What is missing is named, with what helps and with what works without it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

PACKAGES: Final = (
    "busybox-static",
    "dbus",
    "fence-agents",
    "ipxe-qemu",
    "ipmitool",
    "iproute2",
    "libvirt-clients",
    "libvirt-daemon-driver-qemu",
    "libvirt-daemon-system",
    "nftables",
    "openvswitch-switch",
    "ovn-central",
    "ovn-host",
    "procps",
    "qemu-system-x86",
    "qemu-utils",
    "seabios",
    "systemd",
    "systemd-container",
    "tcpdump",
)
"""Debian packages of the machine that the hosts and what fences them use."""

MIB: Final = 2**20
HOST_BYTES: Final = 180 * MIB
"""What one host needs without guests: its processes, measured 151 MiB, and 3 MiB on its disk."""
GUEST_BYTES: Final = 256 * MIB
BASE_BYTES: Final = 300 * MIB  # API server, OVN's databases, top of rack
OPENSTACK_BYTES: Final = 2570 * MIB  # its database, its broker and its services, measured
COMPUTE_BYTES: Final = 320 * MIB  # a host's nova-compute and metadata agent
INSTALL_BYTES: Final = 1500 * MIB  # of disk, while the packages are unpacked
DATA_BYTES: Final = 500 * MIB  # of disk: logs, databases, disks of guests
_WHOLE: Final = ("/etc", "/usr", "/var")  # must be on the root file system: hosts see only that


@dataclass(frozen=True, slots=True)
class Machine:
    """Facts about the machine.

    Args:
        root: whether we are root with every right (a container may hold some back).
        debian: whether packages are Debian's or Ubuntu's.
        packages: the installed ones of those that are needed.
        overlay: why an overlay over `/` cannot be mounted; empty when it can.
        network: why bridges and veth pairs cannot be made; empty when they can.
        cgroups: whether control groups can be made.
        fuse: whether `/dev/fuse` is there.
        kvm: whether `/dev/kvm` is there.
        bridge_filter: whether bridged frames pass a packet filter that drops what it forwards.
        tun: whether `/dev/net/tun` is there.
        memory_bytes: available.
        disk_bytes: free in the data directory.
        mounts: mount points of the machine.
    """

    root: bool
    debian: bool
    packages: frozenset[str]
    overlay: str
    network: str
    cgroups: bool
    fuse: bool
    kvm: bool
    tun: bool
    bridge_filter: bool
    memory_bytes: int
    disk_bytes: int
    mounts: frozenset[str]


@dataclass(frozen=True, slots=True)
class Lack:
    """Something that the machine does not have."""

    what: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Readiness:
    """What the machine can run, and what is missing.

    Args:
        install: packages to install first; may be empty.
        lacks: why no host can be booted on this machine.
        shortages: why the requested number does not fit; fewer hosts may.
        notes: differences of this machine.
    """

    install: tuple[str, ...] = ()
    lacks: tuple[Lack, ...] = ()
    shortages: tuple[Lack, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def can_boot(self) -> bool:
        """Whether the hosts can be booted, once `install` is installed."""
        return not self.lacks and not self.shortages


@dataclass(frozen=True, slots=True)
class Demand:
    """What a command will start; processes that run already have their memory.

    Args:
        hosts: how many.
        guests: VMs on the hosts, together.
        base: whether the API server and OVN's databases are started.
        is_new: whether the lab does not exist yet.
        openstack: whether the hosts are computes of an OpenStack.
    """

    hosts: int
    guests: int
    base: bool = True
    is_new: bool = True
    openstack: bool = False


def decide(machine: Machine, demand: Demand) -> Readiness:
    """Judge a machine.

    Args:
        machine: as observed.
        demand: what is wanted of it.
    """
    missing = tuple(name for name in PACKAGES if name not in machine.packages)
    lacks = (*_rights(machine), *_kernel(machine, missing))
    if missing and not machine.debian:
        remedy = f"install the equivalents of these Debian packages: {', '.join(missing)}"
        lacks = (*lacks, Lack("packages cannot be installed: this is not Debian or Ubuntu", remedy))
        missing = ()
    shortages = (*_memory(machine, demand), *_disk(machine, missing, demand))
    return Readiness(missing, lacks, shortages, tuple(_notes(machine)))


def _rights(machine: Machine) -> Iterable[Lack]:
    if not machine.root:
        yield Lack(
            "root rights are missing: hosts need namespaces, mounts and network devices",
            "run it as root, for example with sudo, or in a container started with --privileged",
        )


def _kernel(machine: Machine, missing: tuple[str, ...]) -> Iterable[Lack]:
    # Without root nothing could be tried, and that is reported already.
    if machine.root and machine.overlay:
        yield Lack(
            f"no overlay can be mounted over the root file system: {machine.overlay}",
            "a kernel with overlayfs, and a root file system that it takes as lower layer",
        )
    if machine.root and machine.network and "iproute2" not in missing:
        yield Lack(
            f"no network of hosts can be made: {machine.network}",
            "a kernel with bridge and veth devices, and the right to make network devices",
        )
    if machine.root and not machine.cgroups:
        yield Lack(
            "control groups cannot be made: /sys/fs/cgroup is not writable",
            "mount it writable; in a container, start that with --privileged --cgroupns=host",
        )
    if not machine.fuse:
        yield Lack("/dev/fuse is missing: the hosts could share no disks", "modprobe fuse")
    if not machine.tun:
        yield Lack("/dev/net/tun is missing: guests would have no network", "modprobe tun")
    split = [path for path in _WHOLE if path in machine.mounts]
    if split:
        yield Lack(
            f"{', '.join(split)} has a file system of its own: hosts see only that of /",
            "use a machine, or a container, whose system lies on one file system",
        )


def _memory(machine: Machine, demand: Demand) -> Iterable[Lack]:
    base = BASE_BYTES if demand.base else 0
    host = HOST_BYTES
    if demand.openstack:
        base, host = base + OPENSTACK_BYTES, host + COMPUTE_BYTES
    memory = base + demand.hosts * host + demand.guests * GUEST_BYTES
    if machine.memory_bytes < memory:
        yield Lack(
            f"{memory // MIB} MiB of memory are needed for {demand.hosts} hosts and "
            f"{demand.guests} VMs, {machine.memory_bytes // MIB} MiB are available",
            "request fewer with --hosts and --vms"
            if demand.is_new
            else "free some, or remove a host that is off with `cobalt lab host remove`",
        )


def _disk(machine: Machine, missing: tuple[str, ...], demand: Demand) -> Iterable[Lack]:
    disk = (DATA_BYTES if demand.is_new else 0) + (INSTALL_BYTES if missing else 0)
    if machine.disk_bytes < disk:
        yield Lack(
            f"{disk // MIB} MiB of disk are needed, {machine.disk_bytes // MIB} MiB are free",
            "free some, or name another directory with --data",
        )


def _notes(machine: Machine) -> Iterable[str]:
    if not machine.kvm:
        yield "/dev/kvm is missing: guests run in software (TCG), several times slower"
    if machine.bridge_filter:
        yield (
            "this machine's packet filter drops what it forwards, bridged frames too; if hosts do "
            "not reach each other: sysctl net.bridge.bridge-nf-call-iptables=0"
        )
