"""What the daemons report of this host's switch, converted once.

Each value comes from one producer: a bond's state from ovs-vswitchd, a link (`links.py`) from the
kernel, a row (`rows.py`) from ovsdb-server. Whoever shows a value proves that its producer answers,
so values of two producers are never mixed here.

Source: ovs-vswitchd(8), ovn-controller(8) and their appctl commands; OpenFlow 1.3, section 7.3.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Paths:
    """Where the host keeps what is read.

    Args:
        ovs: run directory of ovsdb-server and ovs-vswitchd, with `db.sock` and pid files.
        ovn: run directory of ovn-controller.
        root: what `/proc` and `/sys` are below; `/` but in tests and containers.
    """

    ovs: Path = Path("/run/openvswitch")
    ovn: Path = Path("/run/ovn")
    root: Path = Path("/")


class DaemonName(StrEnum):
    """The daemons of a switch, as their pid files name them."""

    OVSDB_SERVER = "ovsdb-server"
    VSWITCHD = "ovs-vswitchd"
    OVN_CONTROLLER = "ovn-controller"


@dataclass(frozen=True, slots=True)
class Daemon:
    """A daemon that has just answered.

    Args:
        name: of the daemon.
        pid: of the process that answered, by the socket's peer credentials.
        version: as `3.1.0`.
        started_at: when that process started; None if the kernel does not show it.
    """

    name: DaemonName
    pid: int
    version: str
    started_at: datetime | None = None

    @property
    def run(self) -> tuple[int, datetime | None]:
        """Which run of the daemon: in a container each has the same process id."""
        return self.pid, self.started_at


class LacpStatus(StrEnum):
    """`lacp_status` of bond/show."""

    OFF = "off"
    CONFIGURED = "configured"
    NEGOTIATED = "negotiated"


@dataclass(frozen=True, slots=True)
class BondMember:
    """A member of a bond, as ovs-vswitchd has it.

    Args:
        name: of the interface.
        enabled: whether it may carry traffic.
        active: whether it is the active member, in the mode active-backup.
    """

    name: str
    enabled: bool
    active: bool = False


@dataclass(frozen=True, slots=True)
class BondState:
    """A bond of bond/show; a bond with fewer than two members opened is not in it.

    Args:
        name: of the port.
        mode: `active-backup`, `balance-slb` or `balance-tcp`.
        lacp: how far LACP is.
        fallback: whether `lacp_fallback_ab` is on.
        members: those that ovs-vswitchd could open.
    """

    name: str
    mode: str
    lacp: LacpStatus
    fallback: bool = False
    members: tuple[BondMember, ...] = ()


@dataclass(frozen=True, slots=True)
class FlowCounts:
    """The OpenFlow flows of one bridge, hidden ones left out.

    Args:
        total: over all tables.
        tables: flows by number of the table, empty tables left out.
    """

    total: int
    tables: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class FlowShape:
    """What kind of match and actions a flow has.

    Args:
        pipeline: it matches what an earlier table has set: metadata, registers, tunnels, states of
            connection tracking.
        acts: it has actions; without, it drops.
        resubmits: to another table.
        joins: it is a clause of a conjunction.
    """

    pipeline: bool
    acts: bool
    resubmits: bool
    joins: bool


@dataclass(frozen=True, slots=True)
class Flow:
    """One OpenFlow flow.

    Args:
        table: number of the table.
        cookie: 64 bits.
        priority: of the flow.
        packets: number that it has matched.
        in_port: the port that it matches; None for any.
        outputs: ports that its actions name, from OpenFlow 1.3 on.
        shape: of its match and actions, from OpenFlow 1.3 on.
    """

    table: int
    cookie: int
    priority: int
    packets: int
    in_port: int | None = None
    outputs: tuple[int, ...] = ()
    shape: FlowShape | None = None


@dataclass(frozen=True, slots=True)
class Datapath:
    """A datapath of dpctl/show; counters since ovs-vswitchd (or the kernel's module) started.

    Args:
        name: as `system@ovs-system`.
        hits: packets with a cached flow.
        missed: packets without a cached flow; each is an upcall.
        lost: upcalls that were dropped: packets that are lost.
        flows: in the cache now.
        ports: number of them.
        mask_hits: masks looked up; None where there are none, as in the userspace datapath.
        masks: masks now; None as for `mask_hits`.
    """

    name: str
    hits: int = 0
    missed: int = 0
    lost: int = 0
    flows: int = 0
    ports: int = 0
    mask_hits: int | None = None
    masks: int | None = None


@dataclass(frozen=True, slots=True)
class Upcalls:
    """A datapath of upcall/show.

    Args:
        datapath: as `system@ovs-system`.
        current: flows now.
        maximum: so far.
        limit: beyond which flows are removed.
        dump_duration_ms: of the last dump of all flows.
    """

    datapath: str
    current: int = 0
    maximum: int = 0
    limit: int = 0
    dump_duration_ms: int = 0


@dataclass(frozen=True, slots=True)
class Pmd:
    """A thread of ovs-vswitchd that polls DPDK's ports, of dpif-netdev/pmd-perf-show.

    Args:
        numa: node that it runs on.
        core: that it runs on.
        counters: since ovs-vswitchd started, by their names there, such as `Rx packets`.
    """

    numa: int
    core: int
    counters: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class RxQueue:
    """A receive queue of a port that such a thread polls.

    Args:
        port: its name.
        number: of the queue.
        enabled: it is polled.
        usage: percent of the thread's time; None while there is no measurement.
    """

    port: str
    number: int
    enabled: bool
    usage: int | None


@dataclass(frozen=True, slots=True)
class PmdQueues:
    """What such a thread polls, of dpif-netdev/pmd-rxq-show.

    Args:
        numa: node that it runs on.
        core: that it runs on.
        isolated: only queues that were pinned to it are on it; None where that is not shown.
        overhead: percent of its time that belongs to no queue; None while there is no measurement.
        queues: see there.
    """

    numa: int
    core: int
    isolated: bool | None
    overhead: int | None
    queues: tuple[RxQueue, ...]


@dataclass(frozen=True, slots=True)
class ControllerState:
    """What ovn-controller answers of itself.

    Args:
        connected: whether its session with the southbound database is up; it stays so for a
            server that hangs.
        paused: by debug/pause; None when this version lacks the command.
    """

    connected: bool
    paused: bool | None = None


@dataclass(frozen=True, slots=True)
class Stopwatch:
    """How long a part of ovn-controller's work takes, of stopwatch/show.

    Args:
        name: of the part, such as `flow-generation`.
        samples: how often it was done.
        maximum: milliseconds.
        percentile_95: milliseconds.
        long_term: average of late, in milliseconds.
    """

    name: str
    samples: int
    maximum: int
    percentile_95: float
    long_term: float


@dataclass(frozen=True, slots=True)
class LocalBinding:
    """An entry of ovn-controller's debug/dump-local-bindings.

    Args:
        iface_id: of the interface, which is the logical port's name.
        interface: name of the interface.
        ports: number of logical ports bound; 0 when none has this name.
        is_localport: the logical port is on every chassis, such as that of Neutron's metadata
            agent; none claims it.
    """

    iface_id: str
    interface: str
    ports: int
    is_localport: bool = False


@dataclass(frozen=True, slots=True)
class Southbound:
    """What the southbound database answers.

    Args:
        nb_cfg: generation of the northbound configuration that it has, of SB_Global.
        chassis_nb_cfg: generation that this chassis has reported; None without Chassis_Private.
    """

    nb_cfg: int
    chassis_nb_cfg: int | None = None


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Files of a client of TLS in PEM, by absolute paths in ovn-controller's file system.

    Args:
        private_key: of the certificate.
        certificate: the one that the client shows.
        authority: the CA that has signed the server's certificate.
    """

    private_key: str
    certificate: str
    authority: str


@dataclass(frozen=True, slots=True)
class ControllerStart:
    """What ovn-controller has been started with, besides Open vSwitch's database.

    Args:
        chassis: name of the chassis, which goes before `external_ids:system-id`; "" for none.
        tls: files of its options; the database's SSL row goes before them.
    """

    chassis: str = ""
    tls: TlsFiles | None = None
