"""Kinds of the core group that we read or write, with the fields that we use.

Fields that are not here survive on the server, because we never write an object back as a whole.

Source: k8s.io/api, core/v1/types.go.
"""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from hypercobalt.api.meta import Object, ResourceInfo, Struct
from hypercobalt.api.quantity import Quantity


class Namespace(Object, frozen=True):
    resource: ClassVar[ResourceInfo] = ResourceInfo("", "v1", "Namespace", "namespaces", "Cluster")


class ConfigMap(Object, frozen=True):
    resource: ClassVar[ResourceInfo] = ResourceInfo(
        "", "v1", "ConfigMap", "configmaps", "Namespaced"
    )

    data: dict[str, str] = {}
    binaryData: dict[str, bytes] = {}  # base64 on the wire
    immutable: bool | None = None


class Secret(Object, frozen=True):
    """Named bytes that must not leak; `repr` shows the names only."""

    resource: ClassVar[ResourceInfo] = ResourceInfo("", "v1", "Secret", "secrets", "Namespaced")

    data: dict[str, bytes] = {}  # base64 on the wire
    stringData: dict[str, str] = {}  # write only: the server moves it to data
    type: str = ""
    immutable: bool | None = None

    def __repr__(self) -> str:
        keys = sorted({*self.data, *self.stringData})
        return f"Secret({self.metadata.namespace}/{self.metadata.name}, keys={keys})"


class Taint(Struct, frozen=True):
    """What keeps pods off a Node."""

    key: str
    effect: str  # NoSchedule, PreferNoSchedule or NoExecute
    value: str = ""
    timeAdded: datetime | None = None


class NodeSpec(Struct, frozen=True):
    podCIDR: str = ""
    providerID: str = ""
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeAddress(Struct, frozen=True):
    type: str  # Hostname, InternalIP, ExternalIP, InternalDNS or ExternalDNS
    address: str


class NodeCondition(Struct, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    lastHeartbeatTime: datetime | None = None
    lastTransitionTime: datetime | None = None


class NodeSystemInfo(Struct, frozen=True):
    machineID: str = ""
    systemUUID: str = ""
    bootID: str = ""
    kernelVersion: str = ""
    osImage: str = ""
    containerRuntimeVersion: str = ""
    kubeletVersion: str = ""
    operatingSystem: str = ""
    architecture: str = ""


class NodeStatus(Struct, frozen=True):
    capacity: dict[str, Quantity] = {}
    allocatable: dict[str, Quantity] = {}  # what is left of the capacity for pods
    addresses: tuple[NodeAddress, ...] = ()
    conditions: tuple[NodeCondition, ...] = ()
    nodeInfo: NodeSystemInfo | None = None


class Node(Object, frozen=True):
    resource: ClassVar[ResourceInfo] = ResourceInfo("", "v1", "Node", "nodes", "Cluster")

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
