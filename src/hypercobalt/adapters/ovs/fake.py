"""A switch in memory: for tests, and for running an agent on a machine without Open vSwitch.

It keeps what `port` promises; one contract test runs on this class and on real daemons. What a
daemon answers is set by its attributes; what each call does while its daemon is away, by `fail`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Mapping

from hypercobalt.adapters.ovn.logical import Explained, LogicalPort, Wanted
from hypercobalt.adapters.ovs import model
from hypercobalt.adapters.ovs.internals import BridgeOfDatapath, EngineNode, MacTable
from hypercobalt.adapters.ovs.links import KernelBond, Link
from hypercobalt.adapters.ovs.packet import Packet
from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError
from hypercobalt.adapters.ovs.rows import Database, SwitchRow
from hypercobalt.adapters.ovs.traced import Action, Pass, Trace, TracedStep

_OVSDB, _VSWITCHD, _CONTROLLER = model.DaemonName
_VERSIONS = {_OVSDB: "3.1.0", _VSWITCHD: "3.1.0", _CONTROLLER: "23.03.1"}


class FakeSwitch:
    """In-memory `Switch`.

    Attributes:
        daemons: that run.
        interface_statistics: of each Interface by UUID.
        flow_table: flows by bridge; a bridge that is not in it does not run.
        bond_states, datapath_states, upcall_states, pmd_states, queue_states: of ovs-vswitchd.
        mac_tables, bridge_states: of ovs-vswitchd; the first by bridge.
        memory_use, coverage_totals: by daemon.
        controller_state, start, bindings, watches: of ovn-controller.
        zone_numbers, engine_nodes, cache_counters: of ovn-controller.
        traces: by the text of the flow; another packet is dropped in table 0.
        southbound_state: of the southbound database; None while it is away.
        explained, logical_ports, routers_ports: of the southbound database; the last two by name
            of the port and by UUID of the switch.
        devices, bonds_of_kernel, peers: of the kernel; the last by bridge.
        calls: how often each call was made.
    """

    def __init__(self, database: Database | None = None) -> None:
        self.daemons = {
            name: model.Daemon(name, 100 + number, _VERSIONS[name])
            for number, name in enumerate(model.DaemonName)
        }
        self.interface_statistics: dict[str, dict[str, int]] = {}
        self.flow_table: dict[str, tuple[model.Flow, ...]] = {}
        self.bond_states: tuple[model.BondState, ...] = ()
        self.datapath_states: tuple[model.Datapath, ...] = ()
        self.pmd_states: tuple[model.Pmd, ...] = ()
        self.queue_states: tuple[model.PmdQueues, ...] = ()
        self.upcall_states: tuple[model.Upcalls, ...] = ()
        self.mac_tables: dict[str, MacTable] = {}
        self.bridge_states: tuple[BridgeOfDatapath, ...] = ()
        self.memory_use: dict[model.DaemonName, dict[str, int]] = {}
        self.coverage_totals: dict[model.DaemonName, dict[str, int]] = {}
        self.controller_state = model.ControllerState(connected=True, paused=False)
        self.start = model.ControllerStart()
        self.bindings: tuple[model.LocalBinding, ...] = ()
        self.watches: tuple[model.Stopwatch, ...] = ()
        self.zone_numbers: dict[str, int] = {}
        self.engine_nodes: tuple[EngineNode, ...] = ()
        self.cache_counters: dict[str, int] = {}
        self.southbound_state: model.Southbound | None = model.Southbound(0)
        self.traces: dict[str, Trace] = {}
        self.explained = Explained()
        self.logical_ports: dict[str, LogicalPort] = {}
        self.routers_ports: dict[str, tuple[LogicalPort, ...]] = {}
        self.devices: dict[str, Link] = {}
        self.bonds_of_kernel: tuple[KernelBond, ...] = ()
        self.peers: dict[str, int] = {}
        self.calls: Counter[str] = Counter()
        self._faults: dict[model.DaemonName, ProducerFault] = {}
        self._database = database or Database("8.3.1", SwitchRow())
        self._changed = asyncio.Event()

    @property
    def database(self) -> Database:
        """What the database has, whether it answers or not."""
        return self._database

    @database.setter
    def database(self, database: Database) -> None:
        self._database = database
        self._notify()

    def fail(
        self, name: model.DaemonName, fault: ProducerFault = ProducerFault.CONNECTION_REFUSED
    ) -> None:
        """Let all that a daemon answers fail, until `recover`."""
        self._faults[name] = fault
        if name is _OVSDB:
            self._notify()

    def recover(self, name: model.DaemonName) -> None:
        """Let a daemon answer again."""
        self._faults.pop(name, None)
        if name is _OVSDB:
            self._notify()

    async def watch(self) -> AsyncGenerator[Database | SwitchError]:
        """Follow; an error comes once, not for each attempt to connect."""
        self.calls["watch"] += 1
        while True:
            changed = self._changed
            fault = self._faults.get(_OVSDB)
            yield self._database if fault is None else _away(_OVSDB, fault)
            await changed.wait()

    async def daemon(self, name: model.DaemonName) -> model.Daemon:
        self._called("daemon", name)
        return self.daemons[name]

    async def statistics(self) -> Mapping[str, Mapping[str, int]]:
        self._called("statistics", _OVSDB)
        return {uuid: dict(numbers) for uuid, numbers in self.interface_statistics.items()}

    # ovs-vswitchd

    async def bridges(self) -> frozenset[str]:
        self._called("bridges", _VSWITCHD)
        return frozenset(self.flow_table)

    async def bonds(self) -> tuple[model.BondState, ...]:
        self._called("bonds", _VSWITCHD)
        return self.bond_states

    async def flow_counts(self, bridge: str) -> model.FlowCounts:
        self._called("flow_counts", _VSWITCHD)
        tables = Counter(flow.table for flow in self._flows_of(bridge))
        return model.FlowCounts(sum(tables.values()), dict(sorted(tables.items())))

    async def flows(self, bridge: str, table: int, *, limit: int) -> tuple[model.Flow, ...]:
        self._called("flows", _VSWITCHD)
        found = tuple(flow for flow in self._flows_of(bridge) if flow.table == table)
        if len(found) > limit:
            raise SwitchError(
                ProducerFault.MALFORMED, f"{bridge}: table {table}: more than {limit} flows"
            )
        return found

    async def datapaths(self) -> tuple[model.Datapath, ...]:
        self._called("datapaths", _VSWITCHD)
        return self.datapath_states

    async def upcalls(self) -> tuple[model.Upcalls, ...]:
        self._called("upcalls", _VSWITCHD)
        return self.upcall_states

    async def pmds(self) -> tuple[model.Pmd, ...]:
        self._called("pmds", _VSWITCHD)
        return self.pmd_states

    async def pmd_queues(self) -> tuple[model.PmdQueues, ...]:
        self._called("pmd_queues", _VSWITCHD)
        return self.queue_states

    async def memory(self, name: model.DaemonName) -> Mapping[str, int]:
        self._called("memory", name)
        return dict(self.memory_use.get(name, {}))

    async def coverage(self, name: model.DaemonName) -> Mapping[str, int]:
        self._called("coverage", name)
        return dict(self.coverage_totals.get(name, {}))

    async def macs(self, bridge: str) -> MacTable:
        self._called("macs", _VSWITCHD)
        if bridge not in self.flow_table:
            raise SwitchError(ProducerFault.REFUSED, f"{bridge}: no such bridge")
        return self.mac_tables.get(bridge, MacTable())

    async def datapath_bridges(self) -> tuple[BridgeOfDatapath, ...]:
        self._called("datapath_bridges", _VSWITCHD)
        return self.bridge_states

    async def trace(
        self, bridge: str, in_port: int, packet: Packet, states: tuple[str, ...] = ()
    ) -> Trace:
        """Trace; flows of the fake drop what they match."""
        del states
        self._called("trace", _VSWITCHD)
        if bridge not in self.flow_table:
            raise SwitchError(ProducerFault.REFUSED, f"{bridge}: unknown bridge")
        if (known := self.traces.get(packet.text(in_port))) is not None:
            return known
        flows = [one for one in self.flow_table[bridge] if one.in_port in {None, in_port}]
        first = max(
            (one for one in flows if not one.table), key=lambda one: one.priority, default=None
        )
        step = TracedStep(bridge, 0, actions=(Action("drop"),))
        if first is not None:
            match = "" if first.in_port is None else f"in_port={in_port}"
            step = TracedStep(bridge, 0, match, first.priority, first.cookie, step.actions)
        text = packet.text(in_port)
        return Trace((Pass("", text, (step,), "unchanged", "", "drop"),))

    # ovn-controller

    async def controller(self) -> model.ControllerState:
        self._called("controller", _CONTROLLER)
        return self.controller_state

    async def controller_start(self, process: int) -> model.ControllerStart:
        del process
        self.calls["controller_start"] += 1
        return self.start

    async def local_bindings(self) -> tuple[model.LocalBinding, ...]:
        self._called("local_bindings", _CONTROLLER)
        return self.bindings

    async def stopwatches(self) -> tuple[model.Stopwatch, ...]:
        self._called("stopwatches", _CONTROLLER)
        return self.watches

    async def zones(self) -> Mapping[str, int]:
        self._called("zones", _CONTROLLER)
        return dict(self.zone_numbers)

    async def engine(self) -> tuple[EngineNode, ...]:
        self._called("engine", _CONTROLLER)
        return self.engine_nodes

    async def lflow_cache(self) -> Mapping[str, int]:
        self._called("lflow_cache", _CONTROLLER)
        return dict(self.cache_counters)

    async def southbound(
        self, remote: str, chassis: str, tls: model.TlsFiles | None = None
    ) -> model.Southbound:
        del chassis, tls
        return self._southbound("southbound", remote)

    async def explain(
        self, remote: str, wanted: Wanted, tls: model.TlsFiles | None = None
    ) -> Explained:
        del tls
        self._southbound("explain", remote)
        found = self.explained
        return Explained(
            {key: one for key, one in found.flows.items() if key in wanted.cookies},
            {key: one for key, one in found.ports.items() if key in wanted.cookies},
            {key: one for key, one in found.datapaths.items() if key in wanted.datapaths},
            {key: one for key, one in found.hosts.items() if key in wanted.chassis},
        )

    async def logical_port(
        self, remote: str, name: str, tls: model.TlsFiles | None = None
    ) -> LogicalPort | None:
        del tls
        self._southbound("logical_port", remote)
        return self.logical_ports.get(name)

    async def gateways(
        self, remote: str, datapath: str, tls: model.TlsFiles | None = None
    ) -> tuple[LogicalPort, ...]:
        del tls
        self._southbound("gateways", remote)
        return self.routers_ports.get(datapath, ())

    # the kernel

    async def links(self) -> Mapping[str, Link]:
        self.calls["links"] += 1
        return dict(self.devices)

    async def kernel_bonds(self) -> tuple[KernelBond, ...]:
        self.calls["kernel_bonds"] += 1
        return self.bonds_of_kernel

    async def openflow_peers(self, bridge: str) -> int:
        self.calls["openflow_peers"] += 1
        return self.peers.get(bridge, 0)

    def _called(self, call: str, name: model.DaemonName) -> None:
        self.calls[call] += 1
        if fault := self._faults.get(name):
            raise _away(name, fault)

    def _southbound(self, call: str, remote: str) -> model.Southbound:
        self.calls[call] += 1
        if self.southbound_state is None:
            raise SwitchError(ProducerFault.CONNECTION_REFUSED, f"{remote}: connection refused")
        return self.southbound_state

    def _flows_of(self, bridge: str) -> tuple[model.Flow, ...]:
        if bridge not in self.flow_table:
            raise SwitchError(ProducerFault.SOCKET_MISSING, f"{bridge}.mgmt: no such socket")
        return self.flow_table[bridge]

    def _notify(self) -> None:
        # A reader holds the old event, which is set once and for good; the next event is new.
        self._changed.set()
        self._changed = asyncio.Event()


def _away(name: model.DaemonName, fault: ProducerFault) -> SwitchError:
    return SwitchError(fault, f"{name}: made to fail by the test")
