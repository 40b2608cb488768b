"""Reads a Node's labels, annotations and conditions for its hypervisor. Pure.

Source: openstack-hypervisor-operator, internal/controller/hypervisor_controller.go and consts.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from hypercobalt.api.addresses import is_host_address
from hypercobalt.api.core import Node, Taint
from hypercobalt.api.holders import address_form
from hypercobalt.api.hypervisor import LONGEST_NAME, MOST_NAMES, Hypervisor
from hypercobalt.compute.model import Host
from hypercobalt.errors import ConfigurationError

HYPERVISOR_LABEL: Final = "nova.openstack.cloud.sap/virt-driver"
"""A Node that has it, with whatever value, is a hypervisor."""

LIFECYCLE_LABEL: Final = "cobaltcore.cloud.sap/node-hypervisor-lifecycle"
"""A Node that has it is onboarded and offboarded; the value `skip-tests` leaves out the test."""

SKIP_TESTS: Final = "skip-tests"
AGGREGATES_ANNOTATION: Final = "nova.openstack.cloud.sap/aggregates"
TRAITS_ANNOTATION: Final = "nova.openstack.cloud.sap/custom-traits"
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
OFFBOARDING_TAINT: Final = Taint(key="kvm.cloud.sap/offboarding", effect="NoExecute")

COPIED_LABELS: Final = (
    HOSTNAME_LABEL,
    "kubernetes.metal.cloud.sap/bb",
    "kubernetes.metal.cloud.sap/cluster",
    "kubernetes.metal.cloud.sap/name",
    "kubernetes.metal.cloud.sap/type",
    "worker.garden.sapcloud.io/group",
    "worker.gardener.cloud/pool",
    "topology.kubernetes.io/region",
    ZONE_LABEL,
)
"""Labels that a Hypervisor gets from its Node, besides those of the operator's label selector."""

_MOST: Final = 64  # addresses of one Node
_REQUIREMENT: Final = re.compile(
    r"\s*!?\s*([A-Za-z0-9][A-Za-z0-9_./-]*)\s*"
    r"((==|=|!=)\s*[A-Za-z0-9_.-]*\s*|\s(in|notin)\s*\([A-Za-z0-9_.,\s-]*\)\s*)?",
    re.ASCII,
)


def copied_labels(label_selector: str) -> tuple[str, ...]:
    """Return keys of the labels that a Hypervisor gets from its Node, the selector's included.

    Args:
        label_selector: as Kubernetes reads one: `a=b,c!=d,e in (f,g),!h`.

    Raises:
        ConfigurationError: it cannot be read.
    """
    keys: list[str] = []
    for part in re.split(r",(?![^(]*\))", label_selector) if label_selector else ():
        found = _REQUIREMENT.fullmatch(part)
        if found is None:
            raise ConfigurationError(
                f"--label-selector {label_selector!r}: {part!r} must look like zone=a, zone!=a, "
                "zone in (a,b), zone or !zone"
            )
        keys.append(found[1])
    return tuple(dict.fromkeys((*COPIED_LABELS, *keys)))


def is_terminating(node: Node) -> bool:
    """Whether the Node is on its way out: Gardener terminates it, or it is being deleted."""
    if node.metadata.deletionTimestamp is not None:
        return True
    return any(c.type == "Terminating" and c.status == "True" for c in node.status.conditions)


def takes_all_along(node: Node) -> bool:
    """Whether the Node only waits for its dependents to go; a new dependent would hold it.

    Source: Kubernetes, foreground cascading deletion.
    """
    meta = node.metadata
    return meta.deletionTimestamp is not None and "foregroundDeletion" in meta.finalizers


def is_offboarding(node: Node) -> bool:
    """Whether the Node drives away pods that do not tolerate its offboarding."""
    wanted = (OFFBOARDING_TAINT.key, OFFBOARDING_TAINT.effect)
    return any((taint.key, taint.effect) == wanted for taint in node.spec.taints)


def internal_ip(node: Node, stored: str | None) -> str | None:
    """Return the one address to show: the stored one while the Node has it, else the first listed.

    A dual-stack Node has two; whichever was taken stays. Text that is no address of a host, which
    a kubelet may report all the same, is left out: others put the address into URIs.
    """
    found = _internal(node)
    return stored if stored in found else next(iter(found), None)


def addresses(node: Node, stored: str | None = None) -> Iterable[str]:
    """Return the internal addresses that a Node lists, in canonical form, the stored one first."""
    listed = sorted(_internal(node), key=lambda address: address != stored)
    return dict.fromkeys(map(address_form, listed))


def as_listed(node: Node, address: str) -> str:
    """Return an address as the Node lists it; in canonical form where the Node does not."""
    return next((text for text in _internal(node) if address_form(text) == address), address)


def _internal(node: Node) -> list[str]:
    listed = (a.address for a in node.status.addresses[:_MOST] if a.type == "InternalIP")
    return [address for address in listed if is_host_address(address)]


def aggregates(node: Node) -> tuple[str, ...] | None:
    """Return the Nova aggregates that the Node names and its zone, each once; None without."""
    named = _listed(node, AGGREGATES_ANNOTATION)
    if named is None:
        return None
    zone = node.metadata.labels.get(ZONE_LABEL, "")
    return _unique((*named, zone))


def custom_traits(node: Node) -> tuple[str, ...] | None:
    """Return the Placement traits that the Node names, each once; None if it names none."""
    named = _listed(node, TRAITS_ANNOTATION)
    return None if named is None else _unique(named)


def host_names(hypervisor: Hypervisor) -> tuple[str, ...]:
    """Return possible names of the host in a compute service: hostname label, then Node's name."""
    label = hypervisor.metadata.labels.get(HOSTNAME_LABEL, "")
    return tuple(dict.fromkeys(name for name in (label, hypervisor.metadata.name) if name))


def is_its_own(hypervisor: Hypervisor, found: Host) -> bool:
    """Whether a host found by name is the one that was registered for the Hypervisor.

    A kubelet writes the hostname label of its Node, so for a moment the host of that name may be
    another's, until `Registered` shows that.
    """
    return hypervisor.status.serviceId in {None, "", found.service_id}


def _listed(node: Node, annotation: str) -> list[str] | None:
    text = node.metadata.annotations.get(annotation)
    if text is None:
        return None
    names = [part.strip() for part in text.split(",")]
    return [name for name in names if len(name) <= LONGEST_NAME][: MOST_NAMES - 1]


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name))
