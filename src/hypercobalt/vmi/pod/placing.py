"""Which Nodes may have a launcher pod: by labels that virt-handler writes, and by the VMI's wishes.

Source: kubevirt, pkg/virt-controller/services (nodeselectorrenderer, template), as recorded.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from hypercobalt.api.affinity import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from hypercobalt.api.kubevirt import names
from hypercobalt.api.kubevirt.machine import CPUSpec
from hypercobalt.api.kubevirt.spec import VMISpec

HOST_MODEL: Final = "host-model"
_OF_THE_HOST: Final = frozenset({HOST_MODEL, "host-passthrough"})
_ARCHITECTURE: Final = "kubernetes.io/arch"
_TRUE: Final = "true"
_REQUIRED: Final = frozenset({"", "require"})
"""Policies of a CPU feature that the host must have; an absent one means require."""
_FORBIDDEN: Final = "forbid"
"""Policy of a CPU feature that the host must not have."""
_OBSOLETE_MODEL: Final = "node-labeller.kubevirt.io/obsolete-host-model"
"""Label of a Node whose own CPU model its libvirt does not offer to guests any more."""


def node_selector(spec: VMISpec) -> dict[str, str]:
    """Labels that a Node must have; ours go before the VMI's."""
    machine = spec.domain.machine.type if spec.domain.machine else ""
    ours = {names.SCHEDULABLE: _TRUE}
    if spec.architecture:
        ours[_ARCHITECTURE] = spec.architecture
    if machine:
        ours[names.MACHINE_TYPE_PREFIX + machine] = _TRUE
    return spec.nodeSelector | _cpu_labels(spec.domain.cpu or CPUSpec()) | ours


def _cpu_labels(cpu: CPUSpec) -> dict[str, str]:
    labels = {
        names.CPU_FEATURE_PREFIX + feature.name: _TRUE
        for feature in cpu.features
        if feature.policy in _REQUIRED
    }
    if cpu.model and cpu.model not in _OF_THE_HOST:
        labels[names.CPU_MODEL_PREFIX + cpu.model] = _TRUE
    return labels


def affinity(spec: VMISpec) -> Affinity | None:
    """The VMI's affinity, and over it what its CPU must not meet on a Node."""
    avoided = _avoided(spec.domain.cpu or CPUSpec())
    if not avoided:
        return spec.affinity
    given = spec.affinity or Affinity()
    node = given.nodeAffinity or NodeAffinity()
    required = node.requiredDuringSchedulingIgnoredDuringExecution
    terms = (required.nodeSelectorTerms if required else ()) or (NodeSelectorTerm(),)
    both = tuple(replace(term, matchExpressions=term.matchExpressions + avoided) for term in terms)
    node = replace(
        node, requiredDuringSchedulingIgnoredDuringExecution=NodeSelector(nodeSelectorTerms=both)
    )
    return replace(given, nodeAffinity=node)


def _avoided(cpu: CPUSpec) -> tuple[NodeSelectorRequirement, ...]:
    """Labels of Nodes that cannot run a guest with this CPU."""
    keys = [_OBSOLETE_MODEL] if cpu.model == HOST_MODEL else []
    keys += [
        names.CPU_FEATURE_PREFIX + feature.name
        for feature in cpu.features
        if feature.policy == _FORBIDDEN
    ]
    return tuple(NodeSelectorRequirement(key=key, operator="DoesNotExist") for key in keys)
