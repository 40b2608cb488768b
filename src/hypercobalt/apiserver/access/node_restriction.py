"""What a kubelet may write: its own Node, its Lease, and pods that run on it. Pure.

A kubelet is a user `system:node:NAME` in the group `system:nodes`. Roles say which kinds it writes;
these rules say which objects, and refuse what would let a host pass itself off as another kind of
host: its taints, and labels that the cluster's administrators choose by.

Source: kubernetes plugin/pkg/admission/noderestriction; k8s.io/kubelet pkg/apis,
well_known_labels.go; pkg/auth/nodeidentifier.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from hypercobalt.apiserver import errors
from hypercobalt.apiserver.errors import JSON, JSONObject, quote
from hypercobalt.apiserver.requests.request import Call, User
from hypercobalt.apiserver.values import list_at, object_at, objects_at, text_at

_PREFIX: Final = "system:node:"
_GROUP: Final = "system:nodes"
_LEASES: Final = "kube-node-lease"
_MIRROR: Final = "kubernetes.io/config.mirror"
_RESTRICTED: Final = "node-restriction.kubernetes.io"

_LABELS: Final = frozenset(
    {
        *("kubernetes.io/hostname", "kubernetes.io/arch", "kubernetes.io/os"),
        *("beta.kubernetes.io/arch", "beta.kubernetes.io/os"),
        *("topology.kubernetes.io/zone", "topology.kubernetes.io/region"),
        *(f"failure-domain.beta.kubernetes.io/{name}" for name in ("zone", "region")),
        *("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"),
    }
)
_NAMESPACES: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_KEPT: Final = ("managedFields", "resourceVersion")
_RESERVED: Final = ("kubernetes.io", "k8s.io")


def node_of(user: User) -> str | None:
    """The Node of a kubelet, "" for one without a name; None for another user."""
    if _GROUP not in user.groups or not user.name.startswith(_PREFIX):
        return None
    return user.name.removeprefix(_PREFIX)


def restricted(call: Call, node: str, uid: str, pod: JSONObject | None) -> Call:
    """The same call, whose write is refused where it is not the kubelet's to make.

    Args:
        call: of a kubelet.
        node: its Node; "" for a kubelet without a name.
        uid: of that Node, as stored; "" where there is none.
        pod: to which the body of a request for a token is bound, as stored.
    """
    guard = call.guard

    def check(new: JSONObject | None, old: JSONObject | None) -> None:
        guard(new, old)
        if why := refusal(Write(call, node, uid, new, old, pod)):
            name = call.name or text_at(new, "metadata", "name")
            raise errors.forbidden(call.resource.subject(name), why)

    return replace(call, guard=check)


@dataclass(frozen=True, slots=True)
class Write:
    """A write of a kubelet.

    Args:
        call: of it.
        node: the kubelet's.
        uid: of that Node, as stored; "" where there is none.
        new: the object after it; None for a delete.
        old: the object before it; None for a create.
        pod: see `restricted`.
    """

    call: Call
    node: str
    uid: str
    new: JSONObject | None
    old: JSONObject | None
    pod: JSONObject | None = None

    @property
    def name(self) -> str:
        return self.call.name or text_at(self.new, "metadata", "name")


def refusal(write: Write) -> str:
    """Why a write is not the kubelet's to make; "" where it is."""
    if not write.node:
        user = write.call.request.user.name
        return f"could not determine node from user {quote(user)}"
    match write.call.resource.qualified, write.call.subresource:
        case "nodes", _:
            return _of_node(write)
        case "pods", "":
            return _of_pod(write)
        case "pods", "status":
            return _of_pod_status(write)
        case "pods", other:
            text = f"unexpected pod subresource {quote(other)}, only 'status' and 'eviction' are"
            return f"{text} allowed"
        case "leases.coordination.k8s.io", _:
            return _of_lease(write)
        case "csinodes.storage.k8s.io", _ if write.name != write.node:
            return "can only access CSINode with the same name as the requesting node"
        case "persistentvolumeclaims", "status":
            return _of_claim_status(write)
        case "persistentvolumeclaims", _:
            return "may only update PVC status"
        case "serviceaccounts", "token":
            return _of_token(write)
        case _:
            return ""


def _of_node(write: Write) -> str:
    node = quote(write.node)
    if write.name != write.node:
        return f"node {node} is not allowed to modify node {quote(write.name)}"
    if write.new is None:
        return ""
    before = write.old or {}
    if (source := object_at(write.new, "spec", "configSource")) and source != object_at(
        before, "spec", "configSource"
    ):
        return f"node {node} is not allowed to update configSource to a new non-nil configSource"
    if write.old is not None and list_at(write.new, "spec", "taints") != list_at(
        before, "spec", "taints"
    ):
        return f"node {node} is not allowed to modify taints"
    changed = _changed(
        object_at(write.new, "metadata", "labels"), object_at(before, "metadata", "labels")
    )
    forbidden = ", ".join(sorted(label for label in changed if _is_forbidden(label)))
    if not forbidden:
        return ""
    if write.old is None:
        return f"node {node} is not allowed to set the following labels: {forbidden}"
    return f"is not allowed to modify labels: {forbidden}"


