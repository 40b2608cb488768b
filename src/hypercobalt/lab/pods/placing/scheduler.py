"""The loop of the scheduler: one pod at a time, the most important first.

A pod that no Node takes is tried again when a Node changes or a pod leaves one, and a pod that
requires company also when a pod comes to a Node. A Node that was just given away counts as used
before the watch reports it.

Source: kubernetes pkg/scheduler (schedule_one.go, eventhandlers.go).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from hypercobalt.api.core import Node, NodeCondition
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.workloads import Pod, PodStatus
from hypercobalt.lab.pods.placing.binding import bind
from hypercobalt.lab.pods.placing.neighbours import requires_company
from hypercobalt.lab.pods.placing.place import Cluster, Unplaced, place
from hypercobalt.logs import get_logger
from hypercobalt.runtime import (
    Cache,
    Clock,
    Controller,
    Kube,
    Manager,
    Recorder,
    Result,
    key_of,
    mapped,
    primary,
)
from hypercobalt.vmi.launcher_pods import has_ended, pod_condition

log = get_logger(__name__)

NAME: Final = "scheduler"
SCHEDULER: Final = "default-scheduler"
MANAGER: Final = "kube-scheduler"
_CONDITION: Final = "PodScheduled"
_ASSIGNING: Final = "Binding"
_SCHEDULING: Final = "Scheduling"


class SchedulingReconciler:
    """Places one pod.

    Args:
        kube: writes as the scheduler.
        pods: all pods.
        nodes: all Nodes.
        events: for people.
        clock: the time.
    """

    def __init__(
        self, kube: Kube, pods: Cache[Pod], nodes: Cache[Node], events: Recorder, clock: Clock
    ) -> None:
        self._kube, self._pods, self._nodes = kube, pods, nodes
        self._events, self._clock = events, clock
        self._assumed: dict[str, Pod] = {}

    async def reconcile(self, key: str, /) -> Result:
        pod = self._pods.by_key(key)
        if pod is None or not waits(pod) or pod.metadata.uid in self._assumed:
            return Result()
        found = place(pod, Cluster(self._nodes, self._placed()))
        if isinstance(found, Unplaced):
            await self._refuse(pod, found.message)
            return Result()
        await self._assign(pod, found.metadata.name)
        return Result()

    def _placed(self) -> Iterable[Pod]:
        """Pods on Nodes, with those that were assigned and that the watch does not report yet."""
        seen = {pod.metadata.uid: pod for pod in self._pods}
        for uid in list(self._assumed):
            if uid not in seen or seen[uid].spec.nodeName:
                del self._assumed[uid]
        found = {**seen, **self._assumed}.values()
        return [pod for pod in found if pod.spec.nodeName and not has_ended(pod)]

    async def _assign(self, pod: Pod, node: str) -> None:
        key = key_of(pod)
        log.info("binding_pod", pod=key, node=node)
        spec = replace(pod.spec, nodeName=node)
        self._assumed[pod.metadata.uid] = replace(pod, spec=spec)
        try:
            await bind(self._kube, pod, node)
        except BaseException:
            self._assumed.pop(pod.metadata.uid, None)
            raise
        note = f"Successfully assigned {key} to {node}"
        self._events.record(pod, "Normal", "Scheduled", note, action=_ASSIGNING)

    async def _refuse(self, pod: Pod, message: str) -> None:
        shown = pod_condition(pod, _CONDITION)
        condition = unschedulable(shown, message, self._clock.now())
        if condition == shown:
            return
        log.info("pod_unschedulable", pod=key_of(pod), reason=message)
        meta = pod.metadata
        named = ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid)
        written = Pod(metadata=named, status=PodStatus(conditions=(condition,)))
        await self._kube.apply(written, force=True, subresource="status")
        self._events.record(pod, "Warning", "FailedScheduling", message, action=_SCHEDULING)


def waits(pod: Pod) -> bool:
    """Whether a pod waits for this scheduler."""
    spec = pod.spec
    return (
        not spec.nodeName
        and pod.metadata.deletionTimestamp is None
        and not has_ended(pod)
        and spec.schedulerName in ("", SCHEDULER)
    )


def unschedulable(shown: NodeCondition | None, message: str, now: datetime) -> NodeCondition:
    """The condition PodScheduled of a pod that no Node takes."""
    since = now.replace(microsecond=0)
    if shown is not None and shown.status == "False":
        since = shown.lastTransitionTime or since
    return NodeCondition(
        type=_CONDITION,
        status="False",
        reason="Unschedulable",
        message=message,
        lastTransitionTime=since,
    )


def add_scheduler(manager: Manager) -> None:
    """Put the scheduler under a manager."""
    pods, nodes = manager.informer(Pod), manager.informer(Node)
    events = manager.recorder(SCHEDULER)
    kube = manager.kube.as_manager(MANAGER)
    reconciler = SchedulingReconciler(kube, pods.cache, nodes.cache, events, manager.clock)

    def waiting(_: object) -> Iterable[str]:
        found = sorted(filter(waits, pods.cache), key=lambda pod: -(pod.spec.priority or 0))
        return [key_of(pod) for pod in found]

    def lonely(_: object) -> Iterable[str]:
        return [key_of(pod) for pod in pods.cache if waits(pod) and requires_company(pod)]

    watches = (
        primary(pods, when=_is_new),
        mapped(pods, waiting, when=_frees),
        mapped(pods, lonely, when=_is_company),
        mapped(nodes, waiting, when=_may_help),
    )
    manager.add(Controller(NAME, reconciler, watches=watches, concurrency=1))


def _is_new(old: Pod | None, new: Pod | None) -> bool:
    """Whether a pod waits that did not, or whose status another writer has changed."""
    return new is not None and waits(new) and (old is None or old.status != new.status)


def _is_company(old: Pod | None, new: Pod | None) -> bool:
    """Whether a pod has come to a Node, or has other labels there."""
    if new is None or not new.spec.nodeName or has_ended(new):
        return False
    if old is None or not old.spec.nodeName:
        return True
    return old.metadata.labels != new.metadata.labels


def _frees(old: Pod | None, new: Pod | None) -> bool:
    """Whether a pod has left its Node."""
    if old is None or not old.spec.nodeName or has_ended(old):
        return False
    return new is None or has_ended(new)


def _may_help(old: Node | None, new: Node | None) -> bool:
    """Whether a Node has changed in what decides about pods."""
    if old is None or new is None:
        return True
    before, after = old, new
    return (before.metadata.labels, before.spec, before.status.allocatable) != (
        after.metadata.labels,
        after.spec,
        after.status.allocatable,
    )
