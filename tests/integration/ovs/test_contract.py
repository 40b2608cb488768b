"""The contract of `Switch`, on the fake and on real daemons."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

import pytest

from hypercobalt.adapters.ovs.fake import FakeSwitch
from hypercobalt.adapters.ovs.host import HostSwitch
from hypercobalt.adapters.ovs.links import Link
from hypercobalt.adapters.ovs.model import DaemonName, Flow
from hypercobalt.adapters.ovs.port import ProducerFault
from hypercobalt.adapters.ovs.rows import BridgeRow, InterfaceRow, PortRow
from hypercobalt.adapters.ovs.watch import WatchPace
from tests.integration.ovs.contract import Contract, World
from tests.integration.ovs.daemons import Daemons

QUICK = WatchPace(deadline=0.5, echo=0.2, first_wait=0.02, longest_wait=0.2)


class RealWorld(World):
    def __init__(self, daemons: Daemons) -> None:
        super().__init__(HostSwitch(daemons.paths, pace=QUICK))
        self._daemons = daemons
        self._hung: set[DaemonName] = set()

    def add_bridge(self, name: str) -> None:
        bridge = ("set", "bridge", name, "datapath_type=netdev", "fail_mode=secure")
        self._daemons.vsctl("add-br", name, "--", *bridge)

    def add_flow(self, bridge: str, flow: Flow) -> None:
        port = "" if flow.in_port is None else f"in_port={flow.in_port},"
        fields = f"table={flow.table},cookie={flow.cookie:#x},priority={flow.priority},{port}"
        self._daemons.ofctl("add-flow", bridge, f"{fields}actions=drop")

    def add_port(self, bridge: str, name: str) -> None:
        self._daemons.add_link(name, f"{name}-peer")
        self._daemons.vsctl("add-port", bridge, name)

    def set_external_id(self, key: str, value: str) -> None:
        self._daemons.vsctl("set", "Open_vSwitch", ".", f"external_ids:{key}={value}")

    def kill(self, name: DaemonName) -> None:
        self._daemons.kill(name)

    def hang(self, name: DaemonName) -> None:
        self._daemons.stop(name)
        self._hung.add(name)

    def recover(self, name: DaemonName) -> None:
        if name in self._hung:
            self._daemons.resume(name)
        else:
            self._daemons.start(name)


class FakeWorld(World):
    def __init__(self, fake: FakeSwitch) -> None:
        super().__init__(fake)
        self._fake = fake

    def add_bridge(self, name: str) -> None:
        made = BridgeRow(str(uuid4()), name)
        bridges = {**self._fake.database.bridges, made.uuid: made}
        self._fake.database = replace(self._fake.database, bridges=bridges)
        self._fake.flow_table[name] = ()

    def add_flow(self, bridge: str, flow: Flow) -> None:
        self._fake.flow_table[bridge] += (flow,)

    def add_port(self, bridge: str, name: str) -> None:
        database = self._fake.database
        row = next(one for one in database.bridges.values() if one.name == bridge)
        made = InterfaceRow(str(uuid4()), name, ofport=1, link_up=True)
        port = PortRow(str(uuid4()), name, (made.uuid,))
        self._fake.database = replace(
            database,
            bridges={**database.bridges, row.uuid: replace(row, ports=(*row.ports, port.uuid))},
            ports={**database.ports, port.uuid: port},
            interfaces={**database.interfaces, made.uuid: made},
        )
        self._fake.devices[name] = Link(name, 7, admin_up=True, carrier=True)

    def set_external_id(self, key: str, value: str) -> None:
        switch = self._fake.database.switch
        ids = {**switch.external_ids, key: value}
        self._fake.database = replace(self._fake.database, switch=replace(switch, external_ids=ids))

    def kill(self, name: DaemonName) -> None:
        self._fake.fail(name)

    def hang(self, name: DaemonName) -> None:
        self._fake.fail(name, ProducerFault.TIMEOUT)

    def recover(self, name: DaemonName) -> None:
        self._fake.recover(name)


class TestFake(Contract):
    @pytest.fixture
    def world(self) -> World:
        return FakeWorld(FakeSwitch())


class TestReal(Contract):
    @pytest.fixture
    def world(self, daemons: Daemons) -> World:
        return RealWorld(daemons)
