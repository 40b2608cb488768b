"""What virt-controller does about a VMI, by its pod, as tables."""

from __future__ import annotations

from dataclasses import replace as with_values
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from hypercobalt.api.core import NodeCondition
from hypercobalt.api.kubevirt.devices import DevicesSpec, InterfaceSpec, Present
from hypercobalt.api.kubevirt.machine import CPUSpec
from hypercobalt.api.kubevirt.names import FOREGROUND_FINALIZER, UNPAUSED_GATE, VMIPhase
from hypercobalt.api.kubevirt.spec import DomainSpec, VMISpec
from hypercobalt.api.kubevirt.status import (
    InterfaceStatus,
    PhaseTransition,
    VMICondition,
    VMIStatus,
    VolumeStatus,
)
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.kubevirt.volumes import NetworkSpec, PodNetwork, VolumeSpec
from hypercobalt.api.meta import ObjectMeta, OwnerReference, owner_reference
from hypercobalt.api.pods import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateWaiting,
    ContainerStatus,
    PodReadinessGate,
)
from hypercobalt.api.workloads import Container, Pod, PodSpec, PodStatus
from hypercobalt.virt.controller.decide import decide
from hypercobalt.virt.controller.model import CreateError, VMIFacts, VMIPlan, launcher_name
from hypercobalt.vmi.conditions import Aspect
from hypercobalt.vmi.phases import entered

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
SPEC = VMISpec(
    domain=DomainSpec(
        devices=DevicesSpec(
            interfaces=(
                InterfaceSpec(name="second", bridge=Present()),
                InterfaceSpec(name="default", masquerade=Present()),
            )
        )
    ),
    networks=(NetworkSpec(name="second"), NetworkSpec(name="default", pod=PodNetwork())),
    volumes=(VolumeSpec(name="root"), VolumeSpec(name="data")),
)
RUNNING = (ContainerStatus(name="compute", state=ContainerState(running=ContainerStateRunning())),)


def vmi(
    phase: str = "Pending", *, deleted: bool = False, finalizers: tuple[str, ...] | None = None
) -> VirtualMachineInstance:
    known = (FOREGROUND_FINALIZER,) if finalizers is None else finalizers
    active = {} if phase in ("", "Pending") else {"p1": "node-a"}
    meta = ObjectMeta(
        name="vm",
        namespace="lab",
        uid="u1",
        finalizers=known,
        deletionTimestamp=NOW if deleted else None,
    )
    return VirtualMachineInstance(
        metadata=meta, spec=SPEC, status=VMIStatus(phase=phase, activePods=active)
    )


OWNER: OwnerReference = owner_reference(vmi(), controller=True)


def pod(
    *,
    runs: bool = False,
    node: str = "node-a",
    uid: str = "p1",
    name: str = "pod",
    deleted: bool = False,
    gate: str = "",
) -> Pod:
    conditions = (NodeCondition(type=UNPAUSED_GATE, status="True", reason=gate),) if gate else ()
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace="lab",
            uid=uid,
            ownerReferences=(OWNER,),
            deletionTimestamp=NOW if deleted else None,
        ),
        spec=PodSpec(
            nodeName=node,
            readinessGates=(PodReadinessGate(conditionType=UNPAUSED_GATE),),
            containers=(Container(name="compute", image="launcher:1"),),
        ),
        status=PodStatus(
            phase="Running" if runs else "Pending",
            qosClass="Burstable",
            conditions=conditions,
            containerStatuses=RUNNING if runs else (),
        ),
    )


def facts(given: VirtualMachineInstance, *pods: Pod, created: str = "") -> VMIFacts:
    return VMIFacts(given, pods, NOW, created=frozenset({created} if created else ()))


def condition(given: VirtualMachineInstance, type_: str) -> tuple[str, str] | None:
    found = next((one for one in given.status.conditions if one.type == type_), None)
    return (found.status, found.reason) if found else None


def test_vmi_that_waits_gets_a_pod_and_no_write_yet() -> None:
    given = vmi()
    plan = decide(facts(given))
    assert plan.create
    assert plan.vmi is given


