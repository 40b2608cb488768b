"""Why a VirtualMachineInstance is where it is: who is waited for, since when, and what to do. Pure.

The phase says whose turn it is: virt-controller until there is a pod, the scheduler until the pod
has a node, the kubelet until it runs, virt-controller for the hand-over, virt-handler of the node
until the guest runs; at the end the guest itself, the handler, the kubelet, and whoever has put a
finalizer on the object.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from hypercobalt.api.coordination import Lease
from hypercobalt.api.kubevirt.names import (
    FINAL_PHASES,
    FOREGROUND_FINALIZER,
    HANDLER_PHASES,
    VMIConditionType,
    VMIPhase,
)
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.workloads import Pod
from hypercobalt.views.explain.model import Explanation, Finding, Remedy, ReporterSighting, command
from hypercobalt.views.explain.reporters import is_late, renewed
from hypercobalt.vmi import conditions
from hypercobalt.vmi.grace import grace_period
from hypercobalt.vmi.launcher_pods import (
    has_ended,
    image_trouble,
    is_ending,
    pod_condition,
    stage_of,
)
from hypercobalt.vmi.phases import PodStage

CONTROLLER: Final = "virt-controller"
HANDLER: Final = "virt-handler"
KUBELET: Final = "kubelet"
SCHEDULER: Final = "scheduler"

CONTROLLER_LEASE: Final = CONTROLLER
"""Name of the Lease of virt-controller's election, in whatever namespace."""


def handler_lease(node: str) -> str:
    """Name of the Lease of the handler of a node."""
    return f"{HANDLER}-{node}"


@dataclass(frozen=True, slots=True)
class VMIView:
    """What an explanation is made of.

    Args:
        vmi: as read.
        now: when it was read.
        pods: the VMI's own, as recorded in its status.
        controller: Lease of virt-controller; None, here and below: there is none.
        handler: Lease of the handler of the VMI's node.
        kubelet: Lease of that node.
    """

    vmi: VirtualMachineInstance
    now: datetime
    pods: tuple[Pod, ...] = ()
    controller: Lease | None = None
    handler: Lease | None = None
    kubelet: Lease | None = None

    @property
    def node(self) -> str:
        """Where the VMI is, or will be; "" if that is not decided."""
        found = (pod.spec.nodeName for pod in self.pods)
        return self.vmi.status.nodeName or next(found, "")

    @property
    def is_deleted(self) -> bool:
        """Whether the VMI has to go."""
        return self.vmi.metadata.deletionTimestamp is not None


def explain(view: VMIView) -> Explanation:
    """Explain a VirtualMachineInstance."""
    vmi = view.vmi
    meta, status = vmi.metadata, vmi.status
    phase = status.phase or "not seen by virt-controller"
    return Explanation(
        kind="VMI",
        name=f"{meta.namespace}/{meta.name}",
        at=view.now,
        state=f"{phase}, being deleted" if view.is_deleted else phase,
        since=meta.deletionTimestamp if view.is_deleted else _entered(vmi),
        summary=_summary(view),
        waiting=tuple(_leaving(view) if view.is_deleted else _waiting(view)),
        also=tuple(_conditions(view)),
        seen=_sightings(view),
    )


def _entered(vmi: VirtualMachineInstance) -> datetime | None:
    """When the present phase was entered first; the object's age if that is not recorded."""
    known = vmi.status.phaseTransitionTimestamps
    found = (one.phaseTransitionTimestamp for one in known if one.phase == vmi.status.phase)
    return next(found, vmi.metadata.creationTimestamp)


def _summary(view: VMIView) -> str:
    parts = [f"on node {view.node}" if view.node else "on no node yet"]
    parts += [f"pod {pod.metadata.name}" for pod in view.pods]
    address = next((one.ipAddress for one in view.vmi.status.interfaces if one.ipAddress), "")
    return ", ".join([*parts, *([f"address {address}"] if address else [])])


