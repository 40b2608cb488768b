"""Time to list and decode 10,000 objects from a socket, by client and kind.

Each client runs in a fresh process, which imports no other one, against one server process that has
its answers ready, so that the client is measured. Of Nodes every client makes typed objects,
of Hypervisors, a custom resource, only ours: the others give dicts.

    python benchmarks/runtime_list.py [--count 10000] [--json FILE]

Needs `scripts/setup bench`.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.harness import arguments, report, table
from benchmarks.runtime_sample import SAMPLES, bodies

from hypercobalt.api.core import Node
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.runtime import Connection, Kube, configure_logs

ROUNDS = 5
GROUP, VERSION, PLURAL = "kvm.cloud.sap", "v1", "hypervisors"


async def serve(kind: str, count: int) -> None:
    """Serve the collection, whole or in pages, until standard input closes."""
    whole, pages = bodies(count, page=500, item=SAMPLES[kind])

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            target = urlsplit(head.split(b" ", 2)[1].decode())
            params = dict(parse_qsl(target.query))
            body = pages[int(params.get("continue", "0"))] if "limit" in params else whole
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                % len(body)
            )
            writer.write(body)
            await writer.drain()

    def quiet(_: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        if not isinstance(context.get("exception"), asyncio.IncompleteReadError | OSError):
            raise RuntimeError(context)  # noqa: TRY004 - whatever it is

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(quiet)
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], len(whole), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


async def best(run: Callable[[], Awaitable[int]], count: int) -> float:
    """The shortest of some rounds, in seconds."""
    times: list[float] = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        found = await run()
        times.append(time.perf_counter() - started)
        assert found == count, found
    return min(times)


async def with_hypercobalt(url: str, kind: str, count: int) -> float:
    configure_logs(level=logging.WARNING)
    async with Kube(Connection(url)) as kube:

        async def run() -> int:
            if kind == "Node":
                return len((await kube.list(Node)).items)
            return len((await kube.list(Hypervisor)).items)

        return await best(run, count)


async def with_lightkube(url: str, kind: str, count: int) -> float:
    lightkube = import_module("lightkube")
    models = import_module("lightkube.config.models")
    generic = import_module("lightkube.generic_resource")
    custom = generic.create_global_resource(GROUP, VERSION, "Hypervisor", PLURAL)
    listed = import_module("lightkube.resources.core_v1").Node if kind == "Node" else custom
    cluster = models.Cluster(server=url)
    config = lightkube.KubeConfig.from_one(cluster=cluster, user=models.User())
    client = lightkube.AsyncClient(config=config)

    async def run() -> int:
        return len([item async for item in client.list(listed, chunk_size=500)])

    return await best(run, count)


async def with_kubernetes(url: str, kind: str, count: int) -> float:
    kubernetes = import_module("kubernetes")

    config = kubernetes.client.Configuration()
    config.host = url
    client = kubernetes.client.ApiClient(config)
    custom, core = kubernetes.client.CustomObjectsApi(client), kubernetes.client.CoreV1Api(client)

    async def run() -> int:
        if kind == "Node":
            return len(core.list_node().items)
        return len(custom.list_cluster_custom_object(GROUP, VERSION, PLURAL)["items"])

    return await best(run, count)


async def with_kubernetes_asyncio(url: str, kind: str, count: int) -> float:
    kubernetes_asyncio = import_module("kubernetes_asyncio")

    config = kubernetes_asyncio.client.Configuration()
    config.host = url
    async with kubernetes_asyncio.client.ApiClient(config) as client:
        custom = kubernetes_asyncio.client.CustomObjectsApi(client)
        core = kubernetes_asyncio.client.CoreV1Api(client)

        async def run() -> int:
            if kind == "Node":
                return len((await core.list_node()).items)
            found = await custom.list_cluster_custom_object(GROUP, VERSION, PLURAL)
            return len(found["items"])

        return await best(run, count)


CLIENTS = {
    "hypercobalt": with_hypercobalt,
    "lightkube": with_lightkube,
    "kubernetes": with_kubernetes,
    "kubernetes_asyncio": with_kubernetes_asyncio,
}


def child(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "ignore", __file__, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def compare(kind: str, count: int) -> dict[str, float]:
    """Seconds per client."""
    with child("--serve", "--kind", kind, "--count", str(count)) as server:
        assert server.stdout is not None
        port, size = map(int, server.stdout.readline().split())
        print(f"\n{count} {kind}s, {size / 2**20:.1f} MiB, best of {ROUNDS}\n")
        seconds: dict[str, float] = {}
        for name in CLIENTS:
            url = f"http://127.0.0.1:{port}"
            arguments = ("--client", name, "--url", url, "--kind", kind, "--count", str(count))
            out, _ = child(*arguments).communicate()
            seconds[name] = float(out)
        server.communicate()
    rows = [(name, f"{s:.3f}", f"{s / seconds['hypercobalt']:.1f}") for name, s in seconds.items()]
    print(table(("client", "seconds", "x ours"), rows))
    return seconds


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--kind", choices=SAMPLES, help=argparse.SUPPRESS)
    parser.add_argument("--client", choices=CLIENTS, help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(options.kind, options.count))
    elif options.client:
        print(asyncio.run(CLIENTS[options.client](options.url, options.kind, options.count)))
    else:
        seconds = {kind: compare(kind, options.count) for kind in SAMPLES}
        document: dict[str, object] = {"count": options.count, "seconds": seconds}
        report(options.json, document)


if __name__ == "__main__":
    main()
