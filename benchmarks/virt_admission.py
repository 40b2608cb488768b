"""Admission of VirtualMachineInstances by webhook: latency, CPU time and memory of virt-api.

    python benchmarks/virt_admission.py [--json FILE] [--rounds 500] [--disks 2 100]

`cobalt virt-api` runs as a process of its own. Each round is a create as a real API server has it
admitted: a request to the mutating webhook, then one to the validating webhook with the mutated
object, each over a connection of its own with TLS. The time is that of both, as the API server
waits for it; KubeVirt's mutator and validator take 2 ms of CPU for it, without TLS.
"""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import jsonpatch
import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.harness import arguments, cpu_seconds, memory_mib, report_runs
from benchmarks.host_processes import pss_mib

from hypercobalt.virt.api.webhooks import CREATE_VALIDATOR, MUTATOR

COBALT: Final = Path(sys.executable).with_name("cobalt")
EXAMPLE: Final = Path(__file__).parents[1] / "examples/vmi.yaml"
GOAL_P99_MS: Final = 20
"""The goal for VirtualMachineInstances; KubeVirt's webhooks take 2 ms of CPU."""
WARM_UP: Final = 20
Document = dict[str, object]


def manifest(disks: int) -> Document:
    """An instance with so many container disks, the first of them its root."""
    named = [f"disk-{number}" for number in range(disks)]
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {"name": "one", "namespace": "default", "labels": {"app": "bench"}},
        "spec": {
            "domain": {
                "cpu": {"cores": 2, "sockets": 1},
                "memory": {"guest": "1Gi"},
                "resources": {"requests": {"memory": "1Gi", "cpu": "1"}},
                "devices": {
                    "disks": [{"name": name, "disk": {"bus": "virtio"}} for name in named],
                    "interfaces": [{"name": "default", "masquerade": {}}],
                    "rng": {},
                },
            },
            "networks": [{"name": "default", "pod": {}}],
            "terminationGracePeriodSeconds": 30,
            "volumes": [{"name": name, "containerDisk": {"image": "cirros"}} for name in named],
        },
    }


def review(obj: Document) -> bytes:
    user = {"username": "jane", "groups": ["system:authenticated"]}
    request = {"uid": "u", "operation": "CREATE", "userInfo": user, "object": obj}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(body).encode()


class Client:
    """Posts as an API server does, with a new connection each time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._tls.check_hostname = False
        self._tls.verify_mode = ssl.CERT_NONE

    async def post(self, path: str, body: bytes) -> Document:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, ssl=self._tls)
        head = f"POST {path} HTTP/1.1\r\nHost: virt-api\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        answer = await reader.read()
        writer.close()
        status, _, rest = answer.partition(b"\r\n")
        if b" 200 " not in status:
            raise SystemExit(f"virt-api answered {answer[:300]!r}")
        response: Document = json.loads(rest.partition(b"\r\n\r\n")[2])["response"]
        return response

    async def create(self, obj: Document) -> float:
        """Milliseconds until a create is admitted."""
        began = time.perf_counter()
        mutated = await self.post(MUTATOR.path, review(obj))
        milliseconds = time.perf_counter() - began
        patch = json.loads(base64.b64decode(str(mutated["patch"])))
        body = review(jsonpatch.apply_patch(obj, patch))  # the API server's work, not counted
        began = time.perf_counter()
        judged = await self.post(CREATE_VALIDATOR.path, body)
        milliseconds += time.perf_counter() - began
        if not judged["allowed"]:
            raise SystemExit(f"virt-api refuses the manifest: {judged['status']}")
        return milliseconds * 1000


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def virt_api(folder: Path) -> AsyncIterator[tuple[int, Client]]:
    """Run the process, and yield its id and a client of it."""
    kubeconfig, port = folder / "kubeconfig", free_port()
    cluster = {"name": "none", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "none", "context": {"cluster": "none", "user": "none"}}
    config = {"clusters": [cluster], "contexts": [context], "current-context": "none"}
    users = [{"name": "none", "user": {}}]
    kubeconfig.write_text(json.dumps({**config, "users": users, "kind": "Config"}))
    flags = ("--no-register", "--health-probe-bind-address=0", f"--kubeconfig={kubeconfig}")
    command = [str(COBALT), "virt-api", f"--bind-address=127.0.0.1:{port}", *flags]
    process = await asyncio.create_subprocess_exec(*command, stderr=subprocess.DEVNULL)
    try:
        client = Client(port)
        await until_ready(client, process)
        yield process.pid, client
    finally:
        process.terminate()
        await process.wait()


async def until_ready(client: Client, process: Process) -> None:
    async with asyncio.timeout(60):
        while process.returncode is None:
            try:
                await client.post(MUTATOR.path, review(manifest(1)))
            except OSError:
                await asyncio.sleep(0.1)
            else:
                return
    raise SystemExit("virt-api has ended")


async def measure(
    client: Client, pid: int, name: str, obj: Document, rounds: int
) -> dict[str, object]:
    """Latency and CPU time of creates of one manifest."""
    for _ in range(WARM_UP):
        await client.create(obj)
    used = cpu_seconds(pid)
    taken = sorted([await client.create(obj) for _ in range(rounds)])
    used = cpu_seconds(pid) - used

    def at(share: float) -> str:
        return f"{taken[int(share * (rounds - 1))]:.1f}"

    return {
        "manifest": name,
        "bytes": len(json.dumps(obj)),
        "median_ms": at(0.5),
        "p99_ms": at(0.99),
        "cpu_ms": f"{used * 1000 / rounds:.2f}",
        "resident_mib": f"{memory_mib(pid):.1f}",
        "pss_mib": f"{pss_mib(pid):.1f}",
    }


async def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=500, help="creates of each manifest")
    parser.add_argument(
        "--disks", type=int, nargs="+", default=[2, 100], help="of the other manifests"
    )
    options = parser.parse_args()
    manifests: dict[str, Document] = {EXAMPLE.name: yaml.safe_load(EXAMPLE.read_bytes())}
    manifests |= {f"{disks} disks": manifest(disks) for disks in options.disks}
    with tempfile.TemporaryDirectory() as folder:
        async with virt_api(Path(folder)) as (pid, client):
            runs = [
                await measure(client, pid, name, obj, options.rounds)
                for name, obj in manifests.items()
            ]
    print(f"goal: p99 of {GOAL_P99_MS} ms for a manifest")
    report_runs(options.json, runs)


if __name__ == "__main__":
    asyncio.run(main())
