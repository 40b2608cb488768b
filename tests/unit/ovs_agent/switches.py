"""A switch in memory: the rows and answers of a host with OVN, changed by each test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from hypercobalt.adapters.ovs import model
from hypercobalt.adapters.ovs.links import Link
from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError
from hypercobalt.adapters.ovs.rows import (
    BridgeRow,
    Database,
    InterfaceRow,
    MirrorRow,
    PortRow,
    SwitchRow,
)
from hypercobalt.ovs_agent.facts import Reading, SwitchFacts
from hypercobalt.ovs_agent.flow_scan import TableScan
from hypercobalt.ovs_agent.rules.findings import Assessed

NOW = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
CHASSIS = "4b9f2d0e-1111-4222-8333-abcdefabcdef"
REMOTE = "tcp:10.0.0.10:6642"
OVN = {
    "system-id": CHASSIS,
    "ovn-remote": REMOTE,
    "ovn-encap-ip": "10.0.0.1",
    "ovn-encap-type": "geneve",
}
VM = "0f2c1a5e-0000-4000-8000-000000000001"
IFACE = "c0ffee00-0000-4000-8000-000000000001"


T = TypeVar("T")
R = TypeVar("R", InterfaceRow, PortRow, BridgeRow, Database, Link, SwitchFacts)


def but(row: R, **fields: object) -> R:
    """The same with other fields."""
    return replace(row, **fields)  # type: ignore[arg-type]


def interface(name: str, ofport: int | None = 1, **fields: object) -> InterfaceRow:
    """An interface that works: made, switched on, with a link."""
    base = InterfaceRow(
        f"i-{name}", name, ofport=ofport, admin_up=True, link_up=True, mtu=1500, ifindex=7
    )
    return but(base, **fields)


def tap(name: str = "tap1", ofport: int | None = 1, **fields: object) -> InterfaceRow:
    """An instance's port, as Nova plugs it and OVN installs it."""
    ids = {
        "iface-id": IFACE,
        "vm-uuid": VM,
        "attached-mac": "fa:16:3e:00:00:01",
        "iface-status": "active",
        "ovn-installed": "true",
    }
    return interface(name, ofport, **{"external_ids": ids, **fields})


def gone(row: InterfaceRow) -> InterfaceRow:
    """What the userspace datapath shows of a port whose device was deleted."""
    return replace(row, admin_up=False, link_up=False, ifindex=0, mtu=None)


def database(
    bridges: Mapping[str, Iterable[InterfaceRow | tuple[PortRow, tuple[InterfaceRow, ...]]]],
    external_ids: Mapping[str, str] = OVN,
    **switch: object,
) -> Database:
    """Rows of bridges with plain ports and bonds as `bond()` gives them, and their local ports."""
    rows: dict[str, BridgeRow] = {}
    ports: dict[str, PortRow] = {}
    interfaces: dict[str, InterfaceRow] = {}
    for name, members in bridges.items():
        local = interface(name, 65534, type="internal")
        of_bridge: list[str] = []
        own: tuple[InterfaceRow, ...]
        for member in (local, *members):
            if isinstance(member, InterfaceRow):
                port, own = PortRow(f"p-{member.name}", member.name, (member.uuid,)), (member,)
            else:
                port, own = member
            ports[port.uuid] = port
            interfaces |= {one.uuid: one for one in own}
            of_bridge.append(port.uuid)
        rows[f"b-{name}"] = BridgeRow(
            f"b-{name}",
            name,
            tuple(of_bridge),
            datapath_id="0000a6b1c2d3e4f5",
            external_ids={"ovn-nb-cfg": "7"} if name == "br-int" else {},
        )
    row = SwitchRow(external_ids=external_ids, **switch)  # type: ignore[arg-type]
    return Database("8.3.1", row, rows, ports, interfaces)


