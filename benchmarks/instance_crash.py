"""How soon the operator has Nova restart an instance that has crashed.

    python benchmarks/instance_crash.py [--json FILE] [--crashes 9]

From libvirt's event in the node agent to the first order that a simulated OpenStack gets, over the
incident, the API server, the Eviction and its checks. The API server and OpenStack are processes of
their own; node agent and Eviction controller run in this one, on a simulated libvirt. The delay of
libvirt's own event is measured by `node_agent.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.empty_server import empty_server
from benchmarks.harness import arguments, report, table
from benchmarks.simulated_cloud import Cloud, simulated_cloud
from prometheus_client import CollectorRegistry

from hypercobalt.adapters.libvirt.fake import FakeLibvirt
from hypercobalt.adapters.libvirt.model import Domain, DomainState
from hypercobalt.adapters.libvirt.vocabulary import Stopped
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.connect import connect_nova
from hypercobalt.node_agent.agent import register
from hypercobalt.node_agent.emulated import emulated_host
from hypercobalt.node_agent.settings import NodeAgentSettings
from hypercobalt.operator.eviction.assembly import add_eviction
from hypercobalt.operator.eviction.model.policy import Policy
from hypercobalt.operator.shared.proofs import Proofs
from hypercobalt.runtime import Kube, Manager, Metrics, load_connection

HOST = "node0"
SERVERS = 60
"""So many that the crashes are no incident of the host as a whole."""
LONGEST = 30.0
STEP = 0.002


@contextlib.asynccontextmanager
async def running(kubeconfig: Path, cloud: Cloud, libvirt: FakeLibvirt) -> AsyncIterator[None]:
    """The node agent of the host and the Eviction controller, each with a client of its own."""
    os.environ.update(cloud.environment)
    service = connect_nova(os.environ, CollectorRegistry())
    async with (
        Kube(load_connection(kubeconfig)) as of_agent,
        Kube(load_connection(kubeconfig)) as of_operator,
    ):
        host = await service.hosts.get(HOST)
        assert host is not None
        for server in await service.moves.servers(HOST):
            libvirt.add(Domain(server.id, server.name, False, DomainState.SHUTOFF, 1 << 30, 1))
            libvirt.start(server.id)
        await of_operator.create(Hypervisor(metadata=ObjectMeta(name=HOST), spec=HypervisorSpec()))
        status = HypervisorStatus(hypervisorId=host.hypervisor_id, serviceId=host.service_id)
        await of_operator.apply(
            Hypervisor(metadata=ObjectMeta(name=HOST), status=status), subresource="status"
        )
        metrics = Metrics()
        operator = Manager(of_operator, metrics=metrics)
        agent = Manager(of_agent, metrics=Metrics())
        add_eviction(
            operator,
            service,
            operator.informer(Hypervisor),
            proofs=Proofs(operator.kube),
            policy=Policy(),
            events=operator.recorder("example.com/benchmark"),
            metrics=metrics,
        )
        settings = NodeAgentSettings(
            node=HOST, label=HOST, namespace="default", ha_config="default/ha"
        )
        register(settings, agent, replace(emulated_host(), libvirt=libvirt))
        tasks = [asyncio.create_task(one.run()) for one in (operator, agent)]
        try:
            await until_reported(of_operator)
            yield
        finally:
            operator.stop()
            agent.stop()
            await asyncio.gather(*tasks)
            await service.close()


async def until_reported(kube: Kube) -> None:
    async with asyncio.timeout(LONGEST), kube.watch(Hypervisor) as events:
        async for event in events:
            if event.object is not None and event.object.status.numInstances == SERVERS:
                return


async def ordered(cloud: Cloud) -> tuple[str, float]:
    """The first order to a server, and when it came."""
    async with asyncio.timeout(LONGEST):
        while True:
            for kind, at in (await cloud.times()).items():
                if "/action" in kind:
                    return kind, at
            await asyncio.sleep(STEP)  # the simulated Nova only counts calls


async def measure(kubeconfig: Path, crashes: int) -> list[float]:
    libvirt, found = FakeLibvirt(), list[float]()
    async with (
        simulated_cloud("--hosts", "3", "--servers", str(SERVERS)) as cloud,
        running(kubeconfig, cloud, libvirt),
    ):
        for uuid in list(libvirt.here)[:crashes]:
            await cloud.forget()
            crashed = time.monotonic()
            libvirt.stop(uuid, Stopped.FAILED)
            _, at = await ordered(cloud)
            found.append(at - crashed)
            libvirt.start(uuid)
    return found


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--crashes", type=int, default=9, help="at most 10 a minute are no storm")
    options = parser.parse_args()
    with empty_server() as kubeconfig:
        times = asyncio.run(measure(kubeconfig, options.crashes))
    found = {
        "crashes": len(times),
        "p50_seconds": round(statistics.median(times), 3),
        "worst_seconds": round(max(times), 3),
    }
    print(table(tuple(found), [tuple(map(str, found.values()))]))
    report(options.json, found)


if __name__ == "__main__":
    main()
