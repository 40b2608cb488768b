"""Which changes of a VirtualMachineInstance are refused, by who makes them.

A person changes neither the spec nor the labels that KubeVirt writes. KubeVirt's actors may change
the spec, as far as a running guest can follow, and a handler only the instances of its own node.
KubeVirt names no field in any of these causes.
"""

from __future__ import annotations

from collections.abc import Iterator

from hypercobalt.api.kubevirt import names
from hypercobalt.api.kubevirt.schema import virtual_machine_instance
from hypercobalt.vmi.accounts import Account, account
from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.hotplug import causes_of_hotplug
from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import FieldCause, RequestUser, Review
from hypercobalt.vmi.rules.causes import invalid, unsupported
from hypercobalt.vmi.same import same


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
    schema = virtual_machine_instance().fields["spec"]
    if not same(new["spec"].value, old["spec"].value, schema):
        yield from _of_spec(new, old)


def _by_person(new: At, old: At) -> Iterator[FieldCause]:
    schema = virtual_machine_instance().fields["spec"]
    if not same(new["spec"].value, old["spec"].value, schema):
        yield unsupported("", "the spec of a VirtualMachineInstance cannot be changed")
    before, after = (one["metadata.labels"].members for one in (old, new))
    if any(before.get(one) != after.get(one) for one in names.RESERVED_LABELS):
        yield unsupported("", "labels that KubeVirt writes cannot be changed")


def _by_handler(new: At, old: At, requester: RequestUser) -> Iterator[FieldCause]:
    """A handler changes what is on its node, and what moves there; it sends nothing elsewhere."""
    before = old["status.migrationState.targetNode"].text
    after = new["status.migrationState.targetNode"].text
    own = {old["status.nodeName"].text, before}
    if not requester.node or requester.node not in own:
        yield invalid("", "a handler changes the instances of its own node alone")
    elif after and not before:
        yield invalid("", "a handler does not choose the target of a migration")


def _of_spec(new: At, old: At) -> Iterator[FieldCause]:
    """Hotplug: what a running guest can get or lose."""
    cpu, before = new["spec.domain.cpu"], old["spec.domain.cpu"]
    most, least = (one["spec.domain.memory.maxGuest"] for one in (new, old))
    if not cpu:
        yield invalid("", "spec.domain.cpu cannot be taken away")
    elif cpu["maxSockets"].number != before["maxSockets"].number:
        yield invalid("", "spec.domain.cpu.maxSockets cannot be changed")
    elif most and least and most.amount != least.amount:
        yield invalid("", "spec.domain.memory.maxGuest cannot be changed")
    else:
        yield from causes_of_hotplug(new, old)
