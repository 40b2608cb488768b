"""What a Hypervisor's status reports of the machine: operating system, capabilities, NUMA cells.

Source: openstack-hypervisor-operator, api/v1/hypervisor_types.go.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from hypercobalt.api.meta import Struct
from hypercobalt.api.quantity import Quantity
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
        str | None,
        Field("The command line that the kernel was booted with.", limits=Limits(max_length=4096)),
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
        tuple[str, ...],
        Field("Feature sets in the Garden Linux image.", items=Limits(max_length=128)),
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
            items=Limits(max_length=128),
        ),
    ] = ()
    supportedCpuModes: Annotated[
        tuple[str, ...],
        Field(
            "CPU modes, as `mode/name` and as `mode/name/value`: `mode/host-passthrough`, "
            "`mode/custom/Skylake-Server`.",
            default=(),
            limits=Limits(max_items=512),
            items=Limits(max_length=64),
        ),
    ] = ()
    supportedFeatures: Annotated[
        tuple[str, ...],
        Field(
            "Features that libvirt reports as supported, such as `sev`.",
            default=(),
            items=Limits(max_length=64),
        ),
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
