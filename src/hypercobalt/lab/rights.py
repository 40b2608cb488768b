"""The rights of the lab's own processes: what their charts give, and a role for each heartbeat.

`rights.yaml` is the charts as Helm would install them for an operator on Nova, without labels, and
`rights-direct.yaml` what the charts give instead of it, or beside it, with `--compute direct`;
`rights-virt.yaml` is that of KubeVirt's actors. `scripts/extract-rights` writes all three, and the
conformance suite fails when they are out of date.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources as package_files
from typing import Final, Literal

import msgspec
import yaml

from hypercobalt.api.admission import (
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from hypercobalt.api.core import Namespace, Node
from hypercobalt.api.meta import Object, ObjectMeta, owner_reference
from hypercobalt.api.rbac import (
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    Role,
    RoleBinding,
    RoleRef,
    ServiceAccount,
    Subject,
)
from hypercobalt.lab.heartbeat import LEASE_NAMESPACE
from hypercobalt.ovs_agent.settings import DEFAULT_NAMESPACE
from hypercobalt.runtime import Kube

NAMESPACE: Final = "default"
"""Namespace of the ServiceAccounts and the agents' objects: `kubectl get migrations` shows them."""
OVS_NAMESPACE: Final = DEFAULT_NAMESPACE
"""Namespace of the OVS agents: their ServiceAccount, OVSNodes and Leases."""
NODE_AGENT: Final = "hypercobalt-node-agent"
"""ServiceAccount of every host's node agent."""
OVS_AGENT: Final = "hypercobalt-ovs-agent"
"""ServiceAccount of every host's OVS agent, in `OVS_NAMESPACE`."""
OPERATOR: Final = "hypercobalt-operator-controller-manager"
"""ServiceAccount of the operator."""

Manifest = Mapping[str, object]
Compute = Literal["nova", "direct"]
"""What the operator moves instances by."""
DATA: Final = "rights.yaml"
DIRECT: Final = "rights-direct.yaml"
"""Objects by which the charts differ with `direct`; none is of Nova alone."""
VIRT: Final = "rights-virt.yaml"

KINDS: Final[tuple[type[Object], ...]] = (
    ServiceAccount,
    ClusterRole,
    ClusterRoleBinding,
    Role,
    RoleBinding,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
_RBAC: Final = "rbac.authorization.k8s.io"


def manifests(compute: Compute) -> tuple[Manifest, ...]:
    """What the charts give the operator and the agents, as documents."""
    found: dict[tuple[str, str, str], Manifest] = {}
    for name in (DATA, DIRECT) if compute == "direct" else (DATA,):
        found |= {key(manifest): manifest for manifest in _documents(name)}
    return tuple(found.values())


def _documents(name: str) -> list[Manifest]:
    text = (package_files.files("hypercobalt.lab") / name).read_text(encoding="utf-8")
    return list(yaml.load_all(text, Loader=yaml.CSafeLoader))


def key(manifest: Manifest) -> tuple[str, str, str]:
    """Kind, namespace and name of an object."""
    metadata = msgspec.convert(manifest["metadata"], ObjectMeta)
    return str(manifest["kind"]), metadata.namespace or "", metadata.name


def of_charts(compute: Compute) -> tuple[Object, ...]:
    """What the charts give the operator and the agents, in the order of `KINDS`."""
    return _typed(manifests(compute))


def of_virt() -> tuple[Object, ...]:
    """What its chart gives KubeVirt's actors, in the order of `KINDS`."""
    return _typed(_documents(VIRT))


def _typed(found: Sequence[Manifest]) -> tuple[Object, ...]:
    return tuple(
        msgspec.convert(manifest, type_)
        for type_ in KINDS
        for manifest in found
        if manifest["kind"] == type_.resource.kind
    )


def of_heartbeat(node: Node) -> tuple[Object, ...]:
    """Rights of one host's heartbeat: renew its own Lease, read and report its own Node."""
    name = node.metadata.name
    owner = owner_reference(node)
    meta = ObjectMeta(name=f"lab:heartbeat:{name}", ownerReferences=(owner,))
    in_leases = msgspec.structs.replace(meta, namespace=LEASE_NAMESPACE)
    user = Subject(kind="User", name=node_user(name), apiGroup=_RBAC)
    return (
        ClusterRole(
            metadata=meta,
            rules=(_rule("", "nodes", "get", name), _rule("", "nodes/status", "patch", name)),
        ),
        ClusterRoleBinding(
            metadata=meta,
            roleRef=RoleRef(apiGroup=_RBAC, kind="ClusterRole", name=meta.name),
            subjects=(user,),
        ),
        Role(
            metadata=in_leases,
            rules=(_rule("coordination.k8s.io", "leases", "patch", name),),
        ),
        RoleBinding(
            metadata=in_leases,
            roleRef=RoleRef(apiGroup=_RBAC, kind="Role", name=meta.name),
            subjects=(user,),
        ),
    )


def node_user(name: str) -> str:
    """The user name of a Node's kubelet."""
    return f"system:node:{name}"


def _rule(group: str, resource: str, verb: str, name: str) -> PolicyRule:
    return PolicyRule(
        apiGroups=(group,), resources=(resource,), resourceNames=(name,), verbs=(verb,)
    )


async def install(kube: Kube, compute: Compute) -> None:
    """Give the operator and the agents what their charts give.

    Args:
        kube: an administrator's client.
        compute: of the operator.

    Raises:
        HypercobaltError: the server refuses.
    """
    await kube.apply(Namespace(metadata=ObjectMeta(name=OVS_NAMESPACE)), force=True)
    for obj in of_charts(compute):
        await kube.apply(obj, force=True)
