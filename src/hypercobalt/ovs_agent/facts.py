"""What is known of the switch at one moment, each value with the proof that its producer answers.

A value is proven until its producer has failed twice in a row; then it counts as unknown, however
healthy it looks. What ovs-vswitchd writes into OVSDB stays there when it dies, so such a value
needs two proofs: of ovsdb-server and of ovs-vswitchd. And while ovsdb-server does not run,
ovs-vswitchd answers and does not work: its bonds and bridges are those of before.

Pure: the shell that reads is `observing.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Generic, TypeVar

from hypercobalt.adapters.ovs.links import KernelBond, Link
from hypercobalt.adapters.ovs.model import (
    BondState,
    ControllerStart,
    ControllerState,
    Daemon,
    Flow,
    FlowCounts,
    LocalBinding,
    Southbound,
)
from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError
from hypercobalt.adapters.ovs.rows import BridgeRow, Database, InterfaceRow, SwitchRow
from hypercobalt.ovs_agent.flow_scan import TableScan
from hypercobalt.ovs_agent.ovn_settings import OvnSettings, ovn_settings

T = TypeVar("T")

_NOT_RUNNING: Final = frozenset(
    {ProducerFault.SOCKET_MISSING, ProducerFault.CONNECTION_REFUSED, ProducerFault.CLOSED}
)

DOWN_AFTER: Final = 2
"""Failures in a row after which a producer counts as away; one answer brings it back."""


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """What one producer has answered of late.

    Args:
        value: the last answer; None when there has been none.
        failures: in a row, since then.
        fault: of the last failure.
        message: of the last failure.
        since: of the first failure in a row, UTC.
    """

    value: T | None = None
    failures: int = 0
    fault: ProducerFault | None = None
    message: str = ""
    since: datetime | None = None

    @property
    def proven(self) -> T | None:
        """The value, while its producer answers."""
        return None if self.is_down else self.value

    @property
    def is_down(self) -> bool:
        """Whether the producer counts as away."""
        return self.failures >= DOWN_AFTER

    @property
    def answers(self) -> bool | None:
        """Whether the producer answers; None before its first answer."""
        if self.is_down:
            return False
        return True if self.value is not None else None

    def failed(self, error: SwitchError, now: datetime) -> Reading[T]:
        """This reading after one more failure."""
        return replace(
            self,
            # Beyond what counts, failures are not distinguished, so that facts stay equal.
            failures=min(self.failures + 1, DOWN_AFTER),
            fault=error.fault,
            message=str(error),
            since=self.since or now,
        )


def is_unsupported(reading: Reading[T]) -> bool:
    """Whether this agent has no means to read it, as with `ssl:` and no certificate."""
    return reading.is_down and reading.fault is ProducerFault.UNSUPPORTED


@dataclass(frozen=True, slots=True)
class Sample:
    """Packets of ports at one moment, as the device and as the switch count them.

    Args:
        pid: of ovs-vswitchd, whose restart resets counters and numbers ports again.
        received: packets that the device has delivered, by UUID of the Interface.
        ofports: numbers of the ports then, by UUID of the Interface.
        matched: packets that flows of table 0 with this `in_port` have matched.
        others: packets that flows of table 0 for any port have matched, the table's default apart.
    """

    pid: int
    received: Mapping[str, int]
    ofports: Mapping[str, int]
    matched: Mapping[int, int]
    others: int = 0


@dataclass(frozen=True, slots=True)
class SuspectTrace:
    """What becomes of a broadcast from a port that a suspicion is about.

    Args:
        text: as `cobalt trace` has it, such as `dropped in table 0 of br-int`.
        ends_at_once: a flow of table 0 stops it, so the port's own flow does not get it.
    """

    text: str
    ends_at_once: bool = False


@dataclass(frozen=True, slots=True)
class SwitchFacts:
    """All input of the rules.

    Args:
        database: rows; proven by ovsdb-server's echo.
        ovsdb_server: the daemon.
        vswitchd: the daemon.
        ovn_controller: the daemon.
        running: names of the bridges that ovs-vswitchd runs.
        bonds: of ovs-vswitchd.
        flows: by name of the bridge.
        classifier: flows of table 0 of the integration bridge.
        scans: of the integration bridge's flows, by table.
        statistics: counters by UUID of the Interface.
        controller: what ovn-controller reports of itself.
        start: what ovn-controller was started with.
        bindings: of ovn-controller.
        southbound: what the southbound database answers to the agent itself.
        probes_southbound: whether the agent sends requests to it.
        links: devices of the kernel.
        kernel_bonds: bonds of the kernel.
        openflow_peers: connections to the integration bridge's OpenFlow socket.
        samples: of traffic, oldest first, three at most.
        traces: of suspect ports, the first suspect first, by UUID of the Interface.
        instances: whether each instance of this host runs, by UUID; None when the node agent does
            not report.
        wanted: ports of each instance that runs, by its UUID: interface ids, or names of devices;
            None when the node agent does not report.
        hosted: UUIDs of the Interfaces whose instance has been on this host while they were.
    """

    database: Reading[Database] = Reading()
    ovsdb_server: Reading[Daemon] = Reading()
    vswitchd: Reading[Daemon] = Reading()
    ovn_controller: Reading[Daemon] = Reading()
    running: Reading[frozenset[str]] = Reading()
    bonds: Reading[tuple[BondState, ...]] = Reading()
    flows: Mapping[str, Reading[FlowCounts]] = field(default_factory=dict[str, Reading[FlowCounts]])
    classifier: Reading[tuple[Flow, ...]] = Reading()
    scans: Mapping[int, TableScan] = field(default_factory=dict[int, TableScan])
    statistics: Reading[Mapping[str, Mapping[str, int]]] = Reading()
    controller: Reading[ControllerState] = Reading()
    start: Reading[ControllerStart] = Reading()
    bindings: Reading[tuple[LocalBinding, ...]] = Reading()
    southbound: Reading[Southbound] = Reading()
    probes_southbound: bool = False
    links: Reading[Mapping[str, Link]] = Reading()
    kernel_bonds: Reading[tuple[KernelBond, ...]] = Reading()
    openflow_peers: Reading[int] = Reading()
    samples: tuple[Sample, ...] = ()
    traces: Mapping[str, SuspectTrace] = field(default_factory=dict[str, SuspectTrace])
    instances: Mapping[str, bool] | None = None
    wanted: Mapping[str, tuple[str, ...]] | None = None
    hosted: frozenset[str] = frozenset()

    @property
    def rows(self) -> Database | None:
        """The database, while ovsdb-server answers."""
        return self.database.proven

    @property
    def effective(self) -> Database | None:
        """The database with what ovs-vswitchd writes into it, while both daemons answer."""
        rows = self.rows
        if rows is None or self.vswitchd.proven is None or not rows.is_filled:
            return None
        return rows

    @property
    def ovn(self) -> OvnSettings:
        """OVN's settings of this chassis, by the last rows."""
        database = self.database.value
        return ovn_settings(database.switch if database else SwitchRow(), self.start.value)

    @property
    def is_idle(self) -> bool:
        """Whether ovs-vswitchd waits for an ovsdb-server that does not run.

        Until ovs-vswitchd has its lock in the database again, it runs no bridge: bond/show has the
        old state, no bond fails over, and OpenFlow is not served. A hanging ovsdb-server does no
        harm.

        Source: Open vSwitch, vswitchd/bridge.c, `bridge_run`; measured on 3.1.0.
        """
        return self.database.is_down and self.database.fault in _NOT_RUNNING

    def of_vswitchd(self, reading: Reading[T]) -> T | None:
        """A value that ovs-vswitchd itself has answered, while it answers and works."""
        return None if self.vswitchd.proven is None or self.is_idle else reading.proven


