"""Decides a pass over a VMI from the stored objects alone, so that any process can take it. Pure.

Before the hand-over the controller owns the object, and writes the phase; afterwards it writes the
condition Ready, the record of live pods, the phase of a VMI whose pod is gone, and the finalizer.

Source: KubeVirt, pkg/virt-controller/watch/vmi.
"""

from __future__ import annotations

from dataclasses import replace

from msgspec.structs import replace as with_fields

from hypercobalt.api.kubevirt.names import (
    CONTROLLER_PHASES,
    FINAL_PHASES,
    FOREGROUND_FINALIZER,
    KEEP_LAUNCHER_AFTER_FAILURE,
    OUTDATED_LAUNCHER_IMAGE,
    UNPAUSED_GATE,
    VMIConditionReason,
    VMIConditionType,
    VMIEventReason,
    VMIPhase,
)
from hypercobalt.api.kubevirt.status import VMIStatus
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.workloads import Pod
from hypercobalt.virt.controller.handover import handed_over, labels, observed
from hypercobalt.virt.controller.model import VMIFacts, VMIPlan, is_deleted, launcher_name
from hypercobalt.vmi import conditions
from hypercobalt.vmi.conditions import Aspect
from hypercobalt.vmi.events import VMIEvent
from hypercobalt.vmi.launcher_pods import image_trouble, is_ending, pod_condition, stage_of
from hypercobalt.vmi.phases import PodStage, entered, phase_by_pod


def decide(facts: VMIFacts) -> VMIPlan:
    """Decide what is done now."""
    vmi = facts.vmi
    present = _phase(vmi)
    if present is None:
        return VMIPlan(vmi)
    stage = stage_of(facts.pod, needs_guaranteed=_is_dedicated(vmi))
    phase = phase_by_pod(present, stage, is_deleted=_is_deleted(vmi))
    delete = (*_unwanted(facts, phase), *_living(facts.strays))
    if phase is VMIPhase.PENDING:
        return replace(_without_pod(facts), delete=delete)
    status = _status(facts, phase, stage)
    meta = vmi.metadata
    # The write that removes the last finalizer is not stored: the final phase has to be there.
    if present in FINAL_PHASES and not facts.own:
        kept = tuple(one for one in meta.finalizers if one != FOREGROUND_FINALIZER)
        left = {k: v for k, v in meta.labels.items() if k != OUTDATED_LAUNCHER_IMAGE}
        meta = with_fields(meta, finalizers=kept, labels=left)
        status = with_fields(status, launcherContainerImageVersion="")
    if phase is VMIPhase.SCHEDULED and present is VMIPhase.SCHEDULING and facts.pod is not None:
        meta = with_fields(meta, labels=labels(meta.labels, facts.pod))
    if present in CONTROLLER_PHASES:
        meta = with_fields(meta, annotations=observed(meta.annotations))
    return VMIPlan(
        with_fields(vmi, metadata=meta, status=status),
        delete=delete,
        gate=_gate(facts),
        events=_events(facts, status),
    )


def _phase(vmi: VirtualMachineInstance) -> VMIPhase | None:
    """The phase of a VMI; None for one that no version of this controller knows."""
    try:
        return VMIPhase(vmi.status.phase)
    except ValueError:
        return None


def _is_deleted(vmi: VirtualMachineInstance) -> bool:
    return vmi.metadata.deletionTimestamp is not None


def _is_dedicated(vmi: VirtualMachineInstance) -> bool:
    cpu = vmi.spec.domain.cpu
    return cpu is not None and cpu.dedicatedCpuPlacement


def _unwanted(facts: VMIFacts, phase: VMIPhase) -> tuple[Pod, ...]:
    """Pods that a VMI that is over, or has to go, does not need any more."""
    vmi = facts.vmi
    kept = phase is VMIPhase.FAILED and (
        vmi.metadata.annotations.get(KEEP_LAUNCHER_AFTER_FAILURE) == "true"
    )
    if _is_deleted(vmi) or (phase in FINAL_PHASES and not kept):
        return _living(facts.own)
    return ()


def _living(pods: tuple[Pod, ...]) -> tuple[Pod, ...]:
    """Pods that nobody has deleted yet."""
    return tuple(pod for pod in pods if pod.metadata.deletionTimestamp is None)