@pytest.mark.parametrize(
    "given", [vmi(""), vmi("Pending", finalizers=("other",)), vmi("", finalizers=())]
)
def test_object_is_owned_before_a_pod_is_created(given: VirtualMachineInstance) -> None:
    plan = decide(facts(given))
    assert not plan.create
    assert FOREGROUND_FINALIZER in plan.vmi.metadata.finalizers
    assert len(set(plan.vmi.metadata.finalizers)) == len(plan.vmi.metadata.finalizers)
    assert plan.vmi.status.phase == "Pending"


def test_created_pod_is_recorded_with_phase_scheduling_in_one_write() -> None:
    plan = decide(facts(vmi(), pod(node=""), created="p1"))
    status = plan.vmi.status
    assert (status.phase, status.activePods, status.qosClass) == (
        "Scheduling",
        {"p1": ""},
        "Burstable",
    )
    assert condition(plan.vmi, "Ready") == ("False", "GuestNotRunning")
    assert plan.vmi.metadata.annotations == {
        "kubevirt.io/latest-observed-api-version": "v1",
        "kubevirt.io/storage-observed-api-version": "v1",
    }
    assert plan.gate is not None
    assert not plan.create
    assert not plan.delete


def test_pod_that_this_process_did_not_create_and_nobody_recorded_is_deleted() -> None:
    stray = pod(name=launcher_name(vmi()))
    plan = decide(facts(vmi(), stray))
    assert (plan.delete, plan.create, plan.events) == ((stray,), False, ())
    assert condition(plan.vmi, "Synchronized") == ("False", "FailedCreate")
    assert decide(facts(plan.vmi, stray)).vmi == plan.vmi


def test_name_that_is_free_is_used_beside_a_stray() -> None:
    plan = decide(facts(vmi(), pod(uid="p9", name="other")))
    assert plan.create
    assert [one.metadata.uid for one in plan.delete] == ["p9"]


@pytest.mark.parametrize("phase", ["Scheduling", "Scheduled", "Running"])
def test_stray_beside_the_pod_counts_for_nothing(phase: str) -> None:
    alone = decide(facts(vmi(phase), pod(runs=True)))
    beside = decide(facts(vmi(phase), pod(uid="p9", runs=True), pod(runs=True)))
    assert beside.vmi == alone.vmi
    assert [one.metadata.uid for one in beside.delete] == ["p9"]


def test_hand_over_is_one_write() -> None:
    before = replace(vmi("Scheduling").status, activePods={"p1": ""})
    given = replace(vmi("Scheduling"), status=before)
    plan = decide(facts(given, pod(runs=True, gate="NotPaused")))
    status = plan.vmi.status
    assert plan.vmi.metadata.labels == {"kubevirt.io/nodeName": "node-a"}
    assert (status.phase, status.nodeName, status.migrationTransport, status.activePods) == (
        "Scheduled",
        "node-a",
        "Unix",
        {"p1": "node-a"},
    )
    assert status.launcherContainerImageVersion == "launcher:1"
    assert [one.name for one in status.volumeStatus] == ["data", "root"]
    assert [(one.name, one.podInterfaceName) for one in status.interfaces] == [
        ("default", "eth0"),
        ("second", ""),
    ]
    assert plan.gate is None
    assert not plan.create
    assert not plan.delete


def test_deleted_vmi_is_not_handed_over() -> None:
    plan = decide(facts(vmi("Scheduling", deleted=True), pod(runs=True)))
    assert plan.vmi.status.phase == "Scheduling"
    assert plan.vmi.status.nodeName == ""
    assert len(plan.delete) == 1


def test_node_that_is_new_is_not_written_before_the_hand_over() -> None:
    before = decide(facts(vmi(), pod(node=""), created="p1")).vmi
    plan = decide(facts(before, pod(node="node-a", gate="NotPaused")))
    assert plan.vmi == before


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        ("Scheduling", "Failed"),
        ("Scheduled", "Failed"),
        ("Running", "Failed"),
        ("Succeeded", "Succeeded"),
    ],
)
def test_pod_that_is_gone_ends_the_vmi(phase: str, expected: str) -> None:
    plan = decide(facts(vmi(phase)))
    assert plan.vmi.status.phase == expected
    assert plan.vmi.status.activePods == {}
    assert condition(plan.vmi, "Ready") == ("False", "PodNotExists")
    assert not plan.create
    assert decide(facts(plan.vmi)).vmi.metadata.finalizers == ()