def bridge_named(database: Database, name: str) -> BridgeRow | None:
    """The bridge of this name."""
    return next((one for one in database.bridges.values() if one.name == name), None)


def interfaces_of(database: Database, bridge: BridgeRow) -> tuple[InterfaceRow, ...]:
    """Interfaces of a bridge, by name; rows that are named but absent are left out."""
    ports = [database.ports[uuid] for uuid in bridge.ports if uuid in database.ports]
    found = [
        database.interfaces[uuid]
        for port in ports
        for uuid in port.interfaces
        if uuid in database.interfaces
    ]
    return tuple(sorted(found, key=lambda one: one.name))


def with_vswitchd(facts: SwitchFacts, reading: Reading[Daemon]) -> SwitchFacts:
    """The facts with this state of ovs-vswitchd; what an earlier process answered is forgotten."""
    before, after = facts.vswitchd.value, reading.value
    if before is None or after is None or before.run == after.run:
        return replace(facts, vswitchd=reading)
    return replace(
        facts,
        vswitchd=reading,
        running=Reading(),
        bonds=Reading(),
        flows={},
        classifier=Reading(),
        scans={},
        samples=(),
        traces={},
    )


def with_hosted(facts: SwitchFacts) -> SwitchFacts:
    """The facts after news of rows or instances: ports meet their instances, and keep that.

    A port is plugged before its instance is defined, and stays when the instance goes: of a port
    without an instance, only this shows which of the two it is.
    """
    database = facts.database.value
    if database is None:
        return facts
    rows, instances = database.interfaces, facts.instances or {}
    known = facts.hosted & rows.keys()
    met = {uuid for uuid, row in rows.items() if row.instance.lower() in instances}
    hosted = known | met
    return facts if hosted == facts.hosted else replace(facts, hosted=hosted)


def sample_of(
    facts: SwitchFacts, statistics: Mapping[str, Mapping[str, int]], flows: tuple[Flow, ...]
) -> Sample | None:
    """Return what the integration bridge's ports and flows count at the same time.

    Other bridges use the same port numbers. None without rows, the bridge or ovs-vswitchd.
    """
    database, vswitchd = facts.effective, facts.vswitchd.proven
    bridge = bridge_named(database, facts.ovn.bridge) if database else None
    if database is None or bridge is None or vswitchd is None:
        return None
    ports = {
        row.uuid: row.ofport
        for row in interfaces_of(database, bridge)
        if row.external_ids.get("iface-id") and row.ofport is not None and row.ofport > 0
    }
    matched: dict[int, int] = {}
    for flow in flows:
        if flow.in_port is not None:
            matched[flow.in_port] = matched.get(flow.in_port, 0) + flow.packets
    others = sum(flow.packets for flow in flows if flow.in_port is None and flow.priority)
    counted = {uuid: statistics.get(uuid, {}).get("rx_packets") for uuid in ports}
    received = {uuid: packets for uuid, packets in counted.items() if packets is not None}
    return Sample(vswitchd.pid, received, ports, matched, others)
