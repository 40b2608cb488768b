"""One pass over a VMI of the node: observe, decide, act.

Calls that end a guest, or take note of its end, are made at once from what the caches have, so that
they need no API server. Everything else reads the object again, with all of its fields, and decides
by that.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.logs import get_logger
from hypercobalt.runtime import Kube, Result, split_key
from hypercobalt.runtime.write_cache import WriteCache
from hypercobalt.virt.handler.act import HandlerActions
from hypercobalt.virt.handler.decide import decide, decide_orphan
from hypercobalt.virt.handler.links import FollowedLauncher, Launchers, key_apart
from hypercobalt.virt.handler.model import Contact, HandlerCall, HandlerPlan
from hypercobalt.virt.handler.observe import HandlerObserver
from hypercobalt.virt.handler.remains import remains_of

log = get_logger(__name__)

NAME: Final = "vmi"


class HandlerReconciler:
    """Makes the passes.

    Args:
        kube: reads past the caches.
        vmis: of the node, with this process' own writes.
        launchers: of the node.
        observer: reads the facts of a pass.
        actions: makes its calls.
    """

    def __init__(
        self,
        kube: Kube,
        vmis: WriteCache[VirtualMachineInstance],
        launchers: Launchers,
        observer: HandlerObserver,
        actions: HandlerActions,
    ) -> None:
        self._kube, self._vmis, self._launchers = kube, vmis, launchers
        self._observer, self._actions = observer, actions

    async def reconcile(self, key: str, /) -> Result:
        launcher = self._launchers.get(key)
        if launcher is not None and launcher.is_apart:
            return await self._apart(key, launcher)
        await self._take_over(key)
        namespace, name = split_key(key)
        vmi = await self._read(key, name, namespace)
        if vmi is None:
            return self._without_vmi(key)
        if not self._observer.is_ours(vmi):
            self._launchers.forget(key)  # another handler's by now
            return Result()
        facts = self._observer.look(vmi)
        plan = decide(facts)
        if plan.call is not None and plan.call is not HandlerCall.SYNC:
            self._actions.call(key, vmi, plan.call, plan.call_event)
        if plan.vmi == vmi and plan.call is not HandlerCall.SYNC:
            return _result(plan)
        whole = await self._kube.get_whole(VirtualMachineInstance, name, namespace)
        if whole is None or whole.obj.metadata.uid != vmi.metadata.uid:
            return Result()  # the watch is about to report it
        if not self._observer.is_ours(whole.obj):
            return Result()
        facts = replace(self._observer.look(whole.obj), now=facts.now)
        again = decide(facts)
        written = await self._actions.write(whole, again.vmi)
        self._vmis.wrote(written)
        if again.vmi != whole.obj:
            self._actions.record(whole.obj, again.events)
        if again.call is HandlerCall.SYNC:
            self._actions.sync(whole, facts.pod)
        return _result(again)

    async def _read(
        self, key: str, name: str, namespace: str | None
    ) -> VirtualMachineInstance | None:
        """The VMI as it is known; one that the cache lacks is read, before it counts as gone.

        The cache is a selection by label: without that label a VMI is still the node's.
        """
        vmi, launcher = self._vmis.get(name, namespace or ""), self._launchers.get(key)
        if vmi is not None or launcher is None:
            return vmi
        found = await self._kube.get(VirtualMachineInstance, name, namespace)
        same = found is not None and found.metadata.uid == launcher.vmi.metadata.uid
        return found if same else None

    async def _take_over(self, key: str) -> None:
        """Follow launchers whose VMI was removed by force before this process could follow them."""
        for pod in self._observer.left(key):
            vmi = remains_of(pod)
            if vmi is None or self._launchers.get(key_apart(vmi)) is not None:
                continue
            if not await self._exists(vmi):
                self._launchers.follow(key_apart(vmi), vmi, pod.metadata.uid)

    async def _exists(self, vmi: VirtualMachineInstance) -> bool:
        meta = vmi.metadata
        found = await self._kube.get(VirtualMachineInstance, meta.name, meta.namespace)
        return found is not None and found.metadata.uid == meta.uid

    async def _apart(self, key: str, launcher: FollowedLauncher) -> Result:
        """Go on with a launcher whose VMI's name another VMI has; gone is what a read shows so."""
        if await self._exists(launcher.vmi):
            self._launchers.forget(key)  # by an old state: the VMI's own pass finds it
            return Result()
        return self._without_vmi(key)

    def _without_vmi(self, key: str) -> Result:
        """Go on with a launcher whose VMI is gone, until it has ended."""
        launcher = self._launchers.get(key)
        if launcher is None:
            return Result()
        facts = self._observer.orphan(launcher)
        contact = facts.launcher.contact
        over = contact in (Contact.ENDED, Contact.ABSENT)
        # Without a pod nothing shows when to give up one that cannot be reached.
        if over or (facts.pod is None and contact is not Contact.CONNECTED):
            self._launchers.forget(key)
            return Result()
        plan = decide_orphan(facts)
        if plan.call is not None:
            self._actions.call(key, launcher.vmi, plan.call, plan.call_event)
        return _result(plan)


def _result(plan: HandlerPlan) -> Result:
    wait = plan.look_again
    return Result(None if wait is None else max(wait, timedelta(milliseconds=10)))
