"""What the rooms above use of this host's switch: one port, a real class and a fake behind it.

Nothing here changes the switch. Every call has its own deadline, within which it returns a value
or raises; it does not repeat a failed attempt.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Final, Protocol

from hypercobalt.adapters.ovn.logical import Explained, LogicalPort, Wanted
from hypercobalt.adapters.ovs import model
from hypercobalt.adapters.ovs.internals import BridgeOfDatapath, EngineNode, MacTable
from hypercobalt.adapters.ovs.links import KernelBond, Link
from hypercobalt.adapters.ovs.packet import Packet
from hypercobalt.adapters.ovs.rows import Database
from hypercobalt.adapters.ovs.traced import Trace
from hypercobalt.errors import TransientError

DEADLINE: Final = timedelta(seconds=2)
"""Time for one call; a stopped daemon takes a connection and never answers."""

ECHO: Final = timedelta(seconds=4)
"""How often ovsdb-server gets an echo request, with a deadline of DEADLINE."""

RECONNECT: Final = timedelta(seconds=2)
"""Longest wait between two attempts to connect to ovsdb-server."""

TRACE_DEADLINE: Final = timedelta(seconds=10)
"""Time for a trace, which ovs-vswitchd makes on its main thread."""

TRACE_LIMIT: Final = 1024 * 1024
"""Bytes of the longest trace that is read."""


class ProducerFault(StrEnum):
    """Why a producer has given no value."""

    SOCKET_MISSING = "SocketMissing"  # no socket, or no directory of sockets
    CONNECTION_REFUSED = "ConnectionRefused"  # a socket without a listener: kill -9 leaves one
    NOT_PERMITTED = "NotPermitted"
    TIMEOUT = "Timeout"  # connected, but no answer
    CLOSED = "Closed"  # connected, then closed before the answer
    UNKNOWN_COMMAND = "UnknownCommand"  # another version, not a sick daemon
    REFUSED = "Refused"  # an error answer to a known command
    MALFORMED = "Malformed"  # an answer that cannot be read, or is too large
    SCHEMA_UNSUPPORTED = "SchemaUnsupported"  # no database Open_vSwitch, or no table that is needed
    MONITOR_FAILED = "MonitorFailed"
    UNSUPPORTED = "Unsupported"  # a protocol or credentials that this adapter does not have


class SwitchError(TransientError):
    """A producer gave no value.

    Args:
        fault: the kind.
        message: object, value and cause, for a person.
    """

    def __init__(self, fault: ProducerFault, message: str) -> None:
        super().__init__(message)
        self.fault = fault


class Switch(Protocol):
    """Open vSwitch and OVN on this host; calls raise `SwitchError`."""

    def watch(self) -> AsyncGenerator[Database | SwitchError]:
        """The database now, and again after each change of a column that `Database` has.

        Changes within 50 ms come as one; the first after a quiet time comes at once, unless rows
        were added or removed, as ovs-vswitchd fills new ones a moment later. A SwitchError for each
        failed attempt to connect (within RECONNECT of the last), for a connection that ends, and
        for an echo that is late; after one, the whole database once ovsdb-server answers again.
        Consumers that are slow get the newest.
        """
        ...

    async def daemon(self, name: model.DaemonName) -> model.Daemon:
        """The daemon, proven alive by an answer of its own to `version`."""
        ...

    async def statistics(self) -> Mapping[str, Mapping[str, int]]:
        """The column `statistics` of each Interface by UUID, keys as Open vSwitch has them."""
        ...

    # ovs-vswitchd

    async def bridges(self) -> frozenset[str]:
        """Names of the bridges that ovs-vswitchd runs (ofproto/list)."""
        ...

    async def bonds(self) -> tuple[model.BondState, ...]:
        """The bonds that ovs-vswitchd runs (bond/list and bond/show)."""
        ...

    async def flow_counts(self, bridge: str) -> model.FlowCounts:
        """Numbers of flows by OpenFlow's table statistics, which 1.0 and 1.3 to 1.5 all have.

        Args:
            bridge: name.
        """
        ...

    async def flows(self, bridge: str, table: int, *, limit: int) -> tuple[model.Flow, ...]:
        """The flows of one table; Malformed if there are more than `limit`."""
        ...

    async def datapaths(self) -> tuple[model.Datapath, ...]:
        """Counters of every datapath (dpctl/dump-dps, dpctl/show)."""
        ...

    async def upcalls(self) -> tuple[model.Upcalls, ...]:
        """Flows of every datapath and their limit (upcall/show)."""
        ...

    async def pmds(self) -> tuple[model.Pmd, ...]:
        """Threads that poll DPDK's ports (dpif-netdev/pmd-perf-show)."""
        ...

    async def pmd_queues(self) -> tuple[model.PmdQueues, ...]:
        """What these threads poll (dpif-netdev/pmd-rxq-show)."""
        ...

    async def memory(self, name: model.DaemonName) -> Mapping[str, int]:
        """memory/show: `handlers`, `revalidators`, `ofconns` …; a key that is absent is 0."""
        ...

    async def coverage(self, name: model.DaemonName) -> Mapping[str, int]:
        """Totals of coverage/show; an event that never happened is absent."""
        ...

    async def macs(self, bridge: str) -> MacTable:
        """MAC addresses of a bridge (fdb/show, fdb/stats-show); Refused for an unknown bridge."""
        ...

    async def datapath_bridges(self) -> tuple[BridgeOfDatapath, ...]:
        """Every bridge with its ports in the datapath (dpif/show)."""
        ...

    async def trace(
        self, bridge: str, in_port: int, packet: Packet, states: tuple[str, ...] = ()
    ) -> Trace:
        """What becomes of an imaginary packet (ofproto/trace); nothing is sent, nothing learned.

        Takes TRACE_DEADLINE at most; Malformed beyond TRACE_LIMIT, Refused for an unknown bridge.

        Args:
            bridge: that it comes in at.
            in_port: OpenFlow number of the port.
            packet: as `packet.parse_packet` gives it.
            states: what connection tracking answers, each time in turn; `trk,new` after the last.
        """
        ...

    # ovn-controller

    async def controller(self) -> model.ControllerState:
        """connection-status and debug/status."""
        ...

    async def controller_start(self, process: int) -> model.ControllerStart:
        """What this process of ovn-controller was started with; empty where /proc denies it."""
        ...

    async def local_bindings(self) -> tuple[model.LocalBinding, ...]:
        """debug/dump-local-bindings."""
        ...

    async def stopwatches(self) -> tuple[model.Stopwatch, ...]:
        """How long ovn-controller's work takes (stopwatch/show)."""
        ...

    async def zones(self) -> Mapping[str, int]:
        """Zones of connection tracking by logical port or router (ct-zone-list)."""
        ...

    async def engine(self) -> tuple[EngineNode, ...]:
        """How often each part of ovn-controller's work was done (inc-engine/show-stats)."""
        ...

    async def lflow_cache(self) -> Mapping[str, int]:
        """Counters of ovn-controller's cache of logical flows (lflow-cache/show-stats)."""
        ...

    async def southbound(
        self, remote: str, chassis: str, tls: model.TlsFiles | None = None
    ) -> model.Southbound:
        """Generations that the southbound database has.

        Args:
            remote: as `ovn-remote`, which may be several with commas.
            chassis: name of this host's chassis.
            tls: for a remote behind `ssl:`; Unsupported if one of the files cannot be used.
        """
        ...

    async def explain(
        self, remote: str, wanted: Wanted, tls: model.TlsFiles | None = None
    ) -> Explained:
        """Logical flows, ports, networks and hosts that the southbound database has."""
        ...

    async def logical_port(
        self, remote: str, name: str, tls: model.TlsFiles | None = None
    ) -> LogicalPort | None:
        """A logical port that the southbound database has; None if there is none."""
        ...

    async def gateways(
        self, remote: str, datapath: str, tls: model.TlsFiles | None = None
    ) -> tuple[LogicalPort, ...]:
        """Routers' ports on a logical switch, by name."""
        ...

    # the kernel

    async def links(self) -> Mapping[str, Link]:
        """Network devices by name."""
        ...

    async def kernel_bonds(self) -> tuple[KernelBond, ...]:
        """Bonds of the kernel; none where the bonding driver is not loaded."""
        ...

    async def openflow_peers(self, bridge: str) -> int:
        """Established connections to the bridge's OpenFlow socket (`/proc/net/unix`)."""
        ...
