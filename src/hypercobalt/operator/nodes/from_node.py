"""The part of a Hypervisor that its Node decides: labels and some of the spec. Pure.

A copied value is removed when the Node loses it, but only if this operator copied it: the
annotation `kvm.cloud.sap/copied-from-node` names the labels of the Node that took effect. While the
spec is frozen (`maintenance: termination`) only labels follow.

Source: openstack-hypervisor-operator, internal/controller/hypervisor_controller.go.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from msgspec.structs import replace

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.core import Node
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec, Maintenance
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType
from hypercobalt.api.meta import ObjectMeta, owner_reference
from hypercobalt.operator.shared.node_facts import (
    HOSTNAME_LABEL,
    LIFECYCLE_LABEL,
    SKIP_TESTS,
    aggregates,
    custom_traits,
    is_terminating,
)

RECORD: Final = "kvm.cloud.sap/copied-from-node"
"""Annotation of a Hypervisor: labels of its Node that took effect on it, sorted, with commas."""

_FIRST_SPEC: Final = HypervisorSpec(
    reboot=False,
    evacuateOnReboot=False,
    lifecycleEnabled=False,
    skipTests=False,
    highAvailability=True,
    createCertManagerCertificate=False,
    installCertificate=True,
)
"""The spec of a new Hypervisor; later, each field belongs to the manager that changes it."""


def first(node: Node, copied: Collection[str]) -> Hypervisor:
    """Return the Hypervisor to create for a Node.

    Args:
        node: as read.
        copied: keys of the labels to copy.
    """
    spec = _FIRST_SPEC
    if is_terminating(node):
        spec = replace(spec, maintenance=Maintenance.TERMINATION)
    empty = Hypervisor(
        metadata=ObjectMeta(
            name=node.metadata.name, ownerReferences=(owner_reference(node, blocks=True),)
        ),
        spec=_spec(spec, node, withdrawn=False),
    )
    return _labelled(empty, node, copied, lifecycle=LIFECYCLE_LABEL in node.metadata.labels)


def follow(hypervisor: Hypervisor, node: Node, copied: Collection[str]) -> Hypervisor:
    """Return the Hypervisor as it should be now; equal to `hypervisor` when no write is needed.

    Args:
        hypervisor: as read.
        node: as read.
        copied: keys of the labels to copy.
    """
    took_effect = LIFECYCLE_LABEL in _record(hypervisor)
    if hypervisor.spec.maintenance == Maintenance.TERMINATION:
        return _labelled(hypervisor, node, copied, lifecycle=took_effect)
    has_label = LIFECYCLE_LABEL in node.metadata.labels
    spec = _spec(hypervisor.spec, node, withdrawn=took_effect and not has_label)
    return _labelled(replace(hypervisor, spec=spec), node, copied, lifecycle=has_label)


def frozen(hypervisor: Hypervisor, node: Node) -> tuple[str, ...]:
    """Return fields of a frozen spec that differ from the Node's; they stay as they are."""
    if hypervisor.spec.maintenance != Maintenance.TERMINATION:
        return ()
    lost = LIFECYCLE_LABEL in _record(hypervisor) and LIFECYCLE_LABEL not in node.metadata.labels
    spec, wanted = hypervisor.spec, _spec(hypervisor.spec, node, withdrawn=lost)
    fields = ("lifecycleEnabled", "skipTests", "aggregates", "customTraits")
    return tuple(name for name in fields if getattr(spec, name) != getattr(wanted, name))


def _spec(spec: HypervisorSpec, node: Node, *, withdrawn: bool) -> HypervisorSpec:
    lifecycle = node.metadata.labels.get(LIFECYCLE_LABEL)
    if lifecycle is not None:
        spec = replace(spec, lifecycleEnabled=True, skipTests=lifecycle == SKIP_TESTS)
    elif withdrawn:
        spec = replace(spec, lifecycleEnabled=False, skipTests=False)
    # A Node without the annotation leaves the list to people.
    named, traits = aggregates(node), custom_traits(node)
    return replace(
        spec,
        aggregates=spec.aggregates if named is None else named,
        customTraits=spec.customTraits if traits is None else traits,
    )


def _labelled(
    hypervisor: Hypervisor, node: Node, copied: Collection[str], *, lifecycle: bool
) -> Hypervisor:
    there = node.metadata.labels
    ours = {key: there[key] for key in copied if key in there}
    if (kept_name := _kept_name(hypervisor, node)) and HOSTNAME_LABEL in ours:
        ours[HOSTNAME_LABEL] = kept_name
    lost = _record(hypervisor) - ours.keys()
    kept = {key: value for key, value in hypervisor.metadata.labels.items() if key not in lost}
    record = ",".join(sorted({*ours, *([LIFECYCLE_LABEL] if lifecycle else [])}))
    metadata = replace(
        hypervisor.metadata,
        labels=_merged(kept, ours),
        annotations=_merged(hypervisor.metadata.annotations, {RECORD: record}),
    )
    return replace(hypervisor, metadata=metadata)


def _kept_name(hypervisor: Hypervisor, node: Node) -> str:
    """Return the name that a registered host keeps; "" where the Node's label counts.

    A kubelet may write that label, and calls go to the compute service by it: for a host that is
    known there it changes to the Node's own name alone, never to another host's.
    """
    stored = hypervisor.metadata.labels.get(HOSTNAME_LABEL, "")
    wanted = node.metadata.labels.get(HOSTNAME_LABEL, "")
    is_own = wanted.partition(".")[0] == node.metadata.name.partition(".")[0]
    registered = get_condition(hypervisor.conditions, HypervisorConditionType.REGISTERED)
    turned_away = registered is not None and registered.status == "False"
    is_known = bool(hypervisor.status.serviceId) and not turned_away
    return stored if is_known and not is_own else ""


def _record(hypervisor: Hypervisor) -> set[str]:
    return set(hypervisor.metadata.annotations.get(RECORD, "").split(",")) - {""}


def _merged(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    return {**old, **new}
