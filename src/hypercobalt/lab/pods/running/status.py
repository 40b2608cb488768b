"""The status that a kubelet reports of a pod. Pure.

Only what a kubelet owns is in it. Conditions of others, such as PodScheduled and the readiness
gates, stay: the status is applied, and lists of conditions merge by their type.

Source: kubernetes, pkg/kubelet/status/generate.go and pkg/kubelet/kubelet_pods.go.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from hypercobalt.adapters.host.transient_model import UnitRun
from hypercobalt.api.core import NodeCondition
from hypercobalt.api.kubevirt.names import COMPUTE_CONTAINER
from hypercobalt.api.pods import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    PodIP,
)
from hypercobalt.api.workloads import Pod, PodStatus
from hypercobalt.vmi.launcher_pods import pod_condition

FINAL: Final = ("Succeeded", "Failed")
_RUNTIME: Final = "lab"
_KILLED: Final = 137
_BY_SIGNAL: Final = 128
_NOT_READY: Final = "ReadinessGatesNotReady"
_COMPLETED: Final = "PodCompleted"
_WAITS: Final = "ContainersNotReady"


def running(pod: Pod, run: UnitRun, *, ip: str, host: str, now: datetime) -> PodStatus:
    """The status of a pod whose unit runs."""
    state = ContainerState(running=ContainerStateRunning(startedAt=_second(run.started or now)))
    closed = [
        gate.conditionType
        for gate in pod.spec.readinessGates
        if (shown := pod_condition(pod, gate.conditionType)) is None or shown.status != "True"
    ]
    note = (
        f"corresponding condition of pod readiness gate {closed[0]!r} is not true" if closed else ""
    )
    return PodStatus(
        phase="Running",
        hostIP=host,
        podIP=ip,
        podIPs=(PodIP(ip=ip),) if ip else (),
        startTime=pod.status.startTime or _second(now),
        conditions=(
            _condition(pod, "Initialized", now, holds=True),
            _condition(pod, "ContainersReady", now, holds=True),
            _condition(
                pod, "Ready", now, holds=not closed, reason=_NOT_READY if closed else "", note=note
            ),
        ),
        containerStatuses=(_container(pod, state, ready=True),),
    )


def waiting(pod: Pod, reason: str, note: str, *, host: str, now: datetime) -> PodStatus:
    """The status of a pod that cannot be started yet."""
    state = ContainerState(waiting=ContainerStateWaiting(reason=reason, message=note))
    text = f"containers with unready status: [{COMPUTE_CONTAINER}]"
    return PodStatus(
        phase="Pending",
        hostIP=host,
        startTime=pod.status.startTime or _second(now),
        conditions=(
            _condition(pod, "Initialized", now, holds=True),
            *(
                _condition(pod, type_, now, holds=False, reason=_WAITS, note=text)
                for type_ in ("ContainersReady", "Ready")
            ),
        ),
        containerStatuses=(_container(pod, state, ready=False),),
    )


def ended(pod: Pod, run: UnitRun | None, *, host: str, now: datetime) -> PodStatus:
    """The status of a pod whose unit has ended.

    Args:
        pod: as the API has it.
        run: how it ended; None if nobody knows, as after a reboot of the host.
        host: address of the host.
        now: time of the report.
    """
    state = _terminated(run, now)
    phase = "Succeeded" if state.exitCode == 0 else "Failed"
    return PodStatus(
        phase=phase,
        hostIP=host,
        podIP=pod.status.podIP,
        podIPs=pod.status.podIPs,
        startTime=pod.status.startTime or _second(now),
        conditions=(
            _condition(pod, "Initialized", now, holds=True, reason=_COMPLETED),
            *(
                _condition(
                    pod,
                    type_,
                    now,
                    holds=False,
                    reason=f"Pod{phase}".replace("Succeeded", "Completed"),
                )
                for type_ in ("ContainersReady", "Ready")
            ),
        ),
        containerStatuses=(_container(pod, ContainerState(terminated=state), ready=False),),
    )


def shows(shown: PodStatus, wanted: PodStatus) -> bool:
    """Whether a pod shows a status already; times of conditions do not count."""
    conditions = {(one.type, one.status, one.reason, one.message) for one in shown.conditions}
    return (
        (shown.phase, shown.hostIP, shown.podIP, shown.startTime)
        == (wanted.phase, wanted.hostIP, wanted.podIP, wanted.startTime)
        and all((c.type, c.status, c.reason, c.message) in conditions for c in wanted.conditions)
        and shown.containerStatuses == wanted.containerStatuses
    )


def _terminated(run: UnitRun | None, now: datetime) -> ContainerStateTerminated:
    if run is None:
        note = "The container could not be located: the host was started again, or lost its unit"
        return ContainerStateTerminated(
            exitCode=_KILLED, reason="ContainerStatusUnknown", message=note
        )
    signal = int(run.signal or 0)
    code = _BY_SIGNAL + signal if signal else run.exit_code or 0
    return ContainerStateTerminated(
        exitCode=code,
        signal=signal,
        reason="Error" if code else "Completed",
        startedAt=_second(run.started) if run.started else None,
        finishedAt=_second(run.ended or now),
    )


def _container(pod: Pod, state: ContainerState, *, ready: bool) -> ContainerStatus:
    image = next((one.image for one in pod.spec.containers if one.name == COMPUTE_CONTAINER), "")
    return ContainerStatus(
        name=COMPUTE_CONTAINER,
        ready=ready,
        started=state.running is not None,
        image=image,
        containerID="" if state.waiting else f"{_RUNTIME}://{pod.metadata.uid}",
        state=state,
    )


def _condition(
    pod: Pod, type_: str, now: datetime, *, holds: bool, reason: str = "", note: str = ""
) -> NodeCondition:
    status = "True" if holds else "False"
    shown = pod_condition(pod, type_)
    kept = shown.lastTransitionTime if shown is not None and shown.status == status else None
    return NodeCondition(
        type=type_,
        status=status,
        reason=reason,
        message=note,
        lastTransitionTime=kept or _second(now),
    )


def _second(moment: datetime) -> datetime:
    """The precision that the API keeps."""
    return moment.replace(microsecond=0)
