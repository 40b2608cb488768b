"""Volumes have one source that is sound, and a device."""

from __future__ import annotations

from base64 import b64encode

import pytest

from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import Json, JsonObject
from hypercobalt.vmi.rules import volumes

VOLUME = "spec.volumes[0]"
DEVICE = "spec.domain.volumes[0]"
NO_CLOUD = f"{VOLUME}.cloudInitNoCloud"


def fields(
    volume: JsonObject, disks: tuple[str, ...] = ("v",), systems: str = "", gates: str = ""
) -> list[str]:
    return of_list([{"name": "v", **volume}], disks, systems, gates)


def of_list(
    listed: list[Json], disks: tuple[str, ...] = ("v",), systems: str = "", gates: str = ""
) -> list[str]:
    devices: JsonObject = {"disks": [{"name": name} for name in disks]}
    devices["filesystems"] = list[Json]([{"name": name} for name in systems])
    spec: JsonObject = {"volumes": listed, "domain": {"devices": devices}}
    cluster = ClusterConfig(feature_gates=frozenset(gates.split()))
    return [cause.field for cause in volumes.volumes(At(spec, "spec"), cluster)]


def encoded(size: int) -> str:
    return b64encode(b"x" * size).decode()


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ({"userData": "a"}, []),
        ({"networkData": "a"}, []),
        ({}, [NO_CLOUD]),
        ({"secretRef": {"name": ""}}, [NO_CLOUD]),
        ({"secretRef": {"name": "s"}, "networkDataSecretRef": {"name": "s"}}, []),
        ({"secretRef": {"name": "s"}, "userData": "a"}, [NO_CLOUD]),
        ({"networkData": "a", "networkDataBase64": encoded(1)}, [NO_CLOUD]),
        ({"userData": "x" * 2048}, []),
        ({"userData": "x" * 2049}, [NO_CLOUD]),
        ({"userData": "é" * 1025}, [NO_CLOUD]),
        ({"networkData": "x" * 2049}, [NO_CLOUD]),
        ({"userDataBase64": encoded(2048)}, []),
        ({"userDataBase64": encoded(2049)}, [NO_CLOUD]),
        ({"userDataBase64": "YQ==\r\n"}, []),
        ({"userDataBase64": "YQ"}, [f"{NO_CLOUD}.userDataBase64"]),
        ({"networkDataBase64": "%"}, [f"{NO_CLOUD}.networkDataBase64"]),
        # The size that counts is that of what can be read; plain text goes before what is encoded.
        ({"userDataBase64": "YWJj" * 683 + "?"}, [f"{NO_CLOUD}.userDataBase64", NO_CLOUD]),
        ({"userDataBase64": "YWJj" * 682 + "\nYWJ?"}, [f"{NO_CLOUD}.userDataBase64"]),
        ({"userData": "a", "userDataBase64": encoded(2049)}, [NO_CLOUD]),
        ({"userData": "x" * 2049, "userDataBase64": encoded(1)}, [NO_CLOUD, NO_CLOUD]),
    ],
)
def test_cloud_init_has_one_source_of_each_kind_of_data(
    source: JsonObject, named: list[str]
) -> None:
    assert fields({"cloudInitNoCloud": source}) == named


def test_first_of_two_drives_is_judged() -> None:
    two: JsonObject = {"cloudInitNoCloud": {"userData": "a"}, "cloudInitConfigDrive": {}}
    assert fields(two) == [VOLUME]
    alone = fields({"cloudInitConfigDrive": {}})
    assert alone == [f"{VOLUME}.cloudInitConfigDrive"]


@pytest.mark.parametrize(
    ("path", "disks", "systems", "named"),
    [
        ("/data", (), "v", []),
        ("/data", ("v",), "v", [DEVICE]),
        ("/data", ("v",), "", [DEVICE]),
        ("/data", (), "", [f"{DEVICE}.name", DEVICE]),
        ("/var/run/kubevirt-private/x", (), "v", [f"{DEVICE}.containerPath.path"]),
        ("/var/run/libvirt", (), "v", [f"{DEVICE}.containerPath.path"]),
        ("/var/run/data", (), "v", []),
    ],
)
def test_path_of_the_launcher_is_for_a_file_system(
    path: str, disks: tuple[str, ...], systems: str, named: list[str]
) -> None:
    assert fields({"containerPath": {"path": path}}, disks, systems) == named


