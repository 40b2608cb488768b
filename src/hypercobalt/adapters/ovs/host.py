"""The switch of this host: every call of the port, with its deadline.

A daemon serves one command at a time, and one that hangs would let each call wait its whole
deadline: after a call that was not answered, further ones to this daemon fail at once for as long,
except the one that proves whether it lives.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final, TypeVar

from hypercobalt.adapters.ovn import southbound
from hypercobalt.adapters.ovn.logical import Explained, LogicalPort, Wanted
from hypercobalt.adapters.ovs import database, kernel, ovsdb, startup
from hypercobalt.adapters.ovs.daemons import DaemonSocket, Process, started_at, version_of
from hypercobalt.adapters.ovs.internals import BridgeOfDatapath, EngineNode, MacTable
from hypercobalt.adapters.ovs.links import KernelBond, Link
from hypercobalt.adapters.ovs.model import (
    BondState,
    ControllerStart,
    ControllerState,
    Daemon,
    DaemonName,
    Datapath,
    Flow,
    FlowCounts,
    LocalBinding,
    Paths,
    Pmd,
    PmdQueues,
    Southbound,
    Stopwatch,
    TlsFiles,
    Upcalls,
)
from hypercobalt.adapters.ovs.openflow import statistics
from hypercobalt.adapters.ovs.packet import Packet
from hypercobalt.adapters.ovs.port import TRACE_DEADLINE, TRACE_LIMIT, ProducerFault, SwitchError
from hypercobalt.adapters.ovs.remote import Remote, parse_remotes
from hypercobalt.adapters.ovs.rows import Database
from hypercobalt.adapters.ovs.schema import Column
from hypercobalt.adapters.ovs.text import bonds, bridges, controller, counters, datapaths, pmd
from hypercobalt.adapters.ovs.text.trace import named, parse_trace
from hypercobalt.adapters.ovs.tls import client_context
from hypercobalt.adapters.ovs.traced import Trace
from hypercobalt.adapters.ovs.watch import WatchPace, watch
from hypercobalt.errors import ConfigurationError

_MAP: Final = Column("string", is_map=True)
_UNNAMED: Final = "--names: unknown option"
"""Error of a switch before 3.1, which cannot name ports in a trace."""
_SHOWN: Final = 200  # characters of a name in a message
_LINGERS: Final = 0.5  # seconds until ovs-vswitchd has closed a connection that we have closed
T = TypeVar("T")


class HostSwitch:
    """Open vSwitch and OVN on this host; see `port.Switch`.

    Args:
        paths: where the host keeps what is read.
        pace: of all calls, and of following the database.
    """

    def __init__(self, paths: Paths, *, pace: WatchPace | None = None) -> None:
        self._paths, self._pace = paths, pace or WatchPace()
        self._silent_until: dict[DaemonName, float] = {}
        self._started: dict[DaemonName, tuple[Process, datetime | None]] = {}
        self._own: Counter[str] = Counter()  # connections of ours, by OpenFlow socket

    def watch(self) -> AsyncGenerator[Database | SwitchError]:
        return watch(self._paths.ovs / "db.sock", self._pace)

    async def daemon(self, name: DaemonName) -> Daemon:
        control, process = await self._socket(name).connect(deadline=self._pace.deadline)
        with closing(control):
            reply = await control.run("version", deadline=self._pace.deadline)
        self._silent_until.pop(name, None)
        # An answer proves that it lives; a form of version unknown here is no fault of the daemon.
        return Daemon(name, process.pid, version_of(reply) or "", self._started_at(name, process))

    async def statistics(self) -> Mapping[str, Mapping[str, int]]:
        query = {"table": "Interface", "where": [], "columns": ["_uuid", "statistics"]}
        (rows,) = await ovsdb.select(
            self._database, database.NAME, [query], deadline=self._pace.deadline
        )
        try:
            return {_uuid(row): _numbers(row) for row in rows}
        except (KeyError, ValueError, TypeError, IndexError) as exc:
            raise SwitchError(
                ProducerFault.MALFORMED, f"statistics of an interface: {exc}"
            ) from exc

    # ovs-vswitchd

    async def bridges(self) -> frozenset[str]:
        return frozenset((await self._run(DaemonName.VSWITCHD, "ofproto/list")).splitlines())

    async def bonds(self) -> tuple[BondState, ...]:
        return bonds.parse_bonds(await self._run(DaemonName.VSWITCHD, "bond/show"))

    async def flow_counts(self, bridge: str) -> FlowCounts:
        """Agree with the switch on the version that is spoken."""
        socket = self._management(bridge)
        with self._connected(bridge), self._sparing(DaemonName.VSWITCHD, f"statistics of {bridge}"):
            return await statistics.flow_counts(socket, deadline=self._pace.deadline)

    async def flows(self, bridge: str, table: int, *, limit: int) -> tuple[Flow, ...]:
        socket, deadline = self._management(bridge), self._pace.deadline
        with self._connected(bridge), self._sparing(DaemonName.VSWITCHD, f"flows of {bridge}"):
            return await statistics.flows(socket, table, limit=limit, deadline=deadline)

    async def datapaths(self) -> tuple[Datapath, ...]:
        return datapaths.parse_datapaths(await self._run(DaemonName.VSWITCHD, "dpctl/show"))

    async def upcalls(self) -> tuple[Upcalls, ...]:
        return datapaths.parse_upcalls(await self._run(DaemonName.VSWITCHD, "upcall/show"))

    async def pmds(self) -> tuple[Pmd, ...]:
        return pmd.parse_pmds(await self._of_user_space(pmd.COMMAND))

    async def pmd_queues(self) -> tuple[PmdQueues, ...]:
        return pmd.parse_queues(await self._of_user_space(pmd.QUEUES))

    async def _of_user_space(self, command: str) -> str:
        """The reply to a command of the datapath in user space; "" where no bridge is there."""
        try:
            return await self._run(DaemonName.VSWITCHD, command)
        except SwitchError as exc:
            if exc.fault is not ProducerFault.REFUSED:
                raise
            return ""

    async def memory(self, name: DaemonName) -> Mapping[str, int]:
        return counters.parse_memory(await self._run(name, "memory/show"))

    async def coverage(self, name: DaemonName) -> Mapping[str, int]:
        return counters.parse_coverage(await self._run(name, "coverage/show"))

    async def macs(self, bridge: str) -> MacTable:
        entries = await self._run(DaemonName.VSWITCHD, "fdb/show", bridge)
        counted = await self._run(DaemonName.VSWITCHD, "fdb/stats-show", bridge)
        return MacTable(bridges.parse_macs(entries), bridges.parse_mac_counters(counted))

    async def datapath_bridges(self) -> tuple[BridgeOfDatapath, ...]:
        return bridges.parse_dpif(await self._run(DaemonName.VSWITCHD, "dpif/show"))

    async def trace(
        self, bridge: str, in_port: int, packet: Packet, states: tuple[str, ...] = ()
    ) -> Trace:
        next_states = (word for state in states for word in ("--ct-next", state))
        arguments = (bridge, packet.text(in_port), *next_states)
        try:
            return parse_trace(await self._traced("--names", *arguments))
        except SwitchError as exc:
            if exc.fault is not ProducerFault.REFUSED or _UNNAMED not in str(exc):
                raise
        text = await self._traced(*arguments)
        return named(parse_trace(text), await self.datapath_bridges())

    async def _traced(self, *arguments: str) -> str:
        name, deadline = DaemonName.VSWITCHD, TRACE_DEADLINE.total_seconds()
        with self._sparing(name, "trace"):
            control, _ = await self._socket(name).connect(
                deadline=self._pace.deadline, limit=TRACE_LIMIT
            )
            with closing(control):
                return await control.run("ofproto/trace", *arguments, deadline=deadline)

    # ovn-controller

    async def controller(self) -> ControllerState:
        connected = await self._run(DaemonName.OVN_CONTROLLER, "connection-status")
        try:
            paused = await self._run(DaemonName.OVN_CONTROLLER, "debug/status")
        except SwitchError as exc:
            if exc.fault is not ProducerFault.UNKNOWN_COMMAND:
                raise
            return ControllerState(controller.parse_connected(connected))
        return ControllerState(
            controller.parse_connected(connected), controller.parse_paused(paused)
        )

    async def controller_start(self, process: int) -> ControllerStart:
        return await asyncio.to_thread(startup.controller_start, self._proc, process)

    async def local_bindings(self) -> tuple[LocalBinding, ...]:
        text = await self._run(DaemonName.OVN_CONTROLLER, "debug/dump-local-bindings")
        return controller.parse_local_bindings(text)

    async def stopwatches(self) -> tuple[Stopwatch, ...]:
        text = await self._run(DaemonName.OVN_CONTROLLER, "stopwatch/show")
        return controller.parse_stopwatches(text)

    async def zones(self) -> Mapping[str, int]:
        return controller.parse_zones(await self._run(DaemonName.OVN_CONTROLLER, "ct-zone-list"))

    async def engine(self) -> tuple[EngineNode, ...]:
        text = await self._run(DaemonName.OVN_CONTROLLER, "inc-engine/show-stats")
        return controller.parse_engine(text)

    async def lflow_cache(self) -> Mapping[str, int]:
        text = await self._run(DaemonName.OVN_CONTROLLER, "lflow-cache/show-stats")
        return controller.parse_lflow_cache(text)

    async def southbound(
        self, remote: str, chassis: str, tls: TlsFiles | None = None
    ) -> Southbound:
        where = [["name", "==", chassis]]
        queries = (
            {"table": "SB_Global", "where": [], "columns": ["nb_cfg"]},
            {"table": "Chassis_Private", "where": where, "columns": ["nb_cfg"]},
        )

        async def read(select: ovsdb.Select) -> Southbound:
            globally, privately = await select(queries)
            return Southbound(_nb_cfg(globally) or 0, _nb_cfg(privately))

        return await self._southbound(remote, tls, read)

    async def explain(self, remote: str, wanted: Wanted, tls: TlsFiles | None = None) -> Explained:
        return await self._southbound(
            remote, tls, lambda select: southbound.explain(select, wanted)
        )

    async def logical_port(
        self, remote: str, name: str, tls: TlsFiles | None = None
    ) -> LogicalPort | None:
        return await self._southbound(
            remote, tls, lambda select: southbound.logical_port(select, name)
        )

    async def gateways(
        self, remote: str, datapath: str, tls: TlsFiles | None = None
    ) -> tuple[LogicalPort, ...]:
        return await self._southbound(
            remote, tls, lambda select: southbound.gateways(select, datapath)
        )

    # the kernel

    async def links(self) -> Mapping[str, Link]:
        return await asyncio.to_thread(kernel.links, self._paths.root)

    async def kernel_bonds(self) -> tuple[KernelBond, ...]:
        return await asyncio.to_thread(kernel.bonds, self._net())

    async def openflow_peers(self, bridge: str) -> int:
        """Count the connections of controllers: those of this process are left out."""
        own = self._own[bridge]
        found = await asyncio.to_thread(kernel.peers, self._net(), f"{bridge}.mgmt")
        return max(0, found - max(own, self._own[bridge]))

    @property
    def _database(self) -> Remote:
        return Remote("unix", str(self._paths.ovs / "db.sock"))

    def _management(self, bridge: str) -> Path:
        """The socket of a bridge.

        Raises:
            SwitchError: SOCKET_MISSING, for a name that leads elsewhere.
        """
        if "/" in bridge:  # ovs-vswitchd makes no such bridge
            text = f"no bridge has this name: {bridge[:_SHOWN]!r}"
            raise SwitchError(ProducerFault.SOCKET_MISSING, text)
        return self._paths.ovs / f"{bridge}.mgmt"

    def _socket(self, name: DaemonName) -> DaemonSocket:
        rundir = self._paths.ovn if name is DaemonName.OVN_CONTROLLER else self._paths.ovs
        return DaemonSocket(name, rundir, self._proc)

    @property
    def _proc(self) -> Path:
        return self._paths.root / "proc"

    def _files(self) -> Path:
        """The root of ovn-controller's file system, which may be in a container."""
        known = self._started.get(DaemonName.OVN_CONTROLLER)
        return startup.file_system(self._proc, known[0].pid) if known else self._paths.root

    def _net(self) -> Path:
        """The `net` directory of ovs-vswitchd's network namespace, else of ours."""
        proc = self._proc
        known = self._started.get(DaemonName.VSWITCHD)
        # In a container, the pid file has another number than the process has here.
        process = known[0].pid if known else self._socket(DaemonName.VSWITCHD).recorded()
        of_process = proc / str(process) / "net"
        return of_process if process and of_process.exists() else proc / "net"

    async def _southbound(
        self, remote: str, tls: TlsFiles | None, read: Callable[[ovsdb.Select], Awaitable[T]]
    ) -> T:
        """Read at the first server that answers."""
        servers = self._servers(remote)
        context = None
        if any(server.kind == "ssl" for server in servers):
            if tls is None:
                text = f"{remote}: neither a row of SSL nor an option of ovn-controller has its key"
                raise SwitchError(ProducerFault.UNSUPPORTED, text)
            context = await asyncio.to_thread(client_context, tls, self._files())
        deadline = self._pace.deadline / len(servers)
        failures: list[SwitchError] = []
        for server in servers:
            connection = ovsdb.selecting(server, southbound.NAME, deadline=deadline, tls=context)
            try:
                async with connection as select:
                    return await read(select)
            except SwitchError as exc:
                failures.append(exc)
        raise SwitchError(failures[-1].fault, "; ".join(str(one) for one in failures))

    def _servers(self, remote: str) -> tuple[Remote, ...]:
        try:
            return parse_remotes(remote)
        except ConfigurationError as exc:
            raise SwitchError(ProducerFault.UNSUPPORTED, str(exc)) from exc

    async def _run(self, name: DaemonName, command: str, *arguments: str) -> str:
        with self._sparing(name, command):
            control, _ = await self._socket(name).connect(deadline=self._pace.deadline)
            with closing(control):
                return await control.run(command, *arguments, deadline=self._pace.deadline)

    @contextmanager
    def _sparing(self, name: DaemonName, what: str) -> Generator[None]:
        """Make a call to a daemon, unless it has left another one unanswered just now."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._silent_until.get(name, 0.0):
            raise SwitchError(
                ProducerFault.TIMEOUT, f"{name}: {what} not sent: the daemon does not answer"
            )
        try:
            yield
        except SwitchError as exc:
            if exc.fault is ProducerFault.TIMEOUT:
                self._silent_until[name] = loop.time() + self._pace.deadline
            raise

    @contextmanager
    def _connected(self, bridge: str) -> Generator[None]:
        """Count a connection of ours, for as long as ovs-vswitchd may have it."""
        self._own[bridge] += 1
        try:
            yield
        finally:
            asyncio.get_running_loop().call_later(_LINGERS, self._left, bridge)

    def _left(self, bridge: str) -> None:
        self._own[bridge] -= 1
        if not self._own[bridge]:
            del self._own[bridge]

    def _started_at(self, name: DaemonName, process: Process) -> datetime | None:
        """When a process started; the same for as long as it runs, although the clock is set."""
        known = self._started.get(name)
        if known is None or known[0] != process:
            known = process, started_at(self._proc / "stat", process.ticks)
            self._started[name] = known
        return known[1]


def _uuid(row: Mapping[str, object]) -> str:
    return str(Column("uuid").decode(row["_uuid"]))


def _numbers(row: Mapping[str, object]) -> dict[str, int]:
    found = _MAP.decode(row["statistics"])
    pairs = found.items() if isinstance(found, Mapping) else ()
    return {key: int(value) for key, value in pairs}


def _nb_cfg(rows: list[dict[str, object]]) -> int | None:
    value = rows[0].get("nb_cfg") if rows else None
    return value if isinstance(value, int) else None
