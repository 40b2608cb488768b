"""What a launcher pod shows, whoever wrote it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from hypercobalt.api.core import NodeCondition
from hypercobalt.api.kubevirt.status import VMIStatus
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.meta import ObjectMeta, OwnerReference
from hypercobalt.api.pods import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
)
from hypercobalt.api.workloads import Container, Pod, PodSpec, PodStatus
from hypercobalt.vmi.launcher_pods import (
    compute_image,
    controller_of,
    image_trouble,
    owns,
    pod_condition,
    stage_of,
)
from hypercobalt.vmi.phases import PodStage

NOW = datetime(2026, 11, 29, tzinfo=UTC)
RUNS = ContainerState(running=ContainerStateRunning())
ENDED = ContainerState(terminated=ContainerStateTerminated(exitCode=1))
COMPUTE = ContainerStatus(name="compute", state=RUNS)
BESIDE = ContainerStatus(name="sidecar", ready=True, state=RUNS)


def pod(*statuses: ContainerStatus, phase: str = "Running", node: str = "a", qos: str = "") -> Pod:
    return Pod(
        spec=PodSpec(nodeName=node),
        status=PodStatus(phase=phase, qosClass=qos, containerStatuses=statuses),
    )


@pytest.mark.parametrize(
    ("given", "stage"),
    [
        pytest.param(None, PodStage.GONE, id="gone"),
        pytest.param(pod(COMPUTE), PodStage.READY, id="runs"),
        pytest.param(pod(COMPUTE, BESIDE), PodStage.READY, id="with-a-sidecar"),
        pytest.param(
            pod(COMPUTE, replace(BESIDE, ready=False)), PodStage.STARTING, id="sidecar-not-ready"
        ),
        pytest.param(pod(BESIDE), PodStage.STARTING, id="no-launcher"),
        pytest.param(pod(COMPUTE, node=""), PodStage.STARTING, id="status-without-a-node"),
        pytest.param(pod(COMPUTE, phase="Pending"), PodStage.STARTING, id="pending"),
        pytest.param(pod(phase="Pending", node=""), PodStage.STARTING, id="new"),
        pytest.param(
            pod(replace(COMPUTE, state=ContainerState())), PodStage.STARTING, id="launcher-waits"
        ),
        pytest.param(pod(replace(COMPUTE, state=ENDED)), PodStage.ENDING, id="launcher-ended"),
        pytest.param(pod(COMPUTE, phase="Succeeded"), PodStage.ENDING, id="succeeded"),
        pytest.param(pod(COMPUTE, phase="Failed"), PodStage.ENDING, id="failed"),
        pytest.param(
            replace(pod(COMPUTE), metadata=ObjectMeta(deletionTimestamp=NOW)),
            PodStage.ENDING,
            id="deleted",
        ),
    ],
)
def test_stage(given: Pod | None, stage: PodStage) -> None:
    assert stage_of(given) is stage


@pytest.mark.parametrize(
    ("qos", "stage"),
    [("Guaranteed", PodStage.READY), ("Burstable", PodStage.UNGUARANTEED)],
)
def test_dedicated_cpus_need_a_guaranteed_pod(qos: str, stage: PodStage) -> None:
    assert stage_of(pod(COMPUTE, qos=qos), needs_guaranteed=True) is stage


VMI = VirtualMachineInstance(
    metadata=ObjectMeta(name="vm", uid="u1"), status=VMIStatus(activePods={"p1": ""})
)
OWNER = OwnerReference(
    apiVersion="kubevirt.io/v1",
    kind="VirtualMachineInstance",
    name="vm",
    uid="u1",
    controller=True,
)


@pytest.mark.parametrize(
    ("uid", "owner", "expected"),
    [
        pytest.param("p1", OWNER, True, id="ours"),
        pytest.param("p2", OWNER, False, id="reference-written-by-another"),
        pytest.param("p1", replace(OWNER, uid="u2"), False, id="of-a-vmi-of-the-same-name"),
        pytest.param("p1", replace(OWNER, controller=None), False, id="not-the-controller"),
        pytest.param("p1", replace(OWNER, kind="Pod"), False, id="another-kind"),
        pytest.param("p1", replace(OWNER, apiVersion="v1"), False, id="another-group"),
    ],
)
def test_pod_is_ours_by_owner_and_record(
    uid: str, owner: OwnerReference, *, expected: bool
) -> None:
    labels = {"kubevirt.io/created-by": "u1", "kubevirt.io": "virt-launcher"}
    meta = ObjectMeta(name="x", uid=uid, labels=labels, ownerReferences=(owner,))
    assert owns(VMI, Pod(metadata=meta)) is expected


def test_pod_without_owners_has_no_controller() -> None:
    assert controller_of(Pod()) == ""
    assert not owns(VirtualMachineInstance(), Pod())


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff"])
def test_image_that_cannot_be_had_is_shown(reason: str) -> None:
    waiting = ContainerStateWaiting(reason=reason, message="m" * 5000)
    status = ContainerStatus(name="x", state=ContainerState(waiting=waiting))
    assert image_trouble(pod(status)) == (reason, "m" * 1024)
    in_init = Pod(status=PodStatus(initContainerStatuses=(status,)))
    assert image_trouble(in_init) == (reason, "m" * 1024)


def test_container_that_waits_for_anything_else_is_no_trouble() -> None:
    waiting = ContainerState(waiting=ContainerStateWaiting(reason="ContainerCreating"))
    assert image_trouble(pod(ContainerStatus(name="x", state=waiting), COMPUTE)) is None


def test_image_of_the_launcher() -> None:
    containers = (Container(name="x", image="other"), Container(name="compute", image="launcher"))
    assert compute_image(Pod(spec=PodSpec(containers=containers))) == "launcher"
    assert compute_image(Pod()) == ""


def test_condition_of_a_pod_by_its_type() -> None:
    one, other = NodeCondition(type="A", status="True"), NodeCondition(type="B", status="False")
    given = Pod(status=PodStatus(conditions=(one, other)))
    assert [pod_condition(given, type_) for type_ in "ABC"] == [one, other, None]
