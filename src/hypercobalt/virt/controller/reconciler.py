"""One pass over a VMI: observe, decide, act.

A pass that has something to do reads the object again, with all of its fields, and decides by that:
nothing is written that rests on an old state. A pass that has nothing to do reads the caches only.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from hypercobalt.api.kubevirt.names import VMIEventReason
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.errors import TerminalError, TransientError
from hypercobalt.logs import get_logger
from hypercobalt.runtime import Kube, Result, split_key
from hypercobalt.runtime.client.whole import Whole
from hypercobalt.runtime.write_cache import WriteCache
from hypercobalt.virt.controller.act import VMIActions
from hypercobalt.virt.controller.decide import decide
from hypercobalt.virt.controller.model import VMIFacts, VMIPlan
from hypercobalt.virt.controller.observe import VMIObserver
from hypercobalt.vmi.events import VMIEvent

log = get_logger(__name__)

NAME: Final = "vmi"
UNSEEN: Final = timedelta(seconds=10)
"""How often a pod is read that the cache does not show, as it has lost its label."""


class VMIReconciler:
    """Makes the passes.

    Args:
        kube: reads past the caches.
        vmis: all of them, with this process' own writes.
        observer: reads the facts of a pass.
        actions: makes its calls.
    """

    def __init__(
        self,
        kube: Kube,
        vmis: WriteCache[VirtualMachineInstance],
        observer: VMIObserver,
        actions: VMIActions,
    ) -> None:
        self._kube, self._vmis, self._observer, self._actions = kube, vmis, observer, actions

    async def reconcile(self, key: str, /) -> Result:
        namespace, name = split_key(key)
        vmi = self._vmis.get(name, namespace or "")
        if vmi is None:
            return Result()
        facts = self._observer.glance(vmi)
        if not decide(facts).acts_on(vmi) and not self._observer.misses(facts):
            return Result()
        whole = await self._kube.get_whole(VirtualMachineInstance, name, namespace)
        if whole is None or whole.obj.metadata.uid != vmi.metadata.uid:
            self._observer.forget(vmi.metadata.uid)
            return Result()  # the watch is about to report it
        return await self._pass(whole)

    async def _pass(self, whole: Whole[VirtualMachineInstance]) -> Result:
        facts = await self._observer.look(whole.obj)
        plan = decide(facts)
        await self._actions.delete(whole.obj, plan.delete)
        if plan.create:
            facts = await self._actions.create(facts)
            plan = decide(facts)
            await self._actions.delete(whole.obj, plan.delete)  # one that was in the way
        await self._write(whole, plan)
        if plan.gate is not None and facts.pod is not None:
            await self._actions.open_gate(facts.pod, plan.gate, facts.now)
        if facts.failure is not None:
            text, reason = facts.failure.message, VMIEventReason.FAILED_CREATE
            raise (
                TerminalError(text, reason=reason) if facts.failure.lasts else TransientError(text)
            )
        return Result(UNSEEN if self._is_unseen(facts) else None)

    def _is_unseen(self, facts: VMIFacts) -> bool:
        """Whether a pod of the VMI is there, and no watch reports it."""
        seen = {pod.metadata.uid for pod in self._observer.glance(facts.vmi).pods}
        return any(pod.metadata.uid not in seen for pod in facts.own)

    async def _write(self, whole: Whole[VirtualMachineInstance], plan: VMIPlan) -> None:
        try:
            written = await self._actions.write(whole, plan.vmi)
        except TerminalError as error:
            note = f"Error writing the VirtualMachineInstance: {error}"
            event = VMIEvent("Warning", VMIEventReason.FAILED_HAND_OVER, note)
            self._actions.record(whole.obj, event)
            raise
        for event in plan.events:
            self._actions.record(whole.obj, event)
        if written.metadata.deletionTimestamp is not None and not written.metadata.finalizers:
            self._vmis.missing(written)
            self._observer.forget(written.metadata.uid)
            return
        self._vmis.wrote(written)
