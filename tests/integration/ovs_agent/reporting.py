"""The agent as a process, and what it writes."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable

from tests.following import follow
from tests.integration.agent.process import Process, drained, lines_until, started
from tests.integration.node_agent.host.conftest import NAMESPACE
from tests.integration.ovs.daemons import Daemons

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.ovsnode import OVSNode
from hypercobalt.apiserver.server import Server
from hypercobalt.runtime import Kube

NODE = "kvm-a"
SECONDS = 25.0  # for what has no deadline of its own, on a busy machine


@contextlib.asynccontextmanager
async def agent(server: Server, daemons: Daemons) -> AsyncIterator[tuple[Process, int]]:
    """The agent's process, once it serves; and the port of its pages."""
    paths = daemons.paths
    command = (
        *(sys.executable, "-c", "from hypercobalt.cli import main; main()", "ovs-agent"),
        *("--kubeconfig", str(server.kubeconfig), "--node", NODE, "--namespace", NAMESPACE),
        *("--ovs-rundir", str(paths.ovs), "--ovn-rundir", str(paths.ovn)),
        *("--host-root", str(paths.root), "--health-probe-bind-address", "127.0.0.1:0"),
        *("--metrics-bind-address", "127.0.0.1:0", "--no-metrics-secure"),
        *("--diagnostics-bind-address", "127.0.0.1:0", "--table-metrics"),
    )
    async with started(*command) as process:
        lines = await lines_until(process, "lease_acquired")
        ports = [int(str(line["port"])) for line in lines if line["event"] == "endpoints_opened"]
        reading = asyncio.create_task(drained(process))
        try:
            yield process, ports[-1]
        finally:
            reading.cancel()
            await asyncio.wait([reading])


def state(node: OVSNode, type_: str) -> str:
    found = get_condition(node.status.conditions, type_)
    return f"{found.status}/{found.reason}" if found else ""


async def until(kube: Kube, good: Callable[[OVSNode], bool], seconds: float = SECONDS) -> OVSNode:
    return await follow(kube, OVSNode, NODE, good, seconds=seconds)


def bridges(node: OVSNode) -> dict[str, tuple[str | None, int | None, int | None]]:
    return {one.name: (one.status, one.ports, one.flows) for one in node.status.bridges}


def healthy(node: OVSNode) -> bool:
    return state(node, "AllBridgesHealthy") == "True/AllBridgesActive" and all(
        flows is not None for _, _, flows in bridges(node).values()
    )
