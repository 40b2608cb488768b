"""The database of a real ovsdb-server, as it changes and as its daemons come and go."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from hypercobalt.adapters.ovs.host import HostSwitch
from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError
from hypercobalt.adapters.ovs.rows import Database
from hypercobalt.adapters.ovs.watch import WatchPace
from tests.integration.ovs.contract import Watcher, watching
from tests.integration.ovs.daemons import OVSDB_SERVER, VSWITCHD, Daemons

QUICK = WatchPace(deadline=0.5, echo=0.2, first_wait=0.02, longest_wait=0.2)


@pytest.fixture
async def watcher(daemons: Daemons) -> AsyncIterator[Watcher]:
    async with watching(HostSwitch(daemons.paths, pace=QUICK)) as made:
        yield made


def bridge_of(name: str) -> Callable[[Database], bool]:
    return lambda database: any(one.name == name for one in database.bridges.values())


def has_link(name: str, *, up: bool | None) -> Callable[[Database], bool]:
    return lambda database: any(
        one.name == name and one.link_up is up for one in database.interfaces.values()
    )


def add_bridge(daemons: Daemons, *more: str) -> None:
    bridge = ("--", "set", "bridge", "br-int", "datapath_type=netdev")
    daemons.vsctl("add-br", "br-int", *bridge, *more)


async def test_rows_are_as_ovs_vsctl_has_made_them(daemons: Daemons, watcher: Watcher) -> None:
    daemons.add_link("p0", "q0")
    add_bridge(
        daemons,
        *("--", "set", "bridge", "br-int", "protocols=[OpenFlow13,OpenFlow15]"),
        *("--", "set", "bridge", "br-int", 'external_ids={ovn-nb-cfg="7",a="b\\"{}"}'),
        *("--", "add-port", "br-int", "p0", "tag=5"),
        *("--", "set", "interface", "p0", "external_ids:iface-id=lp1"),
        *("--", "set", "Open_vSwitch", ".", "external_ids:system-id=kvm-1"),
    )
    database = await watcher.database(has_link("p0", up=True))
    (bridge,) = database.bridges.values()
    assert (bridge.name, bridge.datapath_type) == ("br-int", "netdev")
    assert bridge.protocols == ("OpenFlow13", "OpenFlow15")
    assert bridge.external_ids == {"ovn-nb-cfg": "7", "a": 'b"{}'}
    assert len(bridge.datapath_id or "") == 16
    assert database.switch.external_ids == {"system-id": "kvm-1"}
    assert database.switch.cur_cfg == database.switch.next_cfg > 0
    assert database.is_filled
    port = next(one for one in database.ports.values() if one.name == "p0")
    assert port.uuid in bridge.ports
    assert (port.tag, port.lacp, port.bond_mode) == (5, None, None)
    (uuid,) = port.interfaces
    found = database.interfaces[uuid]
    assert (found.name, found.admin_up, found.error) == ("p0", True, None)
    assert (found.ofport or 0) > 0
    assert (found.ifindex or 0) > 0
    assert found.external_ids == {"iface-id": "lp1"}
    assert found.status["driver_name"] == "veth"


async def test_changes_are_pushed_and_other_rows_shared(daemons: Daemons, watcher: Watcher) -> None:
    daemons.add_link("p0", "q0")
    add_bridge(daemons, "--", "add-port", "br-int", "p0")
    daemons.vsctl("--no-wait", "add-port", "br-int", "none0")  # a newer ovs-vsctl fails with it
    await watcher.database(has_link("p0", up=True))
    before = await watcher.database(
        lambda one: any(row.name == "none0" and row.error for row in one.interfaces.values())
    )
    daemons.namespace.run("ip", "link", "set", "q0", "down")
    begun = time.monotonic()
    after = await watcher.database(has_link("p0", up=False))
    assert time.monotonic() - begun < 2
    rows = {row.name: (row, after.interfaces[uuid]) for uuid, row in before.interfaces.items()}
    assert rows["p0"][1].link_resets == (rows["p0"][0].link_resets or 0) + 1
    assert rows["none0"][0] is rows["none0"][1]
    assert rows["none0"][1].ofport == -1
    assert "No such device" in (rows["none0"][1].error or "")
    daemons.vsctl("del-port", "none0")
    assert len((await watcher.database(lambda one: len(one.ports) == 2)).interfaces) == 2


async def test_sets_maps_and_optional_values_change_by_what_differs(
    daemons: Daemons, watcher: Watcher
) -> None:
    def bridge(*protocols: str, **config: str) -> Callable[[Database], bool]:
        return lambda database: any(
            (one.protocols, one.external_ids) == (protocols, config)
            for one in database.bridges.values()
        )

    def tag(number: int | None) -> Callable[[Database], bool]:
        return lambda database: all(one.tag == number for one in database.ports.values())

    add_bridge(daemons)
    vsctl = daemons.vsctl
    vsctl("set", "bridge", "br-int", "protocols=OpenFlow13", "external_ids={a=1,b=2}")
    await watcher.database(bridge("OpenFlow13", a="1", b="2"))
    vsctl("add", "bridge", "br-int", "protocols", "OpenFlow14")
    await watcher.database(bridge("OpenFlow13", "OpenFlow14", a="1", b="2"))
    vsctl("set", "port", "br-int", "tag=7")
    await watcher.database(tag(7))
    vsctl("remove", "bridge", "br-int", "protocols", "OpenFlow13")
    await watcher.database(bridge("OpenFlow14", a="1", b="2"))
    vsctl("clear", "port", "br-int", "tag")
    await watcher.database(tag(None))
    vsctl("set", "bridge", "br-int", "external_ids:b=3", "external_ids:c=4")
    await watcher.database(bridge("OpenFlow14", a="1", b="3", c="4"))
    vsctl("remove", "bridge", "br-int", "external_ids", "a", "c")
    await watcher.database(bridge("OpenFlow14", b="3"))


async def test_mirrors_lose_their_ports_and_managers_are_not_connected(
    daemons: Daemons, watcher: Watcher
) -> None:
    add_bridge(daemons)
    daemons.vsctl("--no-wait", "add-port", "br-int", "p0", "--", "add-port", "br-int", "p1")
    daemons.vsctl(
        *("--", "--id=@p0", "get", "port", "p0", "--", "--id=@p1", "get", "port", "p1"),
        *("--", "--id=@m", "create", "mirror", "name=m0", "select_src_port=@p0"),
        *("output_port=@p1", "external_ids:a=b", "--", "add", "bridge", "br-int", "mirrors", "@m"),
    )
    database = await watcher.database(lambda one: len(one.mirrors) == 1)
    (mirror,), (bridge,) = database.mirrors.values(), database.bridges.values()
    port = {one.name: one.uuid for one in database.ports.values()}
    assert bridge.mirrors == (mirror.uuid,)
    assert (mirror.name, mirror.select_all, mirror.output_vlan) == ("m0", False, None)
    assert (mirror.select_src_port, mirror.output_port) == ((port["p0"],), port["p1"])
    assert mirror.external_ids == {"a": "b"}
    daemons.vsctl("del-port", "p1")
    await watcher.database(lambda one: [m.output_port for m in one.mirrors.values()] == [None])
    daemons.vsctl("set-manager", "tcp:127.0.0.1:1", "ptcp:0:127.0.0.1")
    found = await watcher.database(lambda one: len(one.managers) == 2)
    assert {one.target: one.is_connected for one in found.managers.values()} == {
        "tcp:127.0.0.1:1": False,
        "ptcp:0:127.0.0.1": False,
    }
    daemons.vsctl("del-manager", "--", "clear", "bridge", "br-int", "mirrors")
    await watcher.database(lambda one: not one.mirrors and not one.managers)


async def test_changes_of_one_moment_come_as_one(daemons: Daemons, watcher: Watcher) -> None:
    await watcher.database()
    add_bridge(daemons)
    await watcher.database(
        lambda one: any(row.link_up is not None for row in one.interfaces.values())
    )
    count = len(watcher.reported)
    words = [
        w for n in range(50) for w in ("--", "set", "bridge", "br-int", f"external_ids:k{n}=v")
    ]
    daemons.vsctl(*words[1:])
    await watcher.database(lambda one: [len(b.external_ids) for b in one.bridges.values()] == [50])
    assert len(watcher.reported) - count <= 3


async def test_a_killed_server_is_reported_and_its_return_too(
    daemons: Daemons, watcher: Watcher
) -> None:
    add_bridge(daemons)
    await watcher.database(bridge_of("br-int"))
    begun = time.monotonic()
    daemons.kill(OVSDB_SERVER)
    await watcher.fault(ProducerFault.CONNECTION_REFUSED)
    assert time.monotonic() - begun < 2
    daemons.start(OVSDB_SERVER)
    await watcher.database(bridge_of("br-int"))


async def test_a_hung_server_is_reported_although_its_connection_stays(
    daemons: Daemons, watcher: Watcher
) -> None:
    await watcher.database()
    with daemons.stopped(OVSDB_SERVER):
        begun = time.monotonic()
        error = await watcher.fault(ProducerFault.TIMEOUT)
        took = time.monotonic() - begun
        assert "echo was not answered within 0.5 s" in str(error)
        assert took < 2
        count = len(watcher.reported)
        await watcher.until(lambda _: len(watcher.reported) > count + 1)
        assert {one.fault for one in watcher.reported[count:] if isinstance(one, SwitchError)} == {
            ProducerFault.TIMEOUT
        }
    await watcher.database()


async def test_rows_after_a_restart_of_the_server_are_not_filled_until_the_switch_has_done_so(
    daemons: Daemons, watcher: Watcher
) -> None:
    daemons.add_link("p0", "q0")
    add_bridge(daemons, "--", "add-port", "br-int", "p0")
    before = await watcher.database(has_link("p0", up=True))
    with daemons.stopped(VSWITCHD):  # so that the moment in which rows are empty is sure to be seen
        daemons.restart(OVSDB_SERVER)
        empty = await watcher.database(has_link("p0", up=None))
        assert not empty.is_filled
        assert {row.ofport for row in empty.interfaces.values()} == {
            row.ofport for row in before.interfaces.values()
        }
    filled = await watcher.database(lambda one: one.is_filled)
    links = {row.name: row.link_up for row in filled.interfaces.values()}
    assert links == {row.name: row.link_up for row in before.interfaces.values()}


async def test_rows_of_a_killed_switch_stay_as_they_were(
    daemons: Daemons, watcher: Watcher
) -> None:
    """So the database is not reported without proof that the switch answers."""
    daemons.add_link("p0", "q0")
    add_bridge(daemons, "--", "add-port", "br-int", "p0")
    await watcher.database(has_link("p0", up=True))
    daemons.kill(VSWITCHD)
    daemons.namespace.run("ip", "link", "set", "q0", "down")
    daemons.vsctl("--no-wait", "set", "Open_vSwitch", ".", "external_ids:a=b")
    database = await watcher.database(lambda one: one.switch.external_ids == {"a": "b"})
    assert has_link("p0", up=True)(database)
    assert database.is_filled


async def test_a_database_of_another_schema_is_reported(daemons: Daemons, watcher: Watcher) -> None:
    await watcher.database()
    daemons.use_schema("/usr/share/ovn/ovn-nb.ovsschema")
    try:
        daemons.restart(OVSDB_SERVER)
        error = await watcher.fault(ProducerFault.SCHEMA_UNSUPPORTED)
        assert "Open_vSwitch" in str(error)
    finally:
        daemons.use_schema()
        daemons.restart(OVSDB_SERVER)
    await watcher.database()


async def test_a_watcher_that_is_closed_leaves_no_task_and_no_descriptor(daemons: Daemons) -> None:
    descriptors = daemons.descriptors()
    tasks = asyncio.all_tasks()
    switch = HostSwitch(daemons.paths, pace=QUICK)
    async with AsyncExitStack() as stack:
        for _ in range(5):
            watcher = await stack.enter_async_context(watching(switch))
            await watcher.database()
    await asyncio.sleep(0)  # transports close in the next step of the loop
    assert asyncio.all_tasks() == tasks
    assert daemons.descriptors() == descriptors
