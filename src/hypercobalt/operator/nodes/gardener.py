"""Shows Gardener's machine controller when a Node may go, by a pod that must not be evicted.

A Deployment with one pod on the Node, and a disruption budget that keeps it, hold a drain until the
host has been offboarded; both are scaled to nothing then. The pod becomes ready when onboarding is
over. Before that, an emptied host in termination gets the taint that drives the agents away. A host
whose lifecycle label is withdrawn is no longer held: its signal goes to nothing as well.

Source: openstack-hypervisor-operator, internal/controller/gardener_node_lifecycle_controller.go;
machine-controller-manager, drain of a machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeVar

from msgspec.structs import replace

from hypercobalt.api import workloads
from hypercobalt.api.conditions import ConditionStatus, get_condition, is_false, is_true
from hypercobalt.api.core import Node, Taint
from hypercobalt.api.hypervisor import Hypervisor, Maintenance, is_claimed, is_evicted
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType
from hypercobalt.api.meta import LabelSelector, Object, ObjectMeta, owner_reference
from hypercobalt.logs import get_logger
from hypercobalt.operator.shared.node_facts import (
    HOSTNAME_LABEL,
    OFFBOARDING_TAINT,
    is_offboarding,
    is_terminating,
)
from hypercobalt.runtime import Cache, Kube, Result
from hypercobalt.runtime.subset import is_within
from hypercobalt.runtime.write_cache import WriteCache

log = get_logger(__name__)

T = TypeVar("T", bound=Object)

NAME: Final = "maintenance"
LABEL: Final = "cobaltcore-maintenance-controller"
CRITICAL_LABEL: Final = "node.gardener.cloud/critical-component"

_Type = HypervisorConditionType


@dataclass(frozen=True, slots=True)
class GardenerSignal:
    """Objects that show Gardener the state of a host: both are applied."""

    budget: workloads.PodDisruptionBudget
    deployment: workloads.Deployment


def decide(
    node: Node, hypervisor: Hypervisor, image: str, namespace: str, *, signalled: bool
) -> GardenerSignal | Taint | None:
    """Decide what Gardener should see; a taint has to drive the agents away first.

    Args:
        node: as read.
        hypervisor: of the same name.
        image: of the pod; it must have `sleep`, `/bin/true` and `/bin/false`.
        namespace: of the pod and its budget.
        signalled: the budget or the Deployment is there.
    """
    spec, hostname = hypervisor.spec, _hostname(node, hypervisor)
    if not spec.lifecycleEnabled:
        return _signal(node, hostname, image, namespace, 0, ready=True) if signalled else None
    leaving = spec.maintenance == Maintenance.TERMINATION
    if leaving and is_evicted(hypervisor) and not is_offboarding(node):
        return OFFBOARDING_TAINT
    kept = 0 if may_go(node, hypervisor) else 1
    onboarded = is_false(hypervisor.conditions, _Type.ONBOARDING)
    return _signal(node, hostname, image, namespace, kept, ready=onboarded)


def may_go(node: Node, hypervisor: Hypervisor) -> bool:
    """Whether the host has been offboarded, and no HA service recovers its instances any more.

    A host that was in service and whose Node terminates waits until high availability is off.
    """
    if not is_true(hypervisor.conditions, _Type.OFFBOARDED):
        return False
    served = is_false(hypervisor.conditions, _Type.ONBOARDING)
    ha = get_condition(hypervisor.conditions, _Type.HA_ENABLED)
    guarded = ha is not None and ha.status != ConditionStatus.FALSE
    return not (served and is_terminating(node) and guarded)


def object_name(node: Node) -> str:
    """Name of the Deployment and of the budget."""
    return f"maint-{node.metadata.name}"


def _hostname(node: Node, hypervisor: Hypervisor) -> str:
    """Return the label that the pod is scheduled by, as the host is registered.

    A kubelet may write it: with another host's, the pod would hold that one's Node.
    """
    if is_claimed(hypervisor):
        return node.metadata.name
    own = node.metadata.labels.get(HOSTNAME_LABEL, node.metadata.name)
    return hypervisor.metadata.labels.get(HOSTNAME_LABEL, own)


def _signal(
    node: Node, hostname: str, image: str, namespace: str, kept: int, *, ready: bool
) -> GardenerSignal:
    meta = ObjectMeta(
        name=object_name(node),
        namespace=namespace,
        labels={LABEL: object_name(node)},
        ownerReferences=(owner_reference(node, controller=True, blocks=True),),
    )
    spec = workloads.PodDisruptionBudgetSpec(
        minAvailable=kept, selector=LabelSelector(matchLabels=meta.labels)
    )
    return GardenerSignal(
        workloads.PodDisruptionBudget(metadata=meta, spec=spec),
        _deployment(hostname, meta, kept, image, ready=ready),
    )


def _deployment(
    hostname: str, meta: ObjectMeta, replicas: int, image: str, *, ready: bool
) -> workloads.Deployment:
    probe = workloads.Probe(
        exec=workloads.ExecAction(command=("/bin/true" if ready else "/bin/false",)),
        periodSeconds=1,
        failureThreshold=1,
    )
    pod = workloads.PodSpec(
        automountServiceAccountToken=False,
        nodeSelector={HOSTNAME_LABEL: hostname},
        terminationGracePeriodSeconds=1,
        tolerations=tuple(
            workloads.Toleration(effect=effect, operator="Exists")
            for effect in ("NoExecute", "NoSchedule")
        ),
        containers=(
            workloads.Container(
                name="sleep", image=image, command=("sleep", "inf"), startupProbe=probe
            ),
        ),
    )
    return workloads.Deployment(
        metadata=meta,
        spec=workloads.DeploymentSpec(
            replicas=replicas,
            selector=LabelSelector(matchLabels=meta.labels),
            strategy=workloads.DeploymentStrategy(
                type="RollingUpdate",
                rollingUpdate=workloads.RollingUpdateDeployment(maxUnavailable=0, maxSurge=1),
            ),
            template=workloads.PodTemplateSpec(
                metadata=ObjectMeta(labels={**meta.labels, CRITICAL_LABEL: "true"}), spec=pod
            ),
        ),
    )


def worth_a_pass(old: Hypervisor | None, new: Hypervisor | None) -> bool:
    """A predicate: what the rules above look at may have changed."""
    if old is None or new is None:
        return new is not None
    return _inputs(old) != _inputs(new)


def _inputs(hypervisor: Hypervisor) -> tuple[object, ...]:
    types = (_Type.EVICTING, _Type.OFFBOARDED, _Type.ONBOARDING, _Type.HA_ENABLED)
    found = (get_condition(hypervisor.conditions, type_) for type_ in types)
    spec = hypervisor.spec
    states = ((one.status, one.reason) if one is not None else None for one in found)
    return spec.lifecycleEnabled, spec.maintenance, *states


class GardenerReconciler:
    """The shell around `decide`."""

    def __init__(
        self,
        kube: Kube,
        nodes: Cache[Node],
        hypervisors: WriteCache[Hypervisor],
        budgets: WriteCache[workloads.PodDisruptionBudget],
        deployments: WriteCache[workloads.Deployment],
        *,
        image: str,
        namespace: str,
    ) -> None:
        self._kube, self._image, self._namespace = kube.as_manager(NAME), image, namespace
        self._nodes, self._hypervisors = nodes, hypervisors
        self._budgets, self._deployments = budgets, deployments

    async def reconcile(self, name: str, /) -> Result:
        node, hypervisor = self._nodes.get(name), self._hypervisors.get(name)
        if node is None or hypervisor is None:
            return Result()
        plan = decide(
            node, hypervisor, self._image, self._namespace, signalled=self._is_signalled(node)
        )
        if isinstance(plan, Taint):
            log.info("tainting_node", node=name, taint=plan.key)
            await self._kube.patch(node, _tainted(node, plan))
        elif plan is not None:
            await self._put(self._budgets, plan.budget)
            await self._put(self._deployments, plan.deployment)
        return Result()

    async def _put(self, known: WriteCache[T], wanted: T) -> None:
        stored = known.get(wanted.metadata.name, self._namespace)
        if stored is None or not is_within(wanted, stored, key="uid"):
            known.added(await self._kube.apply(wanted, force=True))

    def _is_signalled(self, node: Node) -> bool:
        name = object_name(node)
        stores = self._budgets, self._deployments
        return any(store.get(name, self._namespace) is not None for store in stores)


def _tainted(node: Node, taint: Taint) -> Node:
    taints = (*node.spec.taints, taint)
    return replace(node, spec=replace(node.spec, taints=taints))
