"""Where a pod may run, and where it would rather: by labels of Nodes and of other pods.

Source: k8s.io/api, core/v1/types.go, Affinity.
"""

from __future__ import annotations

from hypercobalt.api.meta import LabelSelector, Struct


class NodeSelectorRequirement(Struct, frozen=True):
    key: str
    operator: str  # In, NotIn, Exists, DoesNotExist, Gt or Lt
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Struct, frozen=True):
    """Requirements that hold together; one without any matches no Node."""

    matchExpressions: tuple[NodeSelectorRequirement, ...] = ()
    matchFields: tuple[NodeSelectorRequirement, ...] = ()  # of metadata.name alone


class NodeSelector(Struct, frozen=True):
    """Terms of which one must match."""

    nodeSelectorTerms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Struct, frozen=True):
    weight: int  # 1 to 100
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Struct, frozen=True):
    requiredDuringSchedulingIgnoredDuringExecution: NodeSelector | None = None
    preferredDuringSchedulingIgnoredDuringExecution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(Struct, frozen=True):
    """Pods, and the label of Nodes whose equal values count as one place."""

    topologyKey: str
    labelSelector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespaceSelector: LabelSelector | None = None
    matchLabelKeys: tuple[str, ...] = ()
    mismatchLabelKeys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Struct, frozen=True):
    weight: int  # 1 to 100
    podAffinityTerm: PodAffinityTerm


class PodAffinity(Struct, frozen=True):
    """Terms about other pods: to be near them, or away from them."""

    requiredDuringSchedulingIgnoredDuringExecution: tuple[PodAffinityTerm, ...] = ()
    preferredDuringSchedulingIgnoredDuringExecution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(Struct, frozen=True):
    nodeAffinity: NodeAffinity | None = None
    podAffinity: PodAffinity | None = None
    podAntiAffinity: PodAffinity | None = None
