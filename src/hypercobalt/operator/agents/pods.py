"""The agents' pods on hosts that are being taken out of service.

Pods are watched only on a Node whose agents' pods are being evicted, in the agents' namespaces and
by the Node's name, so the cost does not grow with the fleet. Before the first listing of a watch
the pods are unknown, which differs from no pods.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final

from hypercobalt.api.workloads import Pod, Toleration
from hypercobalt.logs import get_logger
from hypercobalt.operator.shared.node_facts import OFFBOARDING_TAINT
from hypercobalt.runtime import Informer, Kube, Metrics, Source
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.tasks import NamedTasks

log = get_logger(__name__)


OVERDUE: Final = timedelta(seconds=10)
"""A namespace whose pods have not been listed for so long is reported."""


@dataclass(frozen=True, slots=True)
class PodsReport:
    """The agents' pods of one Node.

    Args:
        pods: those of the namespaces that have been listed.
        unread: namespaces that have not been listed yet.
        overdue: whether `unread` have been awaited for `OVERDUE`.
    """

    pods: tuple[Pod, ...] = ()
    unread: tuple[str, ...] = ()
    overdue: bool = False


class AgentPods:
    """Watches the agents' pods of chosen Nodes; a service of the manager.

    Args:
        namespaces: those of the agents' pods.

    Attributes:
        source: enqueues the name of the pods' Node at each change.
    """

    def __init__(self, kube: Kube, namespaces: Sequence[str], metrics: Metrics) -> None:
        self._kube, self._namespaces, self._metrics = kube, tuple(namespaces), metrics
        self._informers: dict[str, dict[str, Informer[Pod]]] = {}
        self._since: dict[str, float] = {}  # by the loop's clock
        self._tasks = NamedTasks()
        self.source = Source()

    def follow(self, node: str) -> PodsReport:
        """Start watching the pods of a Node, unless that is done, and return them."""
        if node not in self._informers:
            self._open(node)
        informers = self._informers[node]
        pods = [pod for informer in informers.values() for pod in informer.cache]
        unread = [name for name, informer in informers.items() if not informer.has_synced]
        waited = asyncio.get_running_loop().time() - self._since[node]
        return PodsReport(tuple(pods), tuple(unread), overdue=waited >= OVERDUE.total_seconds())

    def release(self, node: str) -> None:
        """Stop watching the pods of a Node."""
        if self._informers.pop(node, None):
            log.info("unwatching_agent_pods", node=node)
            del self._since[node]
            self._tasks.end(node)

    async def run(self, stop: asyncio.Event) -> None:
        """Run the watches until `stop`."""
        await self._tasks.run(stop)

    def _open(self, node: str) -> None:
        log.info("watching_agent_pods", node=node)
        made: dict[str, Informer[Pod]] = {}
        for namespace in self._namespaces:
            selection = Selection(Pod, namespace, "", f"spec.nodeName={node}")
            made[namespace] = Informer(self._kube, selection, metrics=self._metrics)
            made[namespace].add_handler(_PodHandler(node, self.source))
        self._informers[node], self._since[node] = made, asyncio.get_running_loop().time()
        self._tasks.begin(node, partial(self._run_node, node))

    async def _run_node(self, node: str) -> None:
        async with asyncio.TaskGroup() as group:
            for informer in self._informers[node].values():
                group.create_task(informer.run())
                group.create_task(self._enqueue_once_synced(node, informer))

    async def _enqueue_once_synced(self, node: str, informer: Informer[Pod]) -> None:
        await informer.wait_synced()
        self.source.enqueue(node)


class _PodHandler:
    """Enqueues the Node at each change of its pods."""

    def __init__(self, node: str, source: Source) -> None:
        self._node, self._source = node, source

    def on_add(self, obj: Pod) -> None:
        self._source.enqueue(self._node)

    def on_update(self, old: Pod, new: Pod) -> None:
        self._source.enqueue(self._node)

    def on_delete(self, obj: Pod) -> None:
        self._source.enqueue(self._node)


def still_running(pods: Sequence[Pod]) -> tuple[str, ...]:
    """The pods that still have to end, sorted, as `namespace/name`.

    Pods that have ended do not count, nor pods that tolerate the taint without a limit of time;
    pods that are being deleted do.
    """
    return tuple(
        sorted(
            f"{pod.metadata.namespace}/{pod.metadata.name}"
            for pod in pods
            if pod.status.phase not in {"Succeeded", "Failed"}
            and not any(map(_tolerates_for_good, pod.spec.tolerations))
        )
    )


def _tolerates_for_good(toleration: Toleration) -> bool:
    """Source: k8s.io/api, core/v1/toleration.go, ToleratesTaint."""
    taint = OFFBOARDING_TAINT
    if toleration.tolerationSeconds is not None:
        return False
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value
