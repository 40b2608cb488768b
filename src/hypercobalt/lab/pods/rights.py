"""Rights of what runs VirtualMachineInstances in a lab: KubeVirt's actors, scheduler, kubelets."""

from __future__ import annotations

from typing import Final

from hypercobalt.api.core import Namespace, Node
from hypercobalt.api.meta import Object, ObjectMeta, owner_reference
from hypercobalt.api.rbac import (
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    RoleRef,
    Subject,
)
from hypercobalt.lab.rights import node_user, of_virt

VIRT_NAMESPACE: Final = "kubevirt"
"""Namespace of the ServiceAccounts of KubeVirt's actors."""
SCHEDULER: Final = "system:kube-scheduler"
"""User that places pods."""
_RBAC: Final = "rbac.authorization.k8s.io"
_READ: Final = ("get", "list", "watch")
_EVENTS: Final = PolicyRule(
    apiGroups=("events.k8s.io",), resources=("events",), verbs=("create", "patch")
)


def of_actors() -> tuple[Object, ...]:
    """Namespace, accounts and rights of KubeVirt's actors and the scheduler."""
    return (
        Namespace(metadata=ObjectMeta(name=VIRT_NAMESPACE)),
        *of_virt(),
        *_role(
            ObjectMeta(name="lab:scheduler"),
            Subject(kind="User", name=SCHEDULER, apiGroup=_RBAC),
            _rule("", "pods", *_READ),
            _rule("", "pods/binding", "create"),
            _rule("", "pods/status", "patch"),
            _rule("", "nodes", *_READ),
            _EVENTS,
        ),
    )


def of_kubelet(node: Node) -> tuple[Object, ...]:
    """Rights of what runs the pods of one host; node restriction bounds what it writes.

    It reads all pods, where a kubelet reads those of its Node: no role can select by that.
    """
    name = node.metadata.name
    return _role(
        ObjectMeta(name=f"lab:pods:{name}", ownerReferences=(owner_reference(node),)),
        Subject(kind="User", name=node_user(name), apiGroup=_RBAC),
        _rule("", "pods", *_READ, "delete"),
        _rule("", "pods/status", "patch"),
        _EVENTS,
    )


def _role(meta: ObjectMeta, subject: Subject, *rules: PolicyRule) -> tuple[Object, ...]:
    reference = RoleRef(apiGroup=_RBAC, kind="ClusterRole", name=meta.name)
    return (
        ClusterRole(metadata=meta, rules=rules),
        ClusterRoleBinding(metadata=meta, roleRef=reference, subjects=(subject,)),
    )


def _rule(group: str, resource: str, *verbs: str) -> PolicyRule:
    return PolicyRule(apiGroups=(group,), resources=(resource,), verbs=verbs)
