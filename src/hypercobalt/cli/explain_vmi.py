"""What `cobalt explain vmi/NAME` reads: the VMI, its pods, and the Leases of who works on it."""

from __future__ import annotations

from datetime import UTC, datetime

from hypercobalt.api.coordination import Lease
from hypercobalt.api.kubevirt.names import APP, LAUNCHER
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.workloads import Pod
from hypercobalt.runtime import ForbiddenError, Kube
from hypercobalt.views.explain.model import Explanation
from hypercobalt.views.explain.reporters import KUBELET_NAMESPACE
from hypercobalt.views.explain.vmi import CONTROLLER_LEASE, VMIView, explain, handler_lease
from hypercobalt.vmi.launcher_pods import owns


async def explained(kube: Kube, name: str) -> list[Explanation]:
    """Explain a VMI; nothing if there is none.

    Args:
        kube: the person's.
        name: NAME, or NAMESPACE/NAME; the namespace is the kubeconfig's if it is not given.
    """
    namespace, _, bare = name.rpartition("/")
    where = namespace or kube.namespace or "default"
    vmi = await kube.get(VirtualMachineInstance, bare, where)
    if vmi is None:
        return []
    try:
        listed = (await kube.list(Pod, where, labels=f"{APP}={LAUNCHER}")).items
    except ForbiddenError:
        listed = []
    pods = tuple(pod for pod in listed if owns(vmi, pod))
    view = VMIView(vmi, datetime.now(UTC), pods, controller=await _lease(kube, CONTROLLER_LEASE))
    if not view.node:
        return [explain(view)]
    handler = await _lease(kube, handler_lease(view.node))
    kubelet = await _lease(kube, view.node, KUBELET_NAMESPACE)
    return [
        explain(
            VMIView(
                vmi,
                view.now,
                pods,
                controller=view.controller,
                handler=handler,
                kubelet=kubelet,
            )
        )
    ]


async def _lease(kube: Kube, name: str, namespace: str | None = None) -> Lease | None:
    """The Lease of that name that was renewed last; None if the person may read none."""
    try:
        found = (await kube.list(Lease, namespace, fields=f"metadata.name={name}")).items
    except ForbiddenError:
        return None
    never = datetime.min.replace(tzinfo=UTC)
    return max(found, key=lambda one: one.spec.renewTime or never, default=None)
