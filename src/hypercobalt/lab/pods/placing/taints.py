"""Whether a pod tolerates the taints of a Node. Pure.

Source: k8s.io/api, core/v1 toleration.go (ToleratesTaint).
"""

from __future__ import annotations

from typing import Final

from hypercobalt.api.core import Node, Taint
from hypercobalt.api.workloads import Pod, Toleration

_HARD: Final = ("NoSchedule", "NoExecute")
_SOFT: Final = "PreferNoSchedule"
UNSCHEDULABLE: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
"""What a pod tolerates that may run on a cordoned Node."""


def untolerated(pod: Pod, node: Node) -> Taint | None:
    """The first taint that keeps a pod off a Node."""
    hard = (taint for taint in node.spec.taints if taint.effect in _HARD)
    return next((taint for taint in hard if not tolerates(pod, taint)), None)


def unwelcome(pod: Pod, node: Node) -> int:
    """How many taints let a pod rather run elsewhere."""
    return sum(taint.effect == _SOFT and not tolerates(pod, taint) for taint in node.spec.taints)


def tolerates(pod: Pod, taint: Taint) -> bool:
    """Whether one of the pod's tolerations covers a taint."""
    return any(_covers(one, taint) for one in pod.spec.tolerations)


def _covers(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value
