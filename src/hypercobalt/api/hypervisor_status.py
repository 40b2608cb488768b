"""The status of a Hypervisor: what the host is.

Source: openstack-hypervisor-operator, api/v1/hypervisor_types.go.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

from hypercobalt.api.conditions import Condition
from hypercobalt.api.diagnostics import DiagnosticsEndpoint
from hypercobalt.api.fencing import BOOT_ID, Assertion, FenceDeviceIdentity, Fencing, GuestsStopped
from hypercobalt.api.hypervisor_host import (
    Capabilities,
    Cell,
    DomainCapabilities,
    HyperVisorUpdateStatus,
    OperatingSystemStatus,
)
from hypercobalt.api.incident import MOST, Incident, PeerReport
from hypercobalt.api.meta import Struct
from hypercobalt.api.quantity import Quantity
from hypercobalt.api.recovery import Recovery
from hypercobalt.api.schema import Field, Limits, Writer

MOST_INSTANCES: Final = 1024
"""Most instances in the status of a host; `numInstances` counts all of them."""
MOST_PORTS: Final = 384
"""Most ports of all instances together; for a host with more it is unknown which are missing."""


class Instance(Struct, frozen=True):
    """One virtual machine on the host."""

    id: Annotated[str, Field("UUID of the instance.", limits=Limits(max_length=36))]
    name: Annotated[str, Field("Name of its libvirt domain.", limits=Limits(max_length=255))]
    active: Annotated[bool, Field("Whether it is running.")]
    namespace: Annotated[
        str | None,
        Field(
            "Namespace of the VirtualMachineInstance that it is; `id` is then the UID of its "
            "launcher pod. Absent for a domain of the host's libvirt.",
            limits=Limits(max_length=63),
        ),
    ] = None


class InstancePort(Struct, frozen=True):
    """A port of the host's switch that belongs to a running virtual machine."""

    instance: Annotated[str, Field("UUID of the instance.", limits=Limits(max_length=36))]
    port: Annotated[
        str,
        Field(
            "Interface id (`iface-id`), or name of a device that another tool than libvirt plugs.",
            limits=Limits(max_length=40),
        ),
    ]


class Aggregate(Struct, frozen=True):
    """A Nova host aggregate that the host was put in."""

    name: Annotated[str, Field("Name of the aggregate.")]
    uuid: Annotated[str, Field("UUID of the aggregate.")]
    metadata: Annotated[dict[str, str], Field("Metadata of the aggregate.")] = {}


class SmokeTest(Struct, frozen=True):
    """How far the smoke test of the host's onboarding is."""

    attempts: Annotated[
        int | None,
        Field("How many servers have been booted.", limits=Limits(minimum=0, format="int32")),
    ] = None
    server: Annotated[
        str | None, Field("UUID of the server that is being looked at; absent between two.")
    ] = None
    lastFailure: Annotated[str | None, Field("Why the previous one failed.")] = None
    deletingSince: Annotated[
        datetime | None, Field("Since when servers of earlier tries are being deleted.")
    ] = None


class Wait(Struct, frozen=True):
    """What a condition waits for."""

    condition: Annotated[str, Field("Type of the condition.")]
    waitsFor: Annotated[str, Field("What the condition waits for, for programs.")]
    since: Annotated[datetime, Field("Since when it waits for just that.")]


