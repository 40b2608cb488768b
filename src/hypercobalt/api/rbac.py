"""Who may do what: ServiceAccounts, roles and their bindings.

Source: k8s.io/api, core/v1 and rbac/v1 types.go.
"""

from __future__ import annotations

from typing import ClassVar

from hypercobalt.api.meta import Object, ResourceInfo, Struct

_RBAC = "rbac.authorization.k8s.io"


class ServiceAccount(Object, frozen=True):
    resource: ClassVar[ResourceInfo] = ResourceInfo(
        "", "v1", "ServiceAccount", "serviceaccounts", "Namespaced"
    )

    automountServiceAccountToken: bool | None = None


class PolicyRule(Struct, frozen=True):
    """Verbs on resources, or on paths that are none."""

    apiGroups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resourceNames: tuple[str, ...] = ()
    nonResourceURLs: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()


class RoleRef(Struct, frozen=True):
    apiGroup: str
    kind: str
    name: str


class Subject(Struct, frozen=True):
    """A User, a Group or a ServiceAccount; only the last has a namespace."""

    kind: str
    name: str
    apiGroup: str = ""
    namespace: str = ""


class ClusterRole(Object, frozen=True):
    resource: ClassVar[ResourceInfo] = ResourceInfo(
        _RBAC, "v1", "ClusterRole", "clusterroles", "Cluster"
    )

    rules: tuple[PolicyRule, ...] = ()


class ClusterRoleBinding(Object, frozen=True, kw_only=True):
    resource: ClassVar[ResourceInfo] = ResourceInfo(
        _RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", "Cluster"
    )

    roleRef: RoleRef
    subjects: tuple[Subject, ...] = ()


class Role(Object, frozen=True):
    resource: ClassVar[ResourceInfo] = ResourceInfo(_RBAC, "v1", "Role", "roles", "Namespaced")

    rules: tuple[PolicyRule, ...] = ()


class RoleBinding(Object, frozen=True, kw_only=True):
    resource: ClassVar[ResourceInfo] = ResourceInfo(
        _RBAC, "v1", "RoleBinding", "rolebindings", "Namespaced"
    )

    roleRef: RoleRef
    subjects: tuple[Subject, ...] = ()