def bond(
    name: str, *members: InterfaceRow, **fields: object
) -> tuple[PortRow, tuple[InterfaceRow, ...]]:
    """A bond's rows."""
    port = PortRow(f"p-{name}", name, tuple(one.uuid for one in members))
    return but(port, **fields), members


def mirrored(rows: Database, bridge: str, *mirrors: MirrorRow) -> Database:
    """The database with mirrors of a bridge; ports have the UUIDs that `database` gives them."""
    row = rows.bridges[f"b-{bridge}"]
    own = {one.uuid: one for one in mirrors}
    bridges = {**rows.bridges, row.uuid: but(row, mirrors=tuple(own))}
    return but(rows, bridges=bridges, mirrors=own)


def shown(
    name: str,
    members: Mapping[str, bool],
    mode: str = "balance-tcp",
    lacp: model.LacpStatus = model.LacpStatus.NEGOTIATED,
    *,
    fallback: bool = False,
) -> model.BondState:
    """A bond in bond/show: whether each member is enabled."""
    found = tuple(model.BondMember(one, enabled) for one, enabled in members.items())
    return model.BondState(name, mode, lacp, fallback, found)


def daemon(name: model.DaemonName, version: str = "3.1.0", pid: int = 100) -> model.Daemon:
    return model.Daemon(name, pid, version)


def healthy(rows: Database | None = None, **readings: object) -> SwitchFacts:
    """The facts of a host on which all works; `readings` replace fields of it."""
    rows = rows or database(
        {"br-int": [tap()], "br-ex": [interface("eth0", link_speed=25 * 10**9)]}
    )
    names = frozenset(one.name for one in rows.bridges.values())
    facts = SwitchFacts(
        database=Reading(rows),
        ovsdb_server=Reading(daemon(model.DaemonName.OVSDB_SERVER)),
        vswitchd=Reading(daemon(model.DaemonName.VSWITCHD)),
        ovn_controller=Reading(daemon(model.DaemonName.OVN_CONTROLLER, "23.03.1")),
        running=Reading(names),
        bonds=Reading(()),
        flows={name: Reading(model.FlowCounts(3, {0: 2, 8: 1})) for name in names},
        classifier=Reading((model.Flow(0, 0xABC, 100, 5, 1),)),
        scans={0: TableScan()},
        statistics=Reading({"i-eth0": {"rx_packets": 0}}),
        controller=Reading(model.ControllerState(connected=True, paused=False)),
        start=Reading(model.ControllerStart()),
        bindings=Reading((model.LocalBinding(IFACE, "tap1", 1),)),
        southbound=Reading(model.Southbound(7, 7)),
        links=Reading(
            {
                "tap1": Link("tap1", 7, admin_up=True, carrier=True, is_tap=True),
                "eth0": Link("eth0", 2, admin_up=True, carrier=True),
            }
        ),
        kernel_bonds=Reading(()),
        openflow_peers=Reading(3),
        instances={VM: True},
        wanted={},
        hosted=frozenset(uuid for uuid, one in rows.interfaces.items() if one.instance),
    )
    return but(facts, **readings)


def down_from(reading: Reading[T], fault: ProducerFault = ProducerFault.TIMEOUT) -> Reading[T]:
    """A reading after its producer has failed twice; what it answered before is remembered."""
    error = SwitchError(fault, f"{fault}")
    return reading.failed(error, NOW).failed(error, NOW)


NOT_RUNNING = (ProducerFault.SOCKET_MISSING, ProducerFault.CONNECTION_REFUSED, ProducerFault.CLOSED)
"""How calls to a daemon fail that does not run, unlike one that hangs."""


def without(
    facts: SwitchFacts, name: str, fault: ProducerFault = ProducerFault.TIMEOUT
) -> SwitchFacts:
    """The facts when the producer of one reading is away."""
    return but(facts, **{name: down_from(getattr(facts, name), fault)})


def found(assessed: Assessed[T]) -> list[tuple[str, str]]:
    """Code and object of each finding."""
    return [(one.code.value, one.object) for one in assessed.findings]


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)