class HypervisorStatus(Struct, frozen=True):
    """What the host is."""

    libVirtVersion: Annotated[
        str | None,
        Field(
            "Version of the libvirt library: major.minor.release.",
            default="unknown",
            writer=Writer.NODE_AGENT,
        ),
    ] = None
    hypervisorVersion: Annotated[
        str | None,
        Field(
            "Version of QEMU or Cloud Hypervisor behind libvirt: major.minor.release.",
            default="unknown",
            writer=Writer.NODE_AGENT,
        ),
    ] = None
    operatingSystem: Annotated[
        OperatingSystemStatus | None,
        Field("Operating system, firmware and hardware.", writer=Writer.NODE_AGENT),
    ] = None
    updateStatus: Annotated[
        HyperVisorUpdateStatus | None,
        Field("Progress of an operating system update.", writer=Writer.NODE_AGENT),
    ] = None
    hostUUID: Annotated[
        str | None,
        Field("UUID of the host, as its libvirt has it.", writer=Writer.NODE_AGENT),
    ] = None
    bootID: Annotated[
        str | None,
        Field(
            "Boot of the host: differs from boot to boot.",
            limits=BOOT_ID,
            writer=Writer.NODE_AGENT,
        ),
    ] = None
    bootedAt: Annotated[
        datetime | None, Field("When the host was booted.", writer=Writer.NODE_AGENT)
    ] = None
    recentBoots: Annotated[
        tuple[datetime, ...],
        Field(
            "When the host was booted again, in the hour before its last boot; at most ten.",
            limits=Limits(max_items=32),
            writer=Writer.NODE_AGENT,
        ),
    ] = ()
    instances: Annotated[
        tuple[Instance, ...],
        Field(
            f"Virtual machines on the host, the running ones first, {MOST_INSTANCES} at most.",
            limits=Limits(max_items=MOST_INSTANCES),
            writer=Writer.NODE_AGENT,
        ),
    ] = ()
    instancePorts: Annotated[
        tuple[InstancePort, ...] | None,
        Field(
            "Ports of the host's switch that the running virtual machines have by their "
            f"definitions, {MOST_PORTS} at most; absent while they are not known.",
            limits=Limits(max_items=MOST_PORTS),
            writer=Writer.NODE_AGENT,
        ),
    ] = None
    numInstances: Annotated[
        int | None,
        Field(
            "How many virtual machines the host has, running or not.",
            default=0,
            required=True,
            writer=Writer.NODE_AGENT,
        ),
    ] = None
    incidents: Annotated[
        tuple[Incident, ...],
        Field(
            f"What has happened to instances or to the host and is not over, at most {MOST}.",
            limits=Limits(max_items=MOST),
            keys=("id",),
            writer=Writer.NODE_AGENT,
        ),
    ] = ()
    peerReports: Annotated[
        tuple[PeerReport, ...],
        Field(
            "Which other hosts answer, while the operator requests it.",
            limits=Limits(max_items=8),
            keys=("host",),
            writer=Writer.NODE_AGENT,
        ),
    ] = ()
    diagnostics: Annotated[
        DiagnosticsEndpoint | None,
        Field(
            "Where the node agent serves people; absent if it does not.", writer=Writer.NODE_AGENT
        ),
    ] = None
    assertion: Annotated[
        Assertion | None,
        Field("An assertion from outside that the host is dead.", writer=Writer.OPERATOR),
    ] = None
    guestsStopped: Annotated[
        GuestsStopped | None,
        Field(
            "That every instance of the host was ended, as fencing demands.",
            writer=Writer.NODE_AGENT,
        ),
    ] = None
    capabilities: Annotated[
        Capabilities | None, Field("What the host has.", writer=Writer.NODE_AGENT)
    ] = None
    domainCapabilities: Annotated[
        DomainCapabilities | None,
        Field("What a virtual machine on the host can have.", writer=Writer.NODE_AGENT),
    ] = None
    allocation: Annotated[
        dict[str, Quantity],
        Field(
            "What all virtual machines on the host were given: `cpu` in cores, `memory` in bytes.",
            writer=Writer.NODE_AGENT,
        ),
    ] = {}
    capacity: Annotated[
        dict[str, Quantity],
        Field(
            "What the host has, without overcommit: `cpu` in cores, `memory` in bytes.",
            writer=Writer.NODE_AGENT,
        ),
    ] = {}
    effectiveCapacity: Annotated[
        dict[str, Quantity],
        Field(
            "What may be promised on the host: capacity times overcommit, rounded down to whole "
            "cores and bytes.",
            writer=Writer.NODE_AGENT,
        ),
    ] = {}
    cells: Annotated[
        tuple[Cell, ...],
        Field(
            "The same amounts for each NUMA cell.",
            limits=Limits(max_items=96),
            writer=Writer.NODE_AGENT,
        ),
    ] = ()
    hypervisorId: Annotated[
        str | None,
        Field(
            "UUID of the hypervisor in Nova, which is the UUID of its Placement resource "
            "provider. Set during onboarding.",
            writer=Writer.OPERATOR,
        ),
    ] = None
    serviceId: Annotated[
        str | None,
        Field(
            "UUID of the compute service in Nova. Set during onboarding.", writer=Writer.OPERATOR
        ),
    ] = None
    traits: Annotated[
        tuple[str, ...],
        Field(
            "All traits of the resource provider after the last sync, sorted.",
            writer=Writer.OPERATOR,
        ),
    ] = ()
    appliedTraits: Annotated[
        tuple[str, ...] | None,
        Field(
            "Those of them that the operator has put there, and takes away when they are no "
            "longer wanted, sorted; absent until it has looked.",
            writer=Writer.OPERATOR,
        ),
    ] = None
    aggregates: Annotated[
        tuple[Aggregate, ...],
        Field("The aggregates that the host was last put in.", writer=Writer.OPERATOR),
    ] = ()
    smokeTest: Annotated[
        SmokeTest | None,
        Field("How far the smoke test is, while there is one.", writer=Writer.OPERATOR),
    ] = None
    internalIp: Annotated[
        str | None,
        Field("Address of type InternalIP of the Node.", writer=Writer.OPERATOR),
    ] = None
    evicted: Annotated[
        bool | None,
        Field(
            "Whether the host is in maintenance and has no instance left.", writer=Writer.OPERATOR
        ),
    ] = None
    unhealthySince: Annotated[
        datetime | None,
        Field(
            "Since when the operator has seen the Node or its agent unwell without a break.",
            writer=Writer.OPERATOR,
        ),
    ] = None
    fencing: Annotated[
        Fencing | None,
        Field("The last fencing of the host.", writer=Writer.OPERATOR),
    ] = None
    fenceDevices: Annotated[
        tuple[FenceDeviceIdentity, ...],
        Field(
            "Fence devices of the host that have reported whose they are.",
            keys=("device",),
            writer=Writer.OPERATOR,
        ),
    ] = ()
    recovery: Annotated[
        Recovery | None,
        Field(
            "How far high availability is with the host; absent: the host is well.",
            writer=Writer.OPERATOR,
        ),
    ] = None
    failingStorage: Annotated[
        tuple[str, ...],
        Field(
            "Storages with I/O errors on this host and on others, sorted: instances on them wait "
            "and are not moved.",
            writer=Writer.OPERATOR,
        ),
    ] = ()
    definitionsKey: Annotated[
        str | None,
        Field(
            "Public key (X25519, base64) that the node agent seals the definitions of its domains "
            "with; absent where the operator reads none.",
            limits=Limits(max_length=64),
            writer=Writer.OPERATOR,
        ),
    ] = None
    conditions: Annotated[
        tuple[Condition, ...],
        Field(
            "State of each aspect of the host; each writer owns the condition types it sets.",
            limits=Limits(max_items=128),
            keys=("type",),
            writer=Writer.BY_TYPE,
        ),
    ] = ()
    waits: Annotated[
        tuple[Wait, ...],
        Field(
            "What conditions of the operator wait for.", keys=("condition",), writer=Writer.OPERATOR
        ),
    ] = ()
    specHash: Annotated[
        str | None, Field("Kept for compatibility; never written or read.", writer=Writer.NOBODY)
    ] = None
