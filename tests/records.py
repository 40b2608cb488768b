"""A Hypervisor whose fencing the operator itself has recorded, as its status shows it."""

from __future__ import annotations

from msgspec.structs import replace

from hypercobalt.api.fencing import RECORD, Fencing, as_record
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.runtime import Kube


def recorded(hypervisor: Hypervisor) -> Hypervisor:
    """The same with the record that its status shows; without one where it shows none."""
    notes = {k: v for k, v in hypervisor.metadata.annotations.items() if k != RECORD}
    if hypervisor.status.fencing is not None:
        notes[RECORD] = as_record(hypervisor.status.fencing)
    return replace(hypervisor, metadata=replace(hypervisor.metadata, annotations=notes))


async def record(kube: Kube, name: str, fencing: Fencing) -> Hypervisor:
    """Record a fencing as the operator does, and show it in the status."""

    def changed(found: Hypervisor) -> Hypervisor:
        notes = {**found.metadata.annotations, RECORD: as_record(fencing)}
        return replace(found, metadata=replace(found.metadata, annotations=notes))

    def shown(found: Hypervisor) -> Hypervisor:
        return replace(found, status=replace(found.status, fencing=fencing))

    await kube.modify(Hypervisor, name, changed)
    written = await kube.modify(Hypervisor, name, shown, subresource="status")
    assert written is not None
    return written
