"""What every `Switch` keeps: cases for the fake and for real daemons."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager

import pytest

from hypercobalt.adapters.ovs.model import DaemonName, Flow, FlowShape
from hypercobalt.adapters.ovs.packet import parse_packet
from hypercobalt.adapters.ovs.port import ProducerFault, Switch, SwitchError
from hypercobalt.adapters.ovs.rows import Database

BOUND = 20.0
VSWITCHD, OVSDB_SERVER = DaemonName.VSWITCHD, DaemonName.OVSDB_SERVER
Report = Database | SwitchError


class World(ABC):
    """A switch, and a second hand that changes it."""

    def __init__(self, switch: Switch) -> None:
        self.switch = switch

    @abstractmethod
    def add_bridge(self, name: str) -> None:
        """Add a bridge without flows."""

    @abstractmethod
    def add_flow(self, bridge: str, flow: Flow) -> None: ...

    @abstractmethod
    def add_port(self, bridge: str, name: str) -> None:
        """Add a port whose device exists and has a link."""

    @abstractmethod
    def set_external_id(self, key: str, value: str) -> None:
        """Set one of the switch."""

    @abstractmethod
    def kill(self, name: DaemonName) -> None: ...

    @abstractmethod
    def hang(self, name: DaemonName) -> None: ...

    @abstractmethod
    def recover(self, name: DaemonName) -> None:
        """Start a daemon that was killed, let one go on that hangs."""


class Watcher:
    """Follows the database in a task, as an agent does, and keeps all that was reported."""

    def __init__(self) -> None:
        self.reported: list[Report] = []
        self._new = asyncio.Event()

    def report(self, report: Report) -> None:
        self.reported.append(report)
        self._new.set()

    async def until(self, holds: Callable[[Report], bool]) -> Report:
        """Wait until the newest report is so."""
        async with asyncio.timeout(BOUND):
            while not (self.reported and holds(self.reported[-1])):
                self._new.clear()
                await self._new.wait()
        return self.reported[-1]

    async def database(self, holds: Callable[[Database], bool] = lambda _: True) -> Database:
        found = await self.until(lambda one: isinstance(one, Database) and holds(one))
        assert isinstance(found, Database)
        return found

    async def fault(self, fault: ProducerFault) -> SwitchError:
        found = await self.until(lambda one: isinstance(one, SwitchError) and one.fault is fault)
        assert isinstance(found, SwitchError)
        return found


@asynccontextmanager
async def watching(switch: Switch) -> AsyncIterator[Watcher]:
    watcher = Watcher()

    async def follow() -> None:
        async with aclosing(switch.watch()) as reports:
            async for report in reports:
                watcher.report(report)

    task = asyncio.create_task(follow())
    try:
        yield watcher
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def has_bridge(name: str) -> Callable[[Database], bool]:
    return lambda database: any(one.name == name for one in database.bridges.values())


def link_is_up(name: str) -> Callable[[Database], bool]:
    return lambda database: any(
        one.name == name and one.link_up is True for one in database.interfaces.values()
    )


async def fault_of(call: Callable[[], object]) -> ProducerFault:
    """How a call of the port fails."""
    made = call()
    assert asyncio.iscoroutine(made)
    with pytest.raises(SwitchError) as failed:
        await made
    return failed.value.fault


class Contract:
    """The cases; a subclass has a fixture `world`."""

    async def test_the_database_comes_whole_and_again_after_each_change(self, world: World) -> None:
        world.add_bridge("br-int")
        async with watching(world.switch) as watcher:
            first = await watcher.database(has_bridge("br-int"))
            assert isinstance(watcher.reported[0], Database)
            world.add_port("br-int", "p0")
            second = await watcher.database(link_is_up("p0"))
            bridge = next(one for one in second.bridges.values() if one.name == "br-int")
            port = next(one for one in second.ports.values() if one.name == "p0")
            assert port.uuid in bridge.ports
            assert second.interfaces.keys() >= set(port.interfaces)
            assert port.uuid not in first.ports
            world.set_external_id("system-id", "kvm-1")
            await watcher.database(lambda one: one.switch.external_ids == {"system-id": "kvm-1"})

    async def test_flows_are_counted_by_table_and_read_of_one(self, world: World) -> None:
        drops = FlowShape(pipeline=False, acts=False, resubmits=False, joins=False)
        flows = (
            Flow(table=0, cookie=2**63 + 5, priority=100, packets=0, in_port=3, shape=drops),
            Flow(table=0, cookie=7, priority=50, packets=0, shape=drops),
            Flow(table=9, cookie=7, priority=50, packets=0, shape=drops),
        )
        world.add_bridge("br-int")
        for flow in flows:
            world.add_flow("br-int", flow)
        counts = await world.switch.flow_counts("br-int")
        assert (counts.total, counts.tables) == (3, {0: 2, 9: 1})
        found = await world.switch.flows("br-int", 0, limit=2)
        assert set(found) == set(flows[:2])
        assert await world.switch.flows("br-int", 1, limit=2) == ()
        too_many = await fault_of(lambda: world.switch.flows("br-int", 0, limit=1))
        assert too_many is ProducerFault.MALFORMED

    async def test_a_trace_gives_the_flow_that_decides(self, world: World) -> None:
        world.add_bridge("br-int")
        world.add_flow("br-int", Flow(0, 7, priority=50, packets=0))
        world.add_flow("br-int", Flow(0, 2**63 + 5, priority=100, packets=0, in_port=3))
        packet = parse_packet({"proto": "tcp", "ip_dst": "10.0.0.1", "dst_port": "80"})
        for port, expected in (
            (3, ("in_port=3", 100, 2**63 + 5)),
            (4, ("", 50, 7)),
        ):
            found = await world.switch.trace("br-int", port, packet)
            (only,) = found.passes
            assert only.datapath_actions == "drop"
            (step,) = only.steps
            assert (step.bridge, step.table) == ("br-int", 0)
            assert (step.match, step.priority, step.cookie) == expected
            assert [action.text for action in step.actions] == ["drop"]

    async def test_a_table_without_a_matching_flow_ends_a_trace(self, world: World) -> None:
        world.add_bridge("br-int")
        found = await world.switch.trace("br-int", 3, parse_packet({}), ("new,trk",))
        (step,) = found.passes[0].steps
        assert (step.table, step.match, step.priority, step.cookie) == (0, "", None, 0)

    async def test_a_trace_on_an_unknown_bridge_is_refused(self, world: World) -> None:
        trace = lambda: world.switch.trace("br-x", 1, parse_packet({}))  # noqa: E731
        assert await fault_of(trace) is ProducerFault.REFUSED

    async def test_a_trace_of_a_killed_switch_fails(self, world: World) -> None:
        world.add_bridge("br-int")
        world.kill(VSWITCHD)
        trace = lambda: world.switch.trace("br-int", 1, parse_packet({}))  # noqa: E731
        assert await fault_of(trace) is ProducerFault.CONNECTION_REFUSED

    async def test_a_bridge_that_does_not_run_has_no_socket(self, world: World) -> None:
        assert (
            await fault_of(lambda: world.switch.flow_counts("br-x")) is ProducerFault.SOCKET_MISSING
        )
        assert (
            await fault_of(lambda: world.switch.flows("br-x", 0, limit=9))
            is ProducerFault.SOCKET_MISSING
        )
        assert await world.switch.openflow_peers("br-x") == 0

    async def test_bridges_are_those_that_the_switch_runs(self, world: World) -> None:
        assert await world.switch.bridges() == frozenset()
        world.add_bridge("br-int")
        world.add_bridge("br-ex")
        assert await world.switch.bridges() == {"br-int", "br-ex"}

    async def test_mac_addresses_are_those_of_a_bridge_that_runs(self, world: World) -> None:
        world.add_bridge("br-int")
        assert (await world.switch.macs("br-int")).entries == ()
        assert await fault_of(lambda: world.switch.macs("br-x")) is ProducerFault.REFUSED

    async def test_devices_of_the_kernel_are_shown(self, world: World) -> None:
        world.add_bridge("br-int")
        world.add_port("br-int", "p0")
        link = (await world.switch.links())["p0"]
        assert (link.name, link.admin_up, link.carrier) == ("p0", True, True)
        assert (link.is_tap, link.master) == (False, None)
        assert link.ifindex > 0

    @pytest.mark.parametrize("name", [OVSDB_SERVER, VSWITCHD])
    async def test_a_daemon_is_known_by_its_own_answer(
        self, world: World, name: DaemonName
    ) -> None:
        found = await world.switch.daemon(name)
        assert found.name is name
        assert found.version[0].isdigit()
        world.kill(name)
        assert await fault_of(lambda: world.switch.daemon(name)) is ProducerFault.CONNECTION_REFUSED
        world.recover(name)
        again = await world.switch.daemon(name)
        assert again.version == found.version

    async def test_a_killed_switch_fails_all_that_it_answers_but_not_the_database(
        self, world: World
    ) -> None:
        world.add_bridge("br-int")
        async with watching(world.switch) as watcher:
            await watcher.database(has_bridge("br-int"))
            world.kill(VSWITCHD)
            switch = world.switch
            for call in (
                switch.bridges,
                switch.bonds,
                switch.datapaths,
                switch.upcalls,
                switch.datapath_bridges,
            ):
                assert await fault_of(call) is ProducerFault.CONNECTION_REFUSED
            counts = await fault_of(lambda: switch.flow_counts("br-int"))
            assert counts is ProducerFault.CONNECTION_REFUSED
            assert await switch.statistics() is not None
            assert isinstance(watcher.reported[-1], Database)

    async def test_a_hung_switch_is_silent(self, world: World) -> None:
        world.add_bridge("br-int")
        world.hang(VSWITCHD)
        for call in (world.switch.bridges, world.switch.bonds, world.switch.upcalls):
            assert await fault_of(call) is ProducerFault.TIMEOUT
        assert await fault_of(lambda: world.switch.daemon(VSWITCHD)) is ProducerFault.TIMEOUT
        assert await fault_of(lambda: world.switch.flow_counts("br-int")) is ProducerFault.TIMEOUT
        world.recover(VSWITCHD)
        await world.switch.daemon(VSWITCHD)
        assert await world.switch.bridges() == {"br-int"}

    @pytest.mark.parametrize("fault", [ProducerFault.CONNECTION_REFUSED, ProducerFault.TIMEOUT])
    async def test_a_database_that_is_away_is_reported_and_comes_back_whole(
        self, world: World, fault: ProducerFault
    ) -> None:
        world.add_bridge("br-int")
        async with watching(world.switch) as watcher:
            await watcher.database(has_bridge("br-int"))
            (world.hang if fault is ProducerFault.TIMEOUT else world.kill)(OVSDB_SERVER)
            await watcher.fault(fault)
            assert await fault_of(world.switch.statistics) is fault
            assert await world.switch.bridges() == {"br-int"}
            world.recover(OVSDB_SERVER)
            await watcher.database(has_bridge("br-int"))
