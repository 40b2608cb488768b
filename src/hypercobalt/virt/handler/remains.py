"""What is known of a VMI that is gone, by the pod that it has left. Pure.

Its guest is shut down as the VMI would have had it, as far as the pod shows that: with ACPI, which
a guest without it does not see, and within the grace period that the pod's was made from.
"""

from __future__ import annotations

from datetime import timedelta

from hypercobalt.api.kubevirt.names import VMIPhase
from hypercobalt.api.kubevirt.spec import VMISpec
from hypercobalt.api.kubevirt.status import VMIStatus
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.workloads import Pod
from hypercobalt.vmi.grace import POD_MARGIN, grace_period
from hypercobalt.vmi.launcher_pods import controlling_vmi


def remains_of(pod: Pod) -> VirtualMachineInstance | None:
    """Return the VMI that controls a pod, as the pod shows it; None if none does."""
    owner = controlling_vmi(pod)
    if owner is None:
        return None
    meta = ObjectMeta(name=owner.name, namespace=pod.metadata.namespace, uid=owner.uid)
    given = pod.spec.terminationGracePeriodSeconds
    grace = None if given is None else max(grace_period(given) - POD_MARGIN, timedelta())
    seconds = None if grace is None else int(grace.total_seconds())
    node = pod.spec.nodeName
    status = VMIStatus(phase=VMIPhase.RUNNING, nodeName=node, activePods={pod.metadata.uid: node})
    spec = VMISpec(terminationGracePeriodSeconds=seconds)
    return VirtualMachineInstance(metadata=meta, spec=spec, status=status)
