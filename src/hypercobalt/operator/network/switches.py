"""The OVSNodes of the hosts, in a cache that decodes conditions, bridges and tunnels alone.

10,000 of them take 15 MiB. A cluster without the kind, or an operator that may not read
it, is no error: nothing is known of any switch then, and conditions stay as they are stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime

from hypercobalt.api.conditions import Condition
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.ovsnode_glance import OVSNodeGlance
from hypercobalt.operator.network.verdict import condition, is_silent, judge
from hypercobalt.runtime import Informer, Kube, Metrics, Source
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.tasks import first


class Switches:
    """Follows the OVSNodes of a namespace; a service of the manager, and a handler of its informer.

    Args:
        kube: reads; it never writes.
        namespace: of the OVSNodes, and of their agents' Leases.
        bridge: name of the integration bridge.
        known: names of all hosts that there are.

    Attributes:
        judged: enqueues a host's name when the verdict about its OVSNode changes.
        spoke: enqueues a host's name when its agent's silence changes, or its OVSNode is new.
    """

    def __init__(
        self,
        kube: Kube,
        namespace: str,
        bridge: str,
        metrics: Metrics,
        *,
        known: Callable[[], Iterable[str]],
    ) -> None:
        self.namespace, self.judged, self.spoke = namespace, Source(), Source()
        self._bridge, self._known = bridge, known
        self.informer = Informer(kube, Selection(OVSNodeGlance, namespace), metrics=metrics)
        self.informer.add_handler(self)

    async def run(self, stop: asyncio.Event) -> None:
        """Follow until `stop`."""
        await first(stop.wait(), self._run())

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.informer.run())
            await self.informer.wait_synced()
            self.synced()

    def synced(self) -> None:
        """Record that every OVSNode is known now: hosts without one are judged, too."""
        for name in self._known():
            self.judged.enqueue(name)

    def hosts(self) -> Iterable[str]:
        """Names of the hosts that have an OVSNode."""
        return [one.metadata.name for one in self.informer.cache]

    def get(self, host: str) -> OVSNodeGlance | None:
        """Return the OVSNode of a host; None without one."""
        return self.informer.cache.get(host, self.namespace)

    def condition(self, hypervisor: Hypervisor, now: datetime) -> tuple[Condition, ...]:
        """Return `NetworkHealthy` of a host as it should be; none before the OVSNodes are known."""
        if not self.informer.has_synced:
            return ()
        return condition(hypervisor, self.get(hypervisor.metadata.name), self._bridge, now)

    def on_add(self, obj: OVSNodeGlance) -> None:
        self.judged.enqueue(obj.metadata.name)
        self.spoke.enqueue(obj.metadata.name)

    def on_update(self, old: OVSNodeGlance, new: OVSNodeGlance) -> None:
        if old.status == new.status:
            return  # counters
        if judge(old, self._bridge) != judge(new, self._bridge):
            self.judged.enqueue(new.metadata.name)
        if is_silent(old) != is_silent(new):
            self.spoke.enqueue(new.metadata.name)

    def on_delete(self, obj: OVSNodeGlance) -> None:
        self.judged.enqueue(obj.metadata.name)
        self.spoke.enqueue(obj.metadata.name)
