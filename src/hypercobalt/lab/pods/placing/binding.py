"""Assigns a pod to a Node, by the subresource that schedulers write.

Source: k8s.io/api, core/v1 Binding; kubernetes pkg/scheduler/framework/plugins/defaultbinder.
"""

from __future__ import annotations

from typing import ClassVar

from hypercobalt.api.coordination import ObjectReference
from hypercobalt.api.meta import Object, ObjectMeta, ResourceInfo
from hypercobalt.api.workloads import Pod
from hypercobalt.runtime import Kube


class NodeBinding(Object, frozen=True):
    """A pod, by the name of the object, and where it runs."""

    resource: ClassVar[ResourceInfo] = ResourceInfo("", "v1", "Binding", "bindings", "Namespaced")

    target: ObjectReference = ObjectReference()


async def bind(kube: Kube, pod: Pod, node: str) -> None:
    """Assign a pod.

    Raises:
        ConflictError: it has a Node, or there is another pod of that name.
        NotFoundError: it is gone.
    """
    meta = pod.metadata
    named = ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid)
    binding = NodeBinding(metadata=named, target=ObjectReference(kind="Node", name=node))
    await kube.create_in(Pod, meta.name, "binding", binding, meta.namespace)
