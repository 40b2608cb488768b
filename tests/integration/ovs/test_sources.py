"""Control sockets, process identity and flow counts of real daemons."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from hypercobalt.adapters.ovs import unixctl
from hypercobalt.adapters.ovs.daemons import DaemonSocket, Process, version_of
from hypercobalt.adapters.ovs.host import HostSwitch
from hypercobalt.adapters.ovs.model import DaemonName, Flow, FlowCounts, FlowShape
from hypercobalt.adapters.ovs.openflow.statistics import flow_counts, flows
from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError
from tests.integration.ovs.daemons import OVSDB_SERVER, VSWITCHD, Daemons
from tests.integration.runtime.scripted import eventually

BRIEF = 0.3


async def process(daemons: Daemons, name: DaemonName) -> Process:
    control, found = await DaemonSocket(name, daemons.folder).connect(deadline=BRIEF)
    with closing(control):
        assert "Open vSwitch" in await control.run("version")
    return found


async def version(daemons: Daemons, name: DaemonName) -> str:
    control, _ = await DaemonSocket(name, daemons.folder).connect(deadline=BRIEF)
    with closing(control):
        return await control.run("version", deadline=BRIEF)


async def fault(daemons: Daemons, name: DaemonName) -> ProducerFault:
    with pytest.raises(SwitchError) as failed:
        await version(daemons, name)
    return failed.value.fault


async def counts(daemons: Daemons, bridge: str = "br-int") -> FlowCounts:
    return await flow_counts(daemons.folder / f"{bridge}.mgmt", deadline=2.0)


def add_bridge(daemons: Daemons, name: str = "br-int") -> None:
    daemons.vsctl("add-br", name, "--", "set", "bridge", name, "datapath_type=netdev")
    daemons.vsctl("set", "bridge", name, "fail-mode=secure")
    daemons.ofctl("del-flows", name)


@pytest.mark.parametrize("name", [OVSDB_SERVER, VSWITCHD])
async def test_the_process_that_answers_is_the_daemon_that_runs(
    daemons: Daemons, name: DaemonName
) -> None:
    first = await process(daemons, name)
    assert first.pid == daemons.pid(name)
    daemons.restart(name)
    second = await process(daemons, name)
    assert second.pid == daemons.pid(name)
    assert (first.ticks or 0) < (second.ticks or 0)


@pytest.mark.parametrize("name", [OVSDB_SERVER, VSWITCHD])
async def test_a_killed_daemon_refuses_although_its_files_stay(
    daemons: Daemons, name: DaemonName
) -> None:
    daemons.kill(name)
    assert (daemons.folder / f"{name}.pid").exists()
    assert await fault(daemons, name) is ProducerFault.CONNECTION_REFUSED


@pytest.mark.parametrize("name", [OVSDB_SERVER, VSWITCHD])
async def test_a_stopped_daemon_is_given_up_in_time_however_often_it_is_read(
    daemons: Daemons, name: DaemonName
) -> None:
    with daemons.stopped(name):
        begun = time.monotonic()
        found = await asyncio.gather(*(fault(daemons, name) for _ in range(100)))
        took = time.monotonic() - begun
    assert set(found) == {ProducerFault.TIMEOUT}
    assert took < 5


async def test_commands_differ_by_how_they_fail(daemons: Daemons) -> None:
    control, _ = await DaemonSocket(VSWITCHD, daemons.folder).connect()
    with closing(control):
        found = version_of(await control.run("version"))
        assert found
        assert found in daemons.vsctl("--version")
        faults = []
        for command in (("no/such-command",), ("bond/show", "none")):
            with pytest.raises(SwitchError) as failed:
                await control.run(*command)
            faults.append(failed.value.fault)
        assert await control.run("bond/list") == "bond\ttype\trecircID\tmembers\n"
    assert faults == [ProducerFault.UNKNOWN_COMMAND, ProducerFault.REFUSED]


async def test_switch_without_dpdk_has_no_threads_that_poll(daemons: Daemons) -> None:
    switch = HostSwitch(daemons.paths)
    assert (await switch.pmds(), await switch.pmd_queues()) == ((), ())
    add_bridge(daemons)
    assert (await switch.pmds(), await switch.pmd_queues()) == ((), ())


async def test_queues_of_a_real_switch_are_read(daemons: Daemons) -> None:
    """The queues are of a port that is polled without DPDK, as Open vSwitch's own tests have it."""
    daemons.kill(VSWITCHD)
    daemons.start(VSWITCHD, "--enable-dummy")
    daemons.vsctl("add-br", "br-pmd", "--", "set", "bridge", "br-pmd", "datapath_type=dummy")
    port = ("set", "interface", "pmd0", "type=dummy-pmd", "options:n_rxq=2")
    daemons.vsctl("add-port", "br-pmd", "pmd0", "--", *port)
    switch = HostSwitch(daemons.paths)

    async def are_polled() -> bool:
        return sum(len(one.queues) for one in await switch.pmd_queues()) == 2

    await eventually(are_polled, seconds=20)
    (thread,) = await switch.pmd_queues()
    assert [(one.port, one.number, one.enabled) for one in thread.queues] == [
        ("pmd0", 0, True),
        ("pmd0", 1, True),
    ]
    assert thread.isolated is False


