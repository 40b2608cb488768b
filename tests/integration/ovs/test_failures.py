"""How long it takes to notice that a daemon hangs, at the agent's own pace, and what is left."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest

from hypercobalt.adapters.ovs.host import HostSwitch
from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError
from hypercobalt.adapters.ovs.watch import WatchPace
from tests.integration.ovs.contract import watching
from tests.integration.ovs.daemons import OVSDB_SERVER, VSWITCHD, Daemons

QUICK = WatchPace(deadline=1.0, echo=0.1, first_wait=0.02, longest_wait=0.1)
NOTICED = 10.0
"""Seconds within which a condition has to show it; half of it is the agent's."""


async def everything(switch: HostSwitch) -> set[ProducerFault | None]:
    """Make all calls at once, and return how they failed; None stands for an answer."""
    calls = (
        *(switch.daemon(VSWITCHD), switch.daemon(OVSDB_SERVER), switch.statistics()),
        *(switch.bridges(), switch.bonds(), switch.datapaths(), switch.upcalls()),
        *(switch.memory(VSWITCHD), switch.coverage(VSWITCHD), switch.memory(OVSDB_SERVER)),
        *(switch.flow_counts("br-int"), switch.flows("br-int", 0, limit=9)),
        *(switch.links(), switch.kernel_bonds(), switch.openflow_peers("br-int")),
    )
    answers = await asyncio.gather(*calls, return_exceptions=True)
    errors = [one for one in answers if isinstance(one, BaseException)]
    assert all(isinstance(one, SwitchError) for one in errors), errors
    return {one.fault if isinstance(one, SwitchError) else None for one in answers}


async def test_daemons_that_hang_are_noticed_in_time(daemons: Daemons) -> None:
    switch = HostSwitch(daemons.paths)
    async with watching(switch) as watcher:
        await watcher.database()
        with daemons.stopped(OVSDB_SERVER), daemons.stopped(VSWITCHD):
            begun = time.monotonic()
            with pytest.raises(SwitchError):
                await switch.daemon(VSWITCHD)
            assert time.monotonic() - begun < NOTICED / 3
            await watcher.fault(ProducerFault.TIMEOUT)
            assert time.monotonic() - begun < NOTICED
            begun = time.monotonic()
            assert ProducerFault.TIMEOUT in await everything(switch)
            assert time.monotonic() - begun < NOTICED / 3
        begun = time.monotonic()
        await watcher.database()
        await switch.daemon(VSWITCHD)
        assert time.monotonic() - begun < NOTICED


async def test_calls_to_a_hung_daemon_one_after_another_cost_one_deadline(
    daemons: Daemons,
) -> None:
    daemons.vsctl("add-br", "br-int", "--", "set", "bridge", "br-int", "datapath_type=netdev")
    switch = HostSwitch(daemons.paths)
    with daemons.stopped(VSWITCHD):
        begun = time.monotonic()
        for call in (switch.bridges, switch.bonds, switch.datapaths, switch.upcalls):
            with pytest.raises(SwitchError) as failed:
                await call()
            assert failed.value.fault is ProducerFault.TIMEOUT
        with pytest.raises(SwitchError, match="statistics of br-int not sent"):
            await switch.flow_counts("br-int")
        assert time.monotonic() - begun < NOTICED / 3
    await switch.daemon(VSWITCHD)
    assert await switch.bridges() == {"br-int"}


async def test_nothing_is_left_of_calls_to_daemons_that_come_and_go(daemons: Daemons) -> None:
    daemons.vsctl("add-br", "br-int", "--", "set", "bridge", "br-int", "datapath_type=netdev")
    switch = HostSwitch(daemons.paths, pace=QUICK)
    assert await everything(switch) == {None}
    descriptors, tasks = daemons.descriptors(), asyncio.all_tasks()
    async with watching(switch) as watcher:
        for name in (VSWITCHD, OVSDB_SERVER):
            daemons.kill(name)
            assert ProducerFault.CONNECTION_REFUSED in await everything(switch)
            daemons.start(name)
            with daemons.stopped(name):
                assert ProducerFault.TIMEOUT in await everything(switch)
            await switch.daemon(name)
        await watcher.database()
    assert await everything(switch) == {None}
    await asyncio.sleep(0)  # transports close in the next step of the loop
    assert asyncio.all_tasks() == tasks
    assert daemons.descriptors() == descriptors


async def test_a_restarted_switch_is_another_process(daemons: Daemons) -> None:
    switch = HostSwitch(daemons.paths)
    first, again = await switch.daemon(VSWITCHD), await switch.daemon(VSWITCHD)
    daemons.restart(VSWITCHD)
    second = await switch.daemon(VSWITCHD)
    assert first == again
    assert first.pid != second.pid
    assert first.started_at is not None
    assert second.started_at is not None
    assert first.started_at < second.started_at
    assert abs(datetime.now(UTC) - second.started_at) < timedelta(seconds=30)
