"""What the operator costs a Node: time, writes, conflicts, memory, and what it does when idle.

    python benchmarks/operator_nodes.py [--json FILE] [--nodes 1 100 1000] [--idle 20]

Nodes with everything switched on are put on an embedded API server; then `cobalt operator` starts
on it, as a process of its own, and brings each to where only OpenStack is missing. Time runs from
the start of the process until the last object is as it should be.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import httpx2
from benchmarks.runtime_sample import describe, table, write_json
from tests.conformance.prepare import install_definitions, own_definitions
from tests.conformance.targets import COBALT, embedded_server
from tests.integration.cert_manager import CERT_MANAGER

from hypercobalt.api.certificate import Certificate
from hypercobalt.api.core import Namespace, Node, NodeAddress, NodeCondition, NodeStatus
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import Object, ObjectMeta
from hypercobalt.api.workloads import Deployment, PodDisruptionBudget
from hypercobalt.operator.node_facts import (
    AGGREGATES_ANNOTATION,
    HOSTNAME_LABEL,
    HYPERVISOR_LABEL,
    LIFECYCLE_LABEL,
    ZONE_LABEL,
)
from hypercobalt.runtime import Informer, Kube, Metrics, load_connection
from hypercobalt.runtime.client.requests import Selection

WRITERS = 16
LONGEST = 600.0  # seconds
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

    def resident_mib(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) / 1024

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.asynccontextmanager
async def operator(kubeconfig: Path) -> AsyncIterator[Operator]:
    process = await asyncio.create_subprocess_exec(
        str(COBALT),
        *("operator", "--kubeconfig", str(kubeconfig), "--agent-namespaces", "agents"),
        *("--compute", "none"),
        *("--health-probe-bind-address", "0", "--metrics-bind-address", "127.0.0.1:0"),
        "--no-metrics-secure",
        *("--zap-log-level", "info", "--zap-encoder", "json"),
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        line: dict[str, object] = {}
        while line.get("event") != "serving_endpoints":
            line = json.loads(await process.stderr.readline())
        drain = asyncio.create_task(process.stderr.read())
        yield Operator(process, f"http://127.0.0.1:{line['port']}/metrics")
    finally:
        process.terminate()
        await drain
        await process.wait()


def node(number: int) -> Node:
    name = f"node{number:05}"
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
            NodeAddress(type="InternalIP", address=f"192.0.{number // 256}.{number % 256}"),
            NodeAddress(type="Hostname", address=name),
        ),
        conditions=(
            *(NodeCondition(type=type_, status="False") for type_ in kubelet),
            NodeCondition(type="Ready", status="True"),
        ),
    )
    return Node(metadata=meta, status=status)


async def add_nodes(kube: Kube, count: int) -> None:
    left = iter(range(count))

    async def write() -> None:
        for number in left:
            wanted = node(number)
            await kube.create(Node(metadata=wanted.metadata))
            mine = Node(metadata=ObjectMeta(name=wanted.metadata.name), status=wanted.status)
            await kube.apply(mine, subresource="status")

    async with asyncio.TaskGroup() as tasks:
        for _ in range(WRITERS):
            tasks.create_task(write())


def settled(hypervisor: Hypervisor) -> bool:
    return {c.type for c in hypervisor.conditions} >= CONDITIONS


class Settled:
    """Follows the objects that the operator makes until there are enough good ones of each kind."""

    def __init__(self, kube: Kube, count: int) -> None:
        kinds: list[tuple[type[Object], str | None]] = [
            (Hypervisor, None),
            (Certificate, "monsoon3"),
            (Deployment, "kube-system"),
            (PodDisruptionBudget, "kube-system"),
        ]
        self._count = count
        self._changed = asyncio.Event()
        self.informers: list[Informer[Object]] = [
            Informer(kube, Selection(type_, namespace), metrics=Metrics())
            for type_, namespace in kinds
        ]
        for informer in self.informers:
            informer.add_handler(self)

    def on_add(self, obj: Object) -> None:
        self._changed.set()

    def on_update(self, old: Object, new: Object) -> None:
        self._changed.set()

    def on_delete(self, obj: Object) -> None:
        self._changed.set()

    @property
    def _done(self) -> bool:
        good: Callable[[Object], bool] = lambda o: not isinstance(o, Hypervisor) or settled(o)  # noqa: E731
        return all(
            len(informer.cache) == self._count and all(map(good, informer.cache))
            for informer in self.informers
        )

    async def wait(self) -> None:
        async with asyncio.timeout(LONGEST):
            while not self._done:
                self._changed.clear()
                await self._changed.wait()


async def measure(kubeconfig: Path, count: int, idle: float) -> Result:
    async with Kube(load_connection(kubeconfig)) as kube, contextlib.AsyncExitStack() as stack:
        for name in ("agents", "monsoon3", "kube-system"):
            if await kube.get(Namespace, name) is None:
                await kube.create(Namespace(metadata=ObjectMeta(name=name)))
        await add_nodes(kube, count)
        goal = Settled(kube, count)
        tasks = [asyncio.create_task(informer.run()) for informer in goal.informers]
        stack.callback(lambda: [task.cancel() for task in tasks])
        started = time.perf_counter()
        async with operator(kubeconfig) as running:
            await goal.wait()
            seconds = time.perf_counter() - started
            requests = await running.requests()
            writes = await running.writes()
            busy = running.cpu_seconds()
            cpu, began = running.cpu_seconds(), time.perf_counter()
            await asyncio.sleep(idle)
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
    with (
        tempfile.TemporaryDirectory() as directory,
        embedded_server(Path(directory)) as server,
    ):
        install_definitions(server, [*own_definitions(), CERT_MANAGER])
        return asyncio.run(measure(server.kubeconfig, count, idle))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 100, 1000])
    parser.add_argument("--idle", type=float, default=20.0)
    asked = parser.parse_args()
    results = [asdict(run(count, asked.idle)) for count in asked.nodes]
    print(table(tuple(results[0]), [tuple(map(str, result.values())) for result in results]))
    write_json(asked.json, {"results": results} | describe())


if __name__ == "__main__":
    main()