def _without_pod(facts: VMIFacts) -> VMIPlan:
    """A VMI that waits for its pod: own it first, create the pod then, report a failure."""
    vmi, now = facts.vmi, facts.now
    meta, status = vmi.metadata, entered(vmi.status, VMIPhase.PENDING, now)
    if FOREGROUND_FINALIZER not in meta.finalizers:
        meta = with_fields(meta, finalizers=(*meta.finalizers, FOREGROUND_FINALIZER))
    if meta != vmi.metadata or status != vmi.status:  # before anything is begun
        return VMIPlan(with_fields(vmi, metadata=meta, status=status))
    name = launcher_name(vmi)
    taken = any(pod.metadata.name == name for pod in facts.strays)
    if facts.failure is None and not taken:
        return VMIPlan(vmi, create=True)
    message = facts.failure.message if facts.failure is not None else is_deleted(name)
    failed = Aspect("False", VMIConditionReason.FAILED_CREATE, message)
    shown = conditions.put(status.conditions, VMIConditionType.SYNCHRONIZED, failed, now)
    note = VMIEvent("Warning", VMIEventReason.FAILED_CREATE, message)
    written = with_fields(vmi, status=with_fields(status, conditions=shown))
    return VMIPlan(written, events=(note,) if facts.failure is not None else ())


def _status(facts: VMIFacts, phase: VMIPhase, stage: PodStage) -> VMIStatus:
    """The status of a VMI that has, or had, a pod."""
    vmi, pod = facts.vmi, facts.pod
    status = entered(vmi.status, phase, facts.now)
    shown = conditions.put(
        status.conditions, VMIConditionType.READY, conditions.ready(phase, pod), facts.now
    )
    if vmi.status.phase in CONTROLLER_PHASES:
        trouble = _trouble(pod, stage) if pod is not None else None
        scheduled = conditions.pod_scheduled(pod)
        shown = conditions.put(shown, VMIConditionType.SYNCHRONIZED, trouble, facts.now)
        shown = conditions.put(shown, VMIConditionType.POD_SCHEDULED, scheduled, facts.now)
    if phase in FINAL_PHASES:  # else the handler's
        shown = conditions.put(shown, VMIConditionType.PAUSED, None, facts.now)
    status = with_fields(status, conditions=shown, activePods=_active(facts, phase))
    if pod is not None and vmi.status.phase in CONTROLLER_PHASES:
        status = with_fields(status, qosClass=pod.status.qosClass or status.qosClass)
    if phase is VMIPhase.SCHEDULED and vmi.status.phase == VMIPhase.SCHEDULING and pod is not None:
        return handed_over(status, vmi.spec, pod)
    return status


def _active(facts: VMIFacts, phase: VMIPhase) -> dict[str, str]:
    """Node of each live pod; a node that is new is written with the hand-over, not alone."""
    known = facts.vmi.status.activePods if phase is VMIPhase.SCHEDULING else {}
    return {pod.metadata.uid: known.get(pod.metadata.uid, pod.spec.nodeName) for pod in facts.own}


def _trouble(pod: Pod, stage: PodStage) -> Aspect | None:
    """What keeps a pod from becoming ready, as the condition Synchronized shows it."""
    if stage is PodStage.UNGUARANTEED:
        message = (
            f"pod {pod.metadata.name} has QoS class {pod.status.qosClass or 'unknown'}; dedicated "
            "CPUs need Guaranteed: set requests equal to limits"
        )
        return conditions.synchronized(VMIConditionReason.FAILED_GUARANTEE_RESOURCES, message)
    found = image_trouble(pod)
    return conditions.synchronized(*found) if found is not None else None


def _gate(facts: VMIFacts) -> Aspect | None:
    """What the pod's readiness gate has to show; None if it does, or the pod has none."""
    pod = facts.pod
    if pod is None or is_ending(pod):
        return None
    if all(gate.conditionType != UNPAUSED_GATE for gate in pod.spec.readinessGates):
        return None
    wanted, shown = conditions.unpaused_gate(facts.vmi.status.conditions), None
    if (found := pod_condition(pod, UNPAUSED_GATE)) is not None:
        shown = (found.status, found.reason)
    return None if shown == (wanted.status, wanted.reason) else wanted


def _events(facts: VMIFacts, status: VMIStatus) -> tuple[VMIEvent, ...]:
    """An Event where resources cannot be guaranteed, once for each time that it shows."""
    now = conditions.get(status.conditions, VMIConditionType.SYNCHRONIZED)
    before = conditions.get(facts.vmi.status.conditions, VMIConditionType.SYNCHRONIZED)
    reason = VMIConditionReason.FAILED_GUARANTEE_RESOURCES
    if now is None or now.reason != reason or (before is not None and before.reason == reason):
        return ()
    return (VMIEvent("Warning", VMIEventReason.FAILED_GUARANTEE_RESOURCES, now.message),)
