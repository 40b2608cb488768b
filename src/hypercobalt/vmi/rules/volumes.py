"""Rules about volumes."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from typing import Final

from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import FieldCause
from hypercobalt.vmi.rules.causes import invalid, not_found, required
from hypercobalt.vmi.rules.machine import is_path

SOURCES: Final = (
    "cloudInitConfigDrive",
    "cloudInitNoCloud",
    "configMap",
    "containerDisk",
    "containerPath",
    "dataVolume",
    "downwardAPI",
    "downwardMetrics",
    "emptyDisk",
    "ephemeral",
    "hostDisk",
    "memoryDump",
    "persistentVolumeClaim",
    "secret",
    "serviceAccount",
    "sysprep",
)
_ONCE: Final = ("serviceAccount", "downwardMetrics", "memoryDump")
_NAMED: Final = (
    ("configMap", "name"),
    ("secret", "secretName"),
    ("serviceAccount", "serviceAccountName"),
)
_CLOUD_INIT: Final = ("cloudInitNoCloud", "cloudInitConfigDrive")
_INLINE: Final = 2048
"""Bytes of user data, or of network data, within a manifest."""
_UNENCODED: Final = re.compile(r"[^A-Za-z0-9+/]")
_HOST_DISK: Final = "HostDisk"
_RESERVED_PATHS: Final = ("/var/run/kubevirt", "/var/run/libvirt")


def volumes(spec: At, cluster: ClusterConfig) -> Iterator[FieldCause]:
    """Whether each volume has a name of its own and one source that is sound."""
    found = list(spec["volumes"])
    seen = set[str]()
    for volume in found:
        name = volume["name"]
        if name.text in seen:
            yield invalid(name, "is the name of another volume")
        seen.add(name.text)
        if len(volume.holds(*SOURCES)) != 1:
            yield invalid(volume, "must have one source")
        yield from _source(volume, cluster)
    yield from _served(spec)
    count = Counter(name for volume in found for name in volume.holds(*_ONCE))
    if any(number > 1 for number in count.values()):
        yield invalid(spec["volumes"], f"must have one of {', '.join(_ONCE)} at most")


def _served(spec: At) -> Iterator[FieldCause]:
    """A volume is for a disk or a file system; one kind of them for file systems alone."""
    systems = {one["name"].text for one in spec["domain.devices.filesystems"]}
    disks = {one["name"].text for one in spec["domain.devices.disks"]}
    for index, volume in enumerate(spec["volumes"]):
        name, path = volume["name"].text, volume["containerPath"]
        at = f"spec.domain.volumes[{index}]"  # as KubeVirt names it here
        if volume["memoryDump"]:
            continue
        if name not in systems | disks:
            yield invalid(f"{at}.name", "must be used by a device")
        if path and (name in disks or name not in systems):
            yield invalid(at, "must be used by a file system, and by no disk")
        if path and path["path"].text.startswith(_RESERVED_PATHS):
            yield invalid(f"{at}.containerPath.path", "is used by the launcher")
    claims = {
        one["name"].text
        for one in spec["volumes"]
        if one.holds("persistentVolumeClaim", "dataVolume")
    }
    if claims & systems:
        yield invalid(spec["domain.devices.filesystems"], "must not be on a claim")


def _source(volume: At, cluster: ClusterConfig) -> Iterator[FieldCause]:
    if volume["dataVolume"] and not volume["dataVolume.name"].text:
        yield required(volume["name"], "must have the name of a DataVolume")
    path = volume["containerDisk.path"].text
    if path and not is_path(path):
        yield invalid(volume["containerDisk"], "must have an absolute path of a file")
    for kind, name in _NAMED:
        if volume[kind] and not volume[kind][name].text:
            yield invalid(volume[kind][name], "is required")
    for kind in volume.holds(*_CLOUD_INIT)[:1]:
        yield from _cloud_init(volume[kind])
    if volume["hostDisk"]:
        yield from _host_disk(volume, cluster)
    if volume["downwardMetrics"] and "DownwardMetrics" not in cluster.feature_gates:
        yield invalid(volume, "needs a feature gate that is off")


def _cloud_init(source: At) -> Iterator[FieldCause]:
    user = _sources(source, "secretRef.name", "userDataBase64", "userData")
    network = _sources(source, "networkDataSecretRef.name", "networkDataBase64", "networkData")
    if len(user) > 1:
        yield invalid(source, "must have one source of user data")
    if len(network) > 1:
        yield invalid(source, "must have one source of network data")
    if not user and not network:
        yield invalid(source, "must have user data or network data")
    for name in ("userData", "networkData"):
        encoded, plain = source[f"{name}Base64"].text, source[name].text
        decoded = _decoded(encoded)
        if decoded is None:
            yield invalid(source[f"{name}Base64"], "must be base64")
            decoded = _beginning(encoded)
        data = plain.encode("utf-8", "surrogatepass") or decoded
        if len(data) > _INLINE:
            yield invalid(source, f"must have at most {_INLINE} bytes of data")


def _sources(source: At, *paths: str) -> list[str]:
    return [path for path in paths if source[path].text]


def _decoded(text: str) -> bytes | None:
    try:
        return b64decode(text.replace("\r", "").replace("\n", ""), validate=True)
    except (binascii.Error, ValueError):
        return None


def _beginning(text: str) -> bytes:
    """What can be decoded before the first fault: KubeVirt counts it."""
    sound = _UNENCODED.split(text.replace("\r", "").replace("\n", ""), maxsplit=1)[0]
    return b64decode(sound[: len(sound) // 4 * 4])


def _host_disk(volume: At, cluster: ClusterConfig) -> Iterator[FieldCause]:
    disk = volume["hostDisk"]
    if _HOST_DISK not in cluster.feature_gates:
        yield invalid(volume, "needs the feature gate HostDisk")
    if not disk["path"].text:
        yield not_found(disk["path"], "is required")
    if disk["type"].text not in {"Disk", "DiskOrCreate"}:
        yield invalid(disk["type"], "must be Disk or DiskOrCreate")
    elif disk["type"].text == "Disk" and disk["capacity"].amount:
        yield invalid(disk["capacity"], "must be set for DiskOrCreate alone")
