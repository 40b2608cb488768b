"""Connections to a bridge's OpenFlow socket are a controller's, but for those of the agent."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.unit.adapters.ovs.scripted import replies, served

from hypercobalt.adapters.ovs.host import HostSwitch
from hypercobalt.adapters.ovs.model import Paths
from hypercobalt.adapters.ovs.port import SwitchError
from hypercobalt.adapters.ovs.watch import Pace

LINE = "0000000000000000: 00000003 00000000 00000000 0001 03 {0} {1}/br-int.mgmt\n"


def connections(root: Path, count: int) -> None:
    """What the kernel shows of the bridge's socket."""
    net = root / "proc/net"
    net.mkdir(parents=True, exist_ok=True)
    lines = (LINE.format(number, root) for number in range(count))
    (net / "unix").write_text("Num RefCount Protocol Flags Type St Inode Path\n" + "".join(lines))


@pytest.mark.parametrize(("shown", "controllers"), [(1, 0), (4, 3)])
async def test_own_connection_is_no_controller(
    tmp_path: Path, shown: int, controllers: int
) -> None:
    switch = HostSwitch(Paths(tmp_path, tmp_path, tmp_path), pace=Pace(deadline=0.2))
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
