"""Makes the calls of a pass: the pod, its readiness gate, the object of the VMI."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Final

from msgspec.structs import replace as with_fields

from hypercobalt.api.core import NodeCondition
from hypercobalt.api.kubevirt.names import (
    APP,
    CONTROLLER_PHASES,
    LAUNCHER,
    UNPAUSED_GATE,
    VMIEventReason,
)
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.meta import ObjectMeta, owner_reference
from hypercobalt.api.workloads import Pod, PodStatus
from hypercobalt.errors import HypercobaltError, TerminalError
from hypercobalt.logs import get_logger
from hypercobalt.runtime import AlreadyExistsError, Deletion, Kube, NotLeadingError, Recorder
from hypercobalt.runtime.client.whole import Whole
from hypercobalt.virt.controller.model import CreateError, VMIFacts, is_deleted, launcher_name
from hypercobalt.virt.controller.observe import VMIObserver
from hypercobalt.vmi.conditions import Aspect
from hypercobalt.vmi.events import VMIEvent
from hypercobalt.vmi.launcher_pods import controller_of

log = get_logger(__name__)

Render = Callable[[VirtualMachineInstance], Pod]
"""Makes the launcher pod of a VMI; raises `HypercobaltError` where it cannot be made."""
_CREATING: Final = "Creating"


class VMIActions:
    """Makes the calls.

    Args:
        kube: writes as this controller.
        observer: learns of created pods.
        render: makes pods.
        events: for people.
    """

    def __init__(self, kube: Kube, observer: VMIObserver, render: Render, events: Recorder) -> None:
        self._kube, self._observer, self._render, self._events = kube, observer, render, events

    async def create(self, facts: VMIFacts) -> VMIFacts:
        """Create the VMI's pod, and return the facts with it, or with why there is none.

        Raises:
            NotLeadingError: this process must not write any more.
        """
        vmi = facts.vmi
        try:
            wanted = self._pod(vmi)
        except TerminalError as error:
            return self._failed(facts, f"Error rendering pod: {error}", lasts=True)
        try:
            pod = await self._kube.create(wanted)
        except NotLeadingError:
            raise
        except AlreadyExistsError:
            return await self._taken(facts)
        except HypercobaltError as error:
            return self._failed(facts, f"Error creating pod: {error}")
        self._observer.created(vmi, pod)
        log.info("launcher_pod_created", vmi=vmi.metadata.name, pod=pod.metadata.name)
        note = f"Created virtual machine pod {pod.metadata.name}"
        self.record(vmi, VMIEvent("Normal", VMIEventReason.SUCCESSFUL_CREATE, note))
        created = facts.created | {pod.metadata.uid}
        return replace(facts, pods=(*facts.pods, pod), created=created)

    @staticmethod
    def _failed(facts: VMIFacts, message: str, *, lasts: bool = False) -> VMIFacts:
        log.warning("launcher_pod_not_created", vmi=facts.vmi.metadata.name, error=message)
        return replace(facts, failure=CreateError(message, lasts))

    async def delete(self, vmi: VirtualMachineInstance, pods: tuple[Pod, ...]) -> None:
        """Delete pods, each within its own grace period.

        Raises:
            HypercobaltError: the server refused one.
        """
        for pod in pods:
            meta = pod.metadata
            log.info("deleting_launcher_pod", vmi=vmi.metadata.name, pod=meta.name)
            try:
                left = await self._kube.delete(Pod, meta.name, meta.namespace, uid=meta.uid)
            except NotLeadingError:
                raise
            except HypercobaltError as error:
                note = f"Error deleting virtual machine pod {meta.name}: {error}"
                self.record(vmi, VMIEvent("Warning", VMIEventReason.FAILED_DELETE, note))
                raise
            if left is not Deletion.ABSENT:
                note = f"Deleted virtual machine pod {meta.name}"
                self.record(vmi, VMIEvent("Normal", VMIEventReason.SUCCESSFUL_DELETE, note))

    async def open_gate(self, pod: Pod, shown: Aspect, now: datetime) -> None:
        """Write the condition of the pod's readiness gate, and no other field.

        Raises:
            ConflictError: there is another pod of that name.
        """
        meta = pod.metadata
        condition = NodeCondition(
            type=UNPAUSED_GATE,
            status=shown.status,
            reason=shown.reason,
            message=shown.message,
            lastTransitionTime=now,
        )
        named = ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid)
        wanted = Pod(metadata=named, status=PodStatus(conditions=(condition,)))
        written = await self._kube.apply(wanted, force=True, subresource="status")
        self._observer.wrote(written)

    async def write(
        self, whole: Whole[VirtualMachineInstance], wanted: VirtualMachineInstance
    ) -> VirtualMachineInstance:
        """Write a VMI: as a whole while it is the controller's, later what differs with its tests.

        Raises:
            ConflictError: another writer was first.
        """
        old = whole.obj
        if wanted == old:
            return old
        if wanted.status.phase != old.status.phase:
            before, after = old.status.phase, wanted.status.phase
            log.info("phase_changed", vmi=old.metadata.name, before=before, after=after)
        if old.status.phase in CONTROLLER_PHASES:
            return await self._kube.put(whole, wanted)
        return await self._kube.patch_tested(whole, wanted)

    def record(self, vmi: VirtualMachineInstance, event: VMIEvent) -> None:
        """Record an Event about a VMI."""
        self._events.record(vmi, event.type, event.reason, event.note, action=_CREATING)

    def _pod(self, vmi: VirtualMachineInstance) -> Pod:
        """The VMI's pod, by the name and with the owner that make it the VMI's."""
        pod, meta = self._render(vmi), vmi.metadata
        named = with_fields(
            pod.metadata,
            name=launcher_name(vmi),
            namespace=meta.namespace,
            ownerReferences=(owner_reference(vmi, controller=True, blocks=True),),
        )
        return with_fields(pod, metadata=named)

    async def _taken(self, facts: VMIFacts) -> VMIFacts:
        """The facts with a pod that no watch reports, as it lacks a label, and that has the name.

        Raises:
            HypercobaltError: it cannot be read.
        """
        name, meta = launcher_name(facts.vmi), facts.vmi.metadata
        found = await self._kube.get(Pod, name, meta.namespace)
        if found is not None and controller_of(found) != meta.uid:
            note = f"pod {name} does not belong to this VirtualMachineInstance; delete it"
            return self._failed(facts, f"Error creating pod: {note}")
        if found is not None and found.metadata.labels.get(APP) == LAUNCHER:
            # It is in the watch: another process of ours has made it, or it is being deleted.
            return self._failed(
                facts, f"Error creating pod: pod {name} exists and was not seen yet"
            )
        stray = () if found is None else (found,)
        failed = self._failed(facts, is_deleted(name))
        return replace(failed, pods=(*facts.pods, *stray))