def _waiting(view: VMIView) -> Iterable[Finding]:
    """Whose turn it is."""
    phase = view.vmi.status.phase
    if phase in FINAL_PHASES:
        yield from _ended(view)
    elif phase in ("", VMIPhase.PENDING):
        yield _controller(view, "to create the launcher pod")
    elif phase == VMIPhase.SCHEDULING:
        yield _scheduling(view)
    elif phase in HANDLER_PHASES:
        yield from _handed_over(view)


def _handed_over(view: VMIView) -> Iterable[Finding]:
    """The guest of a VMI that stays; its pod may go."""
    pod = next(filter(is_ending, view.pods), None)
    if pod is not None and (has_ended(pod) or pod.metadata.deletionTimestamp is None):
        text = f"{HANDLER} of node {view.node} to record how the guest has ended"
        yield Finding(text, remedies=(_check_handler(view),))
    elif pod is not None:
        yield _shuts_down(view, _deleted(pod), ": its pod is being deleted")
        yield _pod_ends(view, pod)
    elif view.vmi.status.phase == VMIPhase.SCHEDULED:
        text = f"{HANDLER} of node {view.node} to start the guest"
        yield Finding(text, since=_entered(view.vmi), remedies=(_check_handler(view),))


def _shuts_down(view: VMIView, since: datetime | None, why: str = "") -> Finding:
    grace = grace_period(view.vmi.spec.terminationGracePeriodSeconds).total_seconds()
    who = f"{HANDLER} of node {view.node}"
    text = f"the guest to shut down, or {who} to end it after {grace:g} s{why}"
    return Finding(text, since=since, remedies=(_check_handler(view),))


def _deleted(pod: Pod) -> datetime | None:
    """When a pod was deleted: its timestamp is the end of its grace."""
    meta = pod.metadata
    grace = grace_period(meta.deletionGracePeriodSeconds or 0)  # bounded, as an API's is not
    return None if meta.deletionTimestamp is None else meta.deletionTimestamp - grace


def _controller(view: VMIView, what: str) -> Finding:
    look = Remedy(
        "check that virt-controller runs, leads and reaches the API server",
        f"kubectl get leases --all-namespaces --field-selector metadata.name={CONTROLLER_LEASE}",
    )
    return Finding(f"{CONTROLLER} {what}", since=_entered(view.vmi), remedies=(look, _events(view)))


def _scheduling(view: VMIView) -> Finding:
    pod = view.pods[0] if view.pods else None
    if pod is None:
        return _controller(view, "to report that the pod is gone")
    if not pod.spec.nodeName:
        return _unscheduled(view, pod)
    if stage_of(pod) is PodStage.READY:
        return _controller(view, f"to hand over to {HANDLER} of node {view.node}")
    trouble = image_trouble(pod)
    what = f"{trouble[0]}: {trouble[1]}" if trouble else "to start the launcher pod"
    describe = Remedy("read the Events of the pod", _describe(pod))
    text = f"{KUBELET} of node {view.node} {what}"
    return Finding(text, since=_entered(view.vmi), reporter=KUBELET, remedies=(describe,))


def _unscheduled(view: VMIView, pod: Pod) -> Finding:
    shown = pod_condition(pod, "PodScheduled")
    if shown is None or shown.status != "False":
        text = f"the {SCHEDULER} to choose a node for pod {pod.metadata.name}"
        remedy = Remedy("check that a scheduler runs; read the Events of the pod", _describe(pod))
        return Finding(text, since=_entered(view.vmi), remedies=(remedy,))
    room = Remedy(
        "make room, or lower requests, selectors and affinity; the pod is placed by itself then",
        "kubectl describe nodes",
    )
    return Finding(
        f"a node that can take pod {pod.metadata.name}: {shown.message}",
        condition=f"PodScheduled False/{shown.reason}",
        since=shown.lastTransitionTime,
        reporter=SCHEDULER,
        remedies=(room,),
    )


def _ended(view: VMIView) -> Iterable[Finding]:
    """What is left of a guest that has ended."""
    status = view.vmi.status
    if status.phase == VMIPhase.FAILED:
        reason = f": {status.reason}" if status.reason else ""
        yield Finding(f"The guest has failed{reason}", remedies=(_events(view),))
    for pod in view.pods:
        yield _pod_ends(view, pod)


