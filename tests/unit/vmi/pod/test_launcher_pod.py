"""Rules of the launcher pod that single recordings show, or none."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from tests.unit.vmi.guests import UID, guest, with_disks, with_nic

from hypercobalt.api.codec import to_builtins
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.workloads import Pod
from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.paths import POD_VOLUMES
from hypercobalt.vmi.pod import hostname, launcher_pod
from hypercobalt.vmi.unfit import UnfitVMIError

Json = Any
CLUSTER = ClusterConfig()


def made(vmi: VirtualMachineInstance, cluster: ClusterConfig = CLUSTER) -> Pod:
    return launcher_pod(vmi, cluster)


def amounts(vmi: VirtualMachineInstance, member: str, cluster: ClusterConfig = CLUSTER) -> Json:
    resources = made(vmi, cluster).spec.containers[0].resources
    assert resources is not None
    return {name: str(value) for name, value in getattr(resources, member).items()}


@pytest.mark.parametrize(
    ("metadata", "spec", "expected"),
    [
        ({"name": "tiny"}, {}, "tiny"),
        ({"name": "a.b.c"}, {}, "a"),
        ({"name": "a" * 64}, {}, "a" * 63),
        ({"name": "a" * 62 + "--b"}, {}, "a" * 62),
        ({"name": "tiny"}, {"hostname": "db"}, "db"),
    ],
)
def test_hostname_is_the_first_label_of_the_name(metadata: Json, spec: Json, expected: str) -> None:
    vmi = guest(spec, metadata=metadata)
    assert hostname(vmi) == made(vmi).spec.hostname == expected
    assert made(vmi).metadata.labels["vm.kubevirt.io/name"] == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a" * 63, "a" * 63), ("a" * 200, "a" * 54 + "-e61cfffe"), ("a" * 64, "a" * 54 + "-0098ba82")],
)
def test_label_of_a_long_name_ends_with_its_hash(name: str, expected: str) -> None:
    pod = made(guest(metadata={"name": name}))
    assert pod.metadata.labels["vmi.kubevirt.io/id"] == expected
    assert pod.metadata.annotations["kubevirt.io/domain"] == name


def test_names_that_admission_keeps_for_the_pod_are_those_of_its_volumes() -> None:
    kernel = {"kernelBoot": {"container": {"image": "kernel:1", "kernelPath": "/k"}}}
    vmi = guest({"domain": {"memory": {"guest": "64Mi"}, "devices": {}, "firmware": kernel}})
    assert {volume.name for volume in made(vmi).spec.volumes} == POD_VOLUMES


def test_labels_and_annotations_of_the_vmi_give_way_to_our_own() -> None:
    theirs = {"kubevirt.io": "x", "kubevirt.io/created-by": "y", "app": "web"}
    notes = {
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "kubectl.kubernetes.io/default-container": "other",
        "kubevirt.io/latest-observed-api-version": "v1",
        "kubevirt.io/storage-observed-api-version": "v1",
        "kubevirt.io/domain": "other",
        "lab.example/owner": "me",
    }
    meta = made(guest(metadata={"labels": theirs, "annotations": notes})).metadata
    assert meta.labels["kubevirt.io"] == "virt-launcher"
    assert meta.labels["kubevirt.io/created-by"] == UID
    assert meta.labels["app"] == "web"
    assert meta.annotations["kubevirt.io/domain"] == "tiny"
    assert meta.annotations["kubectl.kubernetes.io/default-container"] == "compute"
    assert meta.annotations["lab.example/owner"] == "me"
    assert not [key for key in meta.annotations if "observed" in key or "last-applied" in key]


def test_the_vmi_controls_the_pod_and_holds_up_its_own_deletion() -> None:
    (owner,) = made(guest()).metadata.ownerReferences
    assert (owner.kind, owner.uid, owner.controller, owner.blockOwnerDeletion) == (
        "VirtualMachineInstance",
        UID,
        True,
        True,
    )


BRIDGED = {"name": "default", "bridge": {}}
MASQUERADED = {"name": "default", "masquerade": {}}


@pytest.mark.parametrize(
    ("nics", "count"), [([], 0), ([BRIDGED], 0), ([MASQUERADED], 2), ([BRIDGED, MASQUERADED], 2)]
)
def test_istio_is_shown_the_bridge_of_masquerade_alone(nics: list[Json], count: int) -> None:
    annotations = made(guest(devices={"interfaces": nics})).metadata.annotations
    assert sum(value == "k6t-eth0" for value in annotations.values()) == count


SELECTED = {
    "kubevirt.io/schedulable": "true",
    "kubernetes.io/arch": "amd64",
    "machine-type.node.kubevirt.io/q35": "true",
}


@pytest.mark.parametrize(
    ("cpu", "labels"),
    [
        ({"model": "host-model"}, {}),
        ({"model": "host-passthrough"}, {}),
        ({}, {}),
        (None, {}),
        ({"model": "EPYC"}, {"cpu-model.node.kubevirt.io/EPYC": "true"}),
        (
            {"features": [{"name": "a"}, {"name": "b", "policy": "require"}]},
            {
                "cpu-feature.node.kubevirt.io/a": "true",
                "cpu-feature.node.kubevirt.io/b": "true",
            },
        ),
        (
            {"features": [{"name": n, "policy": n} for n in ("force", "optional", "disable")]},
            {},
        ),
    ],
)
def test_nodes_have_the_machine_and_the_cpu(cpu: Json, labels: Json) -> None:
    wanted = {"zone": "a", "kubevirt.io/schedulable": "false"}
    vmi = guest({"nodeSelector": wanted}, domain={"cpu": cpu})
    assert made(vmi).spec.nodeSelector == SELECTED | labels | {"zone": "a"}


def test_a_vmi_without_machine_and_architecture_goes_to_any_node_that_reports() -> None:
    vmi = guest({"architecture": ""}, domain={"machine": None})
    assert made(vmi).spec.nodeSelector == {"kubevirt.io/schedulable": "true"}


OBSOLETE = {"key": "node-labeller.kubevirt.io/obsolete-host-model", "operator": "DoesNotExist"}
FORBIDDEN = {"key": "cpu-feature.node.kubevirt.io/vmx", "operator": "DoesNotExist"}
ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
FORBID = [{"name": "vmx", "policy": "forbid"}, {"name": "apic", "policy": "disable"}]


def node_affinity(*terms: list[Json]) -> Json:
    chosen = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": chosen}}


@pytest.mark.parametrize(
    ("cpu", "given", "expected"),
    [
        ({"model": "host-model"}, None, node_affinity([OBSOLETE])),
        ({"model": "EPYC"}, None, None),
        ({"model": "EPYC"}, node_affinity([ZONE]), node_affinity([ZONE])),
        ({"model": "EPYC", "features": FORBID}, None, node_affinity([FORBIDDEN])),
        (
            {"model": "host-model", "features": FORBID},
            node_affinity([ZONE], []),
            node_affinity([ZONE, OBSOLETE, FORBIDDEN], [OBSOLETE, FORBIDDEN]),
        ),
        (
            {"model": "host-model"},
            {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}},
            node_affinity([OBSOLETE]) | {"podAntiAffinity": {}},
        ),
    ],
)
def test_each_term_of_the_affinity_keeps_off_what_the_cpu_must_not_meet(
    cpu: Json, given: Json, expected: Json
) -> None:
    affinity = made(guest({"affinity": given}, domain={"cpu": cpu})).spec.affinity
    assert (None if affinity is None else to_builtins(affinity)) == expected


REQUESTS = {"cpu": "100m", "memory": "232Mi", "ephemeral-storage": "50M"}


@pytest.mark.parametrize(
    ("domain", "expected"),
    [
        ({}, {}),
        ({"cpu": {"cores": 12}}, {"cpu": "1200m", "memory": "320Mi"}),
        ({"resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "2"}}}, {"cpu": "500m"}),
        ({"resources": {"limits": {"cpu": "2"}}}, {"cpu": "2"}),
        ({"resources": {"requests": {"cpu": "0"}}}, {"cpu": "0"}),
        ({"resources": {"requests": {"memory": "1Gi"}}}, {"memory": "1130Mi"}),
        ({"resources": {"requests": {"memory": "64M"}}}, {"memory": "173176904"}),
        ({"resources": {"limits": {"memory": "1Gi"}}}, {}),
        ({"resources": {"overcommitGuestOverhead": True}}, {"memory": "128Mi"}),
        ({"resources": {"requests": {"ephemeral-storage": "1G", "a.b/c": "2"}}},
         {"ephemeral-storage": "1050M", "a.b/c": "2"}),
        ({"ioThreadsPolicy": "supplementalPool", "ioThreads": {"supplementalPoolThreadCount": 2}},
         {"cpu": "300m"}),
    ],
)  # fmt: skip
def test_requests_are_the_guests_and_the_launchers(domain: Json, expected: Json) -> None:
    assert amounts(guest(domain=domain), "requests") == REQUESTS | expected


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, {}),
        ({"limits": {"memory": "1Gi", "cpu": "2"}}, {"memory": "1128Mi", "cpu": "2"}),
        (
            {
                "limits": {"memory": "1Gi", "ephemeral-storage": "1G"},
                "overcommitGuestOverhead": True,
            },
            {"memory": "1128Mi", "ephemeral-storage": "1050M"},
        ),
    ],
)
def test_limits_are_those_that_are_given_and_the_launchers(resources: Json, expected: Json) -> None:
    found = amounts(guest(domain={"resources": resources}), "limits")
    assert found == expected | {"devices.kubevirt.io/kvm": "1", "devices.kubevirt.io/tun": "1"}


@pytest.mark.parametrize(
    ("vmi", "kvm", "emulated"),
    [
        (guest(), {"kvm", "tun"}, {"tun"}),
        (guest(devices={"autoattachPodInterface": False}), {"kvm"}, set()),
        (with_nic({}, autoattachPodInterface=False), {"kvm", "tun", "vhost-net"}, {"tun"}),
        (with_nic({"model": "virtio"}), {"kvm", "tun", "vhost-net"}, {"tun"}),
        (with_nic({"model": "e1000"}), {"kvm", "tun"}, {"tun"}),
    ],
)
def test_device_nodes_are_those_that_the_guest_needs(
    vmi: VirtualMachineInstance, kvm: set[str], emulated: set[str]
) -> None:
    prefix = "devices.kubevirt.io/"
    assert set(amounts(vmi, "limits")) == {prefix + one for one in kvm}
    without = ClusterConfig(use_emulation=True)
    assert set(amounts(vmi, "limits", without)) == {prefix + one for one in emulated}


def test_cpus_follow_the_ratio_of_the_cluster() -> None:
    vmi = guest(domain={"cpu": {"cores": 3}})
    assert amounts(vmi, "requests", ClusterConfig(cpu_allocation_ratio=2))["cpu"] == "1500m"


@pytest.mark.parametrize("member", ["requests", "limits"])
@pytest.mark.parametrize("value", ["-1", "x"])
def test_an_amount_that_is_none_is_refused_at_its_path(member: str, value: str) -> None:
    vmi = guest(domain={"resources": {member: {"a.b/c": value}}})
    with pytest.raises(UnfitVMIError, match=rf"^spec\.domain\.resources\.{member}\.a\.b/c: "):
        made(vmi)


def test_a_refusal_shows_no_control_character_of_a_name() -> None:
    with pytest.raises(UnfitVMIError) as raised:
        made(guest(domain={"resources": {"requests": {"\x1b[2J": "x"}}}))
    assert raised.value.field == "spec.domain.resources.requests. [2J"
    assert str(raised.value).isprintable()


IMAGE = {"name": "b", "containerDisk": {"image": "i:2", "imagePullSecret": "s"}}
KERNEL = {"container": {"image": "k:1", "imagePullPolicy": "Never", "imagePullSecret": "t"}}


def test_images_are_volumes_and_mounted_by_their_place() -> None:
    volumes = [{"name": "a", "emptyDisk": {"capacity": "1Gi"}}, IMAGE, IMAGE | {"name": "c"}]
    firmware = {"kernelBoot": KERNEL}
    pod = made(guest({"volumes": volumes}, domain={"firmware": firmware})).spec
    images = {one.name: one.image for one in pod.volumes if one.image}
    assert {name: (one.reference, one.pullPolicy) for name, one in images.items()} == {
        "b": ("i:2", ""),
        "c": ("i:2", ""),
        "kernel-boot-volume": ("k:1", "Never"),
    }
    mounts = {one.name: (one.mountPath, one.readOnly) for one in pod.containers[0].volumeMounts}
    assert mounts["b"] == ("/var/run/kubevirt-image-volume/disk_1", True)
    assert mounts["kernel-boot-volume"] == ("/var/run/kubevirt-kernel-boot", True)
    assert "a" not in mounts
    assert mounts["sockets"] == ("/var/run/kubevirt/sockets", None)
    assert {one.name for one in pod.volumes} == set(mounts)
    assert [one.name for one in pod.imagePullSecrets] == ["s", "t"]


def test_a_pod_without_a_kernel_has_no_volume_of_it() -> None:
    pod = made(guest({"volumes": [IMAGE]})).spec
    names = [one.name for one in pod.volumes]
    assert [one.name for one in pod.containers[0].volumeMounts] == names
    assert "kernel-boot-volume" not in names


@pytest.mark.parametrize(
    ("volumes", "kernel", "message"),
    [
        ([{"name": "a"}], None, "spec.volumes[0]: has no source"),
        ([IMAGE, IMAGE], None, "spec.volumes[1].name: 'b' is the name of another volume"),
        ([IMAGE | {"name": "sockets"}], None, "spec.volumes[0].name: 'sockets' is the name"),
        ([IMAGE | {"name": "kernel-boot-volume"}], None, "spec.volumes[0].name: "),
        ([IMAGE | {"name": "../a"}], None, "spec.volumes[0].name: '../a' is no DNS label"),
        ([{"name": "a", "containerDisk": {"image": ""}}], None, "spec.volumes[0].containerDisk"),
        ([], {"container": {"image": ""}}, "spec.domain.firmware.kernelBoot.container.image: "),
    ],
)
def test_volumes_that_no_pod_can_have_are_refused(
    volumes: Json, kernel: Json, message: str
) -> None:
    vmi = guest({"volumes": volumes}, domain={"firmware": {"kernelBoot": kernel}})
    with pytest.raises(UnfitVMIError, match="^" + re.escape(message)):
        made(vmi)


def test_an_empty_disk_may_have_any_name() -> None:
    made(with_disks(volumes=[{"name": "sockets", "emptyDisk": {"capacity": "1Gi"}}]))


@pytest.mark.parametrize(
    ("seconds", "launcher", "pod"),
    [(None, 45, 60), (0, 15, 30), (2**31 - 1, 2**31 + 14, 2**31 + 29)],
)
def test_launcher_and_pod_wait_15_and_30_seconds_longer(
    seconds: int | None, launcher: int, pod: int
) -> None:
    spec = made(guest({"terminationGracePeriodSeconds": seconds})).spec
    assert spec.terminationGracePeriodSeconds == pod
    assert settings(spec.containers[0].command[-1])["grace_seconds"] == launcher


def settings(text: str) -> Json:
    return msgspec.json.decode(text)


@pytest.mark.parametrize("seconds", [-1, 2**31])
def test_a_grace_period_that_is_none_is_refused(seconds: int) -> None:
    with pytest.raises(UnfitVMIError, match=r"^spec\.terminationGracePeriodSeconds: "):
        made(guest({"terminationGracePeriodSeconds": seconds}))


def test_the_launcher_knows_whose_guest_it_runs() -> None:
    cluster = ClusterConfig(use_emulation=True, launcher_image="lab/launcher:2")
    (compute,) = made(guest(), cluster).spec.containers
    assert compute.image == "lab/launcher:2"
    assert compute.command[:3] == ("python3", "-m", "hypercobalt.virt.launcher")
    assert settings(compute.command[3]) == {
        "namespace": "lab",
        "name": "tiny",
        "uid": UID,
        "grace_seconds": 45,
    }


def test_ports_are_those_of_the_interface() -> None:
    vmi = with_nic({"ports": [{"port": 80, "name": "web"}, {"port": 53, "protocol": "UDP"}]})
    ports = made(vmi).spec.containers[0].ports
    assert [(one.containerPort, one.protocol, one.name) for one in ports] == [
        (80, "TCP", "web"),
        (53, "UDP", ""),
    ]


def test_the_pod_has_no_rights_beyond_its_guest() -> None:
    spec = made(guest()).spec
    (compute,) = spec.containers
    assert spec.automountServiceAccountToken is spec.enableServiceLinks is False
    rights = compute.securityContext
    assert rights is not None
    assert (rights.runAsUser, rights.runAsNonRoot, rights.allowPrivilegeEscalation) == (
        107,
        True,
        False,
    )
    assert rights.capabilities is not None
    assert rights.capabilities.drop == ("ALL",)
