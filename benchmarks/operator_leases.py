"""CPU time that following the node agents' Leases costs the operator, while all are renewed.

Every agent renews its Lease each 10 s. A round is one renewal of each, as bytes of a watch through
the informer into the operator's handler; timers run as in the operator. Reading from the socket and
TLS come on top.

python benchmarks/operator_leases.py [--hosts 1000 10000] [--rounds 10] [--json FILE]
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.harness import arguments, report, table

from hypercobalt.api.coordination import LeaseGlance
from hypercobalt.operator.agents.leases import AgentLeases
from hypercobalt.runtime import Kube, ListResult, Metrics
from hypercobalt.runtime.client.watch import read_events

RENEW_SECONDS = 10


def frame(host: int, version: int) -> bytes:
    """A renewal as a kube-apiserver sends it."""
    name, stamp = f"kvm-{host:05d}", f"2026-11-22T10:00:00.{version % 1_000_000:06d}Z"
    uid = f"7c0ddc5b-08d7-4f4e-9a3a-{host:012d}"
    owner = {"apiVersion": "kvm.cloud.sap/v1", "kind": "Hypervisor", "name": name, "uid": uid}
    fields = ("acquireTime", "holderIdentity", "leaseDurationSeconds", "renewTime")
    managed = {
        "manager": "kvm-node-agent",
        "operation": "Update",
        "apiVersion": "coordination.k8s.io/v1",
        "time": "2026-11-22T10:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {f"f:{one}": {} for one in fields}},
    }
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": f"node-agent-{name}",
            "namespace": "monsoon3",
            "uid": uid,
            "resourceVersion": str(version),
            "creationTimestamp": "2026-11-22T10:00:00Z",
            "ownerReferences": [owner],
            "managedFields": [managed],
        },
        "spec": {
            "holderIdentity": f"{name}/4f0b1c2d/4711/123456",
            "leaseDurationSeconds": 40,
            "acquireTime": stamp,
            "renewTime": stamp,
            "leaseTransitions": 3,
        },
    }
    return msgspec.json.encode({"type": "MODIFIED", "object": lease}) + b"\n"


async def chunks(frames: list[bytes]) -> AsyncIterator[bytes]:
    for one in frames:
        yield one


async def measure(hosts: int, rounds: int) -> float:
    """Microseconds of CPU time for a renewal."""
    leases = AgentLeases(cast("Kube", None), ("monsoon3",), tuple, Metrics())
    passes: list[str] = []
    leases.source.watch.attach(passes.append)
    informer = leases.followers[0].informer
    informer.load(ListResult([], "1", {}))
    version, spent = 1, 0.0
    for number in range(rounds + 1):
        frames = [frame(host, version + host) for host in range(hosts)]
        version += hosts
        before = time.process_time()
        async for event in read_events(chunks(frames), LeaseGlance, "leases"):
            informer.take(event)
        spent += time.process_time() - before if number else 0  # the first round makes the entries
        await asyncio.sleep(0)  # lets the timers run that a round has set, outside of the time
    assert len(passes) == hosts, "renewals led to passes"
    return spent / rounds / hosts * 1e6


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--hosts", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    found = {hosts: asyncio.run(measure(hosts, options.rounds)) for hosts in options.hosts}
    rows = [
        (str(hosts), f"{hosts / RENEW_SECONDS:.0f}", f"{cost:.1f}", f"{_share(hosts, cost):.2f} %")
        for hosts, cost in found.items()
    ]
    print(table(("hosts", "renewals/s", "µs each", "of a core"), rows))
    report(options.json, {"microseconds": found})


def _share(hosts: int, microseconds: float) -> float:
    return hosts / RENEW_SECONDS * microseconds / 1e4


if __name__ == "__main__":
    main()
