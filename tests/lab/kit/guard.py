"""Guards a host as its agent does, with instances that exist in name only. Runs in the host.

usage: guard.py KUBECONFIG NODE
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from hypercobalt.adapters.host.shutdown import LogindShutdown
from hypercobalt.adapters.libvirt.model import (
    Domain,
    DomainCapabilities,
    DomainState,
    HostCapabilities,
    Versions,
)
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.logs import configure
from hypercobalt.node_agent.host.shutdown_drain import ShutdownDrain
from hypercobalt.node_agent.status.parts import Board, Inventory, Parts
from hypercobalt.runtime import Informer, Kube, Metrics, SystemClock, load_connection
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.write_cache import Latest


async def main(kubeconfig: Path, node: str) -> None:
    configure()
    board = Board(SystemClock())
    inventory = Inventory(
        Versions("9.0.0", "7.2.0"),
        HostCapabilities("x86_64", ()),
        DomainCapabilities("x86_64", "qemu"),
        (Domain("u", "i", active=True, state=DomainState.RUNNING),),
    )
    board.put(Parts(inventory=inventory))
    async with Kube(load_connection(kubeconfig)) as kube:
        selection = Selection(Hypervisor, None, "", f"metadata.name={node}")
        informer = Informer(kube, selection, metrics=Metrics())
        guard = ShutdownDrain(LogindShutdown(), kube, Latest(informer), board, node=node)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(informer.run())
            tasks.create_task(guard.run())


asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
