"""A launcher pod, as the tests of what runs pods need it."""

from __future__ import annotations

from datetime import UTC, datetime

from hypercobalt.adapters.host.transient_model import UnitRun
from hypercobalt.api.meta import ObjectMeta, OwnerReference
from hypercobalt.api.pods import (
    EmptyDirVolumeSource,
    ImageVolumeSource,
    PodReadinessGate,
    Volume,
    VolumeMount,
)
from hypercobalt.api.workloads import Container, Pod, PodSpec, PodStatus
from hypercobalt.lab.pods.running.settings import RunningSettings
from hypercobalt.lab.pods.running.unit import unit_name

UID = "0b9d5c1e-6a3c-4f0e-9d2b-0a1b2c3d4e5f"
VMI_UID = "11111111-2222-4333-8444-555555555555"
NOW = datetime(2026, 11, 29, 12, 0, 0, 123456, tzinfo=UTC)
SECOND = NOW.replace(microsecond=0)
GATE = "kubevirt.io/virtual-machine-unpaused"
SETTINGS = RunningSettings(
    node="kvm-1",
    address="10.77.0.1",
    server="https://api",
    network="100.64.0.64/26",
    credentials="/c",
    programs=("/code",),
)


def launcher_pod(grace: int = 60, status: PodStatus | None = None, **meta: object) -> Pod:
    owner = OwnerReference(
        apiVersion="kubevirt.io/v1",
        kind="VirtualMachineInstance",
        name="guest",
        uid=VMI_UID,
        controller=True,
    )
    given = {"name": "p", "namespace": "lab", "uid": UID, "ownerReferences": (owner,), **meta}
    mounts = (
        VolumeMount(name="sockets", mountPath="/var/run/kubevirt/sockets"),
        VolumeMount(name="root", mountPath="/var/run/kubevirt-image-volume/disk_0", readOnly=True),
        VolumeMount(name="public", mountPath="/var/run/kubevirt"),
    )
    empty = EmptyDirVolumeSource()
    spec = PodSpec(
        terminationGracePeriodSeconds=grace,
        restartPolicy="Never",
        readinessGates=(PodReadinessGate(conditionType=GATE),),
        volumes=(
            Volume(name="public", emptyDir=empty),
            Volume(name="sockets", emptyDir=empty),
            Volume(name="root", image=ImageVolumeSource(reference="lab/linux:1")),
        ),
        containers=(Container(name="compute", image="virt-launcher", volumeMounts=mounts),),
    )
    return Pod(metadata=ObjectMeta(**given), spec=spec, status=status or PodStatus())  # type: ignore[arg-type]


def unit_run(**fields: object) -> UnitRun:
    given = {"active": "active", "sub": "running", "pid": 7, "started": NOW, **fields}
    return UnitRun(name=unit_name(UID), **given)  # type: ignore[arg-type]


def exited(code: int = 0) -> UnitRun:
    result = "exit-code" if code else "success"
    return unit_run(
        active="failed" if code else "active",
        sub="failed" if code else "exited",
        pid=0,
        result=result,
        exit_code=code,
        ended=NOW,
    )
