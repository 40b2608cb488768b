"""What a pod and its containers are given (volumes, resources, users, rights), and their states.

Source: k8s.io/api, core/v1 types.go.
"""

from __future__ import annotations

from datetime import datetime

from hypercobalt.api.meta import Struct
from hypercobalt.api.quantity import Quantity


class EmptyDirVolumeSource(Struct, frozen=True):
    """A directory that lives as long as the pod."""

    medium: str = ""  # Memory, or empty for the disk of the host
    sizeLimit: Quantity | None = None


class ImageVolumeSource(Struct, frozen=True):
    """The files of a container image, read-only."""

    reference: str = ""
    pullPolicy: str = ""  # Always, IfNotPresent or Never


class Volume(Struct, frozen=True):
    name: str
    emptyDir: EmptyDirVolumeSource | None = None
    image: ImageVolumeSource | None = None


class VolumeMount(Struct, frozen=True):
    name: str
    mountPath: str
    readOnly: bool | None = None
    subPath: str = ""
    mountPropagation: str | None = None  # None, HostToContainer or Bidirectional


class ResourceRequirements(Struct, frozen=True):
    """Amounts by resource, such as `cpu`, `memory` or `devices.kubevirt.io/kvm`."""

    limits: dict[str, Quantity] = {}
    requests: dict[str, Quantity] = {}


class ContainerPort(Struct, frozen=True):
    containerPort: int
    protocol: str = ""  # TCP (also if empty), UDP or SCTP
    name: str = ""


class ObjectFieldSelector(Struct, frozen=True):
    fieldPath: str


class EnvVarSource(Struct, frozen=True):
    fieldRef: ObjectFieldSelector | None = None


class Capabilities(Struct, frozen=True):
    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


class SecurityContext(Struct, frozen=True):
    """User and rights of one container."""

    allowPrivilegeEscalation: bool | None = None
    capabilities: Capabilities | None = None
    privileged: bool | None = None
    runAsUser: int | None = None
    runAsGroup: int | None = None
    runAsNonRoot: bool | None = None


class PodSecurityContext(Struct, frozen=True):
    """User of all containers, and the group of their volumes."""

    runAsUser: int | None = None
    runAsGroup: int | None = None
    runAsNonRoot: bool | None = None
    fsGroup: int | None = None


class LocalObjectReference(Struct, frozen=True):
    """An object of the same namespace."""

    name: str = ""


class PodReadinessGate(Struct, frozen=True):
    """A condition of the pod that must be true for the pod to be ready."""

    conditionType: str


class ContainerStateWaiting(Struct, frozen=True):
    reason: str = ""  # such as ErrImagePull
    message: str = ""


class ContainerStateRunning(Struct, frozen=True):
    startedAt: datetime | None = None


class ContainerStateTerminated(Struct, frozen=True):
    exitCode: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    startedAt: datetime | None = None
    finishedAt: datetime | None = None


class ContainerState(Struct, frozen=True):
    """One of these is set; none counts as waiting."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Struct, frozen=True):
    name: str = ""
    ready: bool = False
    started: bool | None = None
    restartCount: int = 0
    image: str = ""
    imageID: str = ""
    containerID: str = ""
    state: ContainerState = ContainerState()


class PodIP(Struct, frozen=True):
    ip: str = ""
