"""The embedded API server beside a real kube-apiserver with etcd, both with durable writes.

    python benchmarks/apiserver.py [--json FILE] [--data DIR] [--many 10000]

Both are loaded with Hypervisors of realistic size. Rates of writes are medians of five rounds,
taken of both servers in alternating order after both were warmed up: ten seconds after its start a
real server makes three times as many as at once. All other requests go to one server at a time.

The first run builds the real ones (about 8 minutes). --data chooses the disk; the default is the
system's temporary directory. "client" is the share of one CPU that this client itself used.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import (
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import uvloop
from benchmarks.harness import arguments, memory_mib, report, table
from benchmarks.rawhttp import RawClient
from tests.conformance.prepare import install_definitions, own_definitions
from tests.conformance.real import TOKEN, Server, real_server
from tests.conformance.targets import embedded_server
from tests.unit.api.conftest import hypervisor_json

HYPERVISORS = "/apis/kvm.cloud.sap/v1/hypervisors"
MERGE = "application/merge-patch+json"
FEW = 1_000
SEQUENTIAL = 300  # writes, one after the other
CONCURRENT = 1_600  # writes, by WRITERS at once
WRITERS = 16
ROUNDS = 5
WARM_SECONDS = 15.0
STARTS = 3
MARK = re.compile(rb'"serviceId":"mark-(\d+)"')
WAIT_SECONDS = 60


@dataclass(slots=True)
class Results:
    """What was measured of one server: name of the measurement to value."""

    values: dict[str, float] = field(default_factory=dict)
    client: dict[str, float] = field(default_factory=dict)
    rounds: dict[str, list[float]] = field(default_factory=dict)

    async def rate(self, name: str, number: int, work: Coroutine[None, None, None]) -> None:
        """Record how many of the `number` things that `work` does are done in a second."""
        with self.used_by(name):
            began = time.perf_counter()
            await work
            took = time.perf_counter() - began
        self.rounds.setdefault(name, []).append(number / took)
        self.values[name] = statistics.median(self.rounds[name])

    async def time(self, name: str, work: Coroutine[None, None, float]) -> None:
        """Record what `work` returns."""
        with self.used_by(name):
            self.values[name] = await work

    @contextmanager
    def used_by(self, name: str) -> Iterator[None]:
        """Record the share of one CPU that this process uses in the block."""
        wall, used = time.perf_counter(), time.process_time()
        yield
        self.client[name] = (time.process_time() - used) / (time.perf_counter() - wall)


@asynccontextmanager
async def clients(server: Server, count: int) -> AsyncIterator[list[RawClient]]:
    context = server.ssl_context()
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(RawClient(server.url, TOKEN, context))
            for _ in range(count)
        ]


def named(number: int) -> tuple[str, bytes]:
    """Return the name and the body of Hypervisor `number`, as a client would create it."""
    body = json.loads(hypervisor_json(number))
    name = f"node-{number:05d}"
    body["metadata"] = {"name": name, "labels": body["metadata"].get("labels", {})}
    return name, json.dumps(body).encode()


def status_patch(number: int, mark: int) -> bytes:
    """A merge patch of the size that an agent's status update has, with a mark to watch for."""
    status = json.loads(hypervisor_json(number))["status"]
    return json.dumps({"status": {**status, "serviceId": f"mark-{mark}"}}).encode()


async def create(pool: list[RawClient], bodies: list[bytes]) -> None:
    waiting = iter(bodies)

    async def one(client: RawClient) -> None:
        for body in waiting:
            answer = await client.send("POST", HYPERVISORS, body)
            assert answer.status == 201, answer.body[:500]

    await asyncio.gather(*(one(client) for client in pool))


async def patch(pool: list[RawClient], patches: list[tuple[str, bytes]]) -> None:
    waiting = iter(patches)

    async def one(client: RawClient) -> None:
        for name, body in waiting:
            answer = await client.send("PATCH", f"{HYPERVISORS}/{name}/status", body, MERGE)
            assert answer.status == 200, answer.body[:500]

    await asyncio.gather(*(one(client) for client in pool))