def test_volume_is_used_by_a_device_but_for_a_dump() -> None:
    assert fields({"emptyDisk": {}}, ()) == [f"{DEVICE}.name"]
    dump: JsonObject = {"memoryDump": {"claimName": "c"}}
    assert fields(dump, ()) == []
    assert fields({**dump, "containerPath": {"path": "/data"}}) == [VOLUME]


@pytest.mark.parametrize(("path", "fits"), [("/disk/a.img", True), ("/a/", True), ("a", False)])
def test_path_within_an_image_is_absolute(path: str, *, fits: bool) -> None:
    found = fields({"containerDisk": {"image": "i", "path": path}})
    assert found == ([] if fits else [f"{VOLUME}.containerDisk"])


HOST_DISK = f"{VOLUME}.hostDisk"
IMAGE: JsonObject = {"path": "/disk.img"}


@pytest.mark.parametrize(
    ("disk", "gates", "named"),
    [
        ({**IMAGE, "type": "Disk"}, "HostDisk", []),
        ({**IMAGE, "type": "Disk", "capacity": "0"}, "HostDisk", []),
        ({**IMAGE, "type": "Disk", "capacity": "1Gi"}, "HostDisk", [f"{HOST_DISK}.capacity"]),
        ({**IMAGE, "type": "DiskOrCreate", "capacity": "1Gi"}, "HostDisk", []),
        ({**IMAGE, "type": "Block", "capacity": "1Gi"}, "HostDisk", [f"{HOST_DISK}.type"]),
        ({**IMAGE, "type": "Disk"}, "DownwardMetrics", [VOLUME]),
        ({"path": ""}, "HostDisk", [f"{HOST_DISK}.path", f"{HOST_DISK}.type"]),
    ],
)
def test_disk_of_the_host_has_a_path_and_a_type_and_its_gate(
    disk: JsonObject, gates: str, named: list[str]
) -> None:
    assert fields({"hostDisk": disk}, gates=gates) == named


@pytest.mark.parametrize(
    ("source", "field"),
    [
        ({"dataVolume": {"name": "a"}}, ""),
        ({"dataVolume": {"name": ""}}, ".name"),
        ({"configMap": {"name": "a"}}, ""),
        ({"configMap": {}}, ".configMap.name"),
        ({"secret": {"secretName": "a"}}, ""),
        ({"secret": {"secretName": ""}}, ".secret.secretName"),
        ({"serviceAccount": {"serviceAccountName": "a"}}, ""),
        ({"serviceAccount": {"name": "a"}}, ".serviceAccount.serviceAccountName"),
    ],
)
def test_source_names_the_object_that_it_is_of(source: JsonObject, field: str) -> None:
    assert fields(source) == ([f"{VOLUME}{field}"] if field else [])


def test_metrics_of_the_host_need_their_gate() -> None:
    assert fields({"downwardMetrics": {}}, gates="DownwardMetrics") == []
    assert fields({"downwardMetrics": {}}, gates="HostDisk") == [VOLUME]


ACCOUNT: JsonObject = {"serviceAccount": {"serviceAccountName": "a"}}
DUMP: JsonObject = {"memoryDump": {"claimName": "c"}}


@pytest.mark.parametrize(
    ("listed", "named"),
    [
        ([{"name": "a", **ACCOUNT}, {"name": "b", **DUMP}], []),
        ([{"name": "a", **ACCOUNT}, {"name": "b", **ACCOUNT}], ["spec.volumes"]),
        ([{"name": "a", **DUMP}, {"name": "b", **DUMP}], ["spec.volumes"]),
        ([{"name": "a", **ACCOUNT}, {"name": "a", "emptyDisk": {}}], ["spec.volumes[1].name"]),
    ],
)
def test_volumes_have_names_of_their_own_and_some_sources_once(
    listed: list[Json], named: list[str]
) -> None:
    assert of_list(listed, ("a", "b")) == named
