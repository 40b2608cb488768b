"""Which pods are run, and which of their fields count; the others are refused with their name."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.lab.pods.running.objects import UID, VMI_UID, launcher_pod

from hypercobalt.api.meta import OwnerReference
from hypercobalt.api.pods import (
    EmptyDirVolumeSource,
    ImageVolumeSource,
    ResourceRequirements,
    Volume,
    VolumeMount,
)
from hypercobalt.api.quantity import Quantity
from hypercobalt.api.workloads import Container, Pod, PodSpec
from hypercobalt.lab.pods.running.launch import (
    Launch,
    Mount,
    NotRun,
    image_directory,
    launch_of,
)


def refusal(pod: Pod) -> str:
    found = launch_of(pod)
    assert isinstance(found, NotRun)
    return found.reason


def with_spec(**fields: object) -> Pod:
    pod = launcher_pod()
    return replace(pod, spec=replace(pod.spec, **fields))


def with_compute(**fields: object) -> Pod:
    (compute,) = launcher_pod().spec.containers
    return with_spec(containers=(replace(compute, **fields),))


def with_mount(path: str, volume: Volume | None = None, **fields: object) -> Pod:
    volume = volume or Volume(name="v", emptyDir=EmptyDirVolumeSource())
    mount = replace(VolumeMount(name="v", mountPath=path), **fields)
    pod = with_compute(volumeMounts=(mount,))
    return replace(pod, spec=replace(pod.spec, volumes=(volume,)))


def test_launcher_pod_is_run_with_its_owners_name_and_its_grace() -> None:
    found = launch_of(launcher_pod(grace=60))
    assert isinstance(found, Launch)
    assert (found.uid, found.namespace) == (UID, "lab")
    assert (found.vmi, found.vmi_uid) == ("guest", VMI_UID)
    assert found.grace.total_seconds() == 60
    assert found.hostname == "guest"


def test_outer_mounts_come_first() -> None:
    found = launch_of(launcher_pod())
    assert isinstance(found, Launch)
    assert found.mounts == (
        Mount(volume="public", path="/var/run/kubevirt"),
        Mount(volume="root", path="/var/run/kubevirt-image-volume/disk_0", image="linux"),
        Mount(volume="sockets", path="/var/run/kubevirt/sockets"),
    )


def test_command_of_the_pod_does_not_count() -> None:
    wanted = launch_of(launcher_pod())
    assert launch_of(with_compute(command=("/bin/sh",), args=("-c", "id"), image="any")) == wanted


@pytest.mark.parametrize(
    ("pod", "field"),
    [
        (replace(launcher_pod(), metadata=replace(launcher_pod().metadata, ownerReferences=())),
         "VirtualMachineInstance"),
        (with_spec(hostNetwork=True), "spec.hostNetwork"),
        (with_spec(initContainers=(Container(name="init"),)), "spec.containers"),
        (with_spec(containers=()), "spec.containers"),
        (with_spec(containers=(Container(name="other"),)), "spec.containers"),
        (with_spec(terminationGracePeriodSeconds=-1), "terminationGracePeriodSeconds"),
        (with_mount("/etc"), "mountPath"),
        (with_mount("/var/run"), "mountPath"),
        (with_mount("/var/run/../../etc"), "mountPath"),
        (with_mount("/var/run/a/b/c"), "mountPath"),
        (with_mount("/var/run/a\nb"), "mountPath"),
        (with_mount("/var/run/a", subPath="x"), "subPath"),
        (with_mount("/var/run/a", mountPropagation="Bidirectional"), "mountPropagation"),
        (with_mount("/var/run/a", Volume(name="w")), "no volume"),
        (with_mount("/var/run/a", Volume(name="v")), "emptyDir on disk or image"),
        (with_mount("/var/run/a", Volume(name="v", emptyDir=EmptyDirVolumeSource(medium="Memory"))),
         "emptyDir on disk"),
        (with_mount("/var/run/a", Volume(name="v", image=ImageVolumeSource(reference="a/.."))),
         "image"),
        (with_compute(resources=ResourceRequirements(limits={"nvidia.com/gpu": Quantity(1)})),
         "nvidia.com/gpu"),
    ],
)  # fmt: skip
def test_anything_else_is_refused_by_name(pod: Pod, field: str) -> None:
    assert field in refusal(pod)


def test_two_volumes_have_two_places() -> None:
    twice = tuple(VolumeMount(name="public", mountPath="/var/run/kubevirt") for _ in range(2))
    assert "mountPath" in refusal(with_compute(volumeMounts=twice))


def test_owner_that_is_no_controller_or_of_another_group_does_not_count() -> None:
    pod = launcher_pod()
    (owner,) = pod.metadata.ownerReferences
    for other in (
        replace(owner, controller=None),
        replace(owner, apiVersion="v1"),
        replace(owner, kind="ReplicaSet"),
    ):
        meta = replace(pod.metadata, ownerReferences=(other,))
        assert isinstance(launch_of(replace(pod, metadata=meta)), NotRun)


def test_uid_that_is_a_path_is_refused() -> None:
    pod = launcher_pod()
    assert "UUID" in refusal(replace(pod, metadata=replace(pod.metadata, uid="../../etc")))
    owner = OwnerReference(
        apiVersion="kubevirt.io/v1", kind="VirtualMachineInstance", name="g", uid="x",
        controller=True,
    )  # fmt: skip
    meta = replace(pod.metadata, ownerReferences=(owner,))
    assert "UUID" in refusal(replace(pod, metadata=meta))


def test_device_nodes_follow_from_the_resources() -> None:
    one = Quantity(1)
    given = ResourceRequirements(
        limits={"devices.kubevirt.io/tun": one, "devices.kubevirt.io/kvm": one},
        requests={"cpu": one, "memory": one, "ephemeral-storage": one},
    )
    found = launch_of(with_compute(resources=given))
    assert isinstance(found, Launch)
    assert found.devices == ("kvm", "tun")


@pytest.mark.parametrize(
    ("hostname", "shown"),
    [("a-guest", "a-guest"), ("", "guest"), ("x;reboot", "virt-launcher"), ("-", "virt-launcher")],
)
def test_hostname_that_is_none_is_replaced(hostname: str, shown: str) -> None:
    found = launch_of(with_spec(hostname=hostname))
    assert isinstance(found, Launch)
    assert found.hostname == shown


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("linux", "linux"),
        ("hypercobalt/linux", "linux"),
        ("registry:5000/lab/linux:1.2", "linux"),
        ("lab/linux@sha256:0123", "linux"),
        ("lab/linux:1@sha256:0123", "linux"),
        ("lab/..", ""),
        ("lab/", ""),
        (".hidden", ""),
        ("a b", ""),
        ("", ""),
    ],
)
def test_directory_of_an_image_is_the_last_part_of_its_name(reference: str, name: str) -> None:
    assert image_directory(reference) == name


def test_spec_without_a_grace_period_has_the_usual_one() -> None:
    found = launch_of(with_spec(terminationGracePeriodSeconds=None))
    assert isinstance(found, Launch)
    assert found.grace.total_seconds() == 30


def test_pod_without_anything_is_refused() -> None:
    assert isinstance(launch_of(Pod(spec=PodSpec())), NotRun)
