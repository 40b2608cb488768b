"""Connections to a bridge's OpenFlow socket are a controller's, but for those of the agent."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from tests.unit.adapters.ovs.scripted import replies, served

from hypercobalt.adapters.ovs.host import HostSwitch
from hypercobalt.adapters.ovs.model import DaemonName, Paths
from hypercobalt.adapters.ovs.port import SwitchError
from hypercobalt.adapters.ovs.watch import WatchPace

LINE = "0000000000000000: 00000003 00000000 00000000 0001 03 {0} {1}/br-int.mgmt\n"


def connections(root: Path, count: int, process: str = "") -> None:
    """What the kernel shows of the bridge's socket, in the network namespace of a process."""
    net = root / "proc" / process / "net"
    net.mkdir(parents=True, exist_ok=True)
    lines = (LINE.format(number, root) for number in range(count))
    (net / "unix").write_text("Num RefCount Protocol Flags Type St Inode Path\n" + "".join(lines))


@pytest.mark.parametrize(("shown", "controllers"), [(1, 0), (4, 3)])
async def test_own_connection_is_no_controller(
    tmp_path: Path, shown: int, controllers: int
) -> None:
    switch = HostSwitch(Paths(tmp_path, tmp_path, tmp_path), pace=WatchPace(deadline=0.2))
    connections(tmp_path, shown)
    assert await switch.openflow_peers("br-int") == shown
    async with served(tmp_path / "br-int.mgmt", replies()):
        reading = asyncio.create_task(switch.flow_counts("br-int"))
        await asyncio.sleep(0.05)
        assert await switch.openflow_peers("br-int") == controllers
        assert await switch.openflow_peers("br-ex") == 0
        with pytest.raises(SwitchError):
            await reading
    # The switch closes its end a moment later.
    assert await switch.openflow_peers("br-int") == controllers
    async with asyncio.timeout(5):
        while await switch.openflow_peers("br-int") != shown:  # noqa: ASYNC110 - nothing reports it
            await asyncio.sleep(0.05)


async def test_connections_are_those_of_the_process_that_answers(tmp_path: Path) -> None:
    """A pid file of a container has another number than the process has here."""
    (tmp_path / "ovs-vswitchd.pid").write_text("7\n")
    connections(tmp_path, 0, "7")
    connections(tmp_path, 3, str(os.getpid()))
    version = b'{"id":1,"result":"ovs-vswitchd (Open vSwitch) 3.1.0","error":null}'
    switch = HostSwitch(Paths(tmp_path, tmp_path, tmp_path))
    async with served(tmp_path / "ovs-vswitchd.7.ctl", replies(version)):
        assert await switch.openflow_peers("br-int") == 0
        await switch.daemon(DaemonName.VSWITCHD)
        assert await switch.openflow_peers("br-int") == 3
