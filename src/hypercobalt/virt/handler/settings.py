"""Settings of a virt-handler."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Final

from hypercobalt.agent.settings import AgentSettings
from hypercobalt.api.kubevirt.names import LAUNCHER_USER

COMPONENT: Final = "virt-handler"
"""Name of the Lease, `virt-handler-NODE`, and of the field manager."""
DEFAULT_NAMESPACE: Final = "kubevirt"
PODS: Final = Path("/var/lib/kubelet/pods")
"""Directory in which a kubelet has a directory for each pod."""
CAPABILITIES: Final = Path("/var/lib/hypercobalt/capabilities")
"""libvirt's capability cache, which launchers get copies of."""


@dataclass(frozen=True, slots=True)
class VirtHandlerSettings(AgentSettings):
    """One virt-handler.

    Args:
        namespace: of the Lease, and of virt-api's ServiceAccount, which names persons.
        pods: directory in which the kubelet has a directory for each pod.
        launcher_user: id of the user that launchers have.
        emulation: guests run without KVM.
        capabilities: directory of libvirt's capability cache; None leaves the Node's labels of
            machine types and CPU models as they are.
    """

    _: KW_ONLY
    namespace: str = DEFAULT_NAMESPACE
    pods: Path = PODS
    launcher_user: int = LAUNCHER_USER
    emulation: bool = False
    capabilities: Path | None = CAPABILITIES
