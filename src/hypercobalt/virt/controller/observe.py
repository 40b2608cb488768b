"""Reads the facts of a pass.

The cache of pods is a selection by label, which whoever may write pods can take off. So before a
recorded pod counts as gone, it is read by its name.
"""

from __future__ import annotations

from typing import Final

from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.workloads import Pod
from hypercobalt.runtime import Cache, Clock, Kube
from hypercobalt.runtime.write_cache import WriteCache
from hypercobalt.virt.controller.model import VMIFacts, launcher_name
from hypercobalt.vmi.launcher_pods import controller_of

BY_VMI: Final = "vmi"
"""Index of the pods by the UID of the VMI that controls them."""


def controlling_vmi(pod: Pod) -> tuple[str, ...]:
    """Index function of `BY_VMI`."""
    uid = controller_of(pod)
    return (uid,) if uid else ()


class VMIObserver:
    """Reads the facts of VMIs.

    Args:
        kube: reads pods past the cache.
        pods: cache with the index `BY_VMI`.
        newest: the same pods, with this process' own writes.
        clock: the time.
    """

    def __init__(self, kube: Kube, pods: Cache[Pod], newest: WriteCache[Pod], clock: Clock) -> None:
        self._kube, self._pods, self._newest, self._clock = kube, pods, newest, clock
        self._created: dict[str, str] = {}

    def created(self, vmi: VirtualMachineInstance, pod: Pod) -> None:
        """Note a pod that this process has created; it counts until the VMI records it."""
        self._created[vmi.metadata.uid] = self._newest.added(pod).metadata.uid

    def wrote(self, pod: Pod) -> None:
        """Take in the answer to a write of a pod, which the cache shows later."""
        self._newest.wrote(pod)

    def forget(self, uid: str) -> None:
        """Forget a VMI that is gone."""
        self._created.pop(uid, None)

    def glance(self, vmi: VirtualMachineInstance) -> VMIFacts:
        """Return the facts as the cache has them."""
        uid, meta = vmi.metadata.uid, vmi.metadata
        names = {(p.metadata.name, p.metadata.namespace) for p in self._pods.find(BY_VMI, uid)}
        names.add((launcher_name(vmi), meta.namespace))
        known = (self._newest.get(*name) for name in sorted(names))
        found = tuple(
            pod
            for pod in known
            if pod is not None
            and controller_of(pod) == uid
            and pod.metadata.namespace == meta.namespace
        )
        created = self._created.get(uid, "")
        if created in vmi.status.activePods:
            del self._created[uid]
            created = ""
        unrecorded = frozenset({created} if created else ())
        return VMIFacts(vmi, found, self._clock.now(), created=unrecorded)

    def misses(self, facts: VMIFacts) -> bool:
        """Whether the cache lacks a pod that is recorded: gone, or without its label."""
        known = {pod.metadata.uid for pod in facts.pods}
        return not known.issuperset((*facts.vmi.status.activePods, *facts.created))

    async def look(self, vmi: VirtualMachineInstance) -> VMIFacts:
        """Return the facts, with recorded pods that the cache lacks.

        Args:
            vmi: as just read.
        """
        facts = self.glance(vmi)
        if not self.misses(facts):
            return facts
        meta = vmi.metadata
        found = await self._kube.get(Pod, launcher_name(vmi), meta.namespace)
        if found is None or controller_of(found) != meta.uid:
            return facts
        others = tuple(p for p in facts.pods if p.metadata.name != found.metadata.name)
        return VMIFacts(vmi, (*others, found), facts.now, created=facts.created)
