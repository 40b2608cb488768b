"""What a fleet costs when nothing happens: the comparison with OpenStack, and hosts that wait.

    python benchmarks/operator_idle.py [--json FILE] [--nodes 1000] [--waiting 0 692] [--minutes 3]
        [--agents]

As `operator_onboarding`, but some of the Nodes have no host in the simulated OpenStack, so they
wait to be registered. Once the others are Ready the operator is left alone for some minutes. With
`--agents` each node agent has a Lease, which is renewed every 10 s all the time.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.empty_server import empty_server
from benchmarks.harness import arguments, report_runs
from benchmarks.operator_nodes import Good, add_nodes, operator
from benchmarks.operator_onboarding import AGGREGATES, ZONES, Agents, is_ready, wanted
from benchmarks.simulated_cloud import simulated_cloud
from msgspec.structs import replace

from hypercobalt.api.coordination import Lease, LeaseSpec
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.times import micro_time
from hypercobalt.runtime import Kube, load_connection
from hypercobalt.runtime.client.requests import Selection

LONGEST = 1800.0  # seconds until the hosts are Ready
AGENTS = "agents"
RENEW_SECONDS = 10.0
COMPARED = 90.0  # seconds, in which the last change has been compared


@dataclass(slots=True)
class Result:
    nodes: int
    waiting: int
    renewals_a_second: float
    resident_mib: float
    cpu_percent: float
    calls_a_minute: float
    writes: int
    calls: dict[str, int]


class Leases:
    """Leases of the node agents, renewed one after the other."""

    def __init__(self, kube: Kube, nodes: int) -> None:
        self._kube = kube
        self._names = [f"node-agent-node{number}" for number in range(nodes)]
        self.renewed = 0

    async def make(self) -> None:
        now = micro_time(datetime.now(UTC))
        spec = LeaseSpec(leaseDurationSeconds=40, acquireTime=now, renewTime=now)
        for name in self._names:
            meta = ObjectMeta(name=name, namespace=AGENTS)
            await self._kube.create(Lease(metadata=meta, spec=replace(spec, holderIdentity=name)))

    async def run(self) -> None:
        due = time.perf_counter()
        while True:
            for name in self._names:
                spec = {"renewTime": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"}
                await self._kube.merge_patch(Lease, name, {"spec": spec}, namespace=AGENTS)
                self.renewed += 1
                due += RENEW_SECONDS / len(self._names)
                await asyncio.sleep(due - time.perf_counter())


async def measure(
    kubeconfig: Path, nodes: int, waiting: int, minutes: float, *, with_agents: bool
) -> Result:
    registered = nodes - waiting
    flags = ("--disabled", "--zones", *ZONES, "--aggregates", *AGGREGATES)
    async with (
        Kube(load_connection(kubeconfig)) as kube,
        simulated_cloud("--hosts", str(registered), *flags) as cloud,
        contextlib.AsyncExitStack() as stack,
    ):
        await add_nodes(kube, nodes, wanted)
        ready = Good(kube, Selection(Hypervisor), registered, is_ready)
        agents = Agents(kube)
        ready.informer.add_handler(agents)
        tasks = [asyncio.create_task(one) for one in (ready.informer.run(), agents.run())]
        stack.callback(lambda: [task.cancel() for task in tasks])
        async with operator(kubeconfig, "nova", cloud.environment) as running:
            async with asyncio.timeout(LONGEST):
                await ready.wait()
            leases = Leases(kube, nodes if with_agents else 0)
            if with_agents:
                await leases.make()
                tasks.append(asyncio.create_task(leases.run()))
            # The operator compares the fleet each minute, and logs only what differs.
            await asyncio.sleep(COMPARED)
            await running.quiet()
            await cloud.forget()
            writes, began, at = await running.writes(), running.cpu_seconds(), time.perf_counter()
            renewed = leases.renewed
            await asyncio.sleep(60 * minutes)  # the time that is measured: nothing happens in it
            passed = time.perf_counter() - at
            calls = await cloud.calls()
            return Result(
                nodes=nodes,
                waiting=waiting,
                renewals_a_second=round((leases.renewed - renewed) / passed, 1),
                resident_mib=round(running.resident_mib(), 1),
                cpu_percent=round(100 * (running.cpu_seconds() - began) / passed, 2),
                calls_a_minute=round(60 * sum(calls.values()) / passed, 1),
                writes=await running.writes() - writes,
                calls=calls,
            )


def run(nodes: int, waiting: int, minutes: float, *, with_agents: bool) -> Result:
    with empty_server() as kubeconfig:
        return asyncio.run(measure(kubeconfig, nodes, waiting, minutes, with_agents=with_agents))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--waiting", type=int, nargs="+", default=[0, 692])
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--agents", action="store_true", help="node agents renew their Leases")
    options = parser.parse_args()
    results = [
        asdict(run(options.nodes, waiting, options.minutes, with_agents=options.agents))
        for waiting in options.waiting
    ]
    report_runs(options.json, results)


if __name__ == "__main__":
    main()