async def list_ms(client: RawClient, rounds: int, query: str = "") -> float:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        answer = await client.send("GET", HYPERVISORS + query)
        times.append((time.perf_counter() - began) * 1000)
        assert answer.status == 200, answer.body[:500]
    return statistics.median(times)


async def list_in_pages_ms(client: RawClient) -> float:
    began, token = time.perf_counter(), ""
    while True:
        query = f"?limit=500&continue={token}" if token else "?limit=500"
        answer = await client.send("GET", HYPERVISORS + query)
        found = re.search(rb'"continue":"([^"]+)"', answer.body)
        if found is None:
            return (time.perf_counter() - began) * 1000
        token = found[1].decode()


async def latency(server: Server, results: Results, watchers: int, writes: int) -> None:
    """Measure from the start of a write to its event in each watcher."""
    name, _ = named(0)
    sent: dict[int, float] = {}
    seen: list[float] = []
    arrived = asyncio.Event()

    async def follow(lines: AsyncIterator[bytes]) -> None:
        async for line in lines:
            now = time.perf_counter()
            found = MARK.search(line)
            if found is not None and int(found[1]) in sent:
                seen.append(now - sent[int(found[1])])
            if len(seen) >= watchers * len(sent):
                arrived.set()

    label = f"event latency, {watchers} watcher{'s' if watchers > 1 else ''}"
    async with clients(server, watchers + 1) as pool:
        listed = await pool[0].send("GET", f"{HYPERVISORS}?limit=1")
        version = str(json.loads(listed.body)["metadata"]["resourceVersion"])
        path = f"{HYPERVISORS}?watch=1&resourceVersion={version}"
        standing = [await client.watch(path) for client in pool[1:]]
        tasks = [asyncio.create_task(follow(lines)) for lines in standing]
        with results.used_by(f"{label}, p50 [ms]"):
            for mark in range(writes):
                body = status_patch(0, mark)
                arrived.clear()
                sent[mark] = time.perf_counter()
                await pool[0].send("PATCH", f"{HYPERVISORS}/{name}/status", body, MERGE)
                async with asyncio.timeout(WAIT_SECONDS):
                    await arrived.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    ordered = sorted(seen)
    results.values[f"{label}, p50 [ms]"] = ordered[len(ordered) // 2] * 1000
    results.values[f"{label}, p99 [ms]"] = ordered[int(len(ordered) * 0.99)] * 1000


def resident_mib(server: Server) -> float:
    return sum(map(memory_mib, server.pids))


async def warm_up(pool: list[RawClient], numbers: Iterator[int], seconds: float) -> None:
    """Write for a while, uncounted."""
    until = time.perf_counter() + seconds

    async def one(client: RawClient) -> None:
        while time.perf_counter() < until:
            await create([client], [named(next(numbers))[1]])

    await asyncio.gather(*(one(client) for client in pool))


async def one_round(pool: list[RawClient], numbers: Iterator[int], results: Results) -> None:
    """Create, then write statuses, first by one writer, then by all."""
    made = [named(next(numbers)) for _ in range(CONCURRENT)]
    bodies = [body for _, body in made]
    few, rest = bodies[:SEQUENTIAL], bodies[SEQUENTIAL:]
    await results.rate("creates/s, one writer", len(few), create(pool[:1], few))
    await results.rate(f"creates/s, {WRITERS} writers", len(rest), create(pool, rest))
    patches = [(name, status_patch(at, at)) for at, (name, _) in enumerate(made)]
    some = patches[:SEQUENTIAL]
    await results.rate("status writes/s, one writer", len(some), patch(pool[:1], some))
    await results.rate(f"status writes/s, {WRITERS} writers", len(patches), patch(pool, patches))


async def write_rates(measured: list[tuple[Server, Results]]) -> None:
    """Measure the rates of writes of all servers, in alternating order."""
    async with AsyncExitStack() as stack:
        ready = [
            (await stack.enter_async_context(clients(server, WRITERS)), count(1_000_000), results)
            for server, results in measured
        ]
        for pool, numbers, _ in ready:
            await warm_up(pool, numbers, WARM_SECONDS)
        for number in range(ROUNDS):
            for pool, numbers, results in ready if number % 2 else reversed(ready):
                await one_round(pool, numbers, results)


async def measure(server: Server, results: Results, many: int) -> None:
    async with clients(server, WRITERS) as pool:
        await create(pool, [named(number)[1] for number in range(FEW)])
        await list_ms(pool[0], 1)
        results.values[f"resident with {FEW:,} Hypervisors [MiB]"] = resident_mib(server)
        await results.time(f"list of {FEW:,} [ms]", list_ms(pool[0], 11))
        await latency(server, results, 1, 300)
        await latency(server, results, 100, 100)
        await create(pool, [named(number)[1] for number in range(FEW, many)])
        await results.time(f"list of {many:,} [ms]", list_ms(pool[0], 5))
        pages = f"list of {many:,} in pages of 500 [ms]"
        await results.time(pages, list_in_pages_ms(pool[0]))
        results.values[f"resident with {many:,} Hypervisors [MiB]"] = resident_mib(server)


Start = Callable[[Path], AbstractContextManager[Server]]


def run(start: Start, parent: Path, many: int) -> Results:
    results, ready = Results(), []
    for number in range(STARTS):
        with tempfile.TemporaryDirectory(dir=parent) as directory, start(Path(directory)) as server:
            ready.append(server.ready_seconds)
            if number == STARTS - 1:
                results.values["ready, empty [s]"] = statistics.median(ready)
                install_definitions(server, own_definitions())
                uvloop.run(measure(server, results, many))
    return results


def run_writes(starts: list[tuple[Start, Results]], parent: Path) -> None:
    """Start all servers at once and measure the rates of writes."""
    with ExitStack() as stack:
        measured: list[tuple[Server, Results]] = []
        for start, results in starts:
            directory = stack.enter_context(tempfile.TemporaryDirectory(dir=parent))
            server = stack.enter_context(start(Path(directory)))
            install_definitions(server, own_definitions())
            measured.append((server, results))
        uvloop.run(write_rates(measured))


def durable_writes_per_second(parent: Path) -> float:
    """How often the disk under `parent` can make a small write durable."""
    writes = 200
    with tempfile.NamedTemporaryFile(dir=parent) as file:
        began = time.perf_counter()
        for _ in range(writes):
            file.write(b"x" * 4096)
            file.flush()
            os.fdatasync(file.fileno())
        return writes / (time.perf_counter() - began)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--many", type=int, default=10_000)
    options = parser.parse_args()

    def real(directory: Path) -> AbstractContextManager[Server]:
        return real_server(directory, as_in_production=True)

    ours = run(embedded_server, options.data, options.many)
    theirs = run(real, options.data, options.many)
    run_writes([(embedded_server, ours), (real, theirs)], options.data)
    disk = durable_writes_per_second(options.data)
    rows = [
        [
            name,
            f"{value:,.2f}",
            f"{theirs.values[name]:,.2f}",
            f"{value / theirs.values[name]:.2f}",
            f"{ours.client[name]:.0%}" if name in ours.client else "",
        ]
        for name, value in ours.values.items()
    ]
    print(table(["measurement", "embedded", "real", "embedded/real", "client"], rows))
    print(f"\nthe disk makes {disk:,.0f} small writes durable per second")
    document = {
        "durableWritesPerSecond": disk,
        "bytesPerHypervisor": len(named(0)[1]),
        "embedded": ours.values,
        "real": theirs.values,
        "ratio": {name: value / theirs.values[name] for name, value in ours.values.items()},
        "rounds": {"embedded": ours.rounds, "real": theirs.rounds},
        "clientShareOfOneCpu": {"embedded": ours.client, "real": theirs.client},
    }
    report(options.json, document)


if __name__ == "__main__":
    main()
