"""What pods request, and what Nodes have left. Pure.

Amounts are exact fractions of the resource's unit (cores, bytes, pieces).

Source: k8s.io/component-helpers, resource (PodRequests); kubernetes
pkg/scheduler/framework/plugins/noderesources.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Final

from hypercobalt.api.core import Node
from hypercobalt.api.quantity import units
from hypercobalt.api.workloads import Container, Pod

Amounts = dict[str, Fraction]
CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"


def requests(pod: Pod) -> Amounts:
    """What a pod requests: its containers together, or one of its init containers if that is more.

    An init container that goes on beside the others (restartPolicy Always) counts with both.
    """
    beside: Amounts = {}
    most: Amounts = {}
    for container in pod.spec.initContainers:
        own = _of_container(container)
        if container.restartPolicy == "Always":
            beside = _sum((beside, own))
            own = beside
        else:
            own = _sum((beside, own))
        most = _most(most, own)
    together = _sum((beside, *map(_of_container, pod.spec.containers)))
    return _most(most, together)


def allocatable(node: Node) -> Amounts:
    """What a Node has for pods."""
    return {name: units(amount) for name, amount in node.status.allocatable.items()}


def used(pods: Iterable[Pod]) -> Amounts:
    """What the pods of a Node request together, and how many they are."""
    found = list(pods)
    return _sum((*map(requests, found), {PODS: Fraction(len(found))}))


def insufficient(wanted: Mapping[str, Fraction], free: Mapping[str, Fraction]) -> list[str]:
    """Names of resources of which more is wanted than is free; `pods` first.

    Args:
        wanted: requests of the pod, which itself counts as one of `pods`.
        free: of the Node.
    """
    names = [name for name, amount in wanted.items() if amount > free.get(name, Fraction(0))]
    return ([PODS] if free.get(PODS, Fraction(0)) < 1 else []) + names


def left(have: Mapping[str, Fraction], taken: Mapping[str, Fraction]) -> Amounts:
    """What is free of each resource; less than nothing where too much was given away."""
    return {name: amount - taken.get(name, Fraction(0)) for name, amount in have.items()}


def _of_container(container: Container) -> Amounts:
    """Requests of a container; a limit without a request is one, as API servers default it."""
    given = container.resources
    if given is None:
        return {}
    return {name: units(amount) for name, amount in {**given.limits, **given.requests}.items()}


def _sum(parts: Iterable[Mapping[str, Fraction]]) -> Amounts:
    found: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            found[name] = found.get(name, Fraction(0)) + amount
    return found


def _most(one: Amounts, other: Amounts) -> Amounts:
    zero = Fraction(0)
    return {name: max(one.get(name, zero), other.get(name, zero)) for name in {**one, **other}}
