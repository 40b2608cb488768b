"""Decides which of several Hypervisors a compute service's host belongs to. Pure.

A host is found by its first label or whole name, and a Node's hostname label is the kubelet's to
write, so two Nodes may be found to be one host. The host stays with the Hypervisor that has its
service in `status.serviceId`; that field alone is not believed, its holder must have the name as
well. A Node's own name counts for more than its label, the older Hypervisor for more than the
younger, so the answer is the same for every claimant and never changes by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from hypercobalt.api.hypervisor import EMPTYING, Hypervisor
from hypercobalt.compute.model import Host
from hypercobalt.operator.shared.hypervisors import short_name, short_names

_NEVER: Final = datetime.max.replace(tzinfo=UTC)


def wants_host(hypervisor: Hypervisor) -> bool:
    """Whether the operator looks for the Hypervisor's host at all.

    Emptying needs no lifecycle: a host that must take no servers has to be disabled all the same.
    """
    spec = hypervisor.spec
    emptied = spec.maintenance in EMPTYING
    return bool(spec.lifecycleEnabled or hypervisor.status.serviceId or emptied)


def owner(found: Host, own: Hypervisor, others: Iterable[Hypervisor]) -> Hypervisor:
    """Return the Hypervisor that a host belongs to.

    Args:
        found: as the compute service has it.
        own: Hypervisor for which the host was found.
        others: Hypervisors that may have a claim to it; an older state of `own` may be among them.
    """
    name = own.metadata.name
    claims = [own, *(one for one in others if one.metadata.name != name and _may_be(one, found))]
    return min(claims, key=lambda one: _rank(one, found))


def _may_be(hypervisor: Hypervisor, found: Host) -> bool:
    return wants_host(hypervisor) and short_name(found.name) in short_names(hypervisor)


def _rank(hypervisor: Hypervisor, found: Host) -> tuple[bool, bool, bool, datetime, str]:
    meta = hypervisor.metadata
    return (
        hypervisor.status.serviceId != found.service_id,
        meta.name != found.name,
        short_name(meta.name) != short_name(found.name),
        meta.creationTimestamp or _NEVER,
        meta.uid,
    )
