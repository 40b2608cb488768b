"""Defaults of the guest's CPUs: their topology, model, and how many there may be by hotplug."""

from __future__ import annotations

from typing import Final

from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.defaults.members import default, given, member
from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import JsonObject

_MODELS: Final = {"arm64": "host-passthrough"}
_TOPOLOGY: Final = ("sockets", "cores", "threads")
_MOST: Final = 2**32 - 1


def apply_requests(spec: JsonObject, cluster: ClusterConfig) -> None:
    """Request the CPUs of the limit where only that is given."""
    resources = member(member(spec, "domain"), "resources")
    limit = (given(resources, "limits") or {}).get("cpu")
    if At(resources)["requests.cpu"].amount:
        return
    if limit is not None and At(limit).amount:
        member(resources, "requests")["cpu"] = limit
    elif cluster.cpu_request and not At(spec)["domain.cpu.dedicatedCpuPlacement"].flag:
        member(resources, "requests")["cpu"] = cluster.cpu_request


def apply(spec: JsonObject, cluster: ClusterConfig) -> None:
    """Fill in topology, model and the sockets that hotplug may reach."""
    domain = member(spec, "domain")
    cpu = member(domain, "cpu")
    default(cpu, "model", _MODELS.get(str(spec["architecture"]), cluster.cpu_model))
    if not any(cpu.get(name) for name in _TOPOLOGY):
        cpu.update(sockets=_asked(At(domain)["resources"]), cores=1, threads=1)
    if not cpu.get("maxSockets") and spec["architecture"] != "arm64":
        most = _most_sockets(At(cpu), cluster)
        if most:
            cpu["maxSockets"] = most


def _asked(resources: At) -> int:
    """CPUs of the limit, else of the request, else one; rounded up."""
    limit, request = resources["limits.cpu"].quantity, resources["requests.cpu"].quantity
    asked = limit if limit is not None else request
    return 1 if asked is None else min(max(asked.value, 0), _MOST)


def _most_sockets(cpu: At, cluster: ClusterConfig) -> int:
    sockets = cpu["sockets"].number
    most = cluster.max_cpu_sockets or sockets * cluster.max_hotplug_ratio
    of_one = cpu["cores"].number * cpu["threads"].number
    if of_one and most * of_one > cluster.max_vcpus:
        most = cluster.max_vcpus // of_one
    return min(max(most, sockets), _MOST)
