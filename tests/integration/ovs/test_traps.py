"""What a switch shows while it does not do its work: why each witness is read.

Each case is a state in which some source looks healthy; the test has both what looks so and what
gives it away.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from hypercobalt.adapters.ovs.host import HostSwitch
from hypercobalt.adapters.ovs.model import BondMember, BondState, LacpStatus
from hypercobalt.adapters.ovs.rows import Database, InterfaceRow
from tests.integration.ovs.contract import Watcher, watching
from tests.integration.ovs.daemons import VSWITCHD, Daemons

BOUND = 20.0
Value = TypeVar("Value")
_SEND = """
import socket
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as made:
    made.bind(("q0", 0))
    for _ in range({count}):
        made.send(bytes.fromhex("ffffffffffff" "020000000001" "88b5") + bytes(50))
"""


@pytest.fixture
def switch(daemons: Daemons) -> HostSwitch:
    bridge = ("set", "bridge", "br-int", "datapath_type=netdev", "fail_mode=secure")
    daemons.vsctl("add-br", "br-int", "--", *bridge)
    return HostSwitch(daemons.paths)


async def until(call: Callable[[], Awaitable[Value]], holds: Callable[[Value], bool]) -> Value:
    """Read until the answer is so: ovs-vswitchd notices in its own time."""
    async with asyncio.timeout(BOUND):
        while not holds(value := await call()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)  # no event reports it
    return value


async def interface(
    watcher: Watcher, name: str, holds: Callable[[InterfaceRow], bool]
) -> InterfaceRow:
    """The row of an interface once it is so."""

    def rows(database: Database) -> list[InterfaceRow]:
        return [one for one in database.interfaces.values() if one.name == name and holds(one)]

    return rows(await watcher.database(lambda one: bool(rows(one))))[0]


def add_bond(daemons: Daemons, *options: str, members: tuple[str, ...] = ("p0", "p1")) -> None:
    daemons.add_link("p0", "q0")
    daemons.add_link("p1", "q1")
    daemons.vsctl("--no-wait", "add-bond", "br-int", "bond0", *members, *options)


def state(*enabled: str) -> Callable[[tuple[BondState, ...]], bool]:
    def holds(found: tuple[BondState, ...]) -> bool:
        return [{m.name for m in bond.members if m.enabled} for bond in found] == [set(enabled)]

    return holds


def is_up(row: InterfaceRow) -> bool:
    return row.link_up is True and (row.ofport or 0) > 0


def is_down(row: InterfaceRow) -> bool:
    return row.link_up is False


async def test_a_bond_with_a_missing_member_is_no_bond_any_more(
    daemons: Daemons, switch: HostSwitch
) -> None:
    add_bond(daemons, members=("p0", "none0"))
    async with watching(switch) as watcher:
        await interface(watcher, "p0", is_up)
        missing = await interface(watcher, "none0", lambda row: row.ofport == -1)
        database = await watcher.database()
    assert "No such device" in (missing.error or "")
    assert await switch.bonds() == ()
    (port,) = (one for one in database.ports.values() if one.name == "bond0")
    assert len(port.interfaces) == 2


async def test_a_cut_cable_disables_a_member_and_keeps_its_speed(
    daemons: Daemons, switch: HostSwitch
) -> None:
    add_bond(daemons, "bond_mode=active-backup")
    async with watching(switch) as watcher:
        before = await interface(watcher, "p0", is_up)
        await interface(watcher, "p1", is_up)
        await until(switch.bonds, state("p0", "p1"))
        daemons.namespace.run("ip", "link", "set", "q0", "down")
        after = await interface(watcher, "p0", is_down)
        assert after.link_resets == (before.link_resets or 0) + 1
        assert after.link_speed == before.link_speed
        assert after.ofport == before.ofport
        (bond,) = await until(switch.bonds, state("p1"))
        assert bond.members[1] == BondMember("p1", enabled=True, active=True)


async def test_a_silent_lacp_partner_stops_all_traffic_while_links_are_up(
    daemons: Daemons, switch: HostSwitch
) -> None:
    add_bond(daemons, "bond_mode=balance-tcp", "lacp=active", "other_config:lacp-time=fast")
    async with watching(switch) as watcher:
        for name in ("p0", "p1"):
            await interface(watcher, name, is_up)
        (bond,) = await until(switch.bonds, lambda found: state()(found) and _configured(found))
        for name in ("p0", "p1"):
            await interface(watcher, name, lambda row: is_up(row) and row.lacp_current is False)
    assert bond.lacp is LacpStatus.CONFIGURED


def _configured(found: tuple[BondState, ...]) -> bool:
    return [one.lacp for one in found] == [LacpStatus.CONFIGURED]


async def test_a_port_whose_device_is_gone_keeps_its_number_and_shows_no_error(
    daemons: Daemons, switch: HostSwitch
) -> None:
    daemons.add_link("p0", "q0")
    daemons.vsctl("add-port", "br-int", "p0")
    async with watching(switch) as watcher:
        before = await interface(watcher, "p0", is_up)
        daemons.namespace.run("ip", "link", "del", "p0")
        after = await interface(watcher, "p0", is_down)
        assert (after.ofport, after.error) == (before.ofport, None)
        assert (after.admin_up, after.ifindex, after.mtu) == (False, 0, None)
    assert "p0" not in await switch.links()


async def test_a_device_recreated_under_its_name_looks_healthy_but_receives_nothing(
    daemons: Daemons, switch: HostSwitch
) -> None:
    daemons.add_link("p0", "q0")
    daemons.vsctl("add-port", "br-int", "p0")
    async with watching(switch) as watcher:
        before = await interface(watcher, "p0", is_up)
        daemons.ofctl("add-flow", "br-int", f"in_port={before.ofport},actions=drop")
        send(daemons, 20)
        await until(lambda: packets(switch), lambda found: found >= 20)
        daemons.namespace.run("ip", "link", "del", "p0")
        await interface(watcher, "p0", is_down)
        daemons.add_link("p0", "q0")
        after = await interface(watcher, "p0", is_up)
        assert after.ifindex != before.ifindex
        assert (after.ofport, after.error) == (before.ofport, None)
        counted, received = await packets(switch), await rx_packets(switch, after.uuid)
        send(daemons, 20)
        await until(
            lambda: rx_packets(switch, after.uuid), lambda found: found >= received + 20
        )  # by then flows have been counted several times
        assert await packets(switch) == counted


async def test_a_switch_that_hangs_falls_behind_the_configuration(
    daemons: Daemons, switch: HostSwitch
) -> None:
    async with watching(switch) as watcher:
        before = (await watcher.database()).switch
        with daemons.stopped(VSWITCHD):
            daemons.vsctl(
                "--no-wait", "set", "Open_vSwitch", ".", f"next_cfg={before.next_cfg + 1}"
            )
            behind = await watcher.database(lambda one: one.switch.next_cfg > before.next_cfg)
            assert behind.switch.cur_cfg == before.cur_cfg
        await watcher.database(lambda one: one.switch.cur_cfg == before.next_cfg + 1)


def send(daemons: Daemons, count: int) -> None:
    """Send frames into the other end of the cable."""
    daemons.namespace.run(sys.executable, "-c", _SEND.format(count=count))


async def packets(switch: HostSwitch) -> int:
    """Packets that the flows of the first table have matched."""
    return sum(flow.packets for flow in await switch.flows("br-int", 0, limit=9))


async def rx_packets(switch: HostSwitch, uuid: str) -> int:
    return (await switch.statistics())[uuid].get("rx_packets", 0)
