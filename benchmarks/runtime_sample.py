"""What the runtime's benchmarks share: Hypervisors of realistic size, and how results are shown."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.unit.api.conftest import hypervisor_json


def node_json(number: int) -> bytes:
    """A Node as a kubelet reports it, without images."""
    name, at = f"node{number:05}", "2026-01-01T08:00:00Z"
    amounts = {"cpu": "64", "memory": "524288Mi", "pods": "110", "ephemeral-storage": "98430Mi"}
    conditions = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable", "Ready")
    node = {
        "metadata": {
            "name": name,
            "uid": f"6f1c2c1e-0000-4000-8000-{number:012}",
            "resourceVersion": str(1_000_000 + number),
            "creationTimestamp": at,
            "labels": {
                f"{prefix}/{word}": f"{word}-{number % 7}"
                for prefix in ("kubernetes.io", "topology.kubernetes.io", "example.com")
                for word in ("arch", "hostname", "zone", "role")
            },
            "annotations": {f"example.com/{word}": "true" for word in ("a", "b", "c", "d")},
        },
        "spec": {"podCIDR": "10.0.0.0/24", "providerID": f"example:///{name}"},
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": f"10.1.{number // 256}.{number % 256}"}
            ],
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [
                {
                    "type": type_,
                    "status": "False",
                    "reason": f"KubeletHasNo{type_}",
                    "message": f"kubelet has no {type_}",
                    "lastHeartbeatTime": at,
                    "lastTransitionTime": at,
                }
                for type_ in conditions
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                **dict.fromkeys(("machineID", "systemUUID", "bootID"), f"{number:032x}"),
                **dict.fromkeys(("kernelVersion", "osImage", "architecture"), "6.12.41"),
                **dict.fromkeys(("kubeletVersion", "kubeProxyVersion"), "v1.36.3"),
                "containerRuntimeVersion": "containerd://2.1",
                "operatingSystem": "linux",
            },
        },
    }
    return json.dumps(node, separators=(",", ":")).encode()


SAMPLES = {"Hypervisor": hypervisor_json, "Node": node_json}


def bodies(
    count: int, *, page: int, item: Callable[[int], bytes] = hypervisor_json
) -> tuple[bytes, list[bytes]]:
    """The collection as one answer, and as pages whose continue tokens are 0, 1, 2 and so on."""
    items = [item(number) for number in range(count)]
    starts = range(0, count, page)
    pages = [
        _list(items[start : start + page], str(number + 1) if start + page < count else "")
        for number, start in enumerate(starts)
    ]
    return _list(items, ""), pages


def _list(items: Sequence[bytes], token: str) -> bytes:
    meta = json.dumps({"resourceVersion": "1", "continue": token})
    head = '{"apiVersion":"v1","kind":"List","metadata":'
    return f'{head}{meta},"items":['.encode() + b",".join(items) + b"]}"


def resident_bytes() -> int:
    """Memory of this process that is in RAM now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