def test_guest_whose_pod_is_gone_is_paused_no_more() -> None:
    paused = VMICondition(type="Paused", status="True", reason="PausedByUser")
    given = vmi("Running")
    given = replace(given, status=replace(given.status, conditions=(paused,)))
    assert condition(decide(facts(given, pod(runs=True))).vmi, "Paused") is not None
    assert condition(decide(facts(given)).vmi, "Paused") is None


def test_deleted_before_a_pod_exists_is_failed_before_it_goes() -> None:
    finalizers = ("theirs", FOREGROUND_FINALIZER)
    plan = decide(facts(vmi(deleted=True, finalizers=finalizers)))
    assert (plan.vmi.status.phase, plan.vmi.metadata.finalizers) == ("Failed", finalizers)
    assert not plan.create
    assert decide(facts(plan.vmi)).vmi.metadata.finalizers == ("theirs",)


@pytest.mark.parametrize(
    ("phase", "deleted", "annotation", "deletes"),
    [
        ("Running", False, "", False),
        ("Running", True, "", True),
        ("Scheduled", True, "", True),
        ("Succeeded", False, "", True),
        ("Failed", False, "", True),
        ("Failed", False, "true", False),
        ("Failed", True, "true", True),
        ("Succeeded", False, "true", True),
    ],
)
def test_pods_of_a_vmi_that_is_over_or_has_to_go_are_deleted(
    phase: str, annotation: str, *, deleted: bool, deletes: bool
) -> None:
    given = vmi(phase, deleted=deleted)
    if annotation:
        notes = {"kubevirt.io/keep-launcher-alive-after-failure": annotation}
        given = replace(given, metadata=replace(given.metadata, annotations=notes))
    plan = decide(facts(given, pod(runs=True, gate="NotPaused")))
    assert bool(plan.delete) is deletes
    assert plan.vmi.metadata.finalizers == (FOREGROUND_FINALIZER,)
    assert plan.vmi.status.phase == phase


def test_pod_that_is_being_deleted_is_not_deleted_again() -> None:
    plan = decide(facts(vmi("Running", deleted=True), pod(runs=True, deleted=True)))
    assert plan.delete == ()
    assert condition(plan.vmi, "Ready") == ("False", "PodTerminating")
    assert plan.gate is None


@pytest.mark.parametrize("phase", ["WaitingForSync", "Unknown", "of-a-later-version"])
def test_phase_that_is_not_known_is_left_alone(phase: str) -> None:
    given = vmi(phase)
    left = decide(facts(given))
    assert left.vmi.status.phase == phase
    assert not left.create


def test_unschedulable_is_mirrored_and_goes_with_the_hand_over() -> None:
    shown = NodeCondition(
        type="PodScheduled", status="False", reason="Unschedulable", message="0/1"
    )
    waiting = pod(node="")
    waiting = replace(waiting, status=replace(waiting.status, conditions=(shown,)))
    plan = decide(facts(vmi("Scheduling"), waiting))
    assert condition(plan.vmi, "PodScheduled") == ("False", "Unschedulable")
    handed = decide(facts(plan.vmi, pod(runs=True)))
    assert condition(handed.vmi, "PodScheduled") is None


def test_image_trouble_is_shown_and_goes_with_the_hand_over() -> None:
    waits = ContainerState(waiting=ContainerStateWaiting(reason="ErrImagePull", message="no"))
    given = pod()
    status = replace(
        given.status, containerStatuses=(ContainerStatus(name="compute", state=waits),)
    )
    plan = decide(facts(vmi("Scheduling"), replace(given, status=status)))
    assert condition(plan.vmi, "Synchronized") == ("False", "ErrImagePull")
    handed = decide(facts(plan.vmi, pod(runs=True)))
    assert condition(handed.vmi, "Synchronized") is None


