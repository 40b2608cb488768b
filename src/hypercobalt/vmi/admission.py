"""Admission of VirtualMachineInstances: one pure function for each stage, behind two API servers.

`mutate` gives the object that is stored: defaulted when it is created; with the status of before
when a person changes it, since spec and status travel in one PUT. `validate` judges what `mutate`
has made and the definition's schema has let pass. Neither raises, whatever is sent.

Source: kubevirt, pkg/virt-api/webhooks, as observed (KubeVirt v1.8).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from hypercobalt.api.kubevirt import names
from hypercobalt.api.times import format_time
from hypercobalt.vmi import defaults, shape
from hypercobalt.vmi.accounts import account
from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.defaults.typed import copy
from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import (
    FieldCause,
    Json,
    JsonObject,
    Review,
    ReviewRefusal,
    refusal,
)
from hypercobalt.vmi.rules import causes_of_create
from hypercobalt.vmi.rules.nonsense import beyond_schema, nonsense
from hypercobalt.vmi.support import refusals
from hypercobalt.vmi.update import causes_of_update

_PCI: Final = {"amd64": ("q35", "pc-q35"), "arm64": ("virt",)}
"""Machine types, by their beginning, with the present layout of PCI devices."""


def mutate(
    review: Review, cluster: ClusterConfig, *, now: datetime, uuid: str
) -> JsonObject | ReviewRefusal:
    """The object to store.

    Args:
        review: the request.
        cluster: its settings.
        now: when the object enters its first phase.
        uuid: of a guest that names none; random for each request.
    """
    faults = list(shape.faults(review.object))
    if not faults and review.operation == "CREATE":
        faults = list(beyond_schema(At(review.object)["spec"], cluster))
    if faults:
        return refusal(faults)
    if review.operation == "CREATE":
        return _created(review.object, cluster, now, uuid)
    return _updated(review, cluster)


def validate(review: Review, cluster: ClusterConfig) -> tuple[FieldCause, ...]:
    """Why the request is refused; empty if it is allowed."""
    faults = tuple(shape.faults(review.object))
    if faults:
        return faults
    if review.operation == "CREATE":
        found = _causes_of_create(review, cluster)
    else:
        found = causes_of_update(review, cluster)
    return tuple(dict.fromkeys(found))


def _causes_of_create(review: Review, cluster: ClusterConfig) -> Iterator[FieldCause]:
    """KubeVirt's causes first: an answer may carry but ten."""
    obj = At(review.object)
    found = list(causes_of_create(obj, account(review.requester, cluster), cluster))
    yield from found or nonsense(obj["spec"], cluster)
    yield from refusals(obj["spec"])


def _created(sent: JsonObject, cluster: ClusterConfig, now: datetime, uuid: str) -> JsonObject:
    spec = copy(sent["spec"])
    if not isinstance(spec, dict):  # the shape says otherwise
        return sent
    defaults.apply(spec, cluster, uuid)
    obj: JsonObject = {**sent, "spec": spec, "metadata": _metadata(At(sent["metadata"]), spec)}
    obj["status"] = _first_status(At(spec), now)
    return obj


def _metadata(meta: At, spec: JsonObject) -> JsonObject:
    """The metadata with KubeVirt's finalizer, and the layout of the guest's PCI devices."""
    made = dict(meta.members)
    held = [one for one in meta["finalizers"].items if one != names.OLD_FOREGROUND_FINALIZER]
    if names.FOREGROUND_FINALIZER not in held:
        held.append(names.FOREGROUND_FINALIZER)
    made["finalizers"] = held
    machine = At(spec)["domain.machine.type"].text
    if spec["architecture"] in _PCI and machine.startswith(_PCI[str(spec["architecture"])]):
        annotations = dict(meta["annotations"].members)
        annotations.setdefault(names.PCI_TOPOLOGY_VERSION, "v3")
        made["annotations"] = annotations
    return made


def _first_status(spec: At, now: datetime) -> JsonObject:
    """The status of a new object; what was sent as its status does not count."""
    cpu, guest = spec["domain.cpu"], spec["domain.memory.guest"]
    topology: JsonObject = {
        name: cpu[name].number for name in ("sockets", "cores", "threads") if cpu[name].number
    }
    entered: JsonObject = {
        "phase": names.VMIPhase.PENDING.value,
        "phaseTransitionTimestamp": format_time(now),
    }
    status: JsonObject = {
        "phase": names.VMIPhase.PENDING.value,
        "phaseTransitionTimestamps": [entered],
        "runtimeUser": names.LAUNCHER_USER,
        "currentCPUTopology": topology,
    }
    if guest:
        memory = ("guestAtBoot", "guestCurrent", "guestRequested")
        status["memory"] = dict.fromkeys(memory, guest.value)
    return status


def _updated(review: Review, cluster: ClusterConfig) -> JsonObject:
    """The object as sent, but with the status of before unless an actor of KubeVirt sends it."""
    if account(review.requester, cluster) is not None:
        return review.object
    before: Json = (review.old or {}).get("status")
    made = {name: value for name, value in review.object.items() if name != "status"}
    return made if before is None else {**made, "status": before}
