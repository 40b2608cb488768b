"""Whether an object has KubeVirt's shape: types, bounds of numbers, closed sets, required members.

KubeVirt reads an object into typed structures before it judges it, so admission refuses what does
not fit them, also where the definition's schema would let it pass: a negative count, a policy that
Kubernetes does not have, a field within `clock`, which keeps unknown fields. A member that is
required and missing counts as empty if it is a text, number or flag.

The walk goes as deep as the schema, whatever the object.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hypercobalt.api.kubevirt.schema import ITEMS, VALUES, SchemaField, virtual_machine_instance
from hypercobalt.api.quantity import PATTERN
from hypercobalt.vmi.review import CauseReason, FieldCause, Json, JsonObject

SCALARS: Final = frozenset({"string", "boolean", "integer", "int32", "int64"})
"""Types whose required members may be missing: they read as empty."""

_QUANTITY: Final = re.compile(PATTERN, re.ASCII)
_LONGEST_QUANTITY: Final = 64
_BOUNDS: Final = {
    "int32": (-(2**31), 2**31 - 1),
    # KubeVirt compares as floating point numbers, for which the last 512 are the next power of two.
    "int64": (-(2**63), 2**63 - 513),
    "integer": (-(2**63), 2**63 - 513),
}
_UINT32: Final = (0, 2**32 - 1)
"""CPUs, of which far fewer are refused with their own cause (`rules/nonsense.py`)."""
_COUNT: Final = (0, 2**31 - 1)
"""KubeVirt reads twice as far, and the definition's schema refuses the half of it."""
_UINT: Final = (0, 2**63 - 513)
_UNSIGNED: Final = {
    "spec.domain.cpu.cores": _UINT32,
    "spec.domain.cpu.sockets": _UINT32,
    "spec.domain.cpu.threads": _UINT32,
    "spec.domain.cpu.maxSockets": _COUNT,
    "spec.domain.ioThreads.supplementalPoolThreadCount": _COUNT,
    "spec.domain.features.hyperv.spinlocks.spinlocks": _COUNT,
    "spec.domain.devices.disks[].bootOrder": _UINT,
    "spec.domain.devices.disks[].blockSize.custom.logical": _UINT,
    "spec.domain.devices.disks[].blockSize.custom.physical": _UINT,
    "spec.domain.devices.disks[].blockSize.custom.discardGranularity": _UINT,
    "spec.domain.devices.interfaces[].bootOrder": _UINT,
}
_PULL: Final = frozenset({"Always", "IfNotPresent", "Never"})
_NODE_OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", ""})
_SCHEMES: Final = frozenset({"HTTP", "HTTPS"})
_NODE_AFFINITY: Final = "spec.affinity.nodeAffinity"
_TERMS: Final = (
    "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[]",
    "preferredDuringSchedulingIgnoredDuringExecution[].preference",
)
_CLOSED: Final = {
    "spec.dnsPolicy": frozenset({"ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"}),
    "spec.tolerations[].operator": frozenset({"Exists", "Equal"}),
    "spec.tolerations[].effect": frozenset({"NoSchedule", "PreferNoSchedule", "NoExecute"}),
    "spec.volumes[].containerDisk.imagePullPolicy": _PULL,
    "spec.domain.firmware.kernelBoot.container.imagePullPolicy": _PULL,
    "spec.livenessProbe.httpGet.scheme": _SCHEMES,
    "spec.readinessProbe.httpGet.scheme": _SCHEMES,
    "spec.topologySpreadConstraints[].whenUnsatisfiable": frozenset(
        {"DoNotSchedule", "ScheduleAnyway", ""}
    ),
    "spec.topologySpreadConstraints[].nodeAffinityPolicy": frozenset({"Honor", "Ignore"}),
    "spec.topologySpreadConstraints[].nodeTaintsPolicy": frozenset({"Honor", "Ignore"}),
} | {
    f"{_NODE_AFFINITY}.{term}.{list_}[].operator": _NODE_OPERATORS
    for term in _TERMS
    for list_ in ("matchExpressions", "matchFields")
}