def test_condition_of_the_handler_is_not_the_controllers() -> None:
    synchronized = VMICondition(type="Synchronized", status="False", reason="x")
    given = vmi("Running")
    given = replace(given, status=replace(given.status, conditions=(synchronized,)))
    plan = decide(facts(given, pod(runs=True)))
    assert synchronized in plan.vmi.status.conditions


def test_failure_to_create_is_shown_once_and_the_phase_stays() -> None:
    failed = with_values(facts(vmi()), failure=CreateError("quota"))
    plan = decide(failed)
    assert plan.vmi.status.phase == "Pending"
    assert condition(plan.vmi, "Synchronized") == ("False", "FailedCreate")
    assert [one.reason for one in plan.events] == ["FailedCreate"]
    again = decide(with_values(failed, vmi=plan.vmi))
    assert again.vmi == plan.vmi


def test_next_attempt_keeps_what_is_shown_until_it_has_an_outcome() -> None:
    failed = decide(with_values(facts(vmi()), failure=CreateError("quota"))).vmi
    assert decide(facts(failed)).vmi == failed
    created = decide(facts(failed, pod(), created="p1"))
    assert condition(created.vmi, "Synchronized") is None


def test_dedicated_cpus_without_guarantee_wait_with_an_event() -> None:
    spec = replace(SPEC, domain=replace(SPEC.domain, cpu=CPUSpec(dedicatedCpuPlacement=True)))
    given = replace(vmi("Scheduling"), spec=spec)
    plan = decide(facts(given, pod(runs=True)))
    assert plan.vmi.status.phase == "Scheduling"
    assert condition(plan.vmi, "Synchronized") == ("False", "FailedGuaranteeResources")
    assert [one.reason for one in plan.events] == ["FailedGuaranteeResources"]
    assert decide(facts(plan.vmi, pod(runs=True))).events == ()


@pytest.mark.parametrize(
    ("paused", "gate", "expected"),
    [
        (False, "", ("True", "NotPaused")),
        (False, "NotPaused", None),
        (True, "NotPaused", ("False", "Paused")),
    ],
)
def test_gate_follows_the_condition_paused(
    gate: str, expected: tuple[str, str] | None, *, paused: bool
) -> None:
    given = vmi("Running")
    if paused:
        shown = (VMICondition(type="Paused", status="True"),)
        given = replace(given, status=replace(given.status, conditions=shown))
    plan = decide(facts(given, pod(runs=True, gate=gate)))
    found = (plan.gate.status, plan.gate.reason) if plan.gate else None
    assert found == expected


def test_pod_without_a_gate_gets_no_condition() -> None:
    bare = pod(runs=True)
    bare = replace(bare, spec=replace(bare.spec, readinessGates=()))
    assert decide(facts(vmi("Running"), bare)).gate is None


def test_ready_follows_the_pod_while_the_guest_runs() -> None:
    ready = pod(runs=True, gate="NotPaused")
    shown = (*ready.status.conditions, NodeCondition(type="Ready", status="True"))
    ready = replace(ready, status=replace(ready.status, conditions=shown))
    running = decide(facts(vmi("Running"), ready))
    assert condition(running.vmi, "Ready") == ("True", "")
    again = decide(facts(running.vmi, ready))
    assert not again.acts_on(running.vmi)


def test_only_the_first_entry_into_a_phase_is_recorded() -> None:
    first = entered(VMIStatus(phase="Pending"), VMIPhase.SCHEDULING, NOW)
    later = NOW + timedelta(minutes=1)
    back = entered(entered(first, VMIPhase.RUNNING, later), VMIPhase.SCHEDULING, later)
    assert back.phase == "Scheduling"
    assert back.phaseTransitionTimestamps == (
        PhaseTransition(phase="Scheduling", phaseTransitionTimestamp=NOW),
        PhaseTransition(phase="Running", phaseTransitionTimestamp=later),
    )


def test_pod_on_the_vmis_node_is_the_present_one() -> None:
    given = vmi("Running")
    status = replace(given.status, nodeName="node-b", activePods={"p1": "node-a", "p2": "node-b"})
    found = facts(replace(given, status=status), pod(), pod(uid="p2", node="node-b"))
    assert found.pod is not None
    assert found.pod.metadata.uid == "p2"


