"""What of a pod is run: the volumes, devices and bounds of a launcher pod. Pure.

Whoever may write pods writes this, so each part is checked, and none is passed to a program. The
command is always our own: a pod that wants another one is not what this runs.

Source: k8s.io/api, core/v1 PodSpec; `hypercobalt.vmi.pod`, which makes launcher pods.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from hypercobalt.api.kubevirt import names
from hypercobalt.api.meta import OwnerReference
from hypercobalt.api.pods import Volume
from hypercobalt.api.workloads import Container, Pod
from hypercobalt.lab.pods.running.bounds import PodBounds, bounds_of
from hypercobalt.vmi.launcher_pods import controlling_vmi

UID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
DEVICES: Final = {
    names.KVM_DEVICE: "kvm",
    names.TUN_DEVICE: "tun",
    names.VHOST_NET_DEVICE: "vhost-net",
}
"""Device nodes that a pod may have, by the resource that it requests."""
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_IMAGE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_PATH: Final = re.compile(r"/var/run(/[a-z0-9][a-z0-9_-]{0,63}){1,2}")
_AMOUNTS: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_DEFAULT_GRACE_SECONDS: Final = 30
_LONGEST_GRACE_SECONDS: Final = 2**31 - 1
_SHOWN: Final = 64
_UNBOUNDED: Final = PodBounds()


@dataclass(frozen=True, slots=True)
class NotRun:
    """A pod that is not run, and the reason in words for a person."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A volume in the pod.

    Attributes:
        volume: its name.
        path: where the pod has it.
        image: name of the directory with the image's files; "" for an empty directory.
    """

    volume: str
    path: str
    image: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A launcher pod that can be run.

    Attributes:
        uid: of the pod.
        namespace: of pod and VMI.
        vmi: name of the VMI.
        vmi_uid: of the VMI.
        grace: how long the pod may take to end.
        hostname: of the pod.
        mounts: outer ones before those inside them.
        devices: names of device nodes, as in `DEVICES`.
        bounds: of its resources.
    """

    uid: str
    namespace: str
    vmi: str
    vmi_uid: str
    grace: timedelta
    hostname: str
    mounts: tuple[Mount, ...] = ()
    devices: tuple[str, ...] = ()
    bounds: PodBounds = _UNBOUNDED


def launch_of(pod: Pod) -> Launch | NotRun:
    """Judge a pod."""
    owner = controlling_vmi(pod)
    if owner is None:
        return NotRun("only pods that a VirtualMachineInstance controls are run here")
    if not UID.fullmatch(pod.metadata.uid) or not UID.fullmatch(owner.uid):
        return NotRun("metadata.uid or the UID of its controller is no UUID")
    try:
        return _launch(pod, owner)
    except _RefusalError as error:
        return NotRun(str(error))


def image_directory(reference: str) -> str:
    """Name of the directory that stands for an image: the last part of its name, without a tag.

    Returns:
        The name; "" for a reference that has none.
    """
    name = reference.partition("@")[0].rpartition("/")[2].partition(":")[0]
    return name if _IMAGE.fullmatch(name) else ""


class _RefusalError(ValueError):
    pass


def _launch(pod: Pod, owner: OwnerReference) -> Launch:
    spec = pod.spec
    if spec.hostNetwork:
        raise _RefusalError("spec.hostNetwork: pods have a network of their own here")
    if spec.initContainers or [one.name for one in spec.containers] != [names.COMPUTE_CONTAINER]:
        raise _RefusalError(f"spec.containers: must be {names.COMPUTE_CONTAINER} and no other")
    (compute,) = spec.containers
    grace = spec.terminationGracePeriodSeconds
    seconds = _DEFAULT_GRACE_SECONDS if grace is None else grace
    if not 0 <= seconds <= _LONGEST_GRACE_SECONDS:
        raise _RefusalError(f"spec.terminationGracePeriodSeconds: {seconds} is not possible")
    hostname = spec.hostname or owner.name.partition(".")[0]
    return Launch(
        uid=pod.metadata.uid,
        namespace=pod.metadata.namespace,
        vmi=owner.name,
        vmi_uid=owner.uid,
        grace=timedelta(seconds=seconds),
        hostname=hostname if _NAME.fullmatch(hostname) else names.LAUNCHER,
        mounts=_mounts(spec.volumes, compute),
        devices=_devices(compute),
        bounds=bounds_of(compute),
    )


def _mounts(volumes: tuple[Volume, ...], compute: Container) -> tuple[Mount, ...]:
    known = {volume.name: volume for volume in volumes}
    found: dict[str, Mount] = {}
    for index, mount in enumerate(compute.volumeMounts):
        field = f"spec.containers[0].volumeMounts[{index}]"
        volume = known.get(mount.name)
        if volume is None or not _NAME.fullmatch(mount.name):
            raise _RefusalError(f"{field}.name: there is no volume {mount.name[:_SHOWN]!r}")
        if not _PATH.fullmatch(mount.mountPath) or mount.mountPath in found:
            path = mount.mountPath[:_SHOWN]
            raise _RefusalError(
                f"{field}.mountPath: {path!r} is not a place of its own in /var/run"
            )
        if mount.subPath or mount.mountPropagation:
            raise _RefusalError(f"{field}: subPath and mountPropagation are not honoured here")
        image = _image(volume, field)
        found[mount.mountPath] = Mount(volume=mount.name, path=mount.mountPath, image=image)
    return tuple(found[path] for path in sorted(found))


def _image(volume: Volume, field: str) -> str:
    if volume.image is not None:
        if name := image_directory(volume.image.reference):
            return name
        reference = volume.image.reference[:_SHOWN]
        raise _RefusalError(f"{field}: image {reference!r} has no name that a directory can have")
    if volume.emptyDir is None or volume.emptyDir.medium:
        raise _RefusalError(f"{field}: volumes are emptyDir on disk or image here")
    return ""


def _devices(compute: Container) -> tuple[str, ...]:
    given = compute.resources
    wanted = {**given.requests, **given.limits} if given else {}
    for name in wanted:
        if name not in DEVICES and name not in _AMOUNTS:
            raise _RefusalError(f"resources: {name[:_SHOWN]!r} is not offered here")
    return tuple(node for name, node in DEVICES.items() if name in wanted)