def faults(obj: JsonObject) -> Iterator[FieldCause]:
    """Fields of the spec that are not of KubeVirt's shape, and of the status of another type."""
    root = virtual_machine_instance()
    if not isinstance(obj.get("spec"), dict):
        absent = obj.get("spec") is None
        yield _required("spec") if absent else _mistyped("spec", "object")
        return
    yield from _object(root.fields["spec"], obj["spec"], "spec", "spec")
    if obj.get("status") is not None:
        yield from _value(root.fields["status"], obj["status"], "status", "status")


def _value(one: SchemaField, value: Json, path: str, plain: str) -> Iterator[FieldCause]:
    """The faults of one value; null is absent.

    Args:
        one: its schema.
        value: as sent.
        path: with indices.
        plain: the same without them.
    """
    match one.type:
        case "object":
            yield from _object(one, value, path, plain)
        case "array":
            yield from _list(one, value, path, plain)
        case "quantity":
            yield from _amount(value, path)
        case "int-or-string":
            yield from _number_or_text(value, path)
        case "string" | "date-time":
            yield from _text(value, path, plain)
        case "boolean":
            if not isinstance(value, bool):
                yield _mistyped(path, "boolean")
        case _:
            yield from _number(one, value, path, plain)


def _object(one: SchemaField, value: Json, path: str, plain: str) -> Iterator[FieldCause]:
    if not isinstance(value, dict):
        yield _mistyped(path, "object")
        return
    for name in one.required:
        if value.get(name) is None and one.fields[name].type not in SCALARS:
            yield _required(f"{path}.{name}")
    free = one.values
    for name, item in value.items():
        below = free or one.fields.get(name)
        if below is None:
            if plain.startswith("spec") and one.fields:
                yield _unknown(f"{path}.{name}")
        elif item is not None or free:
            step = VALUES if free else f".{name}"
            yield from _value(below, item, f"{path}.{name}", plain + step)


def _list(one: SchemaField, value: Json, path: str, plain: str) -> Iterator[FieldCause]:
    if not isinstance(value, list):
        yield _mistyped(path, "array")
        return
    most = one.facts.get("maxItems")
    if isinstance(most, int) and len(value) > most:
        yield _invalid(path, f"must have at most {most} items")
    elif one.items:
        for index, item in enumerate(value):
            yield from _value(one.items, item, f"{path}[{index}]", plain + ITEMS)


def _amount(value: Json, path: str) -> Iterator[FieldCause]:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        yield _mistyped(path, "integer or string")
    elif isinstance(value, str) and (
        len(value) > _LONGEST_QUANTITY or not _QUANTITY.fullmatch(value)
    ):
        yield _invalid(path, "must be a quantity, such as 512Mi")


def _number_or_text(value: Json, path: str) -> Iterator[FieldCause]:
    lowest, highest = _BOUNDS["int32"]
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        yield _mistyped(path, "integer or string")
    elif isinstance(value, int) and not lowest <= value <= highest:
        yield _invalid(path, f"must be from {lowest} to {highest}")


def _text(value: Json, path: str, plain: str) -> Iterator[FieldCause]:
    if not isinstance(value, str):
        yield _mistyped(path, "string")
    elif plain in _CLOSED and value not in _CLOSED[plain]:
        known = ", ".join(sorted(_CLOSED[plain] - {""}))
        yield FieldCause(CauseReason.NOT_SUPPORTED, path, f"{path} must be one of {known}")


def _number(one: SchemaField, value: Json, path: str, plain: str) -> Iterator[FieldCause]:
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not whole or not isinstance(value, (int, float)):
        yield _mistyped(path, "integer")
        return
    lowest, highest = _UNSIGNED.get(plain) or _BOUNDS[one.type]
    if not lowest <= value <= highest:
        yield _invalid(path, f"must be from {lowest} to {highest}")


def _required(path: str) -> FieldCause:
    return FieldCause(CauseReason.REQUIRED, path, f"{path} is required")


def _mistyped(path: str, type_: str) -> FieldCause:
    return FieldCause(CauseReason.TYPE_INVALID, path, f"{path} must be of type {type_}")


def _invalid(path: str, what: str) -> FieldCause:
    return FieldCause(CauseReason.INVALID, path, f"{path} {what}")


def _unknown(path: str) -> FieldCause:
    return FieldCause(CauseReason.INVALID, path, f"{path} is unknown")
