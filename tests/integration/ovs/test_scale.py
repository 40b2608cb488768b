"""The cost of a collection with very many flows, and that the switch does not feel it."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from hypercobalt.adapters.ovs.host import HostSwitch
from tests.integration.ovs.daemons import VSWITCHD, Daemons

FLOWS = 200_000
CPU, CPU_OF_SWITCH = 0.05, 0.1
"""Seconds of this process and of ovs-vswitchd for one collection."""


def flow(number: int) -> str:
    port, address = number % 60_000, number // 60_000
    return f"table={number % 60},in_port={port},ip,nw_src=10.0.0.{address},actions=drop\n"


async def collect(switch: HostSwitch) -> int:
    """Read what an agent reads regularly; return the number of flows."""
    await switch.daemon(VSWITCHD)
    for call in (
        switch.bridges,
        switch.bonds,
        switch.datapaths,
        switch.upcalls,
        switch.pmds,
    ):
        await call()
    await switch.memory(VSWITCHD)
    await switch.coverage(VSWITCHD)
    await switch.statistics()
    await switch.links()
    await switch.openflow_peers("br-int")
    return (await switch.flow_counts("br-int")).total


async def test_very_many_flows_cost_neither_the_agent_nor_the_switch(
    daemons: Daemons, tmp_path: Path
) -> None:
    bridge = ("set", "bridge", "br-int", "datapath_type=netdev", "fail_mode=secure")
    daemons.vsctl("add-br", "br-int", "--", *bridge)
    file = tmp_path / "flows"
    file.write_text("".join(flow(number) for number in range(FLOWS)))
    daemons.ofctl("add-flows", "br-int", str(file))
    switch = HostSwitch(daemons.paths)
    await collect(switch)
    log = daemons.folder / f"{VSWITCHD}.log"
    start = log.stat().st_size
    rounds, begun, of_switch = 10, time.process_time(), cpu_of(daemons.pid(VSWITCHD))
    for _ in range(rounds):
        assert await collect(switch) == FLOWS
    assert (time.process_time() - begun) / rounds < CPU
    assert (cpu_of(daemons.pid(VSWITCHD)) - of_switch) / rounds < CPU_OF_SWITCH
    # On a machine that is busy a poll is long without work: only the work counts.
    written = log.read_bytes()[start:].decode()
    long = re.findall(r"Unreasonably long .*\((\d+)ms user, (\d+)ms", written)
    assert [one for one in long if sum(map(int, one)) > CPU_OF_SWITCH * 1000] == []


def cpu_of(pid: int) -> float:
    """Seconds of CPU that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