def _leaving(view: VMIView) -> Iterable[Finding]:
    """What keeps a deleted VMI."""
    vmi = view.vmi
    if vmi.status.phase in HANDLER_PHASES:
        yield _shuts_down(view, vmi.metadata.deletionTimestamp)
    elif vmi.status.phase not in FINAL_PHASES:
        yield _controller(view, "to end a VMI that has not been handed over")
    for pod in view.pods:
        yield _pod_ends(view, pod)
    others = [one for one in vmi.metadata.finalizers if one != FOREGROUND_FINALIZER]
    if others:
        yield Finding(f"whoever has put a finalizer on it: {', '.join(others)}")
    elif not view.pods and vmi.status.phase in FINAL_PHASES:
        yield _controller(view, "to remove its finalizer")


def _pod_ends(view: VMIView, pod: Pod) -> Finding:
    meta = pod.metadata
    if meta.deletionTimestamp is None:
        return _controller(view, f"to delete pod {meta.name}")
    text = f"{KUBELET} of node {pod.spec.nodeName or 'none'} to end pod {meta.name}"
    remedy = Remedy(
        "if that node is off for good, and only then, remove the pod",
        command(
            "kubectl delete pod {name} -n {namespace} --grace-period=0 --force",
            name=meta.name,
            namespace=meta.namespace,
        ),
    )
    return Finding(text, since=_deleted(pod), reporter=KUBELET, remedies=(remedy,))


def _conditions(view: VMIView) -> Iterable[Finding]:
    """What conditions show beyond the phase."""
    shown = view.vmi.status.conditions
    synchronized = conditions.get(shown, VMIConditionType.SYNCHRONIZED)
    if synchronized is not None and synchronized.status == "False":
        yield Finding(
            synchronized.message or "no message",
            condition=f"Synchronized False/{synchronized.reason}",
            since=synchronized.lastTransitionTime,
            remedies=(_events(view),),
        )
    paused = conditions.get(shown, VMIConditionType.PAUSED)
    if paused is not None and paused.status == "True":
        yield Finding(
            paused.message or "the guest is paused",
            condition=f"Paused True/{paused.reason}",
            since=paused.lastTransitionTime,
            reporter=HANDLER,
        )
    ready = conditions.get(shown, VMIConditionType.READY)
    running = view.vmi.status.phase == VMIPhase.RUNNING
    if running and ready is not None and ready.status != "True":
        yield Finding(
            ready.message or "the pod is not ready",
            condition=f"Ready {ready.status}/{ready.reason}",
            since=ready.lastTransitionTime,
            reporter=CONTROLLER,
        )


def _sightings(view: VMIView) -> tuple[ReporterSighting, ...]:
    found = [(CONTROLLER, view.controller, CONTROLLER_LEASE)]
    if view.node:
        found.append((HANDLER, view.handler, handler_lease(view.node)))
        found.append((KUBELET, view.kubelet, view.node))
    return tuple(_sighting(who, lease, name, view.now) for who, lease, name in found)


def _sighting(who: str, lease: Lease | None, name: str, now: datetime) -> ReporterSighting:
    if lease is None:
        return ReporterSighting(who, None, True, f"no Lease {name} that can be read")
    where = f"Lease {lease.metadata.namespace}/{lease.metadata.name}"
    return ReporterSighting(who, renewed(lease), is_late(lease, now), where)


def _check_handler(view: VMIView) -> Remedy:
    if view.handler is not None and is_late(view.handler, view.now):
        text = f"{HANDLER} of node {view.node} has not renewed its Lease: check that it runs"
        return Remedy(text, command("cobalt explain {node}", node=view.node))
    return _events(view)


def _events(view: VMIView) -> Remedy:
    meta = view.vmi.metadata
    shown = command(
        "kubectl describe vmi {name} -n {namespace}", name=meta.name, namespace=meta.namespace
    )
    return Remedy("read the Events of the VMI", shown)


def _describe(pod: Pod) -> str:
    meta = pod.metadata
    return command(
        "kubectl describe pod {name} -n {namespace}", name=meta.name, namespace=meta.namespace
    )
