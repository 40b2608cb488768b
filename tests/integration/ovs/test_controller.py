"""What shows that an ovn-controller is connected, and what each witness shows when it is not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from operator import eq
from typing import TypeVar

import pytest

from hypercobalt.adapters.ovs.host import HostSwitch
from hypercobalt.adapters.ovs.model import ControllerState, LocalBinding
from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError
from hypercobalt.adapters.ovs.rows import Database
from hypercobalt.adapters.ovs.watch import WatchPace
from tests.integration.ovs.central import CHASSIS, SOUTHBOUND, Central
from tests.integration.ovs.contract import watching
from tests.integration.ovs.daemons import OVN_CONTROLLER, VSWITCHD, Daemons

QUICK = WatchPace(deadline=0.5, echo=0.2, first_wait=0.02, longest_wait=0.2)
BOUND = 20.0
HEALTHY = ControllerState(connected=True, paused=False)
Value = TypeVar("Value")


@pytest.fixture
def switch(daemons: Daemons) -> HostSwitch:
    return HostSwitch(daemons.paths, pace=QUICK)


async def until(call: Callable[[], Awaitable[Value]], holds: Callable[[Value], bool]) -> Value:
    """Read until the answer is so: the controller notices in its own time."""
    async with asyncio.timeout(BOUND):
        while not holds(value := await call()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)  # no event reports it
    return value


async def fault(call: Awaitable[object]) -> ProducerFault:
    with pytest.raises(SwitchError) as failed:
        await call
    return failed.value.fault


async def generation(switch: HostSwitch, central: Central) -> tuple[int, int | None]:
    found = await switch.southbound(central.remote, CHASSIS)
    return found.nb_cfg, found.chassis_nb_cfg


async def test_all_witnesses_show_a_connected_controller(
    central: Central, switch: HostSwitch
) -> None:
    assert await switch.controller() == HEALTHY
    assert await until(lambda: switch.openflow_peers("br-int"), lambda found: found == 3) == 3
    daemon = await switch.daemon(OVN_CONTROLLER)
    assert daemon.pid == central.daemons.pid(OVN_CONTROLLER)
    assert daemon.version in central.daemons.appctl(OVN_CONTROLLER, "version")
    before = await generation(switch, central)
    central.synchronize()
    after = await generation(switch, central)
    assert after == (before[0] + 1, before[0] + 1)
    assert (await switch.memory(VSWITCHD))["ofconns"] == 3
    assert (await switch.flow_counts("br-int")).total > 0


async def test_controller_reports_how_long_parts_of_its_work_took(
    central: Central, switch: HostSwitch
) -> None:
    central.synchronize()
    names = {one.name for one in await switch.stopwatches() if one.samples}
    assert names >= {"flow-generation", "flow-installation", "patch-run"}
    # Each thread adds what it has counted once a second.
    await until(
        lambda: switch.coverage(OVN_CONTROLLER), lambda found: found.get("txn_success", 0) > 0
    )


async def test_controller_reports_its_zones_engine_and_cache(
    central: Central, switch: HostSwitch
) -> None:
    central.nbctl("ls-add", "net", "--", "lsp-add", "net", "lp1")
    central.daemons.vsctl(
        *("add-port", "br-int", "tap1", "--", "set", "interface", "tap1", "type=internal"),
        "external_ids:iface-id=lp1",
    )
    await until(switch.zones, lambda zones: zones.get("lp1", 0) > 0)
    engine = {one.name: one for one in await switch.engine()}
    assert engine["logical_flow_output"].recompute > 0
    assert (await switch.lflow_cache())["total"] > 0


async def test_bindings_show_whether_they_have_a_logical_port(
    central: Central, switch: HostSwitch
) -> None:
    central.nbctl("ls-add", "net", "--", "lsp-add", "net", "lp1")
    for tap, port in (("tap1", "lp1"), ("tap2", "gone")):
        interface = (
            "--",
            "set",
            "interface",
            tap,
            "type=internal",
            f"external_ids:iface-id={port}",
        )
        central.daemons.vsctl("add-port", "br-int", tap, *interface)
    expected = (LocalBinding("lp1", "tap1", 1), LocalBinding("gone", "tap2", 0))
    await until(switch.local_bindings, lambda found: found == expected)


async def test_a_paused_controller_claims_to_be_connected(
    central: Central, switch: HostSwitch
) -> None:
    central.daemons.appctl(OVN_CONTROLLER, "debug/pause")
    assert await switch.controller() == ControllerState(connected=True, paused=True)


async def test_a_killed_southbound_database_disconnects_the_controller(
    central: Central, switch: HostSwitch
) -> None:
    central.kill(SOUTHBOUND)
    found = await fault(switch.southbound(central.remote, CHASSIS))
    assert found is ProducerFault.CONNECTION_REFUSED
    await until(switch.controller, lambda state: not state.connected)
    assert await switch.openflow_peers("br-int") == 3


async def test_controller_reports_connected_while_the_southbound_database_hangs(
    central: Central, switch: HostSwitch
) -> None:
    with central.stopped(SOUTHBOUND):
        assert await fault(switch.southbound(central.remote, CHASSIS)) is ProducerFault.TIMEOUT
        assert await switch.controller() == HEALTHY


async def test_a_killed_controller_has_no_connection_but_its_flows_stay(
    central: Central, switch: HostSwitch
) -> None:
    flows = await switch.flow_counts("br-int")
    central.daemons.kill(OVN_CONTROLLER)
    assert await fault(switch.controller()) is ProducerFault.CONNECTION_REFUSED
    assert await fault(switch.daemon(OVN_CONTROLLER)) is ProducerFault.CONNECTION_REFUSED
    assert await until(lambda: switch.openflow_peers("br-int"), lambda found: found == 0) == 0
    assert await switch.flow_counts("br-int") == flows


async def test_a_hung_controller_keeps_its_connections(
    central: Central, switch: HostSwitch
) -> None:
    with central.daemons.stopped(OVN_CONTROLLER):
        assert await fault(switch.controller()) is ProducerFault.TIMEOUT
        assert await fault(switch.local_bindings()) is ProducerFault.TIMEOUT
        assert await switch.openflow_peers("br-int") == 3
    await switch.daemon(OVN_CONTROLLER)
    assert await switch.controller() == HEALTHY


async def test_a_controller_whose_switch_is_killed_claims_to_be_connected(
    central: Central, switch: HostSwitch
) -> None:
    central.daemons.kill(VSWITCHD)
    assert await switch.openflow_peers("br-int") == 0
    assert await switch.controller() == HEALTHY


async def test_remotes_that_cannot_be_used_are_reported(switch: HostSwitch) -> None:
    assert await fault(switch.southbound("ssl:10.0.0.1:6642", CHASSIS)) is ProducerFault.UNSUPPORTED
    assert await fault(switch.southbound("nonsense", CHASSIS)) is ProducerFault.UNSUPPORTED


async def test_the_server_of_a_cluster_that_answers_is_read(
    central: Central, switch: HostSwitch
) -> None:
    found = await switch.southbound(f"unix:/nowhere/sb.sock,{central.remote}", CHASSIS)
    assert found.chassis_nb_cfg is not None
    assert (await switch.southbound(central.remote, "kvm-2")).chassis_nb_cfg is None


async def test_two_ports_with_one_name_both_look_installed(
    central: Central, switch: HostSwitch
) -> None:
    central.nbctl("ls-add", "net", "--", "lsp-add", "net", "lp1")

    async def installed() -> int:
        async with watching(switch) as watcher:
            database = await watcher.database()
        rows = (one.external_ids for one in database.interfaces.values())
        return sum(1 for ids in rows if ids.get("ovn-installed") == "true")

    for count, tap in ((1, "tap1"), (2, "tap2")):
        interface = ("set", "interface", tap, "type=internal", "external_ids:iface-id=lp1")
        central.daemons.vsctl("add-port", "br-int", tap, "--", *interface)
        await until(installed, partial(eq, count))
    (binding,) = await switch.local_bindings()
    assert (binding.iface_id, binding.ports) == ("lp1", 1)


async def test_a_port_whose_name_is_deleted_is_no_longer_installed(
    central: Central, switch: HostSwitch
) -> None:
    central.nbctl("ls-add", "net", "--", "lsp-add", "net", "lp1")
    interface = ("set", "interface", "tap1", "type=internal", "external_ids:iface-id=lp1")
    central.daemons.vsctl("add-port", "br-int", "tap1", "--", *interface)
    async with watching(switch) as watcher:
        await watcher.database(lambda one: _installed(one, "tap1") == "true")
        central.nbctl("lsp-del", "lp1")
        await watcher.database(lambda one: _installed(one, "tap1") is None)
    expected = (LocalBinding("lp1", "tap1", 0),)
    await until(switch.local_bindings, lambda found: found == expected)


async def test_a_wrong_remote_is_not_connected_and_keeps_its_flows(
    central: Central, switch: HostSwitch
) -> None:
    flows = await switch.flow_counts("br-int")
    central.daemons.vsctl("set", "Open_vSwitch", ".", "external_ids:ovn-remote=unix:/nowhere")
    await until(switch.controller, lambda state: not state.connected)
    assert await switch.flow_counts("br-int") == flows


async def test_the_database_shows_the_generation_in_effect(
    central: Central, switch: HostSwitch
) -> None:
    central.synchronize()
    expected = str((await generation(switch, central))[0])

    def shown(database: Database) -> bool:
        return any(
            one.name == "br-int" and one.external_ids.get("ovn-nb-cfg") == expected
            for one in database.bridges.values()
        )

    async with watching(switch) as watcher:
        await watcher.database(shown)


def _installed(database: Database, name: str) -> str | None:
    rows = (one for one in database.interfaces.values() if one.name == name)
    return next((one.external_ids.get("ovn-installed") for one in rows), None)
