"""Passes per second of a reconciler that does nothing: what the runtime itself costs.

python benchmarks/runtime_reconcile.py [--count 50000] [--json FILE]
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.harness import arguments, report, table

from hypercobalt.api.core import Node
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.runtime import (
    Connection,
    Controller,
    Informer,
    Kube,
    Metrics,
    Result,
    SystemClock,
    configure_logs,
    primary,
)
from hypercobalt.runtime.client.collection import ListResult
from hypercobalt.runtime.client.requests import Selection


class Empty:
    def __init__(self) -> None:
        self.left = 0
        self._finished = asyncio.Event()

    async def reconcile(self, key: str, /) -> Result:
        self.left -= 1
        if not self.left:
            self._finished.set()
        return Result()

    async def passes(self, count: int) -> None:
        """Wait for so many passes from now on."""
        self._finished.clear()
        self.left = count
        await self._finished.wait()


async def measure(count: int, concurrency: int) -> float:
    """Passes per second, from the change to the end of the pass."""
    metrics, stop = Metrics(), asyncio.Event()
    async with Kube(Connection("http://127.0.0.1:1"), metrics=metrics) as kube:
        informer = Informer(kube, Selection(Node), metrics=metrics)
        nodes = [
            Node(metadata=ObjectMeta(name=f"n{number}", resourceVersion="1"))
            for number in range(count)
        ]
        empty = Empty()
        controller = Controller(
            "empty", empty, watches=[primary(informer)], concurrency=concurrency
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(controller.run(metrics=metrics, clock=SystemClock(), stop=stop))
            informer.load(ListResult(nodes[:1], "1"))
            await empty.passes(1)  # the workers are there
            started = time.perf_counter()
            informer.load(ListResult(nodes, "2"))
            await empty.passes(count - 1)
            seconds = time.perf_counter() - started
            stop.set()
    return (count - 1) / seconds


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--count", type=int, default=50_000)
    options = parser.parse_args()
    configure_logs(level=logging.WARNING)
    rates = {n: asyncio.run(measure(options.count, n)) for n in (1, 10)}
    rows = [(str(n), f"{rate:.0f}") for n, rate in rates.items()]
    print(table(("workers", "passes/s"), rows))
    document: dict[str, object] = {"count": options.count, "passes_per_second": rates}
    report(options.json, document)


if __name__ == "__main__":
    main()
