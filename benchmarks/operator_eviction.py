"""How long a host takes to be emptied, and what that costs the API server and OpenStack.

    python benchmarks/operator_eviction.py [--json FILE] [--instances 20 100 500] [--seconds 2]
        [--hosts 8] [--parallelism N]

The embedded API server and a simulated OpenStack run as processes of their own; the Eviction
controller runs in this one, with Nova's adapter. Time runs from the creation of the Eviction until
it has succeeded. The ideal is all moves without a gap: instances / parallelism x seconds. Without
`--parallelism` the site's default counts: what the host, and the other hosts, bear at once.

The figures of the existing operator were measured on such a machine at 2 s a move; it moves one
instance at a time, whatever the parallelism.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.empty_server import empty_server
from benchmarks.harness import arguments, report_runs
from benchmarks.simulated_cloud import Cloud, simulated_cloud
from prometheus_client import CollectorRegistry

from hypercobalt.api.conditions import set_condition
from hypercobalt.api.eviction import Eviction, EvictionSpec, has_ended
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.connect import connect_nova
from hypercobalt.compute.port import ComputeService
from hypercobalt.operator.eviction.assembly import add_eviction
from hypercobalt.operator.eviction.model.policy import Policy
from hypercobalt.operator.eviction.observing.networks import BY_NETWORK, network_of
from hypercobalt.operator.shared.proofs import Proofs
from hypercobalt.runtime import Kube, Manager, Metrics, SystemClock, load_connection

HOST = "node0"
UPSTREAM = {20: 210.8, 100: 1012.9}
"""Seconds that the existing operator took, by instances, at 2 s a move."""
LONGEST = 600.0


@dataclass(slots=True)
class Result:
    instances: int
    parallelism: int
    ideal_seconds: float
    seconds: float
    of_ideal: float
    existing_seconds: float | None
    api_writes: int
    openstack_calls: int
    calls: dict[str, int]


@contextlib.asynccontextmanager
async def nova(cloud: Cloud) -> AsyncIterator[ComputeService]:
    os.environ.update(cloud.environment)
    service = connect_nova(os.environ, CollectorRegistry())
    try:
        yield service
    finally:
        await service.close()


async def prepare(kube: Kube, service: ComputeService) -> None:
    host = await service.hosts.get(HOST)
    assert host is not None
    await service.hosts.disable(host, "benchmark")
    await kube.create(Hypervisor(metadata=ObjectMeta(name=HOST), spec=HypervisorSpec()))
    disabled = set_condition(
        (), "HypervisorDisabled", "True", "Succeeded", "disabled", now=SystemClock().now()
    )
    status = HypervisorStatus(
        numInstances=0,
        hypervisorId=host.hypervisor_id,
        serviceId=host.service_id,
        conditions=disabled,
    )
    await kube.apply(
        Hypervisor(metadata=ObjectMeta(name=HOST), status=status), subresource="status"
    )


async def evict(kube: Kube, parallelism: int | None) -> float:
    spec = EvictionSpec(hypervisor=HOST, reason="benchmark", parallelism=parallelism)
    started = time.perf_counter()
    await kube.create(Eviction(metadata=ObjectMeta(name=HOST), spec=spec))
    async with asyncio.timeout(LONGEST), kube.watch(Eviction) as events:
        async for event in events:
            if event.object is not None and has_ended(event.object.status):
                seconds = time.perf_counter() - started
                assert event.object.status.progress is not None
                assert event.object.status.progress.percent == 100, event.object.status.conditions
                return seconds
    raise AssertionError("the watch ended")


def writes(metrics: Metrics) -> int:
    return int(
        sum(
            sample.value
            for family in metrics.requests.collect()
            for sample in family.samples
            if sample.name.endswith("_total") and sample.labels["method"] != "GET"
        )
    )


async def measure(
    kubeconfig: Path, instances: int, hosts: int, parallelism: int | None, each: float
) -> Result:
    metrics, policy = Metrics(), Policy()
    async with (
        simulated_cloud(
            *("--hosts", str(hosts), "--servers", str(instances), "--live", str(each))
        ) as cloud,
        nova(cloud) as service,
        Kube(load_connection(kubeconfig)) as person,
        Kube(load_connection(kubeconfig), metrics=metrics) as kube,
    ):
        await prepare(person, service)
        manager = Manager(kube, metrics=metrics)
        add_eviction(
            manager,
            service,
            manager.informer(Hypervisor, indexes={BY_NETWORK: network_of}),
            proofs=Proofs(manager.kube),
            policy=policy,
            events=manager.recorder("example.com/benchmark"),
            metrics=metrics,
        )
        running = asyncio.create_task(manager.run())
        await cloud.forget()
        seconds = await evict(person, parallelism)
        calls = await cloud.calls()
        manager.stop()
        await running
        borne = min(policy.per_source, policy.per_possible_target * (hosts - 1))
        at_once = parallelism or borne
        ideal = -(-instances // at_once) * each
        return Result(
            instances=instances,
            parallelism=at_once,
            ideal_seconds=ideal,
            seconds=round(seconds, 2),
            of_ideal=round(seconds / ideal, 2),
            existing_seconds=UPSTREAM.get(instances),
            api_writes=writes(metrics),
            openstack_calls=sum(calls.values()),
            calls=calls,
        )


def run(instances: int, hosts: int, parallelism: int | None, each: float) -> Result:
    with empty_server() as kubeconfig:
        return asyncio.run(measure(kubeconfig, instances, hosts, parallelism, each))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--instances", type=int, nargs="+", default=[20, 100, 500])
    parser.add_argument("--hosts", type=int, default=8)
    parser.add_argument("--parallelism", type=int)
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    results = [
        asdict(run(count, options.hosts, options.parallelism, options.seconds))
        for count in options.instances
    ]
    report_runs(options.json, results)


if __name__ == "__main__":
    main()
