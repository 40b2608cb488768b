"""Which fields of a VirtualMachineInstance this version acts on; every other one is refused.

A field that nobody acts on and nobody refuses would be a promise that is broken in silence. So this
one table decides: admission refuses what is not in it, at its path, and the page of all fields
(`support_page.py`) is generated from it. An honoured field covers what is below it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from hypercobalt.api.kubevirt.schema import ITEMS, VALUES, SchemaField, virtual_machine_instance
from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import CauseReason, FieldCause, Json

NOT_HONOURED: Final = "not honoured by this version"


@dataclass(frozen=True, slots=True)
class Honoured:
    """A field that this version acts on.

    Attributes:
        path: without indices, such as `spec.domain.devices.disks[].name`.
        note: for the page of all fields.
        values: the only ones that are honoured; empty for all.
    """

    path: str
    note: str = ""
    values: tuple[str, ...] = ()


_D: Final = "spec.domain."
_DEVICES: Final = "spec.domain.devices."
_DISK: Final = "spec.domain.devices.disks[]."
_NIC: Final = "spec.domain.devices.interfaces[]."
_BUSES: Final = ("virtio", "sata", "scsi")

TABLE: Final = (
    Honoured("spec.architecture", values=("amd64",)),
    Honoured("spec.nodeSelector"),
    Honoured("spec.affinity"),
    Honoured("spec.tolerations"),
    Honoured("spec.priorityClassName"),
    Honoured("spec.terminationGracePeriodSeconds", "30 if absent; 0 stops the guest at once"),
    Honoured("spec.startStrategy", values=("Paused",)),
    Honoured("spec.evictionStrategy", "guests do not move yet", values=("None",)),
    Honoured(f"{_D}machine.type"),
    Honoured(f"{_D}cpu.sockets"),
    Honoured(f"{_D}cpu.cores"),
    Honoured(f"{_D}cpu.threads"),
    Honoured(f"{_D}cpu.maxSockets", "defaulted and shown; there is no hotplug yet"),
    Honoured(f"{_D}cpu.model", "host-passthrough needs KVM"),
    Honoured(f"{_D}cpu.features"),
    Honoured(f"{_D}memory.guest"),
    Honoured(f"{_D}memory.maxGuest", "defaulted and shown; there is no hotplug yet"),
    Honoured(f"{_D}resources"),
    Honoured(f"{_D}firmware.uuid"),
    Honoured(f"{_D}firmware.serial"),
    Honoured(f"{_D}firmware.bootloader.bios"),
    Honoured(f"{_D}firmware.kernelBoot"),
    Honoured(f"{_D}chassis"),
    Honoured(f"{_D}features.acpi"),
    Honoured(f"{_D}features.apic"),
    Honoured(f"{_D}clock"),
    Honoured(f"{_D}ioThreads"),
    Honoured(f"{_D}ioThreadsPolicy"),
    Honoured(f"{_DEVICES}autoattachGraphicsDevice", "VNC on a socket of the pod"),
    Honoured(f"{_DEVICES}autoattachMemBalloon"),
    Honoured(f"{_DEVICES}autoattachPodInterface"),
    Honoured(
        f"{_DEVICES}autoattachSerialConsole",
        "opened by `cobalt console`, or virtctl through [virt-api](virt-api.md#consoles)",
    ),
    Honoured(f"{_DEVICES}blockMultiQueue"),
    Honoured(f"{_DEVICES}disableHotplug"),
    Honoured(f"{_DEVICES}useVirtioTransitional"),
    Honoured(f"{_DEVICES}rng"),
    Honoured(f"{_DEVICES}inputs"),
    Honoured(f"{_DEVICES}sound"),
    Honoured(f"{_DEVICES}video"),
    Honoured(f"{_DEVICES}panicDevices"),
    Honoured(f"{_DEVICES}watchdog"),
    Honoured(f"{_DISK}name"),
    Honoured(f"{_DISK}bootOrder"),
    Honoured(f"{_DISK}serial"),
    Honoured(f"{_DISK}cache"),
    Honoured(f"{_DISK}io"),
    Honoured(f"{_DISK}errorPolicy"),
    Honoured(f"{_DISK}dedicatedIOThread"),
    Honoured(f"{_DISK}blockSize.custom"),
    Honoured(f"{_DISK}disk.bus", values=_BUSES),
    Honoured(f"{_DISK}disk.readonly"),
    Honoured(f"{_DISK}disk.pciAddress"),
    Honoured(f"{_DISK}cdrom.bus", values=_BUSES),
    Honoured(f"{_DISK}cdrom.readonly"),
    Honoured(f"{_DISK}cdrom.tray"),
    Honoured(f"{_NIC}name"),
    Honoured(f"{_NIC}masquerade"),
    Honoured(f"{_NIC}bridge"),
    Honoured(f"{_NIC}model"),
    Honoured(f"{_NIC}macAddress"),
    Honoured(f"{_NIC}bootOrder"),
    Honoured(f"{_NIC}pciAddress"),
    Honoured(f"{_NIC}acpiIndex"),
    Honoured(f"{_NIC}ports", "those that masquerade forwards"),
    Honoured("spec.networks[].name"),
    Honoured("spec.networks[].pod", "in the default guest network"),
    Honoured("spec.volumes[].name"),
    Honoured("spec.volumes[].containerDisk", "lost with the pod"),
    Honoured("spec.volumes[].emptyDisk", "lost with the pod"),
)
"""All fields that are honoured, in the order of the page."""

EXCEPTIONS: Final = frozenset(
    {"spec.networks[].pod.vmNetworkCIDR", "spec.networks[].pod.vmIPv6NetworkCIDR"}
)
"""Fields below an honoured one that are not."""

NOT_PLANNED: Final = frozenset(
    {
        "spec.accessCredentials",
        "spec.resourceClaims",
        "spec.domain.cpu.realtime",
        "spec.domain.cpu.numa",
        "spec.domain.launchSecurity",
        "spec.domain.memory.hugepages",
        f"{_DEVICES}autoattachVSOCK",
        f"{_DEVICES}clientPassthrough",
        f"{_DEVICES}downwardMetrics",
        f"{_DEVICES}filesystems",
        f"{_DEVICES}gpus",
        f"{_DEVICES}hostDevices",
        f"{_NIC}binding",
        f"{_NIC}macvtap",
        f"{_NIC}passt",
        f"{_NIC}passtBinding",
        f"{_NIC}slirp",
        f"{_NIC}sriov",
        "spec.networks[].resourceClaim",
        "spec.volumes[].containerPath",
        "spec.volumes[].downwardMetrics",
        "spec.volumes[].memoryDump",
    }
)
"""Fields that are refused for good: what they need is not there, or nobody uses them here."""

_HONOURED: Final = {one.path: one for one in TABLE}


def _above(path: str) -> Iterator[str]:
    """Every path that a path lies below."""
    while path:
        path = path[:-2] if path.endswith((ITEMS, VALUES)) else path.rpartition(".")[0]
        yield path


PARENTS: Final = frozenset(parent for path in (*_HONOURED, *EXCEPTIONS) for parent in _above(path))
"""Fields that have honoured and refused ones below them."""


def is_honoured(path: str) -> bool:
    """Whether a field is honoured: it, or what it lies below, is in the table."""
    return not any(one in EXCEPTIONS for one in (path, *_above(path))) and any(
        one in _HONOURED for one in (path, *_above(path))
    )


def refusals(spec: At) -> Iterator[FieldCause]:
    """A cause for each field of a spec that is set and not honoured, at the topmost such field."""
    schema = virtual_machine_instance().fields["spec"]
    yield from _members(schema, spec.value, spec.path, "spec")


def _members(schema: SchemaField, value: Json, path: str, plain: str) -> Iterator[FieldCause]:
    if isinstance(value, list) and schema.items:
        for index, item in enumerate(value):
            yield from _members(schema.items, item, f"{path}[{index}]", plain + ITEMS)
    elif isinstance(value, dict):
        for name, item in value.items():
            below = schema.fields.get(name)
            if below is not None:
                yield from _field(below, item, f"{path}.{name}", f"{plain}.{name}")


def _field(schema: SchemaField, value: Json, path: str, plain: str) -> Iterator[FieldCause]:
    if plain in _HONOURED and plain not in PARENTS:
        yield from _value(_HONOURED[plain], value, path)
    elif plain in PARENTS:
        yield from _members(schema, value, path, plain)
    elif not is_honoured(plain) and (value or isinstance(value, dict)):
        # Members that are false, zero or empty request nothing.
        yield FieldCause(CauseReason.NOT_SUPPORTED, path, f"{path} is {NOT_HONOURED}")


def _value(one: Honoured, value: Json, path: str) -> Iterator[FieldCause]:
    if one.values and value and value not in one.values:
        known = ", ".join(one.values)
        message = f"{path} {str(value)[:64]!r} is {NOT_HONOURED}; it may be {known}"
        yield FieldCause(CauseReason.NOT_SUPPORTED, path, message)
