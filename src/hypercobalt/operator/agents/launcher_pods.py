"""VirtualMachineInstances of hosts that have to be empty, by what the API server has of them.

A launcher pod runs on the Node of `spec.nodeName`, which only its binding sets. It counts until its
kubelet reports its end: a pod that is being deleted runs on. A VirtualMachineInstance whose pod is
gone counts until it has ended as well: whoever deletes a pod by force ends no guest. Pods are
watched on single Nodes only, so the cost does not grow with the fleet. Kubelets and whoever may
write pods write them: they hold up the Evictions of their own Node, and nothing else.

Source: k8s.io/api, core/v1 PodPhase; KubeVirt, label kubevirt.io/nodeName.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

from hypercobalt.api.kubevirt.names import FINAL_PHASES, NODE_NAME
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.meta import Object
from hypercobalt.api.workloads import Pod
from hypercobalt.errors import HypercobaltError
from hypercobalt.logs import get_logger
from hypercobalt.operator.shared.guests import HostGuest, HostGuests
from hypercobalt.runtime import Informer, Kube, Metrics, Source
from hypercobalt.runtime.client.collection import ListResult
from hypercobalt.runtime.client.errors import NotFoundError
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.tasks import NamedTasks

log = get_logger(__name__)


class LauncherPods:
    """Watches the launcher pods of chosen Nodes; a service of the manager.

    Attributes:
        source: enqueues the key that a Node is followed for at each change of its launcher pods.
    """

    def __init__(self, kube: Kube, metrics: Metrics) -> None:
        self._kube, self._metrics = kube, metrics
        self._nodes: dict[str, str] = {}  # key to Node
        self._informers: dict[str, Informer[Pod]] = {}
        self._tasks = NamedTasks()
        self.source = Source()

    async def follow(self, key: str, node: str) -> HostGuests:
        """Watch the pods of a Node from now on, for this key, and return what is known of them.

        Until the watch has listed them they are read.
        """
        if self._nodes.get(key, node) != node:
            self.release(key)
        self._nodes[key] = node
        if node not in self._informers:
            selection = Selection(Pod, fields=f"spec.nodeName={node}")
            informer = Informer(self._kube, selection, metrics=self._metrics)
            informer.add_handler(_LauncherHandler(partial(self._changed, node)))
            self._informers[node] = informer
            self._tasks.begin(node, partial(self._run, node, informer))
        informer = self._informers[node]
        if not informer.has_synced:
            return await self.read(node)
        return HostGuests(tuple(_of_pods(node, informer.cache)))

    async def read(self, node: str) -> HostGuests:
        """Read a Node's pods and VirtualMachineInstances past every cache."""
        try:
            pods = await self._kube.list(Pod, fields=f"spec.nodeName={node}")
            vmis = await self._vmis(node)
        except HypercobaltError as error:
            log.warning("launchers_not_read", node=node, error=str(error))
            return HostGuests(unread=str(error))
        for key in (*pods.unreadable, *vmis.unreadable):
            return HostGuests(unread=f"{key} cannot be read, and may be one")
        found = tuple(_of_pods(node, pods.items))
        owners = {guest.owner for guest in found}
        left = (_of_vmi(vmi) for vmi in vmis.items if _runs(vmi) and vmi.metadata.uid not in owners)
        return HostGuests((*found, *left), fresh=True)

    def release(self, key: str) -> None:
        """Stop watching for this key; a Node without any other is watched no longer."""
        node = self._nodes.pop(key, None)
        if node is None or node in self._nodes.values():
            return
        del self._informers[node]
        self._tasks.end(node)

    async def run(self, stop: asyncio.Event) -> None:
        """Run the watches until `stop`."""
        await self._tasks.run(stop)

    async def _vmis(self, node: str) -> ListResult[VirtualMachineInstance]:
        try:
            return await self._kube.list(VirtualMachineInstance, labels=f"{NODE_NAME}={node}")
        except NotFoundError:
            return ListResult([], "")  # the server has no such kind, so there is no object of it

    async def _run(self, node: str, informer: Informer[Pod]) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(informer.run())
            await informer.wait_synced()
            self._changed(node)

    def _changed(self, node: str) -> None:
        for key, followed in self._nodes.items():
            if followed == node:
                self.source.enqueue(key)


class _LauncherHandler:
    """Reports each change of a launcher pod that matters."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed

    def on_add(self, obj: Pod) -> None:
        if _launches(obj):
            self._changed()

    def on_update(self, old: Pod, new: Pod) -> None:
        if _launches(old) != _launches(new):
            self._changed()

    def on_delete(self, obj: Pod) -> None:
        self._changed()


def _of_pods(node: str, pods: Iterable[Pod]) -> Iterable[HostGuest]:
    for pod in pods:
        owner = _owner(pod)
        if owner is not None and pod.spec.nodeName == node and _launches(pod):
            name, uid = owner
            meta = pod.metadata
            yield HostGuest(meta.namespace, name, pod=meta.name, uid=meta.uid, owner=uid)


def _launches(pod: Pod) -> bool:
    """Whether a launcher may run in the pod."""
    return _owner(pod) is not None and pod.status.phase not in {"Succeeded", "Failed"}


def _owner(pod: Object) -> tuple[str, str] | None:
    """Name and UID of the VirtualMachineInstance that controls a pod; None for none."""
    info = VirtualMachineInstance.resource
    for reference in pod.metadata.ownerReferences:
        group = reference.apiVersion.rpartition("/")[0]
        if reference.controller and (group, reference.kind) == (info.group, info.kind):
            return reference.name, reference.uid
    return None


def _runs(vmi: VirtualMachineInstance) -> bool:
    return vmi.status.phase not in FINAL_PHASES


def _of_vmi(vmi: VirtualMachineInstance) -> HostGuest:
    meta = vmi.metadata
    return HostGuest(meta.namespace, meta.name, owner=meta.uid)
