"""What a fleet costs when nothing happens: the comparison with OpenStack, and hosts that wait.

    python benchmarks/operator_idle.py [--json FILE] [--nodes 1000] [--waiting 0 692] [--minutes 3]

As `operator_onboarding`, but some of the Nodes have no host in the simulated OpenStack, so they
wait to be registered. Once the others are Ready the operator is left alone for some minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.empty_server import empty_server
from benchmarks.operator_nodes import Good, add_nodes, operator
from benchmarks.operator_onboarding import AGGREGATES, ZONES, Agents, is_ready, wanted
from benchmarks.runtime_sample import describe, table, write_json
from benchmarks.simulated_cloud import simulated_cloud

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.runtime import Kube, load_connection
from hypercobalt.runtime.client.requests import Selection

LONGEST = 1800.0  # seconds until the hosts are Ready
COMPARED = 90.0  # seconds, in which the last change has been compared


@dataclass(slots=True)
class Result:
    nodes: int
    waiting: int
    cpu_percent: float
    calls_a_minute: float
    writes: int
    calls: dict[str, int]


async def measure(kubeconfig: Path, nodes: int, waiting: int, minutes: float) -> Result:
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
            # The operator compares the fleet each minute, and logs only what differs.
            await asyncio.sleep(COMPARED)
            await running.quiet()
            await cloud.forget()
            writes, began, at = await running.writes(), running.cpu_seconds(), time.perf_counter()
            await asyncio.sleep(60 * minutes)  # the time that is measured: nothing happens in it
            passed = time.perf_counter() - at
            calls = await cloud.calls()
            return Result(
                nodes=nodes,
                waiting=waiting,
                cpu_percent=round(100 * (running.cpu_seconds() - began) / passed, 2),
                calls_a_minute=round(60 * sum(calls.values()) / passed, 1),
                writes=await running.writes() - writes,
                calls=calls,
            )


def run(nodes: int, waiting: int, minutes: float) -> Result:
    with empty_server() as kubeconfig:
        return asyncio.run(measure(kubeconfig, nodes, waiting, minutes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--waiting", type=int, nargs="+", default=[0, 692])
    parser.add_argument("--minutes", type=float, default=3.0)
    options = parser.parse_args()
    results = [asdict(run(options.nodes, waiting, options.minutes)) for waiting in options.waiting]
    print(table(tuple(results[0]), [tuple(map(str, result.values())) for result in results]))
    write_json(options.json, {"results": results} | describe())


if __name__ == "__main__":
    main()
