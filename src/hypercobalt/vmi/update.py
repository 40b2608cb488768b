"""Which changes of a VirtualMachineInstance are refused, by who makes them.

A person changes neither the spec nor the labels that KubeVirt writes. KubeVirt's actors may change
the spec, as far as a running guest can follow, and a handler only the instances of its own node.
KubeVirt names no field in any of these causes.
"""

from __future__ import annotations

from collections.abc import Iterator

from hypercobalt.api.kubevirt import names
from hypercobalt.api.kubevirt.schema import ITEMS, virtual_machine_instance
from hypercobalt.vmi.accounts import Account, account
from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import FieldCause, RequestUser, Review
from hypercobalt.vmi.rules.causes import invalid, unsupported
from hypercobalt.vmi.same import same

_CLAIMS = ("persistentVolumeClaim", "dataVolume")


def causes_of_update(review: Review, cluster: ClusterConfig) -> Iterator[FieldCause]:
    """Why a change is refused."""
    new, old = At(review.object), At(review.old)
    who = account(review.requester, cluster)
    if who is None:
        yield from _by_person(new, old)
        return
    if who is Account.HANDLER:
        foreign = list(_by_handler(new, old, review.requester))
        if foreign:
            yield from foreign
            return
    yield from _of_spec(new["spec"], old["spec"])


def _by_person(new: At, old: At) -> Iterator[FieldCause]:
    schema = virtual_machine_instance().fields["spec"]
    if not same(new["spec"].value, old["spec"].value, schema):
        yield unsupported("", "the spec of a VirtualMachineInstance cannot be changed")
    before, after = (one["metadata.labels"].members for one in (old, new))
    if any(At(before.get(one)).text != At(after.get(one)).text for one in names.RESERVED_LABELS):
        yield unsupported("", "labels that KubeVirt writes cannot be changed")


def _by_handler(new: At, old: At, requester: RequestUser) -> Iterator[FieldCause]:
    """A handler changes what is on its node, and what moves there; it sends nothing elsewhere."""
    before = old["status.migrationState.targetNode"].text
    after = new["status.migrationState.targetNode"].text
    own = {old["status.nodeName"].text, before}
    if not requester.node or requester.node not in own:
        yield invalid("", "a handler changes the instances of its own node alone")
    elif after not in {"", before, requester.node}:
        yield invalid("", "a handler does not choose the target of a migration")


def _of_spec(new: At, old: At) -> Iterator[FieldCause]:
    if not new["domain.cpu"]:
        yield invalid("", "spec.domain.cpu cannot be taken away")
    for path in ("domain.cpu.maxSockets", "domain.memory.maxGuest"):
        before, after = old[path], new[path]
        fixed = bool(before) or path.endswith("maxSockets")
        if fixed and before.amount != after.amount:
            yield invalid("", f"spec.{path} cannot be changed")
    if not _can_follow(new, old):
        yield invalid("", "only volumes of claims can be added to a guest, or taken out")


def _can_follow(new: At, old: At) -> bool:
    """Whether a running guest can get these volumes and disks instead of those of before."""
    schema = virtual_machine_instance().fields["spec"]
    volume_schema = schema.fields["volumes"].fields[ITEMS]
    disk_schema = schema.fields["domain"].fields["devices"].fields["disks"].fields[ITEMS]
    volumes, disks = _by_name(new["volumes"]), _by_name(new["domain.devices.disks"])
    had, had_disks = _by_name(old["volumes"]), _by_name(old["domain.devices.disks"])
    systems = _by_name(new["domain.devices.filesystems"])
    for name, volume in had.items():
        if name not in volumes:
            if not _is_hot(volume) or name in disks:
                return False
        elif not same(volumes[name].value, volume.value, volume_schema):
            return False
    for name, disk in disks.items():
        if name not in had_disks:
            if name not in volumes:
                return False
        elif not same(disk.value, had_disks[name].value, disk_schema):
            return False
    for name, volume in volumes.items():
        added = name not in had
        if (name not in disks and name not in systems) and (added or name in had_disks):
            return False
        if added and not volume.holds(*_CLAIMS):
            return False
    return had_disks.keys() - had.keys() <= disks.keys()


def _by_name(list_: At) -> dict[str, At]:
    return {one["name"].text: one for one in list_}


def _is_hot(volume: At) -> bool:
    """Whether a volume can be taken out of a running guest."""
    return any(volume[kind]["hotpluggable"].flag for kind in _CLAIMS)
