"""What a VirtualMachineInstance gets where its author says nothing, as KubeVirt fills it in.

Source: kubevirt, pkg/defaults and pkg/virt-api/webhooks, as observed (KubeVirt v1.8).
"""

from __future__ import annotations

from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.defaults import cpu, devices, features, machine, memory, networks, probes
from hypercobalt.vmi.defaults.typed import fill
from hypercobalt.vmi.review import JsonObject


def apply(spec: JsonObject, cluster: ClusterConfig, uuid: str) -> None:
    """Fill in the defaults of a spec, in place.

    Args:
        spec: of KubeVirt's shape, without nulls.
        cluster: its settings.
        uuid: the guest's, if the spec names none.
    """
    fill(spec)
    machine.apply(spec, cluster, uuid)
    cpu.apply_requests(spec, cluster)
    memory.apply_guest(spec)
    devices.apply(spec)
    networks.apply(spec, cluster)
    features.apply(spec)
    cpu.apply(spec, cluster)
    memory.apply_maximum(spec, cluster)
    probes.apply(spec)
    spec.setdefault("evictionStrategy", cluster.eviction_strategy)
