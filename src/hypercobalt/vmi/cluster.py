"""Settings of a cluster that decide what a VirtualMachineInstance becomes.

The defaults are those of a KubeVirt object without configuration.

Source: kubevirt.io/api, core/v1 KubeVirtConfiguration; kubevirt, pkg/virt-config.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """Settings of a cluster, read by admission, pod template and domain document alike.

    Attributes:
        namespace: where KubeVirt's own accounts live.
        architecture: of a guest that names none.
        machine_type: of a guest that names none.
        machine_patterns: the types that are permitted; `*` stands for any text.
        cpu_model: of a guest that names none.
        cpu_request: of a guest with neither request nor limit; "" for what follows from its vCPUs.
        cpu_allocation_ratio: vCPUs for each CPU of a node.
        max_hotplug_ratio: how often sockets and memory may be had at most, by hotplug.
        max_cpu_sockets: bound of hotplugged sockets; None for what follows from the ratio.
        max_vcpus: of a guest, hotplugged ones included; a q35 machine takes no more by topology.
        binding: of the interface of a guest that names none: bridge or masquerade.
        bridge_on_pod_network: whether a bridge may stand on the pod network.
        eviction_strategy: of a guest that names none.
        use_emulation: guests may run without KVM.
        launcher_image: of the launcher's container.
        feature_gates: that are on besides the default ones.
    """

    namespace: str = "kubevirt"
    architecture: str = "amd64"
    machine_type: str = "q35"
    machine_patterns: tuple[str, ...] = ("q35*", "pc-q35*")
    cpu_model: str = "host-model"
    cpu_request: str = ""
    cpu_allocation_ratio: int = 10
    max_hotplug_ratio: int = 4
    max_cpu_sockets: int | None = None
    max_vcpus: int = 512
    binding: str = "bridge"
    bridge_on_pod_network: bool = True
    eviction_strategy: str = "None"
    use_emulation: bool = False
    launcher_image: str = "virt-launcher"
    feature_gates: frozenset[str] = frozenset()
