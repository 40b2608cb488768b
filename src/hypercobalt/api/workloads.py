"""Pods, Deployments and disruption budgets, with the fields that we use.

Source: k8s.io/api, core/v1, apps/v1 and policy/v1 types.go.
"""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from hypercobalt.api.affinity import Affinity
from hypercobalt.api.conditions import Condition
from hypercobalt.api.core import NodeCondition
from hypercobalt.api.meta import LabelSelector, Object, ObjectMeta, ResourceInfo, Struct
from hypercobalt.api.pods import (
    ContainerPort,
    ContainerStatus,
    EnvVarSource,
    LocalObjectReference,
    PodIP,
    PodReadinessGate,
    PodSecurityContext,
    ResourceRequirements,
    SecurityContext,
    Volume,
    VolumeMount,
)


class Toleration(Struct, frozen=True):
    """A taint that a pod puts up with; empty fields match everything."""

    key: str = ""
    operator: str = ""  # Exists or Equal; empty means Equal
    value: str = ""
    effect: str = ""
    tolerationSeconds: int | None = None


class ExecAction(Struct, frozen=True):
    command: tuple[str, ...] = ()


class Probe(Struct, frozen=True):
    exec: ExecAction | None = None
    periodSeconds: int | None = None
    failureThreshold: int | None = None
    initialDelaySeconds: int | None = None
    timeoutSeconds: int | None = None


class EnvVar(Struct, frozen=True):
    name: str
    value: str = ""
    valueFrom: EnvVarSource | None = None


class Container(Struct, frozen=True):
    name: str
    image: str = ""
    imagePullPolicy: str = ""  # Always, IfNotPresent or Never
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements | None = None
    securityContext: SecurityContext | None = None
    volumeMounts: tuple[VolumeMount, ...] = ()
    restartPolicy: str = ""  # Always: of an init container that runs beside the others
    terminationMessagePolicy: str = ""  # File (also if empty) or FallbackToLogsOnError
    startupProbe: Probe | None = None
    livenessProbe: Probe | None = None
    readinessProbe: Probe | None = None


class PodSpec(Struct, frozen=True):
    nodeName: str = ""
    nodeSelector: dict[str, str] = {}
    serviceAccountName: str = ""
    hostNetwork: bool | None = None
    automountServiceAccountToken: bool | None = None
    priorityClassName: str = ""
    priority: int | None = None  # by the class; set by admission
    terminationGracePeriodSeconds: int | None = None
    tolerations: tuple[Toleration, ...] = ()
    affinity: Affinity | None = None
    schedulerName: str = ""
    hostname: str = ""
    subdomain: str = ""
    enableServiceLinks: bool | None = None
    restartPolicy: str = ""  # Always (also if empty), OnFailure or Never
    readinessGates: tuple[PodReadinessGate, ...] = ()
    securityContext: PodSecurityContext | None = None
    imagePullSecrets: tuple[LocalObjectReference, ...] = ()
    volumes: tuple[Volume, ...] = ()
    initContainers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()


class PodStatus(Struct, frozen=True):
    phase: str = ""  # Pending, Running, Succeeded, Failed or Unknown
    reason: str = ""
    message: str = ""
    hostIP: str = ""
    podIP: str = ""
    podIPs: tuple[PodIP, ...] = ()
    startTime: datetime | None = None
    qosClass: str = ""  # Guaranteed, Burstable or BestEffort
    conditions: tuple[NodeCondition, ...] = ()  # a pod's conditions have the same shape
    initContainerStatuses: tuple[ContainerStatus, ...] = ()
    containerStatuses: tuple[ContainerStatus, ...] = ()


class Pod(Object, frozen=True):
    resource: ClassVar[ResourceInfo] = ResourceInfo("", "v1", "Pod", "pods", "Namespaced")

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class PodTemplateSpec(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class RollingUpdateDeployment(Struct, frozen=True):
    maxUnavailable: int | str | None = None  # a number of pods, or text such as "25%"
    maxSurge: int | str | None = None


class DeploymentStrategy(Struct, frozen=True):
    type: str = ""  # Recreate or RollingUpdate
    rollingUpdate: RollingUpdateDeployment | None = None


class DeploymentSpec(Struct, frozen=True):
    selector: LabelSelector = LabelSelector()
    template: PodTemplateSpec = PodTemplateSpec()
    replicas: int | None = None
    strategy: DeploymentStrategy | None = None


class DeploymentStatus(Struct, frozen=True):
    observedGeneration: int = 0
    replicas: int = 0
    updatedReplicas: int = 0
    readyReplicas: int = 0
    availableReplicas: int = 0
    unavailableReplicas: int = 0


class Deployment(Object, frozen=True):
    resource: ClassVar[ResourceInfo] = ResourceInfo(
        "apps", "v1", "Deployment", "deployments", "Namespaced"
    )

    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class PodDisruptionBudgetSpec(Struct, frozen=True):
    minAvailable: int | str | None = None  # a number of pods, or text such as "50%"
    maxUnavailable: int | str | None = None
    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(Struct, frozen=True):
    observedGeneration: int = 0
    disruptionsAllowed: int = 0
    currentHealthy: int = 0
    desiredHealthy: int = 0
    expectedPods: int = 0
    conditions: tuple[Condition, ...] = ()


class PodDisruptionBudget(Object, frozen=True):
    resource: ClassVar[ResourceInfo] = ResourceInfo(
        "policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", "Namespaced"
    )

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
