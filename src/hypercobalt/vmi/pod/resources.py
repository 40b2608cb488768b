"""What a launcher pod asks of its Node: CPU, memory, ephemeral storage, device nodes.

Source: kubevirt, pkg/virt-controller/services (resourcerenderer), as recorded.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from hypercobalt.api.kubevirt import names
from hypercobalt.api.kubevirt.devices import DevicesSpec
from hypercobalt.api.kubevirt.spec import DomainSpec
from hypercobalt.api.pods import ResourceRequirements
from hypercobalt.api.quantity import Quantity
from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.iothreads import pool_size
from hypercobalt.vmi.overhead import overhead_bytes
from hypercobalt.vmi.topology import amount, guest_memory, topology

_RESOURCES: Final = "spec.domain.resources"
_CPU: Final = "cpu"
_MEMORY: Final = "memory"
_STORAGE: Final = "ephemeral-storage"
_OWN_STORAGE: Final = Quantity("50M")
"""Ephemeral storage of the launcher itself; as upstream, disks of the guest are not reserved."""
_ONE: Final = Quantity(1)
_VIRTIO: Final = frozenset({"", "virtio"})


def resources(domain: DomainSpec, cluster: ClusterConfig) -> ResourceRequirements:
    """Requests and limits of the compute container.

    Raises:
        UnfitVMIError: an amount cannot be read, or is negative.
    """
    requests = _checked(domain.resources.requests, "requests")
    limits = _checked(domain.resources.limits, "limits")
    own = {_MEMORY: Quantity.of_bytes(overhead_bytes(domain)), _STORAGE: _OWN_STORAGE}
    requests.setdefault(_CPU, limits.get(_CPU, _cpus(domain, cluster)))
    requests.setdefault(_MEMORY, guest_memory(domain))
    requests.setdefault(_STORAGE, Quantity(0))
    for name, extra in own.items():
        if name != _MEMORY or not domain.resources.overcommitGuestOverhead:
            requests[name] += extra
        if name in limits:
            limits[name] += extra
    return ResourceRequirements(
        requests=requests, limits=limits | _device_nodes(domain.devices, cluster)
    )


def _checked(amounts: dict[str, Quantity], member: str) -> dict[str, Quantity]:
    return {
        name: amount(value, f"{_RESOURCES}.{member}.{name[:64]}") for name, value in amounts.items()
    }


def _cpus(domain: DomainSpec, cluster: ClusterConfig) -> Quantity:
    """CPUs of a guest that requests none: vCPUs and threads of a pool share those of the Node."""
    threads = topology(domain.cpu).vcpus + pool_size(domain)
    return Quantity.of(Fraction(threads, cluster.cpu_allocation_ratio))


def _device_nodes(devices: DevicesSpec, cluster: ClusterConfig) -> dict[str, Quantity]:
    """Device nodes, each a unit of the Node's device plugin."""
    nodes: dict[str, Quantity] = {}
    if not cluster.use_emulation:
        nodes[names.KVM_DEVICE] = _ONE
    if devices.autoattachPodInterface is not False or devices.interfaces:
        nodes[names.TUN_DEVICE] = _ONE
    virtio = any(nic.model in _VIRTIO for nic in devices.interfaces)
    if virtio and not cluster.use_emulation:
        nodes[names.VHOST_NET_DEVICE] = _ONE
    return nodes
