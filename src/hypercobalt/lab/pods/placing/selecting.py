"""Whether labels match a selector, and a Node the affinity of a pod. Pure.

Source: k8s.io/apimachinery, pkg/labels; k8s.io/component-helpers, scheduling/corev1/nodeaffinity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from hypercobalt.api.affinity import NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm
from hypercobalt.api.core import Node
from hypercobalt.api.meta import LabelSelector
from hypercobalt.api.workloads import Pod

_NAME: Final = "metadata.name"


def matches_labels(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether labels match a selector; no selector matches nothing, an empty one everything."""
    if selector is None:
        return False
    exact = all(labels.get(key) == value for key, value in selector.matchLabels.items())
    return exact and all(
        _holds(one.operator, one.values, labels.get(one.key)) for one in selector.matchExpressions
    )


def matches_node(pod: Pod, node: Node) -> bool:
    """Whether a Node has the labels of the pod's selector, and what its affinity requires."""
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in pod.spec.nodeSelector.items()):
        return False
    affinity = node_affinity(pod)
    required = affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity else None
    if required is None:
        return True
    return any(matches_term(term, node) for term in required.nodeSelectorTerms)


def preference(pod: Pod, node: Node) -> int:
    """Sum of the weights of the terms that the pod prefers and the Node matches.

    An empty term weighs nothing.
    """
    affinity = node_affinity(pod)
    terms = affinity.preferredDuringSchedulingIgnoredDuringExecution if affinity else ()
    return sum(term.weight for term in terms if matches_term(term.preference, node))


def node_affinity(pod: Pod) -> NodeAffinity | None:
    """The pod's affinity to Nodes."""
    return pod.spec.affinity.nodeAffinity if pod.spec.affinity is not None else None


def matches_term(term: NodeSelectorTerm, node: Node) -> bool:
    """Whether a Node meets all requirements of a term; one without any matches no Node."""
    fields = {_NAME: node.metadata.name}
    return not _is_empty(term) and (
        _all_hold(term.matchExpressions, node.metadata.labels)
        and _all_hold(term.matchFields, fields)
    )


def _is_empty(term: NodeSelectorTerm) -> bool:
    return not term.matchExpressions and not term.matchFields


def _all_hold(found: Iterable[NodeSelectorRequirement], labels: Mapping[str, str]) -> bool:
    return all(_holds(one.operator, one.values, labels.get(one.key)) for one in found)


def _holds(operator: str, values: tuple[str, ...], value: str | None) -> bool:
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(operator, values, value)
        case _:  # an API server refuses any other
            return False


def _compares(operator: str, values: tuple[str, ...], value: str | None) -> bool:
    """Compare as integers, which is what both have to be."""
    if value is None or len(values) != 1:
        return False
    try:
        have, bound = int(value), int(values[0])
    except ValueError:
        return False
    return have > bound if operator == "Gt" else have < bound
