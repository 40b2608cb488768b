"""A VMI explained: for each wait who is waited for, since when, and what to do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from hypercobalt.api.coordination import Lease, LeaseSpec
from hypercobalt.api.core import NodeCondition
from hypercobalt.api.kubevirt.names import FOREGROUND_FINALIZER
from hypercobalt.api.kubevirt.status import PhaseTransition, VMICondition, VMIStatus
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.pods import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateWaiting,
    ContainerStatus,
)
from hypercobalt.api.times import micro_time
from hypercobalt.api.workloads import Pod, PodSpec, PodStatus
from hypercobalt.views.explain.vmi import VMIView, explain

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
NOW = BEGAN + timedelta(seconds=90)


def vmi(
    phase: str,
    *conditions: VMICondition,
    deleted: bool = False,
    finalizers: tuple[str, ...] = (FOREGROUND_FINALIZER,),
    **status: str,
) -> VirtualMachineInstance:
    entered = PhaseTransition(phase=phase, phaseTransitionTimestamp=BEGAN)
    return VirtualMachineInstance(
        metadata=ObjectMeta(
            name="vm",
            namespace="lab",
            finalizers=finalizers,
            deletionTimestamp=BEGAN if deleted else None,
        ),
        status=VMIStatus(
            phase=phase,
            conditions=conditions,
            phaseTransitionTimestamps=(entered,),
            **status,  # type: ignore[arg-type]
        ),
    )


def pod(node: str = "", *, deleted: bool = False, **status: object) -> Pod:
    return Pod(
        metadata=ObjectMeta(
            name="virt-launcher-vm-x", namespace="lab", deletionTimestamp=BEGAN if deleted else None
        ),
        spec=PodSpec(nodeName=node),
        status=PodStatus(**status),  # type: ignore[arg-type]
    )


UNPLACED = pod(
    conditions=(
        NodeCondition(
            type="PodScheduled",
            status="False",
            reason="Unschedulable",
            message="0/1 nodes are available: 1 Insufficient memory.",
            lastTransitionTime=BEGAN,
        ),
    )
)
PULLS = ContainerStatus(
    name="compute",
    state=ContainerState(waiting=ContainerStateWaiting(reason="ErrImagePull", message="no image")),
)
RUNS = ContainerStatus(name="compute", state=ContainerState(running=ContainerStateRunning()))


@pytest.mark.parametrize(
    ("given", "pods", "who", "remedy"),
    [
        (vmi(""), (), "virt-controller to create the launcher pod", "kubectl get leases"),
        (vmi("Pending"), (), "virt-controller to create the launcher pod", "kubectl get leases"),
        (vmi("Scheduling"), (pod(),), "the scheduler to choose a node", "kubectl describe pod"),
        (vmi("Scheduling"), (UNPLACED,), "1 Insufficient memory", "kubectl describe nodes"),
        (vmi("Scheduling"), (), "virt-controller to report that the pod is gone", "leases"),
        (
            vmi("Scheduling"),
            (pod("a"),),
            "kubelet of node a to start the launcher pod",
            "kubectl describe pod virt-launcher-vm-x -n lab",
        ),
        (
            vmi("Scheduling"),
            (pod("a", containerStatuses=(PULLS,)),),
            "kubelet of node a ErrImagePull: no image",
            "kubectl describe pod",
        ),
        (
            vmi("Scheduling"),
            (pod("a", phase="Running", containerStatuses=(RUNS,)),),
            "virt-controller to hand over to virt-handler of node a",
            "leases",
        ),
        (
            vmi("Scheduled", nodeName="a"),
            (pod("a"),),
            "virt-handler of node a to start the guest",
            "kubectl describe vmi vm -n lab",
        ),
        (
            vmi("Running", deleted=True, nodeName="a"),
            (pod("a", deleted=True),),
            "the guest to shut down, or virt-handler of node a to end it after 30 s",
            "--grace-period=0 --force",
        ),
        (
            vmi("Pending", deleted=True),
            (),
            "virt-controller to end a VMI that has not been handed over",
            "leases",
        ),
        (
            vmi("Succeeded", deleted=True),
            (pod("a", deleted=True),),
            "kubelet of node a to end pod virt-launcher-vm-x",
            "--grace-period=0 --force",
        ),
        (
            vmi("Succeeded", deleted=True),
            (pod("a"),),
            "virt-controller to delete pod virt-launcher-vm-x",
            "leases",
        ),
        (
            vmi("Succeeded", deleted=True),
            (),
            "virt-controller to remove its finalizer",
            "leases",
        ),
        (
            vmi("Failed", deleted=True, finalizers=("example.com/theirs",)),
            (),
            "whoever has put a finalizer on it: example.com/theirs",
            "",
        ),
        (
            vmi("Failed", reason="NodeUnresponsive"),
            (),
            "The guest has failed: NodeUnresponsive",
            "kubectl describe vmi",
        ),
    ],
)
def test_wait_names_who_is_waited_for_and_what_to_do(
    given: VirtualMachineInstance, pods: tuple[Pod, ...], who: str, remedy: str
) -> None:
    found = explain(VMIView(given, NOW, pods))
    text = "\n".join(found.lines)
    assert any(who in one.message for one in found.waiting), text
    assert remedy in text
    assert "(since 2026-01-01T00:00:00Z)" in found.lines[0]


def going(grace: int = 60, **status: object) -> Pod:
    """A pod whose deletion has begun 60 s before the end of its grace."""
    made = pod("a", deleted=False, **status)
    end = BEGAN + timedelta(seconds=grace)
    meta = replace(made.metadata, deletionTimestamp=end, deletionGracePeriodSeconds=grace)
    return replace(made, metadata=meta)


def test_pod_is_waited_for_since_its_deletion_and_not_since_the_end_of_its_grace() -> None:
    for given in (vmi("Succeeded", deleted=True), vmi("Running", nodeName="a")):
        found = explain(VMIView(given, NOW, (going(300),)))
        (waits,) = [one for one in found.waiting if "to end pod" in one.message]
        assert waits.since == BEGAN
    endless = replace(going().metadata, deletionGracePeriodSeconds=2**62)
    assert explain(VMIView(vmi("Running"), NOW, (replace(going(), metadata=endless),))).waiting


@pytest.mark.parametrize("phase", ["Scheduled", "Running"])
def test_guest_whose_pod_ends_is_explained_though_its_vmi_stays(phase: str) -> None:
    given = vmi(phase, nodeName="a")
    deleted = explain(VMIView(given, NOW, (going(phase="Running"),)))
    assert [one.message for one in deleted.waiting] == [
        "the guest to shut down, or virt-handler of node a to end it after 30 s: "
        "its pod is being deleted",
        "kubelet of node a to end pod virt-launcher-vm-x",
    ]
    ended = explain(VMIView(given, NOW, (pod("a", phase="Failed"),)))
    (waits,) = ended.waiting
    assert waits.message == "virt-handler of node a to record how the guest has ended"
    assert waits.remedies


def test_guest_that_runs_waits_for_nothing() -> None:
    found = explain(VMIView(vmi("Running", nodeName="a"), NOW, (pod("a"),)))
    assert (found.waiting, found.also) == ((), ())
    assert found.summary == "on node a, pod virt-launcher-vm-x"


@pytest.mark.parametrize(
    ("shown", "head"),
    [
        (
            VMICondition(
                type="Synchronized", status="False", reason="FailedCreate", message="quota"
            ),
            "Synchronized False/FailedCreate: quota",
        ),
        (
            VMICondition(type="Paused", status="True", reason="PausedIOError"),
            "Paused True/PausedIOError (virt-handler): the guest is paused",
        ),
        (
            VMICondition(type="Ready", status="False", reason="PodTerminating", message="m"),
            "Ready False/PodTerminating (virt-controller): m",
        ),
    ],
)
def test_conditions_that_are_not_as_they_should_be(shown: VMICondition, head: str) -> None:
    found = explain(VMIView(vmi("Running", shown, nodeName="a"), NOW))
    assert f"  - {head}" in found.lines


def test_who_works_on_it_is_listed_with_the_last_sign_of_life() -> None:
    def lease(name: str, seconds: int) -> Lease:
        renewed = micro_time(NOW - timedelta(seconds=seconds))
        spec = LeaseSpec(holderIdentity="h", leaseDurationSeconds=40, renewTime=renewed)
        return Lease(metadata=ObjectMeta(name=name, namespace="kubevirt"), spec=spec)

    view = VMIView(
        vmi("Scheduled", nodeName="a"),
        NOW,
        controller=lease("virt-controller", 5),
        handler=lease("virt-handler-a", 80),
    )
    found = explain(view)
    assert [(one.who, one.stale) for one in found.seen] == [
        ("virt-controller", False),
        ("virt-handler", True),
        ("kubelet", True),
    ]
    assert "virt-handler of node a has not renewed its Lease" in "\n".join(found.lines)


def test_text_of_others_moves_no_cursor() -> None:
    hostile = replace(UNPLACED.status.conditions[0], message="\x1b[2Jgone\nand more")
    given = replace(UNPLACED, status=replace(UNPLACED.status, conditions=(hostile,)))
    lines = explain(VMIView(vmi("Scheduling"), NOW, (given,))).lines
    assert not any("\x1b" in line or "\n" in line for line in lines)