def _changed(new: Mapping[str, object], old: Mapping[str, object]) -> Iterator[str]:
    return (key for key in {*new, *old} if new.get(key) != old.get(key))


def _is_forbidden(label: str) -> bool:
    prefix = label.partition("/")[0] if "/" in label else ""
    if _is_below(prefix, _RESTRICTED):
        return True
    reserved = any(_is_below(prefix, name) for name in _RESERVED)
    return reserved and not (
        label in _LABELS or any(_is_below(prefix, name) for name in _NAMESPACES)
    )


def _is_below(prefix: str, domain: str) -> bool:
    return prefix == domain or prefix.endswith(f".{domain}")


def _of_pod(write: Write) -> str:
    node, pod = quote(write.node), write.new or write.old or {}
    own = text_at(pod, "spec", "nodeName") == write.node
    if write.new is None:
        return "" if own else f"node {node} can only delete pods with spec.nodeName set to itself"
    if write.old is not None:
        return f'unexpected operation "UPDATE", node {node} can only create and delete mirror pods'
    if _MIRROR not in object_at(pod, "metadata", "annotations"):
        return f'pod does not have "{_MIRROR}" annotation, node {node} can only create mirror pods'
    if not own:
        return f"node {node} can only create pods with spec.nodeName set to itself"
    return _of_owner(write, pod) or _of_references(node, object_at(pod, "spec"))


def _of_owner(write: Write, pod: JSONObject) -> str:
    node, owners = quote(write.node), objects_at(pod, "metadata", "ownerReferences")
    if len(owners) != 1:
        single = "a single owner reference" if owners else "an owner reference"
        return f"node {node} can only create pods with {single} set to itself"
    (owner,) = owners
    given = (text_at(owner, "apiVersion"), text_at(owner, "kind"), text_at(owner, "name"))
    if given != ("v1", "Node", write.node):
        return f"node {node} can only create pods with an owner reference set to itself"
    if owner.get("controller") is not True:
        return f"node {node} can only create pods with a controller owner reference set to itself"
    if owner.get("blockOwnerDeletion") is True:
        return f"node {node} must not set blockOwnerDeletion on an owner reference"
    if text_at(owner, "uid") != write.uid:
        uid = text_at(owner, "uid")
        return f"node {write.node} UID mismatch: expected {uid} got {write.uid}"
    return ""


def _of_references(node: str, spec: JSONObject) -> str:
    """A pod of a kubelet refers to nothing that the kubelet could read by that."""
    if text_at(spec, "serviceAccountName"):
        return f"node {node} can not create pods that reference serviceaccounts"
    named = frozenset(_names(spec))
    for key, what in (
        (("secretKeyRef", "secretRef", "secretName", "secret", "imagePullSecrets"), "secrets"),
        (("configMapKeyRef", "configMapRef", "configMap"), "configmaps"),
        (("clusterTrustBundle",), "clustertrustbundles"),
        (("persistentVolumeClaim",), "persistentvolumeclaims"),
    ):
        if not named.isdisjoint(key):
            return f"node {node} can not create pods that reference {what}"
    return ""


def _names(value: JSON) -> Iterator[str]:
    """The names of all fields that have a value, at any depth."""
    if isinstance(value, dict):
        for name, part in value.items():
            if part not in (None, [], ""):
                yield name
            yield from _names(part)
    elif isinstance(value, list):
        for part in value:
            yield from _names(part)


def _of_pod_status(write: Write) -> str:
    node = quote(write.node)
    if text_at(write.old, "spec", "nodeName") != write.node:
        text = "can only update pod status for pods with spec.nodeName set to itself"
        return f"node {node} {text}"
    labels = [object_at(one, "metadata", "labels") for one in (write.new, write.old)]
    if labels[0] != labels[1]:
        return f"node {node} cannot update labels through pod status"
    claims = [list_at(one, "status", "resourceClaimStatuses") for one in (write.new, write.old)]
    return f"node {node} cannot update resource claim statues" if claims[0] != claims[1] else ""


def _of_claim_status(write: Write) -> str:
    kept = [
        {name: value for name, value in object_at(one, "metadata").items() if name not in _KEPT}
        for one in (write.new, write.old)
    ]
    if kept[0] == kept[1]:
        return ""
    text = "is not allowed to update fields other than status.capacity and status.conditions"
    return f"node {quote(write.node)} {text}"


def _of_lease(write: Write) -> str:
    if write.call.namespace != _LEASES:
        return f'can only access leases in the "{_LEASES}" system namespace'
    if write.name != write.node:
        return "can only access node lease with the same name as the requesting node"
    return ""


def _of_token(write: Write) -> str:
    ref = object_at(write.new, "spec", "boundObjectRef")
    if (text_at(ref, "apiVersion"), text_at(ref, "kind")) != ("v1", "Pod") or not ref.get("name"):
        return "node requested token not bound to a pod"
    if not ref.get("uid"):
        return "node requested token with a pod binding without a uid"
    if write.pod is None or text_at(write.pod, "metadata", "uid") != ref["uid"]:
        return "the pod in the bound object reference does not exist any more"
    if text_at(write.pod, "spec", "nodeName") != write.node:
        return "node requested token bound to a pod scheduled on a different node"
    return ""
