"""Hypervisors as all controllers follow them: one informer, its indexes, one writer of statuses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hypercobalt.api.core import Node
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.operator.shared.node_facts import host_names
from hypercobalt.operator.shared.status_writer import StatusWriter
from hypercobalt.runtime import Informer, Recorder
from hypercobalt.runtime.precedence import Precedence
from hypercobalt.runtime.write_cache import WriteCache

BY_SERVICE: Final = "service"
BY_HOST: Final = "host"


@dataclass(frozen=True, slots=True)
class Shared:
    """What the operator's controllers share.

    Args:
        nodes: those that are hypervisors.
        informer: of Hypervisors, with the indexes `BY_SERVICE` and `BY_HOST`.
        hypervisors: newest state of the Hypervisors.
        statuses: writes the Hypervisors' status.
        events: records Events.
        creation: of Hypervisors, which goes before the rest of what a new Node needs.
        shard: label selector of Nodes and Hypervisors; "" where the operator has all.
    """

    nodes: Informer[Node]
    informer: Informer[Hypervisor]
    hypervisors: WriteCache[Hypervisor]
    statuses: StatusWriter
    events: Recorder
    creation: Precedence = field(default_factory=Precedence)
    shard: str = ""


def short_name(name: str) -> str:
    """Return the first label of a host's name."""
    return name.partition(".")[0]


def short_names(hypervisor: Hypervisor) -> frozenset[str]:
    """Return the first labels of the names that a compute service may have for the host."""
    return frozenset(short_name(name) for name in host_names(hypervisor))


def is_kept(hypervisor: Hypervisor) -> bool:
    """Whether the Hypervisor is deleted, and kept until operations for it have ended."""
    return hypervisor.metadata.deletionTimestamp is not None and bool(
        hypervisor.metadata.finalizers
    )


def service_of(hypervisor: Hypervisor) -> Iterable[str]:
    """Index function of `BY_SERVICE`."""
    return (hypervisor.status.serviceId,) if hypervisor.status.serviceId else ()


def hosts_of(hypervisor: Hypervisor) -> Iterable[str]:
    """Index function of `BY_HOST`."""
    return short_names(hypervisor)


INDEXES: Final[Mapping[str, Callable[[Hypervisor], Iterable[str]]]] = {
    BY_SERVICE: service_of,
    BY_HOST: hosts_of,
}