async def test_a_missing_socket_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SwitchError) as failed:
        await unixctl.connect(tmp_path / "ovs-vswitchd.1.ctl")
    assert failed.value.fault is ProducerFault.SOCKET_MISSING


@pytest.mark.parametrize("protocols", ["[]", *(f"OpenFlow1{minor}" for minor in (0, 3, 4, 5))])
async def test_flows_are_counted_as_ovs_ofctl_counts_them(daemons: Daemons, protocols: str) -> None:
    add_bridge(daemons)
    for table in (0, 8, 253):
        for port in (1, 2):
            daemons.ofctl("add-flow", "br-int", f"table={table},in_port={port},actions=drop")
    daemons.ofctl("add-flow", "br-int", "table=8,actions=drop")
    daemons.vsctl("set", "bridge", "br-int", f"protocols={protocols}")
    found = await counts(daemons)
    protocol = "OpenFlow13" if protocols == "[]" else protocols
    total = daemons.ofctl("-O", protocol, "dump-aggregate", "br-int")
    assert found == FlowCounts(7, {0: 2, 8: 3, 253: 2})
    assert "flow_count=7\n" in total


@pytest.mark.parametrize("protocols", ["[]", *(f"OpenFlow1{minor}" for minor in (0, 3, 4))])
async def test_flows_of_a_table_are_read_in_each_version(daemons: Daemons, protocols: str) -> None:
    add_bridge(daemons)
    actions = ",".join([*(["output:1", "output:2"] * 20), "load:0x10->NXM_NX_REG0[]"])
    actions += ",clone(output:4,clone(output:7))"
    daemons.ofctl("add-flow", "br-int", f"table=0,cookie=5,in_port=3,tcp,actions={actions}")
    daemons.ofctl("add-flow", "br-int", "table=0,cookie=0xffffffffffffffff,udp,actions=drop")
    daemons.ofctl("add-flow", "br-int", "table=1,actions=drop")
    daemons.vsctl("set", "bridge", "br-int", f"protocols={protocols}")
    found = await flows(daemons.folder / "br-int.mgmt", 0, limit=9, deadline=2.0)
    acts = Flow(table=0, cookie=5, priority=32768, packets=0, in_port=3)
    drops = Flow(table=0, cookie=2**64 - 1, priority=32768, packets=0)
    if protocols != "OpenFlow10":  # its flows are read without what they do
        shape = FlowShape(pipeline=False, acts=True, resubmits=False, joins=False)
        acts = replace(acts, outputs=(*(1, 2) * 20, 4, 7), shape=shape)
        drops = replace(drops, shape=replace(shape, acts=False))
    assert set(found) == {acts, drops}


async def test_a_bridge_that_allows_no_version_of_ours_is_reported(daemons: Daemons) -> None:
    add_bridge(daemons)
    daemons.vsctl("set", "bridge", "br-int", "protocols=OpenFlow12")
    with pytest.raises(SwitchError) as failed:
        await counts(daemons)
    assert failed.value.fault is ProducerFault.UNSUPPORTED


async def test_flows_of_a_bridge_that_is_gone_are_not_counted(daemons: Daemons) -> None:
    add_bridge(daemons)
    daemons.vsctl("del-br", "br-int")
    with pytest.raises(SwitchError) as failed:
        await counts(daemons)
    assert failed.value.fault is ProducerFault.SOCKET_MISSING
