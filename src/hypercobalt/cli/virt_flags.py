"""Flags of KubeVirt's settings, the same for every command that judges or runs instances."""

from __future__ import annotations

from dataclasses import dataclass

from cyclopts import Parameter

from hypercobalt.api.names import namespace_name
from hypercobalt.vmi.cluster import ClusterConfig


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class VirtFlags:
    """Settings of a cluster; they must be the same for all of its processes.

    Parameters
    ----------
    virt_namespace
        Namespace of the service accounts that may write the status of instances.
    use_emulation
        Guests may run without KVM.
    """

    virt_namespace: str = "kubevirt"
    use_emulation: bool = False

    def cluster(self) -> ClusterConfig:
        """The settings.

        Raises:
            ConfigurationError: the namespace cannot be one.
        """
        namespace = namespace_name("--virt-namespace", self.virt_namespace)
        return ClusterConfig(namespace=namespace, use_emulation=self.use_emulation)
