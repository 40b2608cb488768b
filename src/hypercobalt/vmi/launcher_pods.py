"""What a launcher pod shows of itself. Pure; kubelets write it, so nothing of it is trusted.

A pod is a VMI's if its controlling owner is the VMI of that UID, and `status.activePods`, which
admission keeps for KubeVirt's accounts, has the UID of the pod. Labels, names and the owner
reference alone prove nothing: whoever may write pods writes them. It runs on the node of
`spec.nodeName`, which only the binding sets and which never changes.

Source: KubeVirt, pkg/controller (CurrentVMIPod, IsPodReady); k8s.io/api, core/v1 PodStatus.
"""

from __future__ import annotations

from typing import Final

from hypercobalt.api.core import NodeCondition
from hypercobalt.api.kubevirt.names import COMPUTE_CONTAINER
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.meta import Object, OwnerReference
from hypercobalt.api.pods import ContainerStatus
from hypercobalt.api.workloads import Pod
from hypercobalt.vmi.phases import PodStage

IMAGE_TROUBLES: Final = ("ErrImagePull", "ImagePullBackOff")
"""Reasons of a waiting container that are shown at the VMI."""
_MOST_TEXT: Final = 1024  # characters of a kubelet's message


def controller_of(obj: Object) -> str:
    """UID of the VMI that controls an object; "" if there is none."""
    owner = controlling_vmi(obj)
    return owner.uid if owner is not None else ""


def controlling_vmi(obj: Object) -> OwnerReference | None:
    """Return the reference to the VMI that controls an object, or None."""
    info = VirtualMachineInstance.resource
    for reference in obj.metadata.ownerReferences:
        group = reference.apiVersion.rpartition("/")[0]
        if reference.controller and (group, reference.kind) == (info.group, info.kind):
            return reference
    return None


def owns(vmi: VirtualMachineInstance, pod: Pod) -> bool:
    """Whether a pod is the VMI's."""
    uid = vmi.metadata.uid
    return bool(uid) and controller_of(pod) == uid and pod.metadata.uid in vmi.status.activePods


def pod_condition(pod: Pod, type_: str) -> NodeCondition | None:
    """The pod's condition of a type."""
    return next((one for one in pod.status.conditions if one.type == type_), None)


def has_ended(pod: Pod) -> bool:
    """Whether no container of the pod runs any more, nor will."""
    return pod.status.phase in ("Succeeded", "Failed")


def is_ending(pod: Pod) -> bool:
    """Whether the pod is being deleted, or its launcher has ended."""
    if pod.metadata.deletionTimestamp is not None or has_ended(pod):
        return True
    compute = _compute(pod)
    return compute is not None and compute.state.terminated is not None


def stage_of(pod: Pod | None, *, needs_guaranteed: bool = False) -> PodStage:
    """What a pod means to its VMI.

    Args:
        pod: None if there is none.
        needs_guaranteed: the VMI has dedicated CPUs.
    """
    if pod is None:
        return PodStage.GONE
    if is_ending(pod):
        return PodStage.ENDING
    if not _is_ready(pod):
        return PodStage.STARTING
    if needs_guaranteed and pod.status.qosClass != "Guaranteed":
        return PodStage.UNGUARANTEED
    return PodStage.READY


def image_trouble(pod: Pod) -> tuple[str, str] | None:
    """Reason and message of an image that cannot be had; None if there is none."""
    for status in (*pod.status.initContainerStatuses, *pod.status.containerStatuses):
        waiting = status.state.waiting
        if waiting is not None and waiting.reason in IMAGE_TROUBLES:
            return waiting.reason, waiting.message[:_MOST_TEXT]
    return None


def compute_image(pod: Pod) -> str:
    """Image of the launcher, as the pod's spec has it."""
    found = (one.image for one in pod.spec.containers if one.name == COMPUTE_CONTAINER)
    return next(found, "")


def _is_ready(pod: Pod) -> bool:
    """Whether the launcher runs on a node, and every other container is ready."""
    compute = _compute(pod)
    return (
        bool(pod.spec.nodeName)
        and pod.status.phase == "Running"
        and compute is not None
        and compute.state.running is not None
        and all(one.ready for one in pod.status.containerStatuses if one is not compute)
    )


def _compute(pod: Pod) -> ContainerStatus | None:
    found = (one for one in pod.status.containerStatuses if one.name == COMPUTE_CONTAINER)
    return next(found, None)
