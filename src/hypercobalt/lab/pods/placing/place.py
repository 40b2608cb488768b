"""Chooses the Node of a pod, or says why there is none in kube-scheduler's words. Pure.

Filters run in kube-scheduler's order, and the first that a Node does not pass gives its reason.
Nothing is preempted: a pod of higher priority is placed before others, and evicts none.

Source: kubernetes pkg/scheduler/framework (types.go, FitError), plugins/* (reasons),
plugins/helper/normalize_score.go and framework/preemption.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from hypercobalt.api.core import Node
from hypercobalt.api.workloads import Pod
from hypercobalt.lab.pods.placing import neighbours, resources, selecting, taints
from hypercobalt.lab.pods.placing.neighbours import Placed

NO_NODES: Final = "no nodes available to schedule pods"
_NO_VICTIMS: Final = "No preemption victims found for incoming pod"
_NO_HELP: Final = "Preemption is not helpful for scheduling"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a pod cannot be on a Node.

    Args:
        reasons: of the filter that it does not pass.
        helps: it would pass if other pods were gone.
    """

    reasons: tuple[str, ...]
    helps: bool = False


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A pod that no Node can take; the message is that of the condition PodScheduled."""

    message: str


class Cluster:
    """Nodes, and the pods on them.

    Args:
        nodes: all that there are.
        pods: that have a Node and have not ended.
    """

    def __init__(self, nodes: Iterable[Node], pods: Iterable[Pod]) -> None:
        self.nodes = sorted(nodes, key=lambda node: node.metadata.name)
        named = {node.metadata.name: node for node in self.nodes}
        found = [pod for pod in pods if pod.spec.nodeName in named]
        self.placed: Placed = tuple((pod, named[pod.spec.nodeName]) for pod in found)
        self._on: dict[str, list[Pod]] = {name: [] for name in named}
        for pod in found:
            self._on[pod.spec.nodeName].append(pod)

    def free(self, node: Node) -> resources.Amounts:
        """What is left of a Node."""
        return resources.left(
            resources.allocatable(node), resources.used(self._on[node.metadata.name])
        )


def place(pod: Pod, cluster: Cluster) -> Node | Unplaced:
    """Choose a Node."""
    if not cluster.nodes:
        return Unplaced(NO_NODES)
    obstacles = {node.metadata.name: obstacle(pod, node, cluster) for node in cluster.nodes}
    feasible = [node for node in cluster.nodes if obstacles[node.metadata.name] is None]
    if not feasible:
        found = [one for one in obstacles.values() if one is not None]
        return Unplaced(message(found))
    return best(pod, feasible, cluster)


def obstacle(pod: Pod, node: Node, cluster: Cluster) -> Obstacle | None:
    """What keeps a pod off a Node; None if nothing does."""
    if node.spec.unschedulable and not taints.tolerates(pod, taints.UNSCHEDULABLE):
        return Obstacle(("node(s) were unschedulable",))
    if (taint := taints.untolerated(pod, node)) is not None:
        shown = f"{{{taint.key}: {taint.value}}}"
        return Obstacle((f"node(s) had untolerated taint {shown}",))
    if not selecting.matches_node(pod, node):
        return Obstacle(("node(s) didn't match Pod's node affinity/selector",))
    return _unfit(pod, node, cluster) or _unsociable(pod, node, cluster.placed)


def _unfit(pod: Pod, node: Node, cluster: Cluster) -> Obstacle | None:
    wanted = resources.requests(pod)
    lacking = resources.insufficient(wanted, cluster.free(node))
    if not lacking:
        return None
    never = resources.insufficient(wanted, resources.allocatable(node))
    reasons = (
        "Too many pods" if one == resources.PODS else f"Insufficient {one}" for one in lacking
    )
    return Obstacle(tuple(reasons), helps=not never)


def _unsociable(pod: Pod, node: Node, placed: Placed) -> Obstacle | None:
    if neighbours.is_avoided(pod, node, placed):
        reason = "node(s) didn't satisfy existing pods anti-affinity rules"
        return Obstacle((reason,), helps=True)
    if neighbours.misses_company(pod, node, placed):
        return Obstacle(("node(s) didn't match pod affinity rules",))
    if neighbours.avoids(pod, node, placed):
        return Obstacle(("node(s) didn't match pod anti-affinity rules",), helps=True)
    return None


def message(obstacles: Sequence[Obstacle]) -> str:
    """Why no Node takes a pod, and that preempting others would not help, each with its count."""
    reasons = Counter(reason for one in obstacles for reason in one.reasons)
    preemption = Counter(_NO_VICTIMS if one.helps else _NO_HELP for one in obstacles)
    total = len(obstacles)
    return f"{_counted(total, reasons)} preemption: {_counted(total, preemption)}"


def _counted(total: int, reasons: Mapping[str, int]) -> str:
    listed = sorted(f"{count} {reason}" for reason, count in reasons.items())
    return f"0/{total} nodes are available: {', '.join(listed)}."


def best(pod: Pod, feasible: Sequence[Node], cluster: Cluster) -> Node:
    """The Node with the highest score; of equal ones the first by name.

    Weights are those of kube-scheduler's default profile; of its scores those are here that a lab
    can tell apart.
    """
    wanted = resources.requests(pod)
    unwelcome = _shares([taints.unwelcome(pod, node) for node in feasible])
    preferred = _shares([selecting.preference(pod, node) for node in feasible])
    company = _span([neighbours.company(pod, node, cluster.placed) for node in feasible])
    free = [_least_allocated(wanted, node, cluster) for node in feasible]
    scores = zip(unwelcome, preferred, company, free, strict=True)
    totals = [-3 * a + 2 * b + 2 * c + d for a, b, c, d in scores]
    return feasible[totals.index(max(totals))]


def _shares(scores: Sequence[int]) -> list[Fraction]:
    """Scores in per cent of the highest one, as kube-scheduler has taints and preferences."""
    most = max(scores)
    return [Fraction(100 * score, most) if most else Fraction(0) for score in scores]


def _span(scores: Sequence[int]) -> list[Fraction]:
    """Scores from 0 to 100, as it has company; all alike where they do not differ."""
    low, span = min(scores), max(scores) - min(scores)
    return [Fraction(100 * (score - low), span) if span else Fraction(0) for score in scores]


def _least_allocated(wanted: Mapping[str, Fraction], node: Node, cluster: Cluster) -> Fraction:
    """Mean share of CPU and memory, in per cent, that is left once the pod is there."""
    have, free = resources.allocatable(node), cluster.free(node)
    shares = [
        100 * max(free[name] - wanted.get(name, Fraction(0)), Fraction(0)) / have[name]
        for name in (resources.CPU, resources.MEMORY)
        if have.get(name)
    ]
    return sum(shares, Fraction(0)) / len(shares) if shares else Fraction(0)
