"""The status of a Hypervisor: what the host is.

Source: openstack-hypervisor-operator, api/v1/hypervisor_types.go.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from hypercobalt.api.conditions import Condition
from hypercobalt.api.diagnostics import DiagnosticsEndpoint
from hypercobalt.api.fencing import Assertion, FenceDeviceIdentity, Fencing, GuestsStopped
from hypercobalt.api.incident import Incident, PeerReport
from hypercobalt.api.meta import Struct
from hypercobalt.api.quantity import Quantity
from hypercobalt.api.recovery import Recovery
from hypercobalt.api.schema import Field, Limits


class OperatingSystemStatus(Struct, frozen=True):
    """Operating system, firmware and hardware of the host; the node agent writes it."""

    version: Annotated[str | None, Field("Version of the operating system image.")] = None
    variantID: Annotated[
        str | None, Field("Variant of the operating system (VARIANT_ID of os-release).")
    ] = None
    prettyVersion: Annotated[
        str | None, Field("Name and version of the operating system, for people.")
    ] = None
    kernelName: Annotated[str | None, Field("Name of the kernel, as `uname -s` gives it.")] = None
    kernelRelease: Annotated[
        str | None, Field("Release of the kernel, as `uname -r` gives it.")
    ] = None
    kernelVersion: Annotated[str | None, Field("Build of the kernel, as `uname -v` gives it.")] = (
        None
    )
    kernelCommandLine: Annotated[
        str | None, Field("The command line that the kernel was booted with.")
    ] = None
    hardwareVendor: Annotated[str | None, Field("Maker of the machine.")] = None
    hardwareModel: Annotated[str | None, Field("Model of the machine.")] = None
    hardwareSerial: Annotated[str | None, Field("Serial number of the machine.")] = None
    firmwareVersion: Annotated[str | None, Field("Version of the firmware.")] = None
    firmwareVendor: Annotated[str | None, Field("Maker of the firmware.")] = None
    firmwareDate: Annotated[datetime | None, Field("Release date of the firmware.")] = None
    gardenLinuxCommitID: Annotated[
        str | None, Field("Commit that the Garden Linux image was built from.")
    ] = None
    gardenLinuxFeatures: Annotated[
        tuple[str, ...], Field("Feature sets in the Garden Linux image.")
    ] = ()


class HyperVisorUpdateStatus(Struct, frozen=True):
    """Progress of an operating system update; the node agent writes it."""

    inProgress: Annotated[
        bool | None, Field("Whether an update is running.", default=False, required=True)
    ] = None
    installed: Annotated[
        str | None, Field("The version that was installed last.", default="unknown")
    ] = None
    version: Annotated[
        str | None, Field("The version that the attempts are about; absent before the first.")
    ] = None
    retry: Annotated[
        int | None, Field("How many more attempts the update has.", default=3, required=True)
    ] = None


class Instance(Struct, frozen=True):
    """One virtual machine on the host."""

    id: Annotated[str, Field("UUID of the instance.")]
    name: Annotated[str, Field("Name of its libvirt domain.")]
    active: Annotated[bool, Field("Whether it is running.")]


class Capabilities(Struct, frozen=True):
    """What the host has, as libvirt reports it."""

    cpuArch: Annotated[str | None, Field("Architecture of the CPUs.", default="unknown")] = None
    memory: Annotated[Quantity | None, Field("Memory of the host, in bytes.")] = None
    cpus: Annotated[Quantity | None, Field("Number of logical CPUs of the host.")] = None


class DomainCapabilities(Struct, frozen=True):
    """What a virtual machine on the host can have, as libvirt reports it."""

    arch: Annotated[
        str | None, Field("Architecture that virtual machines have.", default="unknown")
    ] = None
    hypervisorType: Annotated[
        str | None,
        Field("Type of libvirt domains: `kvm`, `qemu` or `ch`, for example.", default="unknown"),
    ] = None
    supportedDevices: Annotated[
        tuple[str, ...],
        Field(
            "Devices, as `type` and as `type/model`: `video`, `video/virtio`.",
            default=(),
        ),
    ] = ()
    supportedCpuModes: Annotated[
        tuple[str, ...],
        Field(
            "CPU modes, as `mode/name` and as `mode/name/value`: `mode/host-passthrough`, "
            "`mode/custom/Skylake-Server`.",
            default=(),
        ),
    ] = ()
    supportedFeatures: Annotated[
        tuple[str, ...],
        Field("Features that libvirt reports as supported, such as `sev`.", default=()),
    ] = ()


class Cell(Struct, frozen=True):
    """One NUMA cell of the host."""

    cellID: Annotated[
        int, Field("Number of the cell, as the host counts.", limits=Limits(format="int64"))
    ]
    allocation: Annotated[
        dict[str, Quantity],
        Field("What the virtual machines pinned to this cell were given, by resource name."),
    ] = {}
    capacity: Annotated[
        dict[str, Quantity], Field("What the cell has, without overcommit, by resource name.")
    ] = {}
    effectiveCapacity: Annotated[
        dict[str, Quantity],
        Field("What may be promised on the cell: capacity times overcommit, rounded down."),
    ] = {}


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
        Field("Version of the libvirt library: major.minor.release.", default="unknown"),
    ] = None
    hypervisorVersion: Annotated[
        str | None,
        Field(
            "Version of QEMU or Cloud Hypervisor behind libvirt: major.minor.release.",
            default="unknown",
        ),
    ] = None
    operatingSystem: Annotated[
        OperatingSystemStatus | None,
        Field("Operating system, firmware and hardware. Written by the node agent."),
    ] = None
    updateStatus: Annotated[
        HyperVisorUpdateStatus | None,
        Field("Progress of an operating system update. Written by the node agent."),
    ] = None
    hostUUID: Annotated[
        str | None,
        Field("UUID of the host, as its libvirt has it. Written by the node agent."),
    ] = None
    bootID: Annotated[
        str | None,
        Field("Boot of the host: differs from boot to boot. Written by the node agent."),
    ] = None
    bootedAt: Annotated[
        datetime | None, Field("When the host was booted. Written by the node agent.")
    ] = None
    recentBoots: Annotated[
        tuple[datetime, ...],
        Field(
            "When the host was booted again, in the hour before its last boot; at most ten. "
            "Written by the node agent."
        ),
    ] = ()
    instances: Annotated[
        tuple[Instance, ...],
        Field("Virtual machines on the host, the running ones first. Written by the node agent."),
    ] = ()
    numInstances: Annotated[
        int | None,
        Field(
            "How many virtual machines the host has, running or not. Written by the node agent.",
            default=0,
            required=True,
        ),
    ] = None
    incidents: Annotated[
        tuple[Incident, ...],
        Field(
            "What has happened to instances or to the host and is not over, at most 20. Written by "
            "the node agent.",
            keys=("id",),
        ),
    ] = ()
    peerReports: Annotated[
        tuple[PeerReport, ...],
        Field(
            "Which other hosts answer, while the operator requests it. Written by the node agent.",
            keys=("host",),
        ),
    ] = ()
    diagnostics: Annotated[
        DiagnosticsEndpoint | None,
        Field(
            "Where the node agent serves people; absent if it does not. Written by the node agent."
        ),
    ] = None
    assertion: Annotated[
        Assertion | None,
        Field("An assertion from outside that the host is dead. Written by the operator."),
    ] = None
    guestsStopped: Annotated[
        GuestsStopped | None,
        Field(
            "That every instance of the host was ended, as fencing demands. Written by the node "
            "agent."
        ),
    ] = None
    capabilities: Annotated[
        Capabilities | None, Field("What the host has. Written by the node agent.")
    ] = None
    domainCapabilities: Annotated[
        DomainCapabilities | None,
        Field("What a virtual machine on the host can have. Written by the node agent."),
    ] = None
    allocation: Annotated[
        dict[str, Quantity],
        Field(
            "What all virtual machines on the host were given: `cpu` in cores, `memory` in bytes. "
            "Written by the node agent."
        ),
    ] = {}
    capacity: Annotated[
        dict[str, Quantity],
        Field(
            "What the host has, without overcommit: `cpu` in cores, `memory` in bytes. Written by "
            "the node agent."
        ),
    ] = {}
    effectiveCapacity: Annotated[
        dict[str, Quantity],
        Field(
            "What may be promised on the host: capacity times overcommit, rounded down to whole "
            "cores and bytes. Written by the node agent."
        ),
    ] = {}
    cells: Annotated[
        tuple[Cell, ...],
        Field("The same amounts for each NUMA cell. Written by the node agent."),
    ] = ()
    hypervisorId: Annotated[
        str | None,
        Field(
            "UUID of the hypervisor in Nova, which is the UUID of its Placement resource provider. "
            "Written by the operator during onboarding."
        ),
    ] = None
    serviceId: Annotated[
        str | None,
        Field("UUID of the compute service in Nova. Written by the operator during onboarding."),
    ] = None
    traits: Annotated[
        tuple[str, ...],
        Field(
            "All traits of the resource provider after the last sync, sorted. Written by the "
            "operator."
        ),
    ] = ()
    appliedTraits: Annotated[
        tuple[str, ...] | None,
        Field(
            "Those of them that the operator has put there, and takes away when they are no longer "
            "wanted, sorted; absent until it has looked. Written by the operator."
        ),
    ] = None
    aggregates: Annotated[
        tuple[Aggregate, ...],
        Field("The aggregates that the host was last put in. Written by the operator."),
    ] = ()
    smokeTest: Annotated[
        SmokeTest | None,
        Field("How far the smoke test is, while there is one. Written by the operator."),
    ] = None
    internalIp: Annotated[
        str | None,
        Field("Address of type InternalIP of the Node. Written by the operator."),
    ] = None
    evicted: Annotated[
        bool | None,
        Field(
            "Whether the host is in maintenance and has no instance left. Written by the operator."
        ),
    ] = None
    unhealthySince: Annotated[
        datetime | None,
        Field(
            "Since when the operator has seen the Node or its agent unwell without a break. "
            "Written by the operator."
        ),
    ] = None
    fencing: Annotated[
        Fencing | None,
        Field("The last fencing of the host. Written by the operator."),
    ] = None
    fenceDevices: Annotated[
        tuple[FenceDeviceIdentity, ...],
        Field(
            "Fence devices of the host that have reported whose they are. Written by the operator.",
            keys=("device",),
        ),
    ] = ()
    recovery: Annotated[
        Recovery | None,
        Field(
            "How far high availability is with the host; absent: the host is well. "
            "Written by the operator."
        ),
    ] = None
    failingStorage: Annotated[
        tuple[str, ...],
        Field(
            "Storages with I/O errors on this host and on others, sorted: instances on them wait "
            "and are not moved. Written by the operator."
        ),
    ] = ()
    definitionsKey: Annotated[
        str | None,
        Field(
            "Public key (X25519, base64) that the node agent seals the definitions of its domains "
            "with; absent where the operator reads none. Written by the operator.",
            limits=Limits(max_length=64),
        ),
    ] = None
    conditions: Annotated[
        tuple[Condition, ...],
        Field(
            "State of each aspect of the host; each writer owns the condition types it sets.",
            keys=("type",),
        ),
    ] = ()
    waits: Annotated[
        tuple[Wait, ...],
        Field(
            "What conditions of the operator wait for. Written by the operator.",
            keys=("condition",),
        ),
    ] = ()
    specHash: Annotated[str | None, Field("Kept for compatibility; never written or read.")] = None