@pytest.mark.parametrize("name", ["vm", "v" * 63, "a." * 100 + "b"])
def test_name_of_the_pod_follows_from_the_uid(name: str) -> None:
    def named(uid: str) -> VirtualMachineInstance:
        return replace(vmi(), metadata=replace(vmi().metadata, name=name, uid=uid))

    one = launcher_name(named("u1"))
    assert one.endswith("rwzhf")  # the next version has to find it under this name
    assert one == launcher_name(named("u1"))
    assert one != launcher_name(named("u2"))
    assert one.startswith(f"virt-launcher-{name}-"[:58])
    assert len(one) <= 63


def test_labels_of_others_stay_when_the_finalizer_goes() -> None:
    given = vmi("Failed")
    labels = {"app": "web", "kubevirt.io/outdatedLauncherImage": ""}
    given = replace(given, metadata=replace(given.metadata, labels=labels))
    assert decide(facts(given)).vmi.metadata.labels == {"app": "web"}
    assert decide(facts(given, pod())).vmi.metadata.labels == labels


def test_what_the_hand_over_wrote_is_not_written_again() -> None:
    plan = decide(facts(vmi("Scheduled"), pod(runs=True)))
    assert (plan.vmi.metadata.labels, plan.vmi.status.nodeName) == ({}, "")
    assert plan.vmi.status.volumeStatus == ()


def test_only_dedicated_cpus_need_a_guaranteed_pod() -> None:
    spec = replace(SPEC, domain=replace(SPEC.domain, cpu=CPUSpec(cores=2)))
    plan = decide(facts(replace(vmi("Scheduling"), spec=spec), pod(runs=True)))
    assert plan.vmi.status.phase == "Scheduled"


def test_class_of_the_pod_is_written_until_the_hand_over() -> None:
    assert decide(facts(vmi("Running"), pod(runs=True))).vmi.status.qosClass == ""
    unknown = replace(pod(), status=replace(pod().status, qosClass=""))
    known = replace(
        vmi("Scheduling"), status=replace(vmi("Scheduling").status, qosClass="Burstable")
    )
    assert decide(facts(known, unknown)).vmi.status.qosClass == "Burstable"


def test_guarantee_that_fails_after_another_trouble_has_its_event() -> None:
    spec = replace(SPEC, domain=replace(SPEC.domain, cpu=CPUSpec(dedicatedCpuPlacement=True)))
    earlier = (VMICondition(type="Synchronized", status="False", reason="ErrImagePull"),)
    given = replace(vmi("Scheduling"), spec=spec)
    given = replace(given, status=replace(given.status, conditions=earlier))
    plan = decide(facts(given, pod(runs=True)))
    assert [one.reason for one in plan.events] == ["FailedGuaranteeResources"]


def test_what_is_known_of_volumes_and_interfaces_stays() -> None:
    volume, interface = VolumeStatus(name="root", target="vda"), InterfaceStatus(name="known")
    given = vmi("Scheduling")
    status = replace(given.status, volumeStatus=(volume,), interfaces=(interface,))
    plan = decide(facts(replace(given, status=status), pod(runs=True)))
    assert plan.vmi.status.volumeStatus == (VolumeStatus(name="data", target=""), volume)
    assert plan.vmi.status.interfaces == (interface,)


def test_first_pod_is_the_present_one_before_there_is_a_node() -> None:
    given = vmi("Scheduling")
    given = replace(given, status=replace(given.status, activePods={"p1": "", "p2": ""}))
    found = facts(given, pod(), pod(uid="p2", node=""))
    assert found.pod is not None
    assert found.pod.metadata.uid == "p1"


@pytest.mark.parametrize(
    ("plan", "acts"),
    [
        (VMIPlan(vmi()), False),
        (VMIPlan(vmi(), create=True), True),
        (VMIPlan(vmi(), delete=(pod(),)), True),
        (VMIPlan(vmi(), gate=Aspect("True", "NotPaused")), True),
        (VMIPlan(vmi("Failed")), True),
    ],
)
def test_plan_that_does_anything_acts(plan: VMIPlan, *, acts: bool) -> None:
    assert plan.acts_on(vmi()) is acts
