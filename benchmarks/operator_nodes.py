"""What the operator costs a Node: time, writes, conflicts, memory, and what it does when idle.

    python benchmarks/operator_nodes.py [--json FILE] [--nodes 1 100 1000] [--idle 20]

Nodes with everything switched on are put on an embedded API server; then `cobalt operator` starts
on it, as a process of its own, and brings each to where only OpenStack is missing. Time runs from
the start of the process until the last object is as it should be.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Generic, TypeVar

sys.path.insert(0, str(Path(__file__).parents[1]))

import httpx2
from benchmarks.empty_server import empty_server
from benchmarks.harness import arguments, cpu_seconds, memory_mib, report_runs
from tests.conformance.targets import COBALT

from hypercobalt.api.certificate import Certificate
from hypercobalt.api.core import Namespace, Node, NodeAddress, NodeCondition, NodeStatus
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import Object, ObjectMeta
from hypercobalt.api.workloads import Deployment, PodDisruptionBudget
from hypercobalt.operator.shared.node_facts import (
    AGGREGATES_ANNOTATION,
    HOSTNAME_LABEL,
    HYPERVISOR_LABEL,
    LIFECYCLE_LABEL,
    ZONE_LABEL,
)
from hypercobalt.runtime import Informer, Kube, Metrics, load_connection
from hypercobalt.runtime.client.requests import Selection

T = TypeVar("T", bound=Object)

WRITERS = 16
LONGEST = 600.0  # seconds
QUIET = 3.0
NAMESPACES = ("agents", "monsoon3", "kube-system")
CONDITIONS = {"Ready", "Tainted", "NodeHealthy"}
COUNTER = re.compile(
    r'rest_client_requests_total\{code="([^"]*)",host="[^"]*",method="([^"]*)"\} (\S+)'
)


@dataclass(slots=True)
class Result:
    nodes: int
    seconds: float
    writes_per_node: float
    conflicts: int
    cpu_ms_per_node: float
    resident_mib: float
    idle_cpu_percent: float
    idle_writes: int


@dataclass(slots=True)
class Operator:
    process: asyncio.subprocess.Process
    metrics_url: str

    async def requests(self) -> dict[tuple[str, str], int]:
        """Method and code to how many requests had them."""
        async with httpx2.AsyncClient() as client:
            page = (await client.get(self.metrics_url)).text
        return {(method, code): int(float(n)) for code, method, n in COUNTER.findall(page)}

    async def writes(self) -> int:
        return sum(n for (method, _), n in (await self.requests()).items() if method != "GET")

    async def quiet(self) -> None:
        """Wait until it has written nothing for some seconds: Events come behind."""
        before = -1
        while (now := await self.writes()) != before:
            before = now
            await asyncio.sleep(QUIET)  # no event marks the last change

    def resident_mib(self) -> float:
        return memory_mib(self.process.pid)

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.process.pid)


@contextlib.asynccontextmanager
async def operator(
    kubeconfig: Path, compute: str = "none", environment: Mapping[str, str] | None = None
) -> AsyncIterator[Operator]:
    """Run `cobalt operator` as a process, with more in its environment."""
    process = await asyncio.create_subprocess_exec(
        str(COBALT),
        *("operator", "--kubeconfig", str(kubeconfig), "--agent-namespaces", "agents"),
        *("--compute", compute),
        *("--health-probe-bind-address", "0", "--metrics-bind-address", "127.0.0.1:0"),
        "--no-metrics-secure",
        *("--zap-log-level", "info", "--zap-encoder", "json"),
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **(environment or {})},
    )
    assert process.stderr is not None
    try:
        line: dict[str, object] = {}
        while line.get("event") != "endpoints_opened":
            line = json.loads(await process.stderr.readline())
        drain = asyncio.create_task(discard(process.stderr))
        yield Operator(process, f"http://127.0.0.1:{line['port']}/metrics")
    finally:
        process.terminate()
        await drain
        await process.wait()


async def discard(lines: asyncio.StreamReader) -> None:
    while await lines.read(65536):
        pass


def node(number: int) -> Node:
    name = f"node{number}"
    labels = {
        HYPERVISOR_LABEL: "libvirt",
        LIFECYCLE_LABEL: "skip-tests",
        HOSTNAME_LABEL: name,
        ZONE_LABEL: f"zone-{number % 3}",
    }
    meta = ObjectMeta(name=name, labels=labels, annotations={AGGREGATES_ANNOTATION: "general"})
    kubelet = ("MemoryPressure", "DiskPressure", "PIDPressure")
    status = NodeStatus(
        addresses=(
            NodeAddress(type="InternalIP", address=f"10.0.{number // 256}.{number % 256}"),
            NodeAddress(type="Hostname", address=name),
        ),
        conditions=(
            *(NodeCondition(type=type_, status="False") for type_ in kubelet),
            NodeCondition(type="Ready", status="True"),
        ),
    )
    return Node(metadata=meta, status=status)


async def add_nodes(kube: Kube, count: int, make: Callable[[int], Node] = node) -> None:
    """Create the Nodes, and the namespaces that the operator needs."""
    for name in NAMESPACES:
        if await kube.get(Namespace, name) is None:
            await kube.create(Namespace(metadata=ObjectMeta(name=name)))
    left = iter(range(count))

    async def write() -> None:
        for number in left:
            wanted = make(number)
            await kube.create(Node(metadata=wanted.metadata))
            mine = Node(metadata=ObjectMeta(name=wanted.metadata.name), status=wanted.status)
            await kube.apply(mine, subresource="status")

    async with asyncio.TaskGroup() as tasks:
        for _ in range(WRITERS):
            tasks.create_task(write())


def settled(hypervisor: Hypervisor) -> bool:
    return {c.type for c in hypervisor.conditions} >= CONDITIONS


class Good(Generic[T]):
    """Follows the objects of a kind until enough of them are good."""

    def __init__(
        self,
        kube: Kube,
        selection: Selection[T],
        count: int,
        good: Callable[[T], bool] = lambda _: True,
    ) -> None:
        self.informer = Informer(kube, selection, metrics=Metrics())
        self.informer.add_handler(self)
        self._count, self._good = count, good
        self._names = set[str]()
        self._enough = asyncio.Event()

    def on_add(self, obj: T) -> None:
        if self._good(obj):
            self._names.add(obj.metadata.name)
            if len(self._names) == self._count:
                self._enough.set()

    def on_update(self, old: T, new: T) -> None:
        self.on_add(new)

    def on_delete(self, obj: T) -> None:
        raise AssertionError(f"{obj.metadata.name} was deleted")

    async def wait(self) -> None:
        await self._enough.wait()


class Goal:
    """What the operator has to reach, of each kind of object that it makes."""

    def __init__(self, kube: Kube, count: int, good: Callable[[Hypervisor], bool]) -> None:
        found = Good(kube, Selection(Hypervisor), count, good)
        self.hypervisors = found.informer
        certificates = Good(kube, Selection(Certificate, "monsoon3"), count)
        deployments = Good(kube, Selection(Deployment, "kube-system"), count)
        budgets = Good(kube, Selection(PodDisruptionBudget, "kube-system"), count)
        self._waits = (found.wait, certificates.wait, deployments.wait, budgets.wait)
        self._runs = (
            self.hypervisors.run,
            certificates.informer.run,
            deployments.informer.run,
            budgets.informer.run,
        )

    def follow(self) -> list[Coroutine[None, None, None]]:
        """What has to run meanwhile."""
        return [run() for run in self._runs]

    async def wait(self, longest: float = LONGEST) -> None:
        async with asyncio.timeout(longest):
            for wait in self._waits:
                await wait()


async def measure(kubeconfig: Path, count: int, idle: float) -> Result:
    async with Kube(load_connection(kubeconfig)) as kube, contextlib.AsyncExitStack() as stack:
        await add_nodes(kube, count)
        goal = Goal(kube, count, settled)
        tasks = [asyncio.create_task(one) for one in goal.follow()]
        stack.callback(lambda: [task.cancel() for task in tasks])
        started = time.perf_counter()
        async with operator(kubeconfig) as running:
            await goal.wait()
            seconds = time.perf_counter() - started
            await running.quiet()
            requests = await running.requests()
            writes = await running.writes()
            busy = running.cpu_seconds()
            cpu, began = running.cpu_seconds(), time.perf_counter()
            await asyncio.sleep(idle)  # what is measured: doing nothing
            used = (running.cpu_seconds() - cpu) / (time.perf_counter() - began)
            return Result(
                nodes=count,
                seconds=round(seconds, 2),
                writes_per_node=round(writes / count, 2),
                conflicts=sum(n for (_, code), n in requests.items() if code == "409"),
                cpu_ms_per_node=round(1000 * busy / count, 1),
                resident_mib=round(running.resident_mib(), 1),
                idle_cpu_percent=round(100 * used, 2),
                idle_writes=await running.writes() - writes,
            )


def run(count: int, idle: float) -> Result:
    with empty_server() as kubeconfig:
        return asyncio.run(measure(kubeconfig, count, idle))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 100, 1000])
    parser.add_argument("--idle", type=float, default=20.0)
    options = parser.parse_args()
    results = [asdict(run(count, options.idle)) for count in options.nodes]
    report_runs(options.json, results)


if __name__ == "__main__":
    main()
