"""What a VMI gets when it is handed over to the handler of its node, all in one write. Pure.

Source: KubeVirt, pkg/virt-controller/watch/vmi (updateStatus, phase Scheduling).
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from hypercobalt.api.kubevirt.names import (
    LATEST_OBSERVED_API_VERSION,
    NODE_NAME,
    STORAGE_OBSERVED_API_VERSION,
)
from hypercobalt.api.kubevirt.spec import VMISpec
from hypercobalt.api.kubevirt.status import InterfaceStatus, VMIStatus, VolumeStatus
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.workloads import Pod
from hypercobalt.vmi.launcher_pods import compute_image

TRANSPORT: Final = "Unix"
_POD_INTERFACE: Final = "eth0"


def handed_over(status: VMIStatus, spec: VMISpec, pod: Pod) -> VMIStatus:
    """The status with what the handler starts from.

    Args:
        status: in phase Scheduled.
        spec: of the VMI.
        pod: runs on the node.
    """
    known = {one.name: one for one in status.volumeStatus}
    names = sorted(volume.name for volume in spec.volumes)
    return replace(
        status,
        nodeName=pod.spec.nodeName,
        migrationTransport=TRANSPORT,
        launcherContainerImageVersion=compute_image(pod),
        volumeStatus=tuple(known.get(name) or VolumeStatus(name=name, target="") for name in names),
        interfaces=status.interfaces or _interfaces(spec),
    )


def labels(present: dict[str, str], pod: Pod) -> dict[str, str]:
    """The VMI's labels with that of its node."""
    return {**present, NODE_NAME: pod.spec.nodeName}


def observed(annotations: dict[str, str]) -> dict[str, str]:
    """The VMI's annotations with the API versions that the controller has seen it in."""
    version = VirtualMachineInstance.resource.version
    known = {LATEST_OBSERVED_API_VERSION: version, STORAGE_OBSERVED_API_VERSION: version}
    return {**known, **annotations}


def _interfaces(spec: VMISpec) -> tuple[InterfaceStatus, ...]:
    """A skeleton for each NIC; the one of the pod network is the first."""
    on_pod = {network.name for network in spec.networks if network.pod is not None}
    names = [one.name for one in spec.domain.devices.interfaces]
    return tuple(
        InterfaceStatus(name=name, podInterfaceName=_POD_INTERFACE if name in on_pod else "")
        for name in sorted(names, key=lambda name: name not in on_pod)
    )
