"""Whether pods may be near each other: affinity and anti-affinity between pods. Pure.

Selectors of namespaces, which admission of VMIs does not refuse, count as all namespaces: a pod is
then rather kept away than put beside another.

Source: kubernetes pkg/scheduler/framework/plugins/interpodaffinity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hypercobalt.api.affinity import PodAffinity, PodAffinityTerm
from hypercobalt.api.core import Node
from hypercobalt.api.workloads import Pod
from hypercobalt.lab.pods.placing.selecting import matches_labels

Placed = tuple[tuple[Pod, Node], ...]
"""Pods with the Nodes on which they are."""


def requires_company(pod: Pod) -> bool:
    """Whether a pod has to be near others."""
    return any(_required(_affinity(pod)))


def misses_company(pod: Pod, node: Node, placed: Placed) -> bool:
    """Whether a Node lacks a pod that the pod requires to be near.

    A pod is company only if all terms mean it, and then for each of them where it is.
    """
    terms = tuple(_required(_affinity(pod)))
    company = [other for one, other in placed if _all_select(terms, pod, one)]
    if all(any(_near(term, node, other) for other in company) for term in terms):
        return False
    if any(term.topologyKey in other.metadata.labels for term in terms for other in company):
        return True
    # The first pod of a group that wants its own company may be placed.
    keys = all(term.topologyKey in node.metadata.labels for term in terms)
    return not (keys and _all_select(terms, pod, pod))


def avoids(pod: Pod, node: Node, placed: Placed) -> bool:
    """Whether a pod that the pod requires to be away from is near a Node."""
    terms = _required(_anti_affinity(pod))
    return any(
        _near(term, node, other) and _selects(term, pod, one)
        for term in terms
        for one, other in placed
    )


def is_avoided(pod: Pod, node: Node, placed: Placed) -> bool:
    """Whether a pod near a Node requires to be away from the pod."""
    return any(
        _near(term, node, other) and _selects(term, one, pod)
        for one, other in placed
        for term in _required(_anti_affinity(one))
    )


def company(pod: Pod, node: Node, placed: Placed) -> int:
    """Weights of the terms that the pod prefers, less those of what it would rather avoid."""
    near, away = _affinity(pod), _anti_affinity(pod)
    return _weight(pod, near, node, placed) - _weight(pod, away, node, placed)


def _weight(pod: Pod, affinity: PodAffinity | None, node: Node, placed: Placed) -> int:
    terms = affinity.preferredDuringSchedulingIgnoredDuringExecution if affinity else ()
    return sum(
        weighted.weight
        for weighted in terms
        for one, other in placed
        if _near(weighted.podAffinityTerm, node, other)
        and _selects(weighted.podAffinityTerm, pod, one)
    )


def _affinity(pod: Pod) -> PodAffinity | None:
    return pod.spec.affinity.podAffinity if pod.spec.affinity is not None else None


def _anti_affinity(pod: Pod) -> PodAffinity | None:
    return pod.spec.affinity.podAntiAffinity if pod.spec.affinity is not None else None


def _required(affinity: PodAffinity | None) -> Iterable[PodAffinityTerm]:
    return affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity is not None else ()


def _near(term: PodAffinityTerm, node: Node, other: Node) -> bool:
    value = _place(node.metadata.labels, term.topologyKey)
    return value is not None and value == _place(other.metadata.labels, term.topologyKey)


def _place(labels: Mapping[str, str], key: str) -> str | None:
    return labels.get(key)


def _all_select(terms: Iterable[PodAffinityTerm], owner: Pod, other: Pod) -> bool:
    return all(_selects(term, owner, other) for term in terms)


def _selects(term: PodAffinityTerm, owner: Pod, other: Pod) -> bool:
    """Whether a term of `owner` means the pod `other`."""
    if term.namespaceSelector is None:
        names = term.namespaces or (owner.metadata.namespace,)
        if other.metadata.namespace not in names:
            return False
    return matches_labels(term.labelSelector, other.metadata.labels)
